//! The chores of this workspace; `cargo xtask --help` lists them.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to its user")]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

mod bench;
mod book;
mod chaos;
mod conformance;
mod contract;
#[cfg(test)]
mod deploy;
mod events;
mod field;
mod fuzz;
mod http;
mod interop;
mod layers;
mod mcp;
mod models;
mod place;
mod proc;
mod project;
mod python;
mod reference;
mod release;
mod requirements;
mod results;
mod server;
mod services;
mod soak;
mod source;
mod studio;
mod table;
mod threats;
mod verify;
mod viewer;
#[cfg(test)]
mod workflow;

/// The chores of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Measure ourselves beside the bare engine; without a kind, everything.
    Bench(bench::Choice),
    /// Look after the book in `docs/`.
    #[command(subcommand)]
    Book(book::Action),
    /// Break servers on purpose while clients work.
    #[command(subcommand)]
    Chaos(chaos::Kind),
    /// Run the official MCP conformance suite.
    #[command(subcommand)]
    Conformance(conformance::Leg),
    /// Hold every transport to the streaming contract, on both revisions.
    Contract,
    /// Check each feature of each crate alone.
    Features,
    /// Run the shipped programs the way users leave them: alone, restarted, upgraded, short of memory.
    Field(field::Options),
    /// Feed what reads from outside with whatever may come, for a while.
    Fuzz(fuzz::Options),
    /// Talk to servers and clients of other makers, both ways.
    Interop(interop::Options),
    /// Show which modules import each other, and reject more such imports than the baseline allows.
    Layers(layers::Options),
    /// Serve the models that tests talk to, until Ctrl-C or while a command runs.
    Models(models::Options),
    /// Write the pages that enumerate: features, configuration, errors, what is on the wire, what is public.
    Reference(reference::Options),
    /// Check what a release must pass; publish nothing.
    Release(release::Options),
    /// Say which requirements are proven by tests that ran.
    Requirements,
    /// Describe the routes of result sets, and try them.
    #[command(subcommand)]
    Results(results::Kind),
    /// Run the servers that tests talk to: PostgreSQL, Redis, NATS, MariaDB.
    #[command(subcommand)]
    Services(services::Action),
    /// Load three replicas for an hour, break something every minute, and see whether anything is lost.
    Soak(soak::Options),
    /// Play a game on the studio page, in a browser, against a model.
    Studio(studio::Options),
    /// Say which attacks are stopped, and by which tests.
    Threats,
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
        Chore::Bench(choice) => bench::main(choice),
        Chore::Book(action) => book::main(action),
        Chore::Chaos(kind) => chaos::main(kind),
        Chore::Conformance(leg) => conformance::main(leg),
        Chore::Contract => contract::main(),
        Chore::Features => verify::features_alone(),
        Chore::Field(options) => field::main(options),
        Chore::Fuzz(options) => fuzz::main(options),
        Chore::Interop(options) => interop::main(options),
        Chore::Layers(options) => layers::main(options),
        Chore::Models(options) => models::main(options),
        Chore::Reference(options) => reference::main(options),
        Chore::Release(options) => release::main(options),
        Chore::Requirements => requirements::main(),
        Chore::Results(kind) => results::main(kind),
        Chore::Services(action) => services::main(action),
        Chore::Soak(options) => soak::main(options),
        Chore::Studio(options) => studio::main(options),
        Chore::Threats => threats::main(),
        Chore::Verify(options) => verify::main(options),
        Chore::Viewer(kind) => viewer::main(kind),
    }
}
