//! The `antiphon` command.
//!
//! Exit codes: 0 done, 1 failed, 2 misused, 3 there is no such run or there was nothing to do.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command prints")]

mod runs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// MCP tools that hold a conversation: the command for those who operate them.
#[derive(Debug, Parser)]
#[command(name = "antiphon", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Look at the runs of a server, try them again, cancel them, remove them.
    Runs(runs::Runs),
}

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no runtime can be had: {error}");
            return ExitCode::FAILURE;
        }
    };
    let Command::Runs(runs) = command;
    match runtime.block_on(runs.run()) {
        Ok(runs::Outcome::Done) => ExitCode::SUCCESS,
        Ok(runs::Outcome::Nothing) => ExitCode::from(3),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
