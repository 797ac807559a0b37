//! The chores of this workspace; `cargo xtask --help` lists them.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to its user")]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

mod bench;
mod chaos;
mod conformance;
mod contract;
mod http;
mod interop;
mod mcp;
mod models;
mod project;
mod python;
mod requirements;
mod results;
mod server;
mod services;
mod studio;
mod table;
mod verify;
mod viewer;

/// The chores of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Measure ourselves beside the bare engine.
    #[command(subcommand)]
    Bench(bench::Kind),
    /// Break servers on purpose while clients work.
    #[command(subcommand)]
    Chaos(chaos::Kind),
    /// Run the official MCP conformance suite.
    #[command(subcommand)]
    Conformance(conformance::Leg),
    /// Hold every transport to the streaming contract, on both revisions.
    Contract,
    /// Talk to servers and clients of other makers, both ways.
    Interop(interop::Options),
    /// Serve the models that tests talk to, until Ctrl-C or while a command runs.
    Models(models::Options),
    /// Say which requirements are proven by tests that ran.
    Requirements,
    /// Describe the routes of result sets, and try them.
    #[command(subcommand)]
    Results(results::Kind),
    /// Run the servers that tests talk to: PostgreSQL, Redis, NATS, MariaDB.
    #[command(subcommand)]
    Services(services::Action),
    /// Play a game on the studio page, in a browser, against a model.
    Studio(studio::Options),
    /// Check everything a change must pass; this is what CI runs.
    Verify(verify::Options),
    /// Make the page that shows a result set, and try it in a browser.
    #[command(subcommand)]
    Viewer(viewer::Kind),
}

fn main() -> ExitCode {
    match run(&Chore::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: &Chore) -> Result<()> {
    match chore {
        Chore::Bench(kind) => bench::main(kind),
        Chore::Chaos(kind) => chaos::main(kind),
        Chore::Conformance(leg) => conformance::main(leg),
        Chore::Contract => contract::main(),
        Chore::Interop(options) => interop::main(options),
        Chore::Models(options) => models::main(options),
        Chore::Requirements => requirements::main(),
        Chore::Results(kind) => results::main(kind),
        Chore::Services(action) => services::main(action),
        Chore::Studio(options) => studio::main(options),
        Chore::Verify(options) => verify::main(options),
        Chore::Viewer(kind) => viewer::main(kind),
    }
}
