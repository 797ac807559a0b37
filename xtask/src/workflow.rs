//! The workflows: CI runs the steps of `.ci/run`, and nothing unpinned runs.

use clap::Parser as _;

use crate::Chore;

const CI: &str = include_str!("../../.ci/run");
const WORKFLOW: &str = include_str!("../../.github/workflows/ci.yml");
const RELEASE: &str = include_str!("../../.github/workflows/release.yml");
const NIGHTLY: &str = include_str!("../../.github/workflows/nightly.yml");
const TOOLS: &str = include_str!("../../.github/actions/tools/action.yml");
const DEPENDABOT: &str = include_str!("../../.github/dependabot.yml");

/// Every `cargo xtask …` of a text, with whatever stands for the backend or the topology written alike.
fn chores(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.split_once("cargo xtask "));
    let lines =
        lines.filter(|(before, _)| before.trim_start().starts_with("run ") || before.contains("run:"));
    let mut chores: Vec<String> = lines
        .map(|(_, rest)| {
            rest.replace("\"${{ matrix.backend }}\"", "BACKEND")
                .replace("\"$topology\"", "TOPOLOGY")
                .replace("\"${{ matrix.topology }}\"", "TOPOLOGY")
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
    for chore in [WORKFLOW, RELEASE, NIGHTLY].into_iter().flat_map(chores) {
        let words = chore.replace("BACKEND", "postgres").replace("TOPOLOGY", "nats-cluster");
        let parsed = Chore::try_parse_from(["xtask"].into_iter().chain(words.split_whitespace()));
        assert!(parsed.is_ok(), "`cargo xtask {chore}`: {}", parsed.unwrap_err());
    }
}

#[test]
fn workflow_tries_the_topologies_that_ci_tries() {
    let list =
        CI.lines().find_map(|line| line.strip_prefix("for topology in ")?.strip_suffix("; do")).unwrap();
    let matrix = format!("topology: [{}]", list.replace(' ', ", "));
    assert!(WORKFLOW.contains(&matrix), "CI tries {list}");
}

#[test]
fn every_action_is_pinned_by_commit_with_its_version() {
    let mut actions = 0;
    for text in [WORKFLOW, RELEASE, NIGHTLY, TOOLS] {
        for line in
            text.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("uses: "))
        {
            if line.starts_with("./") {
                continue;
            }
            let (action, version) = line.split_once(" # v").unwrap_or_else(|| panic!("no version: {line}"));
            let commit = action.split_once('@').unwrap().1;
            assert!(commit.len() == 40 && commit.bytes().all(|it| it.is_ascii_hexdigit()), "{line}");
            assert!(version.split('.').count() == 3, "{line}");
            actions += 1;
        }
    }
    assert!(actions > 15, "only {actions} were found");
    assert!(DEPENDABOT.contains("package-ecosystem: github-actions"));
}

#[test]
fn no_tool_is_installed_without_a_version() {
    for text in [WORKFLOW, RELEASE, NIGHTLY, TOOLS] {
        for line in text.lines() {
            assert!(!line.contains("curl "), "nothing verifies it: {line}");
            if line.contains("cargo install") {
                assert!(line.contains("--locked") && line.contains("--version "), "{line}");
            }
            if let Some(tools) = line.trim().strip_prefix("tool: ") {
                assert!(tools.split(',').all(|tool| tool.contains('@')), "{line}");
            }
        }
    }
}

#[test]
fn every_workflow_can_only_read_by_default() {
    for text in [WORKFLOW, RELEASE, NIGHTLY] {
        assert!(text.contains("\npermissions:\n  contents: read\n"));
    }
    assert!(!WORKFLOW.contains(": write") && !NIGHTLY.contains(": write"), "only a release writes");
}

#[test]
fn pull_requests_check_advisories() {
    assert!(WORKFLOW.contains("pull_request:") && WORKFLOW.contains("check advisories"));
}

/// The text of a job, up to the next one.
fn job<'a>(workflow: &'a str, name: &str) -> &'a str {
    let (_, rest) = workflow.split_once(&format!("\n  {name}:\n")).unwrap_or_else(|| panic!("no job {name}"));
    let end = rest.match_indices("\n  ").find(|(at, _)| !rest[at + 3..].starts_with([' ', '#']));
    end.map_or(rest, |(at, _)| &rest[..at])
}

#[test]
fn every_published_artifact_is_checked_first_and_has_an_sbom_and_a_provenance() {
    let dockerfile = include_str!("../../deploy/Dockerfile");
    let jobs = [
        ("publish-cli", "needs: [release, advisories, image, cli]", job(RELEASE, "cli")),
        ("publish-image", "needs: [release, advisories, image]", dockerfile),
    ];
    for (name, needs, build) in jobs {
        let job = job(RELEASE, name);
        assert!(job.contains("startsWith(github.ref, 'refs/tags/v')"), "{name}");
        assert!(job.contains(needs), "{name}");
        for needed in ["id-token: write", "attestations: write", "anchore/sbom-action@", "sbom-path:"] {
            assert!(job.contains(needed), "{name}: {needed}");
        }
        assert!(build.contains("cargo auditable build") && build.contains("--locked"), "{name}");
        assert_eq!(job.matches("actions/attest@").count(), 2, "{name}: provenance and SBOM");
    }
    let files = job(RELEASE, "publish-files");
    assert!(files.contains("needs: [publish-cli]") && files.contains("SHA256SUMS"), "{files}");
    assert!(job(RELEASE, "image").contains("anchore/scan-action@"), "the image is scanned");
}
