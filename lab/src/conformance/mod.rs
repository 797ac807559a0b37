//! `cargo xtask conformance`: the official MCP suite against our everything-server and everything-client, and a guarded
//! server with somebody else's authorization server.

mod auth;
mod client;
mod report;
mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::project::{self, Project};

/// The revisions the suite scores.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Which side of the protocol is tested.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Leg {
    /// Test a server: our everything-server, or any other by its address.
    Server {
        /// Test the server at this address instead of starting ours.
        #[arg(long)]
        url: Option<String>,
    },
    /// Test a guarded server with a real authorization server, and our host as its client.
    Auth,
    /// Test our everything-client: each revision's set at once, then each scenario by itself.
    Client,
    /// Print the scenarios that passed in the last run, one a line: for `cargo xtask requirements`.
    #[command(hide = true)]
    Passed,
    /// Run one client when it is its turn; the suite starts them all at once.
    #[command(hide = true)]
    Turn(client::Turn),
}

/// Which side is under test.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Server,
    Client,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }

    /// How many scenarios the revision scores. Pinned so that a suite which silently runs less is noticed.
    fn count(self, revision: &str) -> usize {
        match (self, revision) {
            (Self::Server, "2025-11-25") => 30,
            (Self::Server, _) => 37,
            (Self::Client, "2025-11-25") => 18,
            (Self::Client, _) => 32,
        }
    }
}

/// Runs one leg of the suite.
pub(crate) fn main(leg: &Leg) -> Result<()> {
    match leg {
        Leg::Server { url } => server::main(url.as_deref()),
        Leg::Auth => auth::main(),
        Leg::Client => client::main(),
        Leg::Passed => print_passed(),
        Leg::Turn(turn) => turn.run(),
    }
}

/// Prints the scenarios, scored or not, that passed in the last run: a server's as `revision/scenario`, a client's
/// as `client/revision/scenario`.
fn print_passed() -> Result<()> {
    let project = Project::open()?;
    for scenario in client::passed(&project)?.into_iter().chain(server::passed(&project)?) {
        println!("{scenario}");
    }
    Ok(())
}

/// Where the reports of the last run are.
fn results_folder(project: &Project, side: Side) -> PathBuf {
    project.target.join("conformance").join(side.name())
}

/// An empty folder for reports.
fn fresh_results(project: &Project, side: Side) -> Result<PathBuf> {
    let results = results_folder(project, side);
    if results.exists() {
        fs::remove_dir_all(&results).with_context(|| format!("could not clear {}", results.display()))?;
    }
    fs::create_dir_all(&results)?;
    Ok(results)
}

/// The suite's own output sits beside its reports.
fn suite_log(output: &Path) -> PathBuf {
    output.with_extension("log")
}

/// Prints what is wrong, and the sum.
fn conclude(passed: usize, complaints: &[String], results: &Path) -> Result<()> {
    println!();
    for complaint in complaints {
        println!("{complaint}");
    }
    println!("{passed} passed, {} failed", complaints.len());
    ensure!(complaints.is_empty(), "the suite is not satisfied; its reports are in {}", results.display());
    Ok(())
}

#[derive(Debug)]
struct Suite {
    folder: PathBuf,
    bin: PathBuf,
}

impl Suite {
    fn install(project: &Project) -> Result<Self> {
        let folder = project.root.join("lab").join("conformance").join("suite");
        let bin = project::npm_install(&folder)?;
        Ok(Self { folder, bin })
    }

    /// Runs the suite; true when it was content.
    fn run(&self, arguments: &[&str], output: &Path) -> Result<bool> {
        fs::create_dir_all(output)?;
        let log = fs::File::create(suite_log(output))?;
        // The suite needs the Node of its own folder: with Node 20 it does not even load.
        let status = Command::new(self.bin.join("conformance"))
            .env("PATH", project::path_with(&self.bin)?)
            .args(arguments)
            .arg("--output-dir")
            .arg(output)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .status()
            .context("could not start the suite; remove lab/conformance/suite/node_modules and try again")?;
        Ok(status.success())
    }

    /// Runs the requirement set of `revision`; true when the suite was content.
    fn run_set(&self, arguments: &[&str], revision: &str, output: &Path) -> Result<bool> {
        eprintln!("running the suite at {revision}");
        // Even an empty baseline makes the suite count warnings as failures.
        let baseline = self.folder.join("baseline.yml");
        let baseline = baseline.to_str().context("the workspace's path is not UTF-8")?;
        let set = ["--requirements", revision, "--expected-failures", baseline];
        self.run(&[arguments, &set].concat(), output)
    }

    fn scored(&self, revision: &str, side: Side) -> Result<Vec<String>> {
        let file = self
            .folder
            .join("node_modules/@modelcontextprotocol/conformance/requirements")
            .join(format!("{revision}.yaml"));
        let text = fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
        Ok(report::yaml_list(&text, side.name()))
    }
}
