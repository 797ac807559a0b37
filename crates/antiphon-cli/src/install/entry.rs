//! The entry of a server in the configuration of a host.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::host::{HostName, Layout};
use crate::config::Definition;

/// The time limit for requests, in seconds, which each entry for goose contains. This time limit is also the default
/// of goose.
const GOOSE_TIMEOUT: u32 = 300;

/// Returns the entry of a server, in the form that the host reads.
pub(crate) fn entry(host: HostName, layout: Layout, name: &str, server: &Definition) -> Value {
    match (&server.url, &server.command) {
        (Some(url), _) => remote(host, layout, name, url, map(&server.headers)),
        (None, command) => program(host, layout, name, command.as_deref().unwrap_or_default(), server),
    }
}

fn remote(host: HostName, layout: Layout, name: &str, url: &str, headers: Option<Value>) -> Value {
    let url = Some(json!(url));
    let text = |text: &str| Some(json!(text));
    match host {
        HostName::ClaudeCode | HostName::VsCode => {
            members([("type", text("http")), ("url", url), ("headers", headers)])
        }
        HostName::Codex => members([("url", url), ("http_headers", headers)]),
        HostName::GeminiCli => members([("httpUrl", url), ("headers", headers)]),
        HostName::Opencode => members([
            ("type", text("remote")),
            ("url", url),
            ("enabled", is_enabled(layout)),
            ("headers", headers),
        ]),
        HostName::Goose => members([
            ("enabled", Some(json!(true))),
            ("type", text("streamable_http")),
            ("name", text(name)),
            ("description", text(name)),
            ("uri", url),
            ("headers", headers),
            ("timeout", Some(json!(GOOSE_TIMEOUT))),
        ]),
        HostName::Windsurf if layout == Layout::Windsurf => {
            members([("serverUrl", url), ("headers", headers)])
        }
        HostName::Windsurf => members([("url", url), ("transport", text("http")), ("headers", headers)]),
        HostName::Cursor | HostName::Zed | HostName::ClaudeDesktop => {
            members([("url", url), ("headers", headers)])
        }
    }
}

fn program(host: HostName, layout: Layout, name: &str, command: &str, server: &Definition) -> Value {
    let (args, env) = (&server.args, map(&server.env));
    let some_args = (!args.is_empty()).then(|| json!(args));
    let text = |text: &str| Some(json!(text));
    match host {
        HostName::ClaudeCode | HostName::VsCode => {
            members([("type", text("stdio")), ("command", text(command)), ("args", some_args), ("env", env)])
        }
        HostName::Opencode => {
            let words: Vec<&str> = std::iter::once(command).chain(args.iter().map(String::as_str)).collect();
            members([
                ("type", text("local")),
                ("command", Some(json!(words))),
                ("enabled", is_enabled(layout)),
                ("environment", env),
            ])
        }
        HostName::Goose => members([
            ("enabled", Some(json!(true))),
            ("type", text("stdio")),
            ("name", text(name)),
            ("description", text(name)),
            ("cmd", text(command)),
            // goose requires the list of arguments.
            ("args", Some(json!(args))),
            ("envs", env),
            ("timeout", Some(json!(GOOSE_TIMEOUT))),
        ]),
        // Zed requires the list of arguments.
        HostName::Zed => members([("command", text(command)), ("args", Some(json!(args))), ("env", env)]),
        HostName::ClaudeDesktop
        | HostName::Cursor
        | HostName::Codex
        | HostName::GeminiCli
        | HostName::Windsurf => members([("command", text(command)), ("args", some_args), ("env", env)]),
    }
}

/// Returns the member `enabled` of an entry for opencode. opencode 2 uses `disabled` instead, so its entries have no
/// member `enabled`.
fn is_enabled(layout: Layout) -> Option<Value> {
    (layout != Layout::Opencode2).then(|| json!(true))
}

fn map(values: &BTreeMap<String, String>) -> Option<Value> {
    (!values.is_empty()).then(|| json!(values))
}

fn members<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let present = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<_, _>>())
}

/// Reads the address or the command of an entry. Returns `None` if the entry contains neither an address nor a
/// command, as for the built-in extensions of goose.
pub(crate) fn read(entry: &Value) -> Option<Definition> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(ToOwned::to_owned).collect()
    };
    if let Some(url) = ["url", "serverUrl", "httpUrl", "uri"].iter().find_map(|key| entry[*key].as_str()) {
        return Some(Definition { url: Some(url.to_owned()), ..Definition::default() });
    }
    let (command, args) = match (&entry["command"], &entry["cmd"]) {
        (Value::String(command), _) | (_, Value::String(command)) => (command.clone(), texts(&entry["args"])),
        (words, _) => {
            let mut words = texts(words);
            if words.is_empty() {
                return None;
            }
            (words.remove(0), words)
        }
    };
    Some(Definition { command: Some(command), args, ..Definition::default() })
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_entry_is_read_again() {
        let program = Definition {
            command: Some("/desk".into()),
            args: vec!["--fast".into()],
            env: [("K".to_owned(), "v".to_owned())].into(),
            ..Definition::default()
        };
        let remote = Definition {
            url: Some("https://example.com/mcp".into()),
            headers: [("A".to_owned(), "b".to_owned())].into(),
            ..Definition::default()
        };
        for host in HostName::value_variants() {
            for layout in [Layout::Usual, Layout::Opencode2, Layout::Windsurf] {
                let found = read(&entry(*host, layout, "desk", &program)).unwrap();
                assert_eq!((&found.command, &found.args), (&program.command, &program.args), "{host:?}");
                let found = read(&entry(*host, layout, "desk", &remote)).unwrap();
                assert_eq!(found.url, remote.url, "{host:?}");
            }
        }
        assert_eq!(read(&json!({"type": "builtin", "name": "developer"})), None);
    }
}
