//! `cargo xtask bench replay`: what it takes to bring a run back, what it travels as, what it leaves behind.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::PACKAGE;
use super::figures::{Asked, Figure};
use crate::project::{self, Profile, Project};
use crate::table::Table;

/// What `replay-bench` prints. Times are microseconds.
#[derive(Debug, Deserialize)]
pub(super) struct Said {
    tries: usize,
    /// A leg with nothing to replay.
    empty: f64,
    pub(super) legs: Vec<Leg>,
    machine_steps: usize,
    machine: f64,
    /// How many runs were left suspended, and how much larger the process was then.
    runs: usize,
    added_bytes: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Leg {
    pub(super) steps: usize,
    pub(super) answers: usize,
    #[serde(rename = "leg")]
    pub(super) time: f64,
    /// Of `requestState`.
    bytes: f64,
}

/// Measures in one process, without a transport.
pub(super) fn main(project: &Project) -> Result<Vec<Figure>> {
    let binary = project.build(PACKAGE, "replay-bench", Profile::Release)?;
    let said = run(&binary)?;
    let mut table = Table::new(["steps", "answers", "leg µs", "replay µs", "requestState"]);
    for leg in &said.legs {
        table.row([
            leg.steps.to_string(),
            leg.answers.to_string(),
            format!("{:.0}", leg.time),
            format!("{:.0}", (leg.time - said.empty).max(0.0)),
            format!("{:.0} B", leg.bytes),
        ]);
    }
    println!(
        "a leg, from request to answer, by what there is to replay (shortest of {})\n{table}",
        said.tries
    );
    println!(
        "Replay is the leg less one with an empty journal; it includes opening the seal and reading the journal."
    );
    println!("the machine alone, {} steps: {:.0} µs", said.machine_steps, said.machine);
    println!("{} suspended runs add {:.0} KiB to the process", said.runs, said.added_bytes / 1024.0);
    Ok(figures(&said))
}

/// Runs the benchmark.
pub(super) fn run(binary: &Path) -> Result<Said> {
    let text = project::read(&mut Command::new(binary))?;
    serde_json::from_str(&text).context("replay-bench printed something else")
}

/// A long journal, and how many microseconds its leg may take.
const LONG: usize = 1000;
const LONG_US: f64 = 1000.0;
/// A conversation, and how many bytes its seal may have.
const ANSWERS: usize = 50;
const ANSWERS_BYTES: f64 = 4000.0;
/// What all suspended runs together may add to the process.
const SUSPENDED_KIB: f64 = 1024.0;

fn figures(said: &Said) -> Vec<Figure> {
    let mut figures = Vec::new();
    for leg in said.legs.iter().filter(|leg| leg.steps + leg.answers > 0) {
        let what = match (leg.steps, leg.answers) {
            (steps, 0) => format!("{steps} steps"),
            (_, answers) => format!("{answers} answers"),
        };
        let figure = Figure::new(format!("a leg after {what}"), "µs", leg.time);
        let asked = (leg.steps.max(leg.answers) == LONG).then_some(Asked::AtMost(LONG_US));
        figures.push(figure.beside("a leg after nothing", said.empty).asked(asked));
        let figure = Figure::new(format!("`requestState` after {what}"), "bytes", leg.bytes);
        figures.push(figure.asked((leg.answers == ANSWERS).then_some(Asked::AtMost(ANSWERS_BYTES))));
    }
    let name = format!("{} steps, the machine alone", said.machine_steps);
    figures.push(Figure::new(name, "µs", said.machine));
    let name = format!("memory that {} suspended runs add", said.runs);
    let figure = Figure::new(&name, "KiB", said.added_bytes / 1024.0).sizing(name);
    figures.push(figure.asked(Asked::AtMost(SUSPENDED_KIB)));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_is_set_beside_one_with_nothing_to_replay() {
        let text = r#"{"tries": 1000, "empty": 50.0, "machine_steps": 1000, "machine": 90.5, "runs": 100000,
            "added_bytes": 2048, "legs": [{"steps": 0, "answers": 0, "leg": 50.1, "bytes": 300},
            {"steps": 100, "answers": 0, "leg": 100.0, "bytes": 900}]}"#;
        let figures = figures(&serde_json::from_str(text).unwrap());
        assert_eq!(figures.len(), 4, "{figures:?}");
        assert_eq!((figures[0].name.as_str(), figures[0].ratio), ("a leg after 100 steps", Some(2.0)));
        assert_eq!((figures[3].ours, figures[3].unit.as_str()), (2.0, "KiB"));
    }
}
