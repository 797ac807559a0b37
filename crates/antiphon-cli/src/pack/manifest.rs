//! The manifest of an MCP bundle.
//!
//! The format is [`manifest_version` 0.3](https://github.com/modelcontextprotocol/mcpb/blob/main/MANIFEST.md).

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::exit::Misused;

const MANIFEST_VERSION: &str = "0.3";

/// The program in a bundle.
#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) path: PathBuf,
    /// The path of the program in the bundle.
    pub(crate) entry: String,
    /// The platform of the program, with its name in manifests: `linux`, `darwin` or `win32`.
    pub(crate) platform: &'static str,
}

impl Binary {
    /// Creates a `Binary`. The first bytes of the program file determine the platform of the program. The platform of
    /// the program can differ from the platform of this machine.
    pub(crate) fn new(path: PathBuf, name: &str, head: &[u8]) -> Self {
        let own = if cfg!(windows) {
            "win32"
        } else if cfg!(target_os = "macos") {
            "darwin"
        } else {
            "linux"
        };
        let platform = match head {
            [0x7f, b'E', b'L', b'F', ..] => "linux",
            [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => "darwin",
            [b'M', b'Z', ..] => "win32",
            _ => own,
        };
        let suffix = if platform == "win32" { ".exe" } else { "" };
        Self { path, entry: format!("server/{name}{suffix}"), platform }
    }
}

/// The project of a bundle: the table `package` of `Cargo.toml`, and `server.json` if this file exists.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) name: String,
    pub(crate) version: String,
    cargo: Value,
    server: Value,
}

impl Project {
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("Cargo.toml");
        let Some(text) = read_text(&path)? else {
            let message = "the working folder has no `Cargo.toml`; run the command in a project";
            return Err(Misused(message.into()).into());
        };
        let cargo: Value =
            toml::from_str(&text).with_context(|| format!("{} cannot be read", path.display()))?;
        let cargo = cargo["package"].clone();
        let path = folder.join("server.json");
        let server = match read_text(&path)? {
            Some(text) => {
                serde_json::from_str(&text).with_context(|| format!("{} cannot be read", path.display()))?
            }
            None => Value::Null,
        };
        Self::new(cargo, server)
    }

    fn new(cargo: Value, server: Value) -> Result<Self> {
        let Some(name) = cargo["name"].as_str().map(ToOwned::to_owned) else {
            let message = "`Cargo.toml` has no package; run the command in the folder of a package";
            return Err(Misused(message.into()).into());
        };
        // If the project inherits its version from a workspace, this file does not contain the version.
        let version = match (cargo["version"].as_str(), server["version"].as_str()) {
            (Some(own), Some(other)) if own != other => {
                let message = format!(
                    "`Cargo.toml` has version {own}, but `server.json` has {other}; write the same version"
                );
                return Err(Misused(message).into());
            }
            (Some(version), _) | (None, Some(version)) => version.to_owned(),
            (None, None) => {
                let message = "the version is unknown; write `version` in `Cargo.toml` or `server.json`";
                return Err(Misused(message.into()).into());
            }
        };
        let project = Self { name, version, cargo, server };
        match project.package()["transport"]["type"].as_str() {
            None | Some("stdio") => Ok(project),
            Some(other) => {
                let message = format!(
                    "a bundle needs a server over stdio, but `server.json` has the transport `{other}`; \
                     create the project without `--http`"
                );
                Err(Misused(message).into())
            }
        }
    }

    /// Returns the package for crates.io that `server.json` lists. If `server.json` lists no package for crates.io,
    /// returns the first package.
    fn package(&self) -> &Value {
        static NONE: Value = Value::Null;
        let packages = items(&self.server["packages"]);
        let cargo = packages.iter().find(|package| package["registryType"] == "cargo");
        cargo.or(packages.first()).unwrap_or(&NONE)
    }

    /// Returns the parts of `server.json` that a bundle cannot contain.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let arguments = items(&self.package()["packageArguments"]);
        let open = arguments.iter().filter(|argument| !argument["value"].is_string());
        let name = |argument: &Value| {
            let name = argument["name"].as_str().or(argument["valueHint"].as_str());
            name.unwrap_or("without a name").to_owned()
        };
        let warning = |argument| {
            let name = name(argument);
            format!("the bundle omits the argument `{name}`, which has no fixed value in `server.json`")
        };
        open.map(warning).collect()
    }

    /// Returns the manifest. Members for which the project has no value are omitted.
    pub(crate) fn manifest(&self, binary: &Binary, icon: Option<&str>) -> Value {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned);
        let url = |value: &Value| text(value).filter(|text| url::Url::parse(text).is_ok());
        let (cargo, server) = (&self.cargo, &self.server);
        let description = text(&server["description"]).or_else(|| text(&cargo["description"]));
        let repository = url(&cargo["repository"]).or_else(|| url(&server["repository"]["url"]));
        let homepage = url(&cargo["homepage"]).or_else(|| url(&server["websiteUrl"]));
        let (env, user_config) = self.environment();

        let mut config = Map::new();
        config.insert("command".into(), json!(format!("${{__dirname}}/{}", binary.entry)));
        config.insert("args".into(), json!(self.arguments()));
        insert(&mut config, "env", (!env.is_empty()).then(|| Value::Object(env)));

        let mut manifest = Map::new();
        manifest.insert("manifest_version".into(), json!(MANIFEST_VERSION));
        manifest.insert("name".into(), json!(self.name));
        insert(&mut manifest, "display_name", text(&server["title"]).map(Value::from));
        manifest.insert("version".into(), json!(self.version));
        manifest.insert("description".into(), json!(description.unwrap_or_else(|| self.name.clone())));
        manifest.insert("author".into(), self.author());
        let repository = repository.map(|url| json!({"type": "git", "url": url}));
        insert(&mut manifest, "repository", repository);
        insert(&mut manifest, "homepage", homepage.map(Value::from));
        insert(&mut manifest, "icon", icon.map(Value::from));
        let server = json!({"type": "binary", "entry_point": binary.entry, "mcp_config": config});
        manifest.insert("server".into(), server);
        insert(&mut manifest, "license", text(&cargo["license"]).map(Value::from));
        manifest.insert("compatibility".into(), json!({"platforms": [binary.platform]}));
        insert(&mut manifest, "user_config", (!user_config.is_empty()).then(|| Value::Object(user_config)));
        Value::Object(manifest)
    }

    /// Returns the first author of `Cargo.toml`, or the account in the name of the server.
    fn author(&self) -> Value {
        let author = items(&self.cargo["authors"]).first().and_then(Value::as_str).unwrap_or_default();
        let (name, email) = author.split_once('<').unwrap_or((author, ""));
        let (name, email) = (name.trim(), email.trim_end_matches('>').trim());
        if name.is_empty() {
            let space = self.server["name"].as_str().and_then(|name| name.split('/').next());
            let account = space.and_then(|space| space.strip_prefix("io.github."));
            return json!({"name": account.unwrap_or(&self.name)});
        }
        if email.contains('@') { json!({"name": name, "email": email}) } else { json!({"name": name}) }
    }

    fn arguments(&self) -> Vec<String> {
        let fixed = |argument: &Value| -> Vec<String> {
            let Some(value) = argument["value"].as_str() else { return Vec::new() };
            argument["name"].as_str().into_iter().chain([value]).map(ToOwned::to_owned).collect()
        };
        items(&self.package()["packageArguments"]).iter().flat_map(fixed).collect()
    }

    /// Returns the environment variables of the program, and the settings that the host requests from the user.
    fn environment(&self) -> (Map<String, Value>, Map<String, Value>) {
        let (mut env, mut settings) = (Map::new(), Map::new());
        for variable in items(&self.package()["environmentVariables"]) {
            let Some(name) = variable["name"].as_str() else { continue };
            if let Some(value) = variable["value"].as_str() {
                env.insert(name.to_owned(), json!(value));
            } else {
                let key = name.to_lowercase();
                env.insert(name.to_owned(), json!(format!("${{user_config.{key}}}")));
                settings.insert(key, setting(name, variable));
            }
        }
        (env, settings)
    }
}

fn setting(name: &str, variable: &Value) -> Value {
    let kind = match variable["format"].as_str() {
        Some("number") => "number",
        Some("boolean") => "boolean",
        Some("filepath") => "file",
        _ => "string",
    };
    let mut setting = Map::new();
    setting.insert("type".into(), json!(kind));
    setting.insert("title".into(), json!(name));
    let description = variable["description"].as_str().unwrap_or(name);
    setting.insert("description".into(), json!(description));
    setting.insert("required".into(), json!(variable["isRequired"] == true));
    insert(&mut setting, "sensitive", (variable["isSecret"] == true).then(|| json!(true)));
    let default = variable["default"].as_str().map(|default| match kind {
        "number" | "boolean" => serde_json::from_str(default).unwrap_or_else(|_| json!(default)),
        _ => json!(default),
    });
    insert(&mut setting, "default", default);
    Value::Object(setting)
}

fn insert(members: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        members.insert(name.to_owned(), value);
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn read_text(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platform_is_found_in_the_program() {
        for (head, platform, entry) in [
            (&b"\x7fELF"[..], "linux", "server/desk"),
            (b"\xcf\xfa\xed\xfe", "darwin", "server/desk"),
            (b"\xca\xfe\xba\xbe", "darwin", "server/desk"),
            (b"MZ", "win32", "server/desk.exe"),
        ] {
            let binary = Binary::new("desk".into(), "desk", head);
            assert_eq!((binary.platform, binary.entry.as_str()), (platform, entry));
        }
    }

    #[test]
    fn author_comes_from_the_manifest_or_the_name() {
        let author = |cargo: Value, server: Value| Project::new(cargo, server).unwrap().author();
        let cargo = json!({"name": "desk", "version": "1.0.0", "authors": ["Ada <ada@example.com>"]});
        assert_eq!(author(cargo, Value::Null), json!({"name": "Ada", "email": "ada@example.com"}));
        let cargo = json!({"name": "desk", "version": "1.0.0"});
        let server = json!({"name": "io.github.ada/desk", "version": "1.0.0"});
        assert_eq!(author(cargo.clone(), server), json!({"name": "ada"}));
        assert_eq!(author(cargo, Value::Null), json!({"name": "desk"}));
    }

    #[test]
    fn project_that_cannot_be_packed_is_rejected() {
        let cargo = json!({"name": "desk", "version": "1.0.0"});
        for (cargo, server, part) in [
            (json!(null), Value::Null, "has no package"),
            (json!({"name": "desk", "version": {"workspace": true}}), Value::Null, "the version is unknown"),
            (cargo.clone(), json!({"version": "1.0.1"}), "write the same version"),
            (cargo, json!({"packages": [{"transport": {"type": "streamable-http"}}]}), "over stdio"),
        ] {
            let error = Project::new(cargo, server).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
