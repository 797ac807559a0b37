//! The commands of the package `lab`. `cargo xtask` builds that package only for them.

use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

use crate::project;

/// The commands that are the laboratory's. A test of `lab` compares names and descriptions.
#[derive(Debug, clap::Subcommand)]
pub enum Lab {
    /// Answer questions in hosts that do not show them, with the server's form in a browser.
    #[command(disable_help_flag = true)]
    Asking(Arguments),
    /// Measure ourselves beside the bare engine; without a kind, everything.
    #[command(disable_help_flag = true)]
    Bench(Arguments),
    /// Break servers on purpose while clients work.
    #[command(disable_help_flag = true)]
    Chaos(Arguments),
    /// Run the official MCP conformance suite.
    #[command(disable_help_flag = true)]
    Conformance(Arguments),
    /// Check the files in `deploy/` with validators of Kubernetes, Compose, nginx and Prometheus.
    #[command(disable_help_flag = true)]
    Deploy(Arguments),
    /// Install the npm and Python packages that the other commands need, before they need them.
    #[command(disable_help_flag = true)]
    Fetch(Arguments),
    /// Run the shipped programs the way users leave them: alone, restarted, upgraded, short of memory.
    #[command(disable_help_flag = true)]
    Field(Arguments),
    /// Feed what reads from outside with whatever may come, for a while.
    #[command(disable_help_flag = true)]
    Fuzz(Arguments),
    /// Run open-source hosts with a scripted model against a server whose tools ask users.
    #[command(disable_help_flag = true)]
    Hosts(Arguments),
    /// Talk to servers and clients of other makers, both ways.
    #[command(disable_help_flag = true)]
    Interop(Arguments),
    /// Serve the models that tests talk to, until Ctrl-C or while a command runs.
    #[command(disable_help_flag = true)]
    Models(Arguments),
    /// Convert large public OpenAPI documents into tools.
    #[command(disable_help_flag = true)]
    Openapi(Arguments),
    /// Pack the `antiphon` CLI as archive, wheel and npm packages, and try them.
    #[command(disable_help_flag = true)]
    Package(Arguments),
    /// Describe the routes of result sets, and try them.
    #[command(disable_help_flag = true)]
    Results(Arguments),
    /// Run the servers that tests talk to: PostgreSQL, Redis, NATS, MariaDB.
    #[command(disable_help_flag = true)]
    Services(Arguments),
    /// Simulate the task engine in virtual time, with processes that die and stall and a backend that fails.
    #[command(disable_help_flag = true)]
    Simulate(Arguments),
    /// Load three replicas for an hour, break something every minute, and see whether anything is lost.
    #[command(disable_help_flag = true)]
    Soak(Arguments),
    /// Play a game and approve a refund on the studio page, in a browser, against a model.
    #[command(disable_help_flag = true)]
    Studio(Arguments),
    /// Run contract tests and chaos on servers that replicate, while their leader fails.
    #[command(disable_help_flag = true)]
    Topologies(Arguments),
    /// Make the page that shows a result set, and try it in a browser.
    #[command(disable_help_flag = true)]
    Viewer(Arguments),
}

/// What `lab` parses.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Passed on as they are.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Starts `lab` with the arguments of this process, and ends as it ends.
///
/// # Errors
///
/// Returns an error if cargo cannot be started.
pub fn run() -> Result<ExitCode> {
    let status = command().args(env::args_os().skip(1)).status().context("could not start cargo")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// `lab`, built if it has to be. It runs in the folder of the caller.
pub fn command() -> Command {
    let mut command = project::cargo();
    command.args(["run", "--quiet", "--package", "lab", "--"]);
    command
}
