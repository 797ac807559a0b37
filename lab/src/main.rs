//! What is measured, broken, soaked and compared. `cargo xtask` starts these commands by the same names.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to its user")]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use xtask::{project, table};

mod asking;
mod bench;
mod chaos;
mod conformance;
mod deploy;
mod events;
mod fetch;
mod field;
mod fixtures;
mod fuzz;
mod hosts;
mod http;
mod interop;
mod mcp;
mod models;
mod openapi;
mod package;
mod picture;
mod place;
mod proc;
mod python;
mod results;
mod server;
mod services;
mod simulate;
mod soak;
mod studio;
mod topologies;
mod viewer;

/// The laboratory of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Lab {
    /// Answer questions in hosts that do not show them, with the server's form in a browser.
    Asking(asking::Options),
    /// Measure ourselves beside the bare engine; without a kind, everything.
    Bench(bench::Choice),
    /// Break servers on purpose while clients work.
    #[command(subcommand)]
    Chaos(chaos::Kind),
    /// Run the official MCP conformance suite.
    #[command(subcommand)]
    Conformance(conformance::Leg),
    /// Check the files in `deploy/` with validators of Kubernetes, Compose, nginx and Prometheus.
    Deploy,
    /// Install the npm and Python packages that the other commands need, before they need them.
    Fetch,
    /// Run the shipped programs the way users leave them: alone, restarted, upgraded, short of memory.
    Field(field::Options),
    /// Start what tests talk to, print it as JSON, and stop it when standard input ends: for `cargo xtask verify`.
    #[command(hide = true)]
    Fixtures,
    /// Feed what reads from outside with whatever may come, for a while.
    Fuzz(fuzz::Options),
    /// Run open-source hosts with a scripted model against a server whose tools ask users.
    Hosts(hosts::Options),
    /// Talk to servers and clients of other makers, both ways.
    Interop(interop::Options),
    /// Serve the models that tests talk to, until Ctrl-C or while a command runs.
    Models(models::Options),
    /// Convert large public OpenAPI documents into tools.
    Openapi(openapi::Options),
    /// Pack the `antiphon` CLI as archive, wheel and npm packages, and try them.
    Package(package::Options),
    /// Describe the routes of result sets, and try them.
    #[command(subcommand)]
    Results(results::Kind),
    /// Run the servers that tests talk to: PostgreSQL, Redis, NATS, MariaDB.
    #[command(subcommand)]
    Services(services::Action),
    /// Simulate the task engine in virtual time, with processes that die and stall and a backend that fails.
    Simulate(simulate::Options),
    /// Load three replicas for an hour, break something every minute, and see whether anything is lost.
    Soak(soak::Options),
    /// Play a game and approve a refund on the studio page, in a browser, against a model.
    Studio(studio::Options),
    /// Run contract tests and chaos on servers that replicate, while their leader fails.
    Topologies(topologies::Options),
    /// Make the page that shows a result set, and try it in a browser.
    #[command(subcommand)]
    Viewer(viewer::Kind),
}

fn main() -> ExitCode {
    match run(&Lab::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Lab) -> Result<()> {
    match command {
        Lab::Asking(options) => asking::main(options),
        Lab::Bench(choice) => bench::main(choice),
        Lab::Chaos(kind) => chaos::main(kind),
        Lab::Conformance(leg) => conformance::main(leg),
        Lab::Deploy => deploy::main(),
        Lab::Fetch => fetch::main(),
        Lab::Field(options) => field::main(options),
        Lab::Fixtures => fixtures::main(),
        Lab::Fuzz(options) => fuzz::main(options),
        Lab::Hosts(options) => hosts::main(options),
        Lab::Interop(options) => interop::main(options),
        Lab::Models(options) => models::main(options),
        Lab::Openapi(options) => openapi::main(options),
        Lab::Package(options) => package::main(options),
        Lab::Results(kind) => results::main(kind),
        Lab::Services(action) => services::main(action),
        Lab::Simulate(options) => simulate::main(options),
        Lab::Soak(options) => soak::main(options),
        Lab::Studio(options) => studio::main(options),
        Lab::Topologies(options) => topologies::main(options),
        Lab::Viewer(kind) => viewer::main(kind),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Subcommand as _};

    use super::*;

    /// The files whose `cargo xtask …` lines run.
    const RUN: [&str; 4] = [
        include_str!("../../.ci/run"),
        include_str!("../../.github/workflows/ci.yml"),
        include_str!("../../.github/workflows/nightly.yml"),
        include_str!("../../.github/workflows/release.yml"),
    ];

    fn listed(command: &clap::Command) -> Vec<(String, String)> {
        let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
        let about = |it: &clap::Command| it.get_about().map(ToString::to_string).unwrap_or_default();
        shown.map(|it| (it.get_name().to_owned(), about(it))).collect()
    }

    #[test]
    fn xtask_lists_every_command() {
        let started = xtask::lab::Lab::augment_subcommands(clap::Command::new("xtask"));
        assert_eq!(listed(&started), listed(&Lab::command()));
    }

    /// `cargo xtask` passes these arguments on without reading them.
    #[test]
    fn every_command_of_the_workflows_is_one() {
        let names: Vec<String> = listed(&Lab::command()).into_iter().map(|(name, _)| name).collect();
        let lines = RUN.into_iter().flat_map(str::lines).filter_map(|line| line.split_once("cargo xtask "));
        let run =
            lines.filter(|(before, _)| before.trim_start().starts_with("run ") || before.contains("run:"));
        let mut parsed = 0;
        for (_, line) in run {
            let line = line.replace("\"${{ matrix.backend }}\"", "nats");
            let line = line.replace("\"$topology\"", "nats-cluster");
            let line = line.replace("\"${{ github.run_id }}000000\"", "1000000");
            let line = line.replace("\"${{ matrix.topology }}\"", "nats-cluster");
            if names.iter().any(|name| line.split_whitespace().next() == Some(name)) {
                let words = ["xtask"].into_iter().chain(line.split_whitespace());
                Lab::try_parse_from(words).unwrap_or_else(|error| panic!("`cargo xtask {line}`: {error}"));
                parsed += 1;
            }
        }
        assert!(parsed > 20, "only {parsed} were found");
    }
}
