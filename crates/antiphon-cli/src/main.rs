//! The `antiphon` CLI.
#![expect(clippy::print_stderr, reason = "a command prints")]

mod call;
mod completions;
mod config;
mod connect;
mod dev;
mod doctor;
mod doorway;
mod exit;
mod global;
mod install;
mod new;
mod pack;
mod person;
mod print;
mod prompts;
#[cfg(test)]
mod reference;
mod resources;
mod results;
mod runs;
mod seal;
mod secrets;
mod serve;
mod stdin;
mod studio;
mod target;
mod tasks;
mod tools;

use std::process::ExitCode;

use clap::{
    Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{
    exit::Outcome,
    global::{App, Global},
};

/// Call the tools of MCP servers, answer their questions, and inspect results and runs.
#[derive(Debug, Parser)]
#[command(name = "antiphon", version, after_long_help = exit::HELP, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Connect(connect::Connect),
    Tools(tools::Tools),
    Call(call::Call),
    Prompts(prompts::Prompts),
    Resources(resources::Resources),
    Tasks(tasks::Tasks),
    Results(results::Results),
    Doctor(doctor::Doctor),
    Studio(studio::Studio),
    Runs(runs::Runs),
    Seal(seal::Seal),
    New(new::New),
    Dev(dev::Dev),
    Pack(pack::Pack),
    Install(install::Install),
    Uninstall(install::Uninstall),
    Serve(serve::Serve),
    Completions(completions::Completions),
}

impl Command {
    async fn run(self, app: &App) -> anyhow::Result<Outcome> {
        match self {
            Self::Connect(command) => command.run(app).await,
            Self::Tools(command) => command.run(app).await,
            Self::Call(command) => command.run(app).await,
            Self::Prompts(command) => command.run(app).await,
            Self::Resources(command) => command.run(app).await,
            Self::Tasks(command) => command.run(app).await,
            Self::Results(command) => command.run(app).await,
            Self::Doctor(command) => command.run(app).await,
            Self::Studio(command) => command.run(app).await,
            Self::Runs(command) => command.run(app).await,
            Self::Seal(command) => command.run(app).await,
            Self::New(command) => command.run(app),
            Self::Dev(command) => Box::pin(command.run(app)).await,
            Self::Pack(command) => command.run(app),
            Self::Install(command) => command.run(app),
            Self::Uninstall(command) => command.run(app),
            Self::Serve(command) => Box::pin(command.run(app)).await,
            Self::Completions(command) => Ok(command.run()),
        }
    }
}

/// Adds a hint to a usage error if the user has used the syntax of another command.
fn advised(mut error: clap::Error) -> clap::Error {
    let command = std::env::args_os().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"));
    let tip = match (error.kind(), command.as_deref().and_then(std::ffi::OsStr::to_str)) {
        (ErrorKind::UnknownArgument, Some("prompts")) => {
            "write the arguments of a prompt as '--arg NAME=VALUE'"
        }
        (ErrorKind::InvalidSubcommand, Some("tasks")) => {
            "'antiphon tasks list SERVER' lists the tasks of a server"
        }
        _ => return error,
    };
    // If clap found a name with the same first letter, the user probably made a typo.
    let first = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => name.trim_start_matches('-').chars().next(),
        _ => None,
    };
    let suggested = first(ContextKind::SuggestedArg);
    if error.get(ContextKind::SuggestedSubcommand).is_some()
        || suggested.is_some() && suggested == first(ContextKind::InvalidArg)
    {
        return error;
    }
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

fn main() -> ExitCode {
    let Arguments { global, command } = Arguments::try_parse().unwrap_or_else(|error| advised(error).exit());
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::failed(&error.into()),
    };
    let ended = App::new(global).and_then(|app| {
        runtime.block_on(async {
            tokio::select! {
                // Poll Ctrl-C first, so that its handler is installed before the command creates files that it must
                // remove.
                biased;
                _ = tokio::signal::ctrl_c() => Ok(Outcome::Interrupted),
                ended = command.run(&app) => ended,
            }
        })
    });
    // A form can still wait for the terminal in a blocking thread. Do not wait for this thread.
    runtime.shutdown_background();
    match ended {
        Ok(_) if print::is_lost() => ExitCode::FAILURE,
        Ok(outcome) => outcome.into(),
        Err(error) => exit::failed(&error),
    }
}
