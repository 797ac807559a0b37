//! `cargo xtask results`: the routes of result sets, as others see them.

mod fuzz;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::project::{self, Project};

/// What to do with the routes.
#[derive(Debug, Subcommand)]
pub(crate) enum Kind {
    /// Ask everything the document allows, and everything it does not, of a real server.
    Fuzz(Options),
}

/// How hard to try.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many requests at least.
    #[arg(long, default_value_t = 5000)]
    cases: u64,
}

pub(crate) fn main(kind: &Kind) -> Result<()> {
    let project = Project::open()?;
    match kind {
        Kind::Fuzz(options) => fuzz::main(&project, options.cases),
    }
}

fn document_path(project: &Project) -> PathBuf {
    project.root.join("crates/antiphon-results/openapi.json")
}

/// Builds the server that is fuzzed, and returns its path.
fn build(project: &Project) -> Result<PathBuf> {
    let mut command = project::cargo();
    command.args(["build", "--quiet", "--package", "antiphon-results", "--features", "rest"]);
    project::run(command.args(["--example", "fuzzed"]).current_dir(&project.root))?;
    Ok(project.target.join("debug/examples").join(format!("fuzzed{}", std::env::consts::EXE_SUFFIX)))
}
