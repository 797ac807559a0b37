//! What the person has set up: which servers there are, which model answers.
//!
//! In the platform's usual folder for configuration, or where `--config` says:
//!
//! - `config.toml`: written by hand, never by us.
//! - `servers.json`: servers, in the `mcpServers` form that other hosts use. `antiphon connect` writes it.
//!
//! And beside them the files that `read` in `config.toml` names, and `.mcp.json` in the working folder.

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

/// What the person has set up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    /// The servers, by name.
    pub(crate) servers: BTreeMap<String, Definition>,
    /// Who answers samples.
    pub(crate) model: ModelChoice,
    /// The file each server is from.
    sources: BTreeMap<String, PathBuf>,
    folder: Option<PathBuf>,
}

/// `config.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    model: ModelChoice,
    /// Other files with servers.
    read: Vec<PathBuf>,
}

const BY_HAND: &str = "config.toml";
const SERVERS: &str = "servers.json";
const OF_FOLDER: &str = ".mcp.json";

impl Config {
    /// Reads all there is. What is not there is not missed.
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
        // The last one wins. The working folder comes first: it may be from somebody else, and must not run its own
        // program under a name that the person gave to another.
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
                .with_context(|| format!("`{name}` in {} is no server", path.display()))?;
            self.insert(name, definition, path);
        }
        Ok(())
    }

    /// Reads what the working folder brings along. It may be anybody's, so what is wrong with it stops nobody, and
    /// none of its names may stand for an address or a program that a person would type.
    fn read_folder(&mut self, path: &Path) {
        let found = servers(path).unwrap_or_else(|error| {
            eprintln!("warning: {}", clean(&format!("{error:#}; it is passed over")));
            Map::new()
        });
        for (name, definition) in found {
            let passed_over = |why: &str| {
                let name = clean(&name);
                eprintln!("warning: `{name}` in {} is passed over: {why}", path.display());
            };
            match Definition::deserialize(&definition) {
                Err(error) => passed_over(&clean(&error.to_string())),
                Ok(_) if !is_name(&name) => passed_over("a name has letters, digits, `-`, `_` and `.`"),
                Ok(_) if is_program(&name) => passed_over("a program has this name"),
                Ok(definition) => self.insert(name, Definition { of_folder: true, ..definition }, path),
            }
        }
    }

    fn insert(&mut self, name: String, definition: Definition, path: &Path) {
        self.sources.insert(name.clone(), path.to_owned());
        self.servers.insert(name, definition);
    }

    /// The file a server is from.
    pub(crate) fn source(&self, name: &str) -> Option<&Path> {
        self.sources.get(name).map(PathBuf::as_path)
    }

    /// Whether a server is in the file that we write.
    pub(crate) fn keeps(&self, name: &str) -> bool {
        let own = self.folder.as_ref().map(|folder| folder.join(SERVERS));
        own.as_deref() == self.source(name) && own.is_some()
    }

    /// Keeps a server under a name, or with `None` no longer, and says in which file.
    pub(crate) fn keep(&self, name: &str, definition: Option<&Definition>) -> Result<PathBuf> {
        let Some(folder) = &self.folder else {
            bail!("this computer has no folder for configuration; name one with `--config`")
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
            bail!("{} holds no `mcpServers`; mend it, or remove it", path.display());
        }
        match definition {
            Some(definition) => file["mcpServers"][name] = json!(definition),
            None => {
                file["mcpServers"].as_object_mut().and_then(|servers| servers.remove(name));
            }
        }
        let unwritable = || format!("{} cannot be written", path.display());
        fs::create_dir_all(folder).with_context(unwritable)?;
        // Whole or not at all: another program may read it at this moment.
        let new = folder.join(format!("{SERVERS}.new"));
        write(&new, &format!("{file:#}\n"))
            .and_then(|()| fs::rename(&new, &path))
            .with_context(unwritable)?;
        Ok(path)
    }
}

/// What a file in the `mcpServers` form holds.
fn servers(path: &Path) -> Result<Map<String, Value>> {
    let Some(text) = text(path)? else { return Ok(Map::new()) };
    let mut file: Value =
        serde_json::from_str(&text).with_context(|| format!("{} cannot be read", path.display()))?;
    match file.get_mut("mcpServers").map(Value::take) {
        Some(Value::Object(servers)) => Ok(servers),
        _ => Ok(Map::new()),
    }
}

/// Whether a server can be called so: what looks like an address or a command would be taken for one.
pub(crate) fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && !name.starts_with('-') && name.chars().all(good)
}

/// Writes a file that only the person may read: headers and environments have secrets.
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

/// A path that may begin with `~/`.
fn at_home(path: &Path) -> PathBuf {
    let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}
