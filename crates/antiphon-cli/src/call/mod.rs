//! `antiphon call`: calls a tool and answers its questions.

mod arguments;
mod duration;
pub(crate) mod flags;
pub(crate) mod follow;
mod media;
mod show;

use std::{path::PathBuf, time::Duration};

use antiphon_host::{
    Connection, Error as HostError, HostLimits,
    model::{CallToolResult, ContentBlock, Tool},
};
use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use self::{
    flags::{Flag, Words},
    follow::Ended,
};
pub(crate) use self::{
    media::save,
    show::{block as show_block, print_result, resource as show_resource},
};
use crate::{
    exit::{Misused, Outcome},
    global::App,
    person::{Answering, Person, Watched},
    print::{clean, line, print},
    target::Target,
};

/// Call a tool and answer its questions.
///
/// The tool's arguments are flags that are made from its schema:
/// `--name Ada --count 3 --dry-run --tag a --tag b --address.city Bern`. Pass a value as JSON if it is not text, a
/// number, a boolean, or a list of those. `antiphon call SERVER TOOL --help` shows the flags of a tool.
///
/// Words after TOOL are first parsed as flags of the tool. Put flags of the CLI before the server. Flags under
/// `Options` also work after the tool, unless the tool has a flag with the same name.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Call {
    #[command(flatten)]
    target: Target,
    /// The tool, and its arguments as flags.
    #[arg(required = true, num_args = 1.., trailing_var_arg = true, value_names = ["TOOL", "ARGUMENTS"])]
    words: Vec<String>,
    #[command(flatten)]
    options: Options,
    /// Stop after this many rounds of questions.
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Questions")]
    rounds: u32,
    #[command(flatten)]
    answering: Answering,
}

const EXAMPLES: &str = "\
Examples:
  antiphon call weather forecast --city Bern --days 3
  antiphon call weather forecast --help
  antiphon call --arguments '{\"city\": \"Bern\"}' --json http://127.0.0.1:8000/mcp forecast
  antiphon call --answers answers.json 'npx -y some-server' order
  antiphon call --detach reports yearly --year 2026";

/// Options of a call.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Options {
    /// Pass the arguments as JSON: an object, `@file.json`, or `-` for standard input. Flags override it.
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// Ask for all arguments that you did not pass, not only for the required ones.
    #[arg(long)]
    form: bool,
    /// Run the call as a task, print its ID, and wait for the result.
    #[arg(long)]
    task: bool,
    /// Run the call as a task, print its ID, and do not wait for the result.
    #[arg(long)]
    detach: bool,
    /// Set the maximum time for each response of the server, for example 500ms, 30s or 5m [default: none].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Show log messages of this severity or higher [default: info, or debug with --verbose].
    #[arg(long, value_enum, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
    /// Save images, audio and other files of the result in this folder.
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
}

/// Options that also work after the tool.
#[derive(Clone, Debug, Args)]
pub(crate) struct After {
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
    Off,
}

impl LogLevel {
    fn name(self) -> &'static str {
        crate::person::screen::LEVELS.get(self as usize).copied().unwrap_or("off")
    }
}

impl Options {
    /// Merges two sets of options. Options in `there` override the same options in `self`.
    fn with(self, there: Self) -> Self {
        Self {
            arguments: there.arguments.or(self.arguments),
            form: there.form || self.form,
            task: there.task || self.task,
            detach: there.detach || self.detach,
            timeout: there.timeout.or(self.timeout),
            log_level: there.log_level.or(self.log_level),
            save: there.save.or(self.save),
        }
    }
}

impl Call {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        let person = Person::new(app, &self.target.server, &self.answering)?;
        let _watched = Watched(&person);
        let limits = HostLimits::default().with_rounds(self.rounds.max(1));
        let host = person.host(app, &self.answering)?.with_limits(limits);
        let connection = app.connect(&self.target, host).await?;
        let ended = Box::pin(self.call(app, &person, &connection)).await;
        person.ended(ended)
    }

    async fn call(&self, app: &App, person: &Person, connection: &Connection) -> Result<Outcome> {
        let Some((name, words)) = self.words.split_first() else {
            return Err(Misused("name a tool; `antiphon tools SERVER` lists them".into()).into());
        };
        let words = words.strip_prefix(&["--".to_owned()]).unwrap_or(words);
        let Some(tool) = find(connection, name, &self.target.server).await? else {
            return Ok(Outcome::Nothing);
        };
        let flags = Flag::all(&tool);
        let said = |arguments: Map<String, Value>| {
            flags::parse(&self.target.server, &tool, &flags, words, arguments)
        };
        let (_, after) = match said(Map::new())? {
            Words::Call(arguments, after) => (arguments, after),
            Words::Help(help) => {
                line(help.trim_end());
                return Ok(Outcome::Done);
            }
        };
        let json = app.json || after.json;
        let options = self.options.clone().with(after.options);
        let Words::Call(arguments, _) = said(arguments::read(options.arguments.as_deref()).await?)? else {
            return Ok(Outcome::Done);
        };
        let Some(arguments) = arguments::complete(person, name, &flags, arguments, options.form).await?
        else {
            eprintln!("the call was cancelled");
            return Ok(Outcome::Unanswered);
        };
        let level = options.log_level.unwrap_or(if app.verbose { LogLevel::Debug } else { LogLevel::Info });
        let making = follow::Making {
            server: &self.target,
            tool: &tool,
            arguments: Value::Object(arguments),
            as_task: options.task || options.detach,
            detach: options.detach,
            timeout: options.timeout,
            log_level: Some(level.name()).filter(|_| level != LogLevel::Off),
        };
        let ended = follow::call(connection, person, making).await;
        person.terminal().screen.finish();
        match ended.inspect_err(hint)? {
            Ended::Detached(id) => {
                print(json, &json!({"taskId": id}), || clean(&id));
                Ok(Outcome::Done)
            }
            Ended::Result(result) => {
                let outcome = print_result(connection, &result, json, options.save.as_deref(), name)?;
                if outcome == Outcome::ToolFailed {
                    self.hint_at_stderr(app, &result);
                }
                Ok(outcome)
            }
        }
    }

    /// If the error of the tool refers to the standard error of the server's program, prints how to see the standard
    /// error.
    fn hint_at_stderr(&self, app: &App, result: &CallToolResult) {
        let is_program = self.target.definition(&app.config).is_ok_and(|it| it.command.is_some());
        let mut texts = result.content.iter().filter_map(ContentBlock::as_text);
        if is_program && !app.verbose && texts.any(|text| text.text.contains(IN_STDERR)) {
            eprintln!("hint: `--verbose` shows the standard error output of the server");
        }
    }
}

/// The text by which the CLI recognizes an error that refers to the server's standard error, for example after a
/// panic.
const IN_STDERR: &str = "the standard error output of the server contains";

/// Prints a hint if the tool failed because this host has no model.
fn hint(error: &anyhow::Error) {
    let Some(HostError::Server { code: UNDECLARED, data: Some(data), .. }) = error.downcast_ref() else {
        return;
    };
    if data["requiredCapabilities"].get("sampling").is_some() {
        eprintln!(
            "hint: the tool needs a model; set one with `--model` or `--model-url`, or answer yourself with `--samples hand`"
        );
    }
}

/// Error code for a tool that requires a capability which this host did not declare.
const UNDECLARED: i32 = -32021;

/// Finds a tool by its name. If the tool does not exist, prints the names of the server's tools.
pub(crate) async fn find(connection: &Connection, name: &str, server: &str) -> Result<Option<Tool>> {
    let tools = connection.tools().await?;
    if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
        return Ok(Some(tool.clone()));
    }
    let names: Vec<String> = tools.iter().map(|tool| clean(&tool.name)).collect();
    let known = match names.as_slice() {
        [] => "the server has no tools".to_owned(),
        names if names.len() <= 12 => format!("the tools are {}", names.join(", ")),
        _ => format!("`antiphon tools {}` lists them", shell_words::quote(server)),
    };
    eprintln!("the tool `{}` does not exist; {known}", clean(name));
    Ok(None)
}
