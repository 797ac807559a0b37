//! A server definition in the `mcpServers` format.

use std::{collections::BTreeMap, path::PathBuf};

use antiphon_host::Lifecycle;
use antiphon_transport::revision::Revision;
use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::{exit::Misused, secrets};

/// A server definition in the `mcpServers` format. Fields that only other hosts use are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Definition {
    /// The type of the server: `stdio`, `http`, `sse` or `ws`. Only the type `sse` changes the transport of a URL.
    /// Without the type `sse`, `ws://` and `wss://` URLs use WebSocket, and all other URLs use streamable HTTP.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) args: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<PathBuf>,
    /// The protocol revision to use. Other hosts do not use the field `revision`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<String>,
    /// Whether the CLI read the definition from a file in the working folder. A file in the working folder can be
    /// untrusted.
    #[serde(skip)]
    pub(crate) of_folder: bool,
}

/// The transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    Http(&'a str),
    Sse(&'a str),
    WebSocket(&'a str),
    Program(&'a str),
}

impl Definition {
    pub(crate) fn kind(&self) -> Result<Kind<'_>> {
        let kind = self.kind.as_deref();
        Ok(match (&self.url, &self.command) {
            (Some(url), None) if kind == Some("sse") => Kind::Sse(url),
            (Some(url), None) if url.starts_with("ws://") || url.starts_with("wss://") => {
                Kind::WebSocket(url)
            }
            (Some(url), None) => Kind::Http(url),
            (None, Some(program)) => Kind::Program(program),
            _ => return Err(Misused("a server needs either a `url` or a `command`, not both".into()).into()),
        })
    }

    pub(crate) fn lifecycle(&self) -> Result<Lifecycle> {
        let Some(version) = self.revision.as_deref() else { return Ok(Lifecycle::Auto) };
        match Revision::of_published(version) {
            Some(Revision::Rounds) => Ok(Lifecycle::Modern),
            Some(Revision::Session) => Ok(Lifecycle::Legacy),
            None => {
                let message = format!(
                    "`{version}` is not a supported protocol revision; write {} or {}",
                    Revision::Rounds.version(),
                    Revision::Session.version()
                );
                Err(Misused(message).into())
            }
        }
    }

    /// Describes the server in one line, without its secrets.
    pub(crate) fn describe(&self) -> String {
        match (&self.url, &self.command) {
            (Some(url), _) => secrets::in_url(url),
            (None, Some(command)) => {
                shell_words::join(std::iter::once(command.clone()).chain(secrets::in_arguments(&self.args)))
            }
            (None, None) => "(nothing)".to_owned(),
        }
    }

    /// Returns a copy of the definition in which `${NAME}` and `${NAME:-otherwise}` are replaced by environment
    /// variables. Other hosts also replace `${NAME}` and `${NAME:-otherwise}`.
    pub(crate) fn expanded(&self) -> Result<Self> {
        let all = |map: &BTreeMap<String, String>| -> Result<BTreeMap<String, String>> {
            map.iter().map(|(name, value)| Ok((name.clone(), expand(value)?))).collect()
        };
        Ok(Self {
            url: self.url.as_deref().map(expand).transpose()?,
            command: self.command.as_deref().map(expand).transpose()?,
            args: self.args.iter().map(|arg| expand(arg)).collect::<Result<_>>()?,
            headers: all(&self.headers)?,
            env: all(&self.env)?,
            ..self.clone()
        })
    }
}

fn expand(text: &str) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            return Err(Misused(format!("`{text}` has a `${{` without a `}}`")).into());
        };
        let (name, otherwise) = match name.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (name, None),
        };
        match (std::env::var(name), otherwise) {
            (Ok(value), _) => out.push_str(&value),
            (Err(_), Some(otherwise)) => out.push_str(otherwise),
            (Err(_), None) => {
                return Err(Misused(format!("the configuration needs the variable ${name}; set it")).into());
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns whether a word refers to a program: a path to a file, or the name of a file in a folder of `PATH`.
pub(crate) fn is_program(word: &str) -> bool {
    let found = |path: &std::path::Path| path.is_file();
    if word.contains(std::path::MAIN_SEPARATOR) {
        return found(word.as_ref());
    }
    std::env::var_os("PATH")
        .is_some_and(|paths| std::env::split_paths(&paths).any(|folder| found(&folder.join(word))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_and_missing_ones_are_said() {
        assert_eq!(expand("a ${NO_SUCH_VARIABLE_HERE:-b} c").unwrap(), "a b c");
        let error = expand("${NO_SUCH_VARIABLE_HERE}").unwrap_err().to_string();
        assert!(error.contains("NO_SUCH_VARIABLE_HERE"), "{error}");
        assert!(expand("${OPEN").is_err());
    }

    #[test]
    fn lifecycle_rejects_an_unknown_revision() {
        let lifecycle = |revision: &str| {
            Definition { revision: Some(revision.into()), ..Definition::default() }.lifecycle().ok()
        };
        assert_eq!(lifecycle(Revision::Rounds.version()), Some(Lifecycle::Modern));
        assert_eq!(lifecycle(Revision::Session.version()), Some(Lifecycle::Legacy));
        assert_eq!(lifecycle("2024-11-05"), Some(Lifecycle::Legacy));
        assert_eq!(lifecycle("2027-01-01"), None);
    }

    #[test]
    fn the_form_of_other_hosts_is_read() {
        let read = |json: serde_json::Value| serde_json::from_value::<Definition>(json).unwrap();
        let program = read(serde_json::json!({"command": "npx", "args": ["-y", "x"], "disabled": false}));
        assert_eq!(program.kind().unwrap(), Kind::Program("npx"));
        let sse = read(serde_json::json!({"type": "sse", "url": "http://127.0.0.1:1/sse"}));
        assert_eq!(sse.kind().unwrap(), Kind::Sse("http://127.0.0.1:1/sse"));
        assert!(read(serde_json::json!({})).kind().is_err());
    }
}
