//! `cargo xtask bench`: what Antiphon costs beside the bare engine, and what replay costs.

use std::process::Command;

use anyhow::Result;

use crate::project::{self, Profile, Project};

mod call;
mod client;
mod measure;
mod plot;
mod restate;
mod results;
mod snapshot;
mod store;
mod tasks;
mod transport;

const PACKAGE: &str = "antiphon-bench";

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Kind {
    /// A tool call over HTTP, ours beside bare rmcp, both revisions.
    Call(call::Options),
    /// Three steps and one wait on Restate, to be set beside ours; needs npm.
    #[command(hide = true)]
    Restate(restate::Options),
    /// A page of a result set, beside the same query on bare sqlx and axum; a stream of one, beside `curl`.
    Results(results::Options),
    /// Replaying a journal and sealing it.
    Replay,
    /// Snapshots beside the bare engines and PostgreSQL: ingest, pages, sort, queries, exports.
    Snapshot(snapshot::Options),
    /// Each operation of each store, beside the bare client sending the same command.
    Store(store::Options),
    /// Tasks: legs beside the bare queue, whole runs, and very many that wait.
    Tasks(tasks::Options),
    /// A tool call over each transport, beside the bare library echoing the same bytes.
    Transport(transport::Options),
}

/// Runs one benchmark.
pub(crate) fn main(kind: &Kind) -> Result<()> {
    let project = Project::open()?;
    match kind {
        Kind::Call(options) => call::main(&project, options),
        Kind::Replay => {
            let binary = project.build(PACKAGE, "replay-bench", Profile::Release)?;
            project::run(&mut Command::new(binary))
        }
        Kind::Restate(options) => restate::main(&project, options),
        Kind::Results(options) => results::main(&project, options),
        Kind::Snapshot(options) => snapshot::main(&project, options),
        Kind::Store(options) => store::main(&project, options),
        Kind::Tasks(options) => tasks::main(&project, options),
        Kind::Transport(options) => transport::main(&project, options),
    }
}
