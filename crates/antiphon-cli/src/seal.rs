//! `antiphon seal`: decrypts and shows a sealed state (`requestState`).

use antiphon::seal::{InspectError, KeyRing, SealConfig, SealedCall, SealedRun};
use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    exit::{Misused, Outcome},
    global::App,
    print, stdin,
};

/// Inspect a sealed state (`requestState`) with its encryption key.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  antiphon seal inspect \"$STATE\" --server shop --tool checkout")]
pub(crate) struct Seal {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Inspect(Inspect),
}

/// Decrypt a sealed state and show its contents.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ANTIPHON_KEYS=1=<64 hex digits> antiphon seal inspect \"$STATE\" --server shop --tool checkout --arguments '{\"item\": \"tea\"}'

The encrypted state is bound to its call. Pass the same values as in the original call.")]
struct Inspect {
    /// The `requestState`. `-` reads standard input.
    state: String,
    /// Set the server's encryption keys, as `1=<64 hex digits>`, separated by commas. Prefer the environment
    /// variable.
    #[arg(long, env = "ANTIPHON_KEYS", hide_env_values = true)]
    keys: Option<String>,
    /// Set the server's name, or its `SealConfig::with_audience`.
    #[arg(long)]
    server: String,
    /// Set the tool of the call. For a prompt, use its name. For a resource, use its URI.
    #[arg(long)]
    tool: String,
    /// Set the arguments of the call, as JSON.
    #[arg(long, default_value = "{}")]
    arguments: String,
    /// Set the principal of the call, if the server authenticates callers.
    #[arg(long, default_value = "", hide_default_value = true)]
    principal: String,
    /// Set the method of the call.
    #[arg(long, default_value = "tools/call")]
    method: String,
    /// Show the values too. They can contain secrets of the caller.
    #[arg(long)]
    values: bool,
}

impl Seal {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        let Command::Inspect(inspect) = self.command;
        inspect.run(app).await
    }
}

impl Inspect {
    async fn run(&self, app: &App) -> Result<Outcome> {
        let Some(keys) = &self.keys else {
            return Err(Misused(
                "the key is missing; pass `--keys 1=<64 hex digits>`, or ANTIPHON_KEYS".into(),
            )
            .into());
        };
        let keys: KeyRing =
            keys.parse().map_err(|error| Misused(format!("`--keys` is not valid: {error}")))?;
        let arguments: Value = serde_json::from_str(&self.arguments)
            .map_err(|error| Misused(format!("`--arguments` is not JSON: {error}")))?;
        let call = SealedCall::new(&self.server, &self.tool)
            .with_arguments(arguments)
            .with_principal(&self.principal)
            .with_method(&self.method);
        let state = match self.state.as_str() {
            "-" => stdin::read().await?,
            state => state.to_owned(),
        };
        let config = SealConfig::default().with_keys(keys);
        let run = config.inspect(&state, &call).map_err(|error| {
            let hint = hint(&error);
            anyhow::Error::from(error).context(hint)
        })?;
        print::print(app.json, &self.value(&run), || self.text(&run));
        Ok(Outcome::Done)
    }

    fn value(&self, run: &SealedRun) -> Value {
        let mut value = json!(run);
        if !self.values {
            for entry in value["entries"].as_array_mut().into_iter().flatten() {
                entry.as_object_mut().and_then(|entry| entry.remove("value"));
            }
        }
        value
    }

    fn text(&self, run: &SealedRun) -> String {
        let over = if run.expired { ", which is over" } else { "" };
        let mut lines = vec![
            format!("format   {}, key {}", run.version, run.key),
            format!("issued   {}", run.issued),
            format!("expires  {}{over}", run.expires),
        ];
        let Some(id) = &run.run else {
            lines
                .push("holds    a reference to a journal in the store; `antiphon runs show` shows it".into());
            return lines.join("\n");
        };
        lines.push(format!("run      {id}, round {}", run.round));
        let pending = if run.pending.is_empty() { "nothing".to_owned() } else { run.pending.join(", ") };
        lines.push(format!("awaits   {}", print::clean(&pending)));
        if run.entries.is_empty() {
            return lines.join("\n");
        }
        let mut table = print::table(["KEY", "WHAT", "OUTCOME", if self.values { "VALUE" } else { "SHAPE" }]);
        for entry in &run.entries {
            let shown = if self.values { &entry.value } else { &entry.shape };
            table.add_row([
                print::clean(&entry.key),
                print::clean(&entry.op),
                entry.outcome.to_owned(),
                print::clean(&shown.to_string()),
            ]);
        }
        format!("{}\n\n{}", lines.join("\n"), print::trimmed(&table))
    }
}

fn hint(error: &InspectError) -> &'static str {
    match error {
        InspectError::Malformed => "pass the whole `requestState`, as the server sent it",
        InspectError::UnknownKey(_) => "add the key with that number to `--keys`",
        _ => {
            "check the key, `--server`, `--tool`, `--method`, `--principal`, and that `--arguments` are those of the call; a wrong key, another call and a damaged state cause the same error"
        }
    }
}
