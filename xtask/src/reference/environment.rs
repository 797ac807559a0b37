//! The part of `configuration.md` about variables: libraries read none, programs do.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use syn::{Fields, Item};

use crate::source::attributes::{default, docs, plain, summary};
use crate::source::item::text;
use crate::source::tree::Tree;

/// What the command reads without a flag for it.
const READ: [(&str, &str); 9] = [
    ("NO_COLOR", "If it is set, the CLI uses no colours."),
    ("TERM", "If it is `dumb` or not set, the CLI draws no board and does not clear the screen."),
    ("PATH", "The folders in which the CLI searches for the programs of servers."),
    ("CARGO_TARGET_DIR", "The folder in which `antiphon pack` searches for the program."),
    ("CLAUDE_CONFIG_DIR", "The folder of Claude Code's `.claude.json`, for `antiphon install`."),
    ("CODEX_HOME", "The folder of Codex's `config.toml`, for `antiphon install`."),
    ("GEMINI_CLI_HOME", "The folder of Gemini CLI's `.gemini`, for `antiphon install`."),
    ("GOOSE_PATH_ROOT", "The folder of goose's files, for `antiphon install`."),
    ("XDG_CONFIG_HOME", "The folder of the files of goose, opencode and Zed, for `antiphon install`."),
];

/// The variables that the command and the deployed example read.
pub(super) fn section(command: &Tree, deployed: &Tree) -> Result<String> {
    let mut page = String::from(
        "\n## Environment variables\n\nThe libraries read no environment variables.\n\n### The `antiphon` CLI\n\n| variable | description |\n|---|---|\n",
    );
    let flags = flags(command);
    for (variable, what) in &flags {
        writeln!(page, "| `{variable}` | {what} |")?;
    }
    let sources: String = command.items().map(|(_, item)| text(item)).collect();
    // The variables with the API keys of model providers.
    let keys = sources.split("(\"").filter_map(|after| after.split_once("\")").map(|(name, _)| name));
    let keys: BTreeSet<&str> = keys.filter(|name| name.ends_with("_API_KEY")).collect();
    ensure!(!keys.is_empty(), "the CLI has no variable for the API key of a provider");
    let keys = keys.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    writeln!(
        page,
        "| {keys} | The API key of a model provider, unless `--model-key-env` names another variable. |"
    )?;
    for (variable, what) in READ {
        ensure!(
            sources.contains(&format!("(\"{variable}\")")),
            "the command reads `{variable}` no longer; take it out of xtask/src/reference/environment.rs"
        );
        writeln!(page, "| `{variable}` | {what} |")?;
    }
    let known: BTreeSet<&str> =
        flags.iter().map(|(it, _)| it.as_str()).chain(READ.map(|(it, _)| it)).collect();
    let read = ["env::var(\"", "env::var_os(\""].iter().flat_map(|begin| sources.split(begin).skip(1));
    let unknown: BTreeSet<&str> =
        read.filter_map(|after| after.split('"').next()).filter(|it| !known.contains(it)).collect();
    ensure!(
        unknown.is_empty(),
        "say in xtask/src/reference/environment.rs what the command reads {unknown:?} for"
    );
    page.push_str("\n### The example `deployed`\n\n");
    page.push_str(
        "A variable with the suffix `_FILE` names a file that contains the value, for example `STORE_URL_FILE`. \
         `OTEL_EXPORTER_OTLP_ENDPOINT` has no such variant.\n\n",
    );
    page.push_str("| variable | default | description |\n|---|---|---|\n");
    page.push_str(&settings(deployed)?);
    Ok(page)
}

/// What flags may also be given by: `#[arg(env = "…")]`.
fn flags(command: &Tree) -> BTreeSet<(String, String)> {
    let mut flags = BTreeSet::new();
    for (_, item) in command.items() {
        let Item::Struct(item) = item else { continue };
        for field in &item.fields {
            let arguments = field.attrs.iter().filter(|it| it.path().is_ident("arg"));
            for variable in arguments.filter_map(|it| variable(&text(it))) {
                let what = plain(&summary(&docs(&field.attrs))).replace('|', "\\|");
                let flag =
                    field.ident.as_ref().map(|it| it.to_string().replace('_', "-")).unwrap_or_default();
                flags.insert((variable, format!("`--{flag}`: {what}")));
            }
        }
    }
    flags
}

fn variable(attribute: &str) -> Option<String> {
    attribute.split("env = \"").nth(1)?.split('"').next().map(ToOwned::to_owned)
}

/// The fields of the example's settings, whose documents begin with the variable.
fn settings(deployed: &Tree) -> Result<String> {
    let item = deployed.items().find_map(|(_, item)| match item {
        Item::Struct(it) if it.ident == "Settings" => Some(it),
        _ => None,
    });
    let Fields::Named(fields) = &item.context("the example `deployed` has no `Settings`")?.fields else {
        return Ok(String::new());
    };
    let mut rows = String::new();
    for field in &fields.named {
        let docs = docs(&field.attrs);
        let first = summary(&docs);
        let (variable, what) = first
            .split_once(": ")
            .filter(|(variable, _)| variable.starts_with('`'))
            .with_context(|| format!("a setting of `deployed` does not say its variable: {first}"))?;
        writeln!(rows, "| {variable} | {} | {what} |", default(&docs).unwrap_or_default())?;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_of_a_flag_is_found() {
        let attribute = "#[arg(long, env = \"ANTIPHON_TOKEN\", hide_env_values = true)]";
        assert_eq!(variable(attribute).as_deref(), Some("ANTIPHON_TOKEN"));
        assert_eq!(variable("#[arg(long)]"), None);
    }
}
