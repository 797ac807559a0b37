//! `cargo xtask bench compare`: calls, replay and tasks of this build beside those of an older build, in one run.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};

use super::call::{self, Side};
use super::figures::{Figure, RATE};
use super::measure::{SLICE, Spread};
use super::tasks::{Bench, Legs, Runs, Where};
use super::{PACKAGE, replay};
use crate::mcp;
use crate::project::{Profile, Project};
use crate::table::Table;

const WHO: &str = "before";

/// Options of `cargo xtask bench compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The folder with the release programs of the older build: `antiphon-echo`, `replay-bench` and `task-bench`.
    before: PathBuf,
    /// Seconds of load on each server and revision.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// How often replay and tasks of each build are measured, in turn.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many legs and runs each round of tasks has.
    #[arg(long, default_value_t = 800)]
    count: usize,
}

/// Both builds of a program.
struct Pair {
    before: PathBuf,
    now: PathBuf,
}

impl Pair {
    fn of(project: &Project, before: &Path, bin: &str) -> Result<Self> {
        let now = project.build(PACKAGE, bin, Profile::Release)?;
        Ok(Self { before: before.join(bin), now })
    }
}

pub(super) fn main(project: &Project, options: &Options) -> Result<Vec<Figure>> {
    let mut figures = calls(project, options)?;
    figures.extend(replays(project, options)?);
    figures.extend(tasks(project, options)?);
    Ok(figures)
}

fn calls(project: &Project, options: &Options) -> Result<Vec<Figure>> {
    let pair = Pair::of(project, &options.before, "antiphon-echo")?;
    let slices = usize::try_from(options.seconds.max(1) * 10)?;
    let log = project.target.join("bench").join("servers.log");
    let bar = ProgressBar::new(4 * slices as u64)
        .with_style(ProgressStyle::with_template("{bar:40} {pos}/{len} slices, {msg}")?);
    let mut table = Table::new(call::COLUMNS);
    let mut figures = Vec::new();
    for revision in [mcp::LEGACY, mcp::MODERN] {
        let start = |name, binary: &Path| Side::start(name, binary, &[], revision, 16, &log);
        let mut sides = vec![start(WHO, &pair.before)?, start("now", &pair.now)?];
        call::in_turn(&mut sides, revision, slices, &bar)?;
        for side in &sides {
            table.row(side.row(revision)?);
        }
        figures.push(sides[1].figure(&format!("a tool call at {revision}"), WHO, &sides[0])?);
    }
    bar.finish_and_clear();
    println!("16 connections, {slices} slices of {} ms each, in turn\n{table}", SLICE.as_millis());
    for figure in &figures {
        let (low, high) = figure.middle.unwrap_or_default();
        let ratio = figure.ratio.unwrap_or_default();
        println!("{}: CPU {ratio:.3} times (half of the pairs {low:.3} to {high:.3})", figure.name);
    }
    Ok(figures)
}

fn replays(project: &Project, options: &Options) -> Result<Vec<Figure>> {
    let pair = Pair::of(project, &options.before, "replay-bench")?;
    let mut runs = Vec::new();
    for round in 0..options.rounds {
        eprintln!("replay, round {} of {}", round + 1, options.rounds);
        runs.push((replay::run(&pair.before)?, replay::run(&pair.now)?));
    }
    let mut table = Table::new(["leg after", "before µs", "now µs", "ratio", "half of the pairs"]);
    let mut figures = Vec::new();
    let (_, first) = runs.first().context("no round was measured")?;
    for (number, leg) in first.legs.iter().enumerate() {
        let name = format!("{} steps, {} answers", leg.steps, leg.answers);
        let times =
            runs.iter().map(|(before, now)| Some((before.legs.get(number)?.time, now.legs[number].time)));
        let times: Option<Vec<_>> = times.collect();
        let figure = compared(
            format!("a leg after {name}"),
            "µs",
            &times.context("the older build has no such leg")?,
        )?;
        table.row(row(name, &figure));
        figures.push(figure);
    }
    println!("replay, medians of {} rounds in turn\n{table}", options.rounds);
    Ok(figures)
}

fn tasks(project: &Project, options: &Options) -> Result<Vec<Figure>> {
    let pair = Pair::of(project, &options.before, "task-bench")?;
    let builds = [&pair.before, &pair.now].map(|binary| Bench { project, binary: binary.clone() });
    let mut table = Table::new(["a second", "before", "now", "ratio", "half of the pairs"]);
    let mut figures = Vec::new();
    for place in Where::ALL {
        let (mut legs, mut runs) = (Vec::new(), Vec::new());
        for round in 0..options.rounds {
            eprintln!("tasks, {}, round {} of {}", place.name(), round + 1, options.rounds);
            let [before, now] = builds.each_ref().map(|bench| {
                bench.on(place, |url| {
                    let legs: Legs = bench.measure(url, "legs", options.count)?;
                    let runs: Runs = bench.measure(url, "runs", options.count)?;
                    Ok((legs.ours, runs.rate))
                })
            });
            let (before, now) = (before?, now?);
            legs.push((before.0, now.0));
            runs.push((before.1, now.1));
        }
        for (kind, pairs) in [("legs", legs), ("runs of two legs", runs)] {
            let name = format!("{}: {kind}", place.name());
            let figure = compared(name.clone(), RATE, &pairs)?;
            table.row(row(name, &figure));
            figures.push(figure);
        }
    }
    println!("tasks, medians of {} rounds in turn, a fresh store in each\n{table}", options.rounds);
    Ok(figures)
}

/// Compares pairs of the older and this build: the medians of both, and the median of the ratios.
fn compared(name: String, unit: &str, pairs: &[(f64, f64)]) -> Result<Figure> {
    let middle = |values: Vec<f64>| Spread::of(values).context("no round was measured");
    let before = middle(pairs.iter().map(|pair| pair.0).collect())?.median;
    let now = middle(pairs.iter().map(|pair| pair.1).collect())?.median;
    let ratio = middle(pairs.iter().map(|(before, now)| now / before).collect())?;
    Ok(Figure::new(name, unit, now).beside(WHO, before).paired(&ratio))
}

fn row(name: String, figure: &Figure) -> [String; 5] {
    let (low, high) = figure.middle.unwrap_or_default();
    [
        name,
        format!("{:.0}", figure.bare.unwrap_or_default()),
        format!("{:.0}", figure.ours),
        format!("{:.2}", figure.ratio.unwrap_or_default()),
        format!("{low:.2} to {high:.2}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_the_median_of_the_pairs() {
        let figure = compared("legs".into(), RATE, &[(10.0, 20.0), (20.0, 20.0), (40.0, 60.0)]).unwrap();
        assert_eq!((figure.bare, figure.ours, figure.ratio), (Some(20.0), 20.0, Some(1.5)));
        assert!(compared("legs".into(), RATE, &[]).is_err());
    }
}
