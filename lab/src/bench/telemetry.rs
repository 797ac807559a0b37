//! `cargo xtask bench telemetry`: what it costs a server to tell what it does.

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use super::PACKAGE;
use super::call::{COLUMNS, Side, in_turn};
use super::figures::{Asked, Figure};
use super::measure::Spread;
use crate::mcp;
use crate::project::{Profile, Project};
use crate::table::Table;

/// The same server three times: silent, counting, and counting and tracing.
const SIDES: [(&str, &[&str]); 3] =
    [("off", &[]), ("metrics", &["--telemetry", "metrics"]), ("spans", &["--telemetry", "spans"])];

/// Options of `cargo xtask bench telemetry`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds of load on each side and revision.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Connections that call back to back.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Fail when spans and metrics together cost more than this factor of a silent server.
    #[arg(long)]
    pub(super) limit: Option<f64>,
}

/// Measures all sides on both revisions.
pub(super) fn main(project: &Project, options: &Options) -> Result<Vec<Figure>> {
    let slices = usize::try_from(options.seconds.max(1) * 10)?;
    let log = project.target.join("bench").join("servers.log");
    let binary = project.build(PACKAGE, "antiphon-echo", Profile::Release)?;
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} slices, {msg}")?;
    let bar = ProgressBar::new(2 * SIDES.len() as u64 * slices as u64).with_style(style);
    let mut table = Table::new(COLUMNS);
    let mut figures = Vec::new();
    let mut ratios = Vec::new();
    for revision in [mcp::LEGACY, mcp::MODERN] {
        let mut sides = Vec::new();
        for (name, arguments) in SIDES {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            sides.push(Side::start(name, &binary, &arguments, revision, options.connections, &log)?);
        }
        in_turn(&mut sides, revision, slices, &bar)?;
        for side in &sides {
            table.row(side.row(revision)?);
        }
        for ((name, _), side) in SIDES.into_iter().zip(&sides).skip(1) {
            let call = format!("a tool call with {name} at {revision}");
            let figure = side.figure(&call, "the same server in silence", &sides[0])?;
            figures.push(figure.asked(options.limit.map(Asked::RatioAtMost)).sizing(call));
            ratios.push((revision, name, side.beside(&sides[0])?));
        }
    }
    bar.finish_and_clear();
    println!("{} connections, {slices} slices each, in turn\n{table}", options.connections);
    println!("`spans` counts as well, and hands every span to an exporter that drops it.");
    for (revision, name, Spread { low, median, high }) in ratios {
        println!(
            "{revision}: CPU per request with {name} {median:.3} times that of a silent server (half of the pairs {low:.3} to {high:.3})"
        );
    }
    Ok(figures)
}
