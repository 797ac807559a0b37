//! The user's configuration: the servers, and the model that answers sampling requests.
//!
//! The configuration is in the platform's configuration folder, or in the folder that the option `--config` names:
//!
//! - `config.toml` is written only by the user.
//! - `servers.json` contains servers in the `mcpServers` format, which other hosts also use. `antiphon connect`
//!   writes `servers.json`.
//!
//! The CLI also reads the files that are listed under `read` in `config.toml`, and `.mcp.json` in the working folder.

mod definition;
mod model;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(crate) use self::{
    definition::{Definition, Kind, is_program},
    model::ModelChoice,
};
use crate::print::clean;

/// The user's configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    /// The configured servers, by name.
    pub(crate) servers: BTreeMap<String, Definition>,
    /// The model that answers sampling requests.
    pub(crate) model: ModelChoice,
    /// A map from the name of each server to the configuration file that defines the server.
    sources: BTreeMap<String, PathBuf>,
    folder: Option<PathBuf>,
}

/// The content of `config.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    model: ModelChoice,
    /// Other files in which servers are defined.
    read: Vec<PathBuf>,
}

const BY_HAND: &str = "config.toml";
const SERVERS: &str = "servers.json";
const OF_FOLDER: &str = ".mcp.json";

impl Config {
    /// Reads all configuration files. A missing file is not an error.
    pub(crate) fn load(folder: Option<PathBuf>) -> Result<Self> {
        let usual =
            || directories::ProjectDirs::from("", "", "antiphon").map(|dirs| dirs.config_dir().to_owned());
        let Some(folder) = folder.or_else(usual) else { return Ok(Self::default()) };
        let path = folder.join(BY_HAND);
        let file: File = match text(&path)? {
            Some(text) => {
                toml::from_str(&text).with_context(|| format!("{} cannot be read", path.display()))?
            }
            None => File::default(),
        };
        let mut config = Self { model: file.model, folder: Some(folder.clone()), ..Self::default() };
        // If a name has several definitions, the last definition is used. The working folder is read first, because
        // this folder can be untrusted. A program from this folder must not run under a name that the user gave to
        // another server.
        config.read_folder(Path::new(OF_FOLDER));
        for path in file.read.iter().map(|path| at_home(path)) {
            config.read(&path)?;
        }
        config.read(&folder.join(SERVERS))?;
        Ok(config)
    }

    fn read(&mut self, path: &Path) -> Result<()> {
        for (name, definition) in servers(path)? {
            let definition = Definition::deserialize(&definition)
                .with_context(|| format!("the entry `{name}` in {} is not a valid server", path.display()))?;
            self.insert(name, definition, path);
        }
        Ok(())
    }

    /// Reads the servers of the working folder, which can be untrusted. An invalid file or entry causes a warning,
    /// not an error. A name that looks like an address or a program is skipped.
    fn read_folder(&mut self, path: &Path) {
        let found = servers(path).unwrap_or_else(|error| {
            eprintln!("warning: {}", clean(&format!("{error:#}; the file is ignored")));
            Map::new()
        });
        for (name, definition) in found {
            let passed_over = |why: &str| {
                let name = clean(&name);
                eprintln!("warning: the server `{name}` in {} is ignored: {why}", path.display());
            };
            match Definition::deserialize(&definition) {
                Err(error) => passed_over(&clean(&error.to_string())),
                Ok(_) if !is_name(&name) => passed_over("use letters, digits, `-`, `_` and `.`"),
                Ok(_) if is_program(&name) => passed_over("a program has this name"),
                Ok(definition) => self.insert(name, Definition { of_folder: true, ..definition }, path),
            }
        }
    }

    fn insert(&mut self, name: String, definition: Definition, path: &Path) {
        self.sources.insert(name.clone(), path.to_owned());
        self.servers.insert(name, definition);
    }

    /// Returns the configuration file that defines the server `name`.
    pub(crate) fn source(&self, name: &str) -> Option<&Path> {
        self.sources.get(name).map(PathBuf::as_path)
    }

    /// Returns whether a server is in `servers.json`, the file that the CLI writes.
    pub(crate) fn keeps(&self, name: &str) -> bool {
        let own = self.folder.as_ref().map(|folder| folder.join(SERVERS));
        own.as_deref() == self.source(name) && own.is_some()
    }

    /// Saves a server under a name. If `definition` is `None`, deletes the server with the name `name`. Returns the
    /// path of the file.
    pub(crate) fn keep(&self, name: &str, definition: Option<&Definition>) -> Result<PathBuf> {
        let Some(folder) = &self.folder else {
            bail!("the system has no configuration folder; set one with `--config`")
        };
        let path = folder.join(SERVERS);
        let mut file = match text(&path)? {
            Some(text) => {
                serde_json::from_str(&text).with_context(|| format!("{} cannot be read", path.display()))?
            }
            None => json!({}),
        };
        let is_object = |value: &Value| value.is_null() || value.is_object();
        if !is_object(&file) || file.get("mcpServers").is_some_and(|servers| !is_object(servers)) {
            bail!("{} has no `mcpServers`; fix the file, or delete it", path.display());
        }
        match definition {
            Some(definition) => file["mcpServers"][name] = json!(definition),
            None => {
                file["mcpServers"].as_object_mut().and_then(|servers| servers.remove(name));
            }
        }
        let unwritable = || format!("{} cannot be written", path.display());
        fs::create_dir_all(folder).with_context(unwritable)?;
        // Replace the file atomically, because another program can read the file at the same time.
        let new = folder.join(format!("{SERVERS}.new"));
        write(&new, &format!("{file:#}\n"))
            .and_then(|()| fs::rename(&new, &path))
            .with_context(unwritable)?;
        Ok(path)
    }
}

/// Reads the servers of a file in the `mcpServers` format.
fn servers(path: &Path) -> Result<Map<String, Value>> {
    let Some(text) = text(path)? else { return Ok(Map::new()) };
    let mut file: Value =
        serde_json::from_str(&text).with_context(|| format!("{} cannot be read", path.display()))?;
    match file.get_mut("mcpServers").map(Value::take) {
        Some(Value::Object(servers)) => Ok(servers),
        _ => Ok(Map::new()),
    }
}

/// Returns whether a server can have the name `name`. A name must not look like an address or a command.
pub(crate) fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && !name.starts_with('-') && name.chars().all(good)
}

/// Writes a file that only the user can read, because headers and environment variables contain secrets.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

fn text(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// Replaces `~` at the start of a path with the home folder.
fn at_home(path: &Path) -> PathBuf {
    let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}
