//! `cargo xtask bench`: what Antiphon costs beside the bare engine, and what replay costs.

use std::env;
use std::process::Command;

use anyhow::{Result, ensure};

use self::figures::Figure;
use crate::project::{self, Profile, Project};

mod bars;
mod call;
mod client;
mod compare;
mod figures;
mod measure;
mod plot;
mod replay;
mod report;
mod restate;
mod results;
mod snapshot;
mod store;
mod tasks;
mod telemetry;
mod transport;

pub(crate) use self::measure::as_f64;

const PACKAGE: &str = "lab";

/// One kind, or with none all of them: `report`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Choice {
    #[command(subcommand)]
    kind: Option<Kind>,
    #[command(flatten)]
    report: report::Options,
}

/// What to measure.
#[derive(Debug, clap::Subcommand)]
enum Kind {
    /// A tool call over HTTP, ours beside bare rmcp, both revisions.
    Call(call::Options),
    /// Calls, replay and tasks of this build, beside those of an older build.
    Compare(compare::Options),
    /// All of it, one kind after the other, written to `docs/benchmarks.md`.
    Report(report::Options),
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
    /// A tool call with telemetry off, with metrics, and with spans as well.
    Telemetry(telemetry::Options),
    /// A tool call over each transport, beside the bare library echoing the same bytes.
    Transport(transport::Options),
}

impl Kind {
    /// Whether a figure that is not reached is a failure.
    fn is_strict(&self) -> bool {
        match self {
            Self::Call(options) => options.limit.is_some(),
            Self::Results(options) => options.strict,
            Self::Snapshot(options) => options.strict,
            Self::Store(options) => options.limit.is_some(),
            Self::Tasks(options) => options.strict,
            Self::Telemetry(options) => options.limit.is_some(),
            Self::Compare(_) | Self::Report(_) | Self::Restate(_) | Self::Replay | Self::Transport(_) => {
                false
            }
        }
    }
}

impl Choice {
    /// Whether our own client must be fast: one slower than the servers would be what is measured.
    fn needs_release(&self) -> bool {
        match &self.kind {
            None => !self.report.render,
            Some(Kind::Report(report)) => !report.render,
            Some(kind) => matches!(kind, Kind::Transport(_)),
        }
    }
}

/// Runs one benchmark, or all.
pub(crate) fn main(choice: &Choice) -> Result<()> {
    let project = Project::open()?;
    if cfg!(debug_assertions) && choice.needs_release() {
        let fast = project.build("lab", "lab", Profile::Release)?;
        return project::run(Command::new(fast).args(env::args_os().skip(1)));
    }
    let kind = match &choice.kind {
        None => return report::main(&project, &choice.report),
        Some(Kind::Report(report)) => return report::main(&project, report),
        Some(kind) => kind,
    };
    let missed = figures::missed(&measure(&project, kind)?);
    if kind.is_strict() {
        ensure!(missed.is_empty(), "not reached: {}", missed.join("; "));
    }
    Ok(())
}

/// Measures one kind, prints it, and returns it as data.
fn measure(project: &Project, kind: &Kind) -> Result<Vec<Figure>> {
    match kind {
        Kind::Call(options) => call::main(project, options),
        Kind::Compare(options) => compare::main(project, options),
        Kind::Replay => replay::main(project),
        Kind::Report(_) => anyhow::bail!("a report measures the other kinds"),
        Kind::Restate(options) => restate::main(project, options).map(|()| Vec::new()),
        Kind::Results(options) => results::main(project, options),
        Kind::Snapshot(options) => snapshot::main(project, options),
        Kind::Store(options) => store::main(project, options),
        Kind::Tasks(options) => tasks::main(project, options),
        Kind::Telemetry(options) => telemetry::main(project, options),
        Kind::Transport(options) => transport::main(project, options),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use crate::Lab;

    #[test]
    fn without_a_kind_everything_is_measured() {
        Lab::command().debug_assert();
        let kind = |line: &str| match Lab::try_parse_from(line.split(' ')) {
            Ok(Lab::Bench(choice)) => Ok((choice.kind.is_some(), choice.needs_release())),
            other => Err(format!("{other:?}")),
        };
        assert_eq!(kind("xtask bench"), Ok((false, true)));
        assert_eq!(kind("xtask bench --only call,store --quick"), Ok((false, true)));
        assert_eq!(kind("xtask bench report --only call"), Ok((true, true)));
        assert_eq!(kind("xtask bench --render"), Ok((false, false)));
        assert_eq!(kind("xtask bench call --seconds 1"), Ok((true, false)));
        assert!(kind("xtask bench --only nothing").is_err());
        assert!(kind("xtask bench --quick call").is_err());
    }
}
