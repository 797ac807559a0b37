//! The supported hosts, with the place and the form of their configuration files.
//!
//! For each host, the documentation page "Connect a client" names the source that describes the configuration file,
//! and the date of this source.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use serde_json::Value;

use super::document::Format;
use crate::exit::Misused;

/// A host whose configuration the CLI can edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostName {
    /// `~/.claude.json`, or `.mcp.json` of a project
    ClaudeCode,
    /// `claude_desktop_config.json`
    ClaudeDesktop,
    /// `mcp.json` of the user, or `.vscode/mcp.json` of a project
    #[value(name = "vscode", alias = "vs-code")]
    VsCode,
    /// `~/.cursor/mcp.json`, or `.cursor/mcp.json` of a project
    Cursor,
    /// `~/.codex/config.toml`, or `.codex/config.toml` of a project
    Codex,
    /// `~/.gemini/settings.json`, or `.gemini/settings.json` of a project
    #[value(alias = "gemini")]
    GeminiCli,
    /// `~/.config/opencode/opencode.json`, or `opencode.json` of a project
    Opencode,
    /// `~/.config/goose/config.yaml`
    Goose,
    /// `settings.json` of the user, or `.zed/settings.json` of a project
    Zed,
    /// `mcp_config.json` of Windsurf and of its successor Devin Desktop, or `.devin/mcp_config.json` of a project
    #[value(alias = "devin")]
    Windsurf,
}

/// The users and folders that an entry applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// All projects of the user
    User,
    /// The project in the working folder. Its file is often committed
    Project,
}

/// The form of entries in a configuration file. Two hosts have changed the form of their entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Usual,
    /// opencode 2 uses `mcp.servers` instead of `mcp`. opencode 2 can also read the form of opencode 1.
    Opencode2,
    /// Windsurf uses `serverUrl`. Devin Desktop uses `url`.
    Windsurf,
}

impl HostName {
    /// Returns the name of the host for users.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::VsCode => "VS Code",
            Self::Cursor => "Cursor",
            Self::Codex => "Codex",
            Self::GeminiCli => "Gemini CLI",
            Self::Opencode => "opencode",
            Self::Goose => "goose",
            Self::Zed => "Zed",
            Self::Windsurf => "Windsurf",
        }
    }

    /// Returns the name of the host on the command line.
    pub(crate) fn id(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(crate) fn format(self) -> Format {
        match self {
            Self::Codex => Format::Toml,
            Self::Goose => Format::Yaml,
            _ => Format::Json,
        }
    }

    pub(crate) fn layout(self, path: &Path, file: &Value) -> Layout {
        let servers = file.pointer("/mcp/servers");
        match self {
            // In the form of opencode 1, `servers` can be the name of a server. Each server entry has a type, but the
            // list of servers has no type.
            Self::Opencode if servers.is_some_and(|it| it.is_object() && !it["type"].is_string()) => {
                Layout::Opencode2
            }
            Self::Windsurf if path.ends_with("windsurf/mcp_config.json") => Layout::Windsurf,
            _ => Layout::Usual,
        }
    }

    /// Returns the path to the list of servers: the names of the nested members.
    pub(crate) fn keys(self, layout: Layout) -> &'static [&'static str] {
        match self {
            Self::VsCode => &["servers"],
            Self::Codex => &["mcp_servers"],
            Self::Opencode if layout == Layout::Opencode2 => &["mcp", "servers"],
            Self::Opencode => &["mcp"],
            Self::Goose => &["extensions"],
            Self::Zed => &["context_servers"],
            _ => &["mcpServers"],
        }
    }

    /// Returns the key of an entry. goose looks up entries by the name in lower case.
    pub(crate) fn key(self, name: &str) -> String {
        if self == Self::Goose { name.to_lowercase() } else { name.to_owned() }
    }

    /// Returns the path of the host's configuration file for the scope `scope`.
    pub(crate) fn path(self, scope: Scope) -> Result<PathBuf> {
        match scope {
            Scope::User => self.user_path(),
            Scope::Project => {
                let folder = std::env::current_dir().context("the working folder cannot be read")?;
                self.project_path(&folder).ok_or_else(|| {
                    let title = self.title();
                    Misused(format!("{title} has no configuration for a project; use `--scope user`")).into()
                })
            }
        }
    }

    fn user_path(self) -> Result<PathBuf> {
        let folders = Folders::find()?;
        let Folders { home, data, config } = &folders;
        Ok(match self {
            Self::ClaudeCode => {
                folder("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.clone()).join(".claude.json")
            }
            Self::ClaudeDesktop => data.join("Claude/claude_desktop_config.json"),
            Self::VsCode => data.join("Code/User/mcp.json"),
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::Codex => folder("CODEX_HOME").unwrap_or_else(|| home.join(".codex")).join("config.toml"),
            Self::GeminiCli => {
                folder("GEMINI_CLI_HOME").unwrap_or_else(|| home.clone()).join(".gemini/settings.json")
            }
            Self::Opencode => opencode(&config.join("opencode")),
            Self::Goose => match folder("GOOSE_PATH_ROOT") {
                Some(root) => root.join("config/config.yaml"),
                None if cfg!(windows) => data.join("Block/goose/config/config.yaml"),
                None => config.join("goose/config.yaml"),
            },
            Self::Zed if cfg!(windows) => data.join("Zed/settings.json"),
            Self::Zed if cfg!(target_os = "macos") => home.join(".config/zed/settings.json"),
            Self::Zed => config.join("zed/settings.json"),
            Self::Windsurf => {
                let devin = if cfg!(windows) { data.join("devin") } else { home.join(".config/devin") };
                let windsurf = home.join(".codeium/windsurf");
                let folder = if windsurf.is_dir() && !devin.is_dir() { windsurf } else { devin };
                folder.join("mcp_config.json")
            }
        })
    }

    fn project_path(self, folder: &Path) -> Option<PathBuf> {
        Some(match self {
            Self::ClaudeCode => folder.join(".mcp.json"),
            Self::VsCode => folder.join(".vscode/mcp.json"),
            Self::Cursor => folder.join(".cursor/mcp.json"),
            Self::Codex => folder.join(".codex/config.toml"),
            Self::GeminiCli => folder.join(".gemini/settings.json"),
            Self::Opencode => opencode(folder),
            Self::Zed => folder.join(".zed/settings.json"),
            Self::Windsurf => folder.join(".devin/mcp_config.json"),
            Self::ClaudeDesktop | Self::Goose => return None,
        })
    }

    /// Returns a text that describes the next step of the user in the host.
    pub(crate) fn next(self, scope: Scope) -> &'static str {
        match (self, scope) {
            (Self::ClaudeCode, Scope::User) => "start a new session of Claude Code. `/mcp` lists its servers",
            (Self::ClaudeCode, Scope::Project) => "start `claude` in this folder, and approve the server",
            (Self::ClaudeDesktop, _) => "quit Claude Desktop, and start it again",
            (Self::VsCode, _) => "run `MCP: List Servers` in the Command Palette, and start the server",
            (Self::Cursor, _) => "restart Cursor, and turn on the server under Customize > MCPs",
            (Self::Codex, Scope::User) => "start a new session of Codex. `/mcp` lists its servers",
            (Self::Codex, Scope::Project) => {
                "start Codex in this folder, and trust the project. Codex ignores the file in other projects"
            }
            (Self::GeminiCli, _) => "restart Gemini CLI. `/mcp` lists its servers",
            (Self::Opencode, _) => "restart opencode. `opencode mcp list` lists its servers",
            (Self::Goose, _) => "start a new session of goose",
            (Self::Zed, Scope::User) => "open the settings of the Agent Panel. They list the servers",
            (Self::Zed, Scope::Project) => "trust the project, and open the settings of the Agent Panel",
            (Self::Windsurf, _) => "open the list of MCP servers in the agent panel, and refresh it",
        }
    }
}

/// Returns the configuration file of opencode: `opencode.jsonc` or `opencode.json`.
fn opencode(folder: &Path) -> PathBuf {
    let (json, jsonc) = (folder.join("opencode.json"), folder.join("opencode.jsonc"));
    if jsonc.is_file() && !json.is_file() { jsonc } else { json }
}

/// The folders of the user in which hosts keep their files.
#[derive(Debug)]
struct Folders {
    home: PathBuf,
    /// The folder of desktop programs: `~/.config`, `~/Library/Application Support` or `%APPDATA%`.
    data: PathBuf,
    /// The folder of command line programs, on all platforms: `~/.config`.
    config: PathBuf,
}

impl Folders {
    fn find() -> Result<Self> {
        let base = directories::BaseDirs::new().context("the home folder is unknown; set HOME")?;
        let home = base.home_dir().to_owned();
        let config = folder("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        Ok(Self { data: base.config_dir().to_owned(), config, home })
    }
}

/// Returns the folder in an environment variable. Relative paths are ignored, because hosts also ignore relative
/// paths.
fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn layout_follows_the_file() {
        let path = Path::new("/home/ada/.config/opencode/opencode.json");
        let layout = |file: &Value| HostName::Opencode.layout(path, file);
        assert_eq!(layout(&json!({"mcp": {"servers": {}}})), Layout::Opencode2);
        assert_eq!(layout(&json!({"mcp": {"servers": {"type": "local"}}})), Layout::Usual);
        assert_eq!(layout(&json!({"mcp": {"a": {}}})), Layout::Usual);
        let windsurf = |path: &str| HostName::Windsurf.layout(path.as_ref(), &json!({}));
        assert_eq!(windsurf("/home/ada/.codeium/windsurf/mcp_config.json"), Layout::Windsurf);
        assert_eq!(windsurf("/home/ada/.config/devin/mcp_config.json"), Layout::Usual);
    }
}
