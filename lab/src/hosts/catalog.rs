//! The hosts: versions, configuration and command lines.
//!
//! In files and words, `@MCP@` is the URL of the server, `@MODEL@` is the base URL of the model, and `@PROMPT@` is the
//! prompt. `@HOME@` is the home folder of the run, `@FOLDER@` is the folder with the packages, and `@SCRIPTS@` is
//! `lab/conformance/hosts`.

use super::seen::Ends;

/// A host, and how it is started.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Whether it is small enough to run by default.
    pub(super) light: bool,
    pub(super) install: Install,
    /// A script of `@SCRIPTS@` that must be in the folder with the packages.
    pub(super) script: Option<&'static str>,
    /// Files in the home folder.
    pub(super) files: &'static [(&'static str, &'static str)],
    pub(super) env: &'static [(&'static str, &'static str)],
    /// A command that runs first, if any.
    pub(super) before: &'static [&'static str],
    pub(super) start: Start,
    /// How a call that asks ends in this host. See `docs/hosts.md`.
    pub(super) ends: Ends,
    /// How many halves of a result the model reads: the text, the structured content, or both.
    pub(super) halves: usize,
}

#[derive(Debug)]
pub(super) enum Install {
    /// The packages of `cargo xtask interop` are enough.
    Nothing,
    Npm(&'static [&'static str]),
    /// `requirements.txt` of `@SCRIPTS@`.
    Python,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Start {
    Words(&'static [&'static str]),
    /// `mcpdo`, which has no model, with this era.
    Mcpdo(&'static str),
}

/// A host with nothing in it, for struct updates.
const PLAIN: Host = Host {
    name: "",
    title: "",
    light: false,
    install: Install::Nothing,
    script: None,
    files: &[],
    env: &[],
    before: &[],
    start: Start::Words(&[]),
    ends: Ends::Answered,
    halves: 1,
};

/// All hosts. None of them is proprietary.
pub(super) static HOSTS: [Host; 11] = [
    Host {
        name: "aisdk",
        title: "AI SDK 7.0.169",
        light: true,
        install: Install::Npm(&["ai@7.0.169", "@ai-sdk/mcp@2.0.96", "@ai-sdk/openai-compatible"]),
        script: Some("aisdk.mjs"),
        start: Start::Words(&["node", "@FOLDER@/aisdk.mjs", "@MODEL@", "@MCP@", "@PROMPT@"]),
        ..PLAIN
    },
    Host {
        name: "gemini",
        title: "Gemini CLI 0.61.0",
        light: true,
        install: Install::Npm(&["@google/gemini-cli@0.61.0"]),
        files: &[(".gemini/settings.json", GEMINI)],
        env: &[("GEMINI_API_KEY", "stub"), ("GOOGLE_GEMINI_BASE_URL", "@MODEL@")],
        start: Start::Words(&["gemini", "--approval-mode", "yolo", "-p", "@PROMPT@"]),
        ..PLAIN
    },
    Host {
        name: "mcpdo",
        title: "mcpdo 2.12.0, 2026-07-28",
        light: true,
        env: &[("MCP_INSPECTOR_SECRET_STORE", "memory")],
        start: Start::Mcpdo("modern"),
        ..PLAIN
    },
    Host {
        name: "mcpdo-legacy",
        title: "mcpdo 2.12.0, 2025-11-25",
        light: true,
        env: &[("MCP_INSPECTOR_SECRET_STORE", "memory")],
        start: Start::Mcpdo("legacy"),
        ..PLAIN
    },
    Host {
        name: "codex",
        title: "Codex CLI 0.166.0, exec",
        install: Install::Npm(&["@openai/codex@0.166.0"]),
        files: &[(".codex/config.toml", CODEX)],
        start: Start::Words(&["codex", "exec", "--skip-git-repo-check", "@PROMPT@"]),
        ..PLAIN
    },
    Host {
        name: "goose",
        title: "goose 1.34.0, run",
        install: Install::Npm(&["@aaif/goose@0.20.1"]),
        files: &[(".config/goose/config.yaml", GOOSE)],
        env: &[("OPENAI_API_KEY", "none"), ("GOOSE_DISABLE_KEYRING", "1")],
        start: Start::Words(&["goose", "run", "--no-session", "-t", "@PROMPT@"]),
        ends: Ends::Stopped,
        ..PLAIN
    },
    Host {
        name: "opencode",
        title: "opencode 1.18.33",
        install: Install::Npm(&["opencode-ai@1.18.33"]),
        files: &[(".config/opencode/opencode.json", OPENCODE)],
        env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_DISABLE_MODELS_FETCH", "1")],
        start: Start::Words(&["opencode", "run", "@PROMPT@"]),
        ..PLAIN
    },
    Host {
        name: "continue",
        title: "Continue CLI 1.5.47",
        install: Install::Npm(&["@continuedev/cli@1.5.47"]),
        files: &[("continue.yaml", CONTINUE)],
        env: &[("CONTINUE_TELEMETRY_ENABLED", "0"), ("CONTINUE_METRICS_ENABLED", "0")],
        start: Start::Words(&["cn", "--config", "@HOME@/continue.yaml", "--auto", "-p", "@PROMPT@"]),
        ..PLAIN
    },
    Host {
        name: "cline",
        title: "Cline CLI 3.0.65",
        install: Install::Npm(&["cline@3.0.65"]),
        files: &[(".cline/data/settings/cline_mcp_settings.json", CLINE)],
        env: &[("CLINE_TELEMETRY_DISABLED", "1")],
        before: &["cline", "auth", "-p", "openai", "-k", "none", "-m", "stub", "-b", "@MODEL@/v1"],
        start: Start::Words(&["cline", "-P", "openai-compatible", "-m", "stub", "@PROMPT@"]),
        halves: 2,
        ..PLAIN
    },
    Host {
        name: "qwen",
        title: "Qwen Code 0.24.4",
        install: Install::Npm(&["@qwen-code/qwen-code@0.24.4"]),
        files: &[(".qwen/settings.json", QWEN)],
        env: &[("OPENAI_API_KEY", "none"), ("OPENAI_BASE_URL", "@MODEL@/v1"), ("OPENAI_MODEL", "stub")],
        start: Start::Words(&["qwen", "--approval-mode", "yolo", "-p", "@PROMPT@"]),
        // It declares MCP Apps, and shows none in a terminal.
        halves: 2,
        ..PLAIN
    },
    Host {
        name: "mcp-use",
        title: "mcp-use 1.7.1",
        install: Install::Python,
        env: &[("MCP_USE_ANONYMIZED_TELEMETRY", "false"), ("LANGSMITH_TRACING", "false")],
        start: Start::Words(&["@FOLDER@/bin/python", "@SCRIPTS@/mcpuse.py", "@MODEL@", "@MCP@", "@PROMPT@"]),
        ..PLAIN
    },
];

const GEMINI: &str = r#"{
  "general": {"enableAutoUpdate": false, "disableAutoUpdate": true, "disableUpdateNag": true},
  "mcpServers": {"asking": {"httpUrl": "@MCP@", "trust": true}},
  "model": {"name": "gemini-2.5-pro"},
  "privacy": {"usageStatisticsEnabled": false},
  "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
  "telemetry": {"enabled": false}
}"#;

const QWEN: &str = r#"{
  "general": {"enableAutoUpdate": false, "disableAutoUpdate": true},
  "mcpServers": {"asking": {"httpUrl": "@MCP@", "trust": true}},
  "model": {"name": "stub"},
  "privacy": {"usageStatisticsEnabled": false},
  "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": false}},
  "telemetry": {"enabled": false}
}"#;

const CODEX: &str = r#"approval_policy = "never"
check_for_update_on_startup = false
model = "stub"
model_provider = "stub"
sandbox_mode = "danger-full-access"

[analytics]
enabled = false

[mcp_servers.asking]
default_tools_approval_mode = "approve"
url = "@MCP@"

[model_providers.stub]
base_url = "@MODEL@/v1"
name = "stub"
request_max_retries = 0
requires_openai_auth = false
stream_max_retries = 0
wire_api = "responses"

[otel]
exporter = "none"
"#;

const GOOSE: &str = r#"GOOSE_MODE: auto
GOOSE_MODEL: stub
GOOSE_PROVIDER: openai
GOOSE_TELEMETRY_ENABLED: false
OPENAI_BASE_PATH: v1/chat/completions
OPENAI_HOST: "@MODEL@"
extensions:
  asking:
    description: asking
    enabled: true
    env_keys: []
    envs: {}
    headers: {}
    name: asking
    timeout: 60
    type: streamable_http
    uri: "@MCP@"
"#;

const OPENCODE: &str = r#"{
  "autoupdate": false,
  "mcp": {"asking": {"type": "remote", "enabled": true, "oauth": false, "url": "@MCP@"}},
  "model": "stub/stub",
  "permission": "allow",
  "provider": {
    "stub": {
      "models": {"stub": {"limit": {"context": 100000, "output": 4096}, "name": "stub", "tool_call": true}},
      "name": "stub",
      "npm": "@ai-sdk/openai-compatible",
      "options": {"apiKey": "none", "baseURL": "@MODEL@/v1"}
    }
  },
  "share": "disabled",
  "small_model": "stub/stub"
}"#;

const CONTINUE: &str = r#"name: asking
version: 1.0.0
schema: v1
mcpServers:
  - name: asking
    type: streamable-http
    url: "@MCP@"
models:
  - name: stub
    apiBase: "@MODEL@/v1"
    apiKey: none
    capabilities: [tool_use]
    model: stub
    provider: openai
    roles: [chat, edit, apply]
"#;

const CLINE: &str = r#"{"mcpServers": {"asking": {"type": "streamableHttp", "url": "@MCP@"}}}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_pinned_except_the_one_that_the_date_pins() {
        for host in &HOSTS {
            let Install::Npm(packages) = &host.install else { continue };
            let pinned = packages.iter().filter(|package| package[1..].contains('@')).count();
            assert!(pinned + usize::from(host.name == "aisdk") == packages.len(), "{}", host.name);
        }
    }

    #[test]
    fn light_hosts_are_those_of_ci() {
        let light: Vec<&str> = HOSTS.iter().filter(|host| host.light).map(|host| host.name).collect();
        assert_eq!(light, ["aisdk", "gemini", "mcpdo", "mcpdo-legacy"]);
    }
}
