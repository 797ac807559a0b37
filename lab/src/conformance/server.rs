use std::time::Instant;

use anyhow::Result;

use super::report::{judge, read_outcomes, table};
use super::{REVISIONS, Side, Suite, conclude, fresh_results, results_folder, suite_log};
use crate::project::{Profile, Project};
use crate::server::{self, Server};

/// Scenarios that the suite does not score and that we hold ourselves to all the same: the tasks of 2026-07-28.
const BEYOND: [&str; 9] = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
];
/// The tenth, which makes no check yet: the suite says itself that it skips it. Once it makes some, it belongs above.
const SKIPPED: &str = "tasks-status-notifications";

/// The suite against a server: the one at `url`, or ours.
pub(super) fn main(url: Option<&str>) -> Result<()> {
    let project = Project::open()?;
    let suite = Suite::install(&project)?;
    let results = fresh_results(&project, Side::Server)?;
    // One process serves both revisions, as it would for users.
    let mut ours = None;
    let url = if let Some(url) = url {
        url.to_owned()
    } else {
        let binary = project.build("lab", "everything", Profile::Dev)?;
        let log = results.join("server.log");
        ours.insert(Server::start(&binary, server::free_address()?, &[], &log)?).url()
    };
    let mut passed = 0;
    let mut complaints = Vec::new();
    for revision in REVISIONS {
        let start = Instant::now();
        let output = results.join(revision);
        let content = suite.run_set(&["server", "--url", &url], revision, &output)?;
        let outcomes = read_outcomes(&output, Side::Server)?;
        let scored = suite.scored(revision, Side::Server)?;
        print!("\nserver {revision}, {:.1} s\n{}", start.elapsed().as_secs_f64(), table(&outcomes, &scored));
        let (good, found) = judge(revision, Side::Server.count(revision), &scored, &outcomes);
        passed += good;
        if revision == "2026-07-28" {
            let beyond = BEYOND.map(String::from);
            let (extra, more) = judge(revision, beyond.len(), &beyond, &outcomes);
            passed += extra;
            complaints.extend(more);
            if outcomes.get(SKIPPED).is_none_or(|outcome| outcome.counts() != [0; 3]) {
                complaints.push(format!("{revision}/{SKIPPED}: the suite no longer skips it; hold us to it"));
            }
        }
        if !content && found.is_empty() {
            complaints
                .push(format!("{revision}: the suite itself failed; read {}", suite_log(&output).display()));
        }
        complaints.extend(found);
    }
    conclude(passed, &complaints, &results)
}

/// The scenarios that passed in the last run.
pub(super) fn passed(project: &Project) -> Result<Vec<String>> {
    let mut passed = Vec::new();
    for revision in REVISIONS {
        let folder = results_folder(project, Side::Server).join(revision);
        if folder.exists() {
            let outcomes = read_outcomes(&folder, Side::Server)?;
            let good = outcomes.iter().filter(|(_, outcome)| outcome.is_clean());
            passed.extend(good.map(|(scenario, _)| format!("{revision}/{scenario}")));
        }
    }
    Ok(passed)
}
