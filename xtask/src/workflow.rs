//! The workflow that runs elsewhere checks what `.ci/run` checks.

use clap::Parser as _;

use crate::Chore;

const CI: &str = include_str!("../../.ci/run");
const WORKFLOW: &str = include_str!("../../.github/workflows/ci.yml");
const RELEASE: &str = include_str!("../../.github/workflows/release.yml");

/// Every `cargo xtask …` of a text, with whatever stands for the backend written alike.
fn chores(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.split_once("cargo xtask "));
    let lines =
        lines.filter(|(before, _)| before.trim_start().starts_with("run ") || before.contains("run:"));
    let mut chores: Vec<String> = lines
        .map(|(_, rest)| {
            rest.replace("\"$backend\"", "BACKEND").replace("\"${{ matrix.backend }}\"", "BACKEND")
        })
        .collect();
    chores.sort();
    chores
}

#[test]
fn workflow_runs_every_chore_of_ci_and_no_other() {
    let ours = chores(CI);
    assert!(ours.len() > 10, "{ours:?}");
    assert_eq!(chores(WORKFLOW), ours);
}

#[test]
fn every_chore_of_the_workflows_is_one() {
    for chore in chores(WORKFLOW).iter().chain(&chores(RELEASE)) {
        let words = chore.replace("BACKEND", "postgres");
        let parsed = Chore::try_parse_from(["xtask"].into_iter().chain(words.split_whitespace()));
        assert!(parsed.is_ok(), "`cargo xtask {chore}`: {}", parsed.unwrap_err());
    }
}

#[test]
fn workflow_tries_the_backends_that_ci_tries() {
    for backend in ["postgres", "redis", "nats"] {
        assert!(CI.contains("for backend in postgres redis nats"), "`.ci/run` tries others");
        let matrix = WORKFLOW.lines().find(|line| line.trim_start().starts_with("backend: [")).unwrap();
        assert!(matrix.contains(backend), "{matrix}");
    }
}
