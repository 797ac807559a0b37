//! `antiphon call`.

mod arguments;
mod duration;
pub(crate) mod flags;
pub(crate) mod follow;
mod media;
mod show;

use std::{path::PathBuf, time::Duration};

use antiphon_host::{Connection, Error as HostError, HostLimits, model::Tool};
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

/// Call a tool, and answer what it asks.
///
/// The tool's arguments are flags, made from its schema: `--name Ada --count 3 --dry-run --tag a --tag b
/// --address.city Bern`. What is neither text, number, yes or no, nor a list of those is given as JSON.
/// `antiphon call SERVER TOOL --help` shows the flags of a tool.
///
/// What follows TOOL is the tool's, first of all. Our own flags go before the server; those under `Options` are
/// understood after the tool as well, unless the tool has one of the same name.
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
    /// How often the tool may ask before it is given up.
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

/// How a call is made.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Options {
    /// The arguments as JSON: an object, `@file.json`, or `-` for standard input. Flags go over it.
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// Ask for every argument that was not given, not only for those that are missing.
    #[arg(long)]
    form: bool,
    /// Make it a task, say its id, and follow it.
    #[arg(long)]
    task: bool,
    /// Make it a task, print its id, and do not wait for it.
    #[arg(long)]
    detach: bool,
    /// How long each answer of the server may take, for example 500ms, 30s or 5m [default: without end].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Which lines of the server's log are shown: those at least as bad as this [default: info].
    #[arg(long, value_enum, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
    /// Where to keep images, audio and other files of the result.
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
}

/// What is understood after the tool as well.
#[derive(Clone, Debug, Args)]
pub(crate) struct After {
    /// Print JSON, for programs to read.
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
    /// What was said there, and otherwise here.
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
            eprintln!("not called");
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
            Ended::Result(result) => print_result(connection, &result, json, options.save.as_deref(), name),
        }
    }
}

/// What can be done here about an error of the tool's.
fn hint(error: &anyhow::Error) {
    let Some(HostError::Server { code: UNDECLARED, data: Some(data), .. }) = error.downcast_ref() else {
        return;
    };
    if data["requiredCapabilities"].get("sampling").is_some() {
        eprintln!("hint: the tool wants a model; choose one with `--model` or `--model-url`");
    }
}

/// The error of a tool that wants what this host has not declared.
const UNDECLARED: i32 = -32021;

/// A tool by its name; if there is none, says which there are.
pub(crate) async fn find(connection: &Connection, name: &str, server: &str) -> Result<Option<Tool>> {
    let tools = connection.tools().await?;
    if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
        return Ok(Some(tool.clone()));
    }
    let names: Vec<String> = tools.iter().map(|tool| clean(&tool.name)).collect();
    let known = match names.as_slice() {
        [] => "it has none".to_owned(),
        names if names.len() <= 12 => format!("it has {}", names.join(", ")),
        _ => format!("`antiphon tools {}` lists them", shell_words::quote(server)),
    };
    eprintln!("there is no tool `{}`; {known}", clean(name));
    Ok(None)
}
