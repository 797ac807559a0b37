//! `cargo xtask conformance`: the official MCP suite against our everything-server.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::project::{self, Profile, Project};
use crate::server::{self, Server};
use crate::table::Table;

/// The revisions the suite scores, with how many server scenarios each must have.
///
/// The numbers are pinned so that a suite which silently runs less is noticed.
const REVISIONS: [(&str, usize); 2] = [("2025-11-25", 30), ("2026-07-28", 37)];

/// Which side of the protocol is tested.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Leg {
    /// Test a server: our everything-server, or any other by its address.
    Server {
        /// Test the server at this address instead of starting ours.
        #[arg(long)]
        url: Option<String>,
    },
}

/// Runs one leg of the suite.
pub(crate) fn main(leg: &Leg) -> Result<()> {
    let Leg::Server { url } = leg;
    let project = Project::open()?;
    let suite = Suite::install(&project)?;
    let results = results_folder(&project);
    if results.exists() {
        fs::remove_dir_all(&results).with_context(|| format!("could not clear {}", results.display()))?;
    }
    // One process serves both revisions, as it would for users.
    let mut ours = None;
    let url = if let Some(url) = url {
        url.clone()
    } else {
        let binary = project.build("antiphon-conformance", "everything", Profile::Dev)?;
        let log = results.join("server.log");
        ours.insert(Server::start(&binary, server::free_address()?, &[], &log)?).url()
    };
    let mut passed = 0;
    let mut complaints = Vec::new();
    for (revision, count) in REVISIONS {
        let start = Instant::now();
        let output = results.join(revision);
        let exit = suite.run(&url, revision, &output)?;
        let outcomes = read_outcomes(&output)?;
        let scored = suite.scored(revision)?;
        print!("\nserver {revision}, {:.1} s\n{}", start.elapsed().as_secs_f64(), table(&outcomes, &scored));
        let (good, found) = judge(revision, count, &scored, &outcomes);
        passed += good;
        if !exit && found.is_empty() {
            complaints
                .push(format!("{revision}: the suite itself failed; read {}", suite_log(&output).display()));
        }
        complaints.extend(found);
    }
    println!();
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!("{passed} passed, {} failed", complaints.len());
    ensure!(complaints.is_empty(), "the suite is not satisfied; its reports are in {}", results.display());
    Ok(())
}

/// Where the reports of the last run are.
pub(crate) fn results_folder(project: &Project) -> PathBuf {
    project.target.join("conformance")
}

/// The scenarios, scored or not, that passed in the last run, as `revision/scenario`.
pub(crate) fn passed_scenarios(project: &Project) -> Result<Vec<String>> {
    let mut passed = Vec::new();
    for (revision, _) in REVISIONS {
        let folder = results_folder(project).join(revision);
        if folder.exists() {
            let outcomes = read_outcomes(&folder)?;
            let good = outcomes.iter().filter(|(_, outcome)| outcome.is_clean());
            passed.extend(good.map(|(scenario, _)| format!("{revision}/{scenario}")));
        }
    }
    Ok(passed)
}

#[derive(Debug)]
struct Suite {
    folder: PathBuf,
    bin: PathBuf,
}

impl Suite {
    fn install(project: &Project) -> Result<Self> {
        let folder = project.root.join("conformance").join("suite");
        let bin = project::npm_install(&folder)?;
        Ok(Self { folder, bin })
    }

    /// Runs the requirement set of `revision`; true when the suite was content.
    fn run(&self, url: &str, revision: &str, output: &Path) -> Result<bool> {
        eprintln!("running the suite at {revision}");
        fs::create_dir_all(output)?;
        let log = fs::File::create(suite_log(output))?;
        // The suite needs the Node of its own folder: with Node 20 it does not even load.
        let status = Command::new(self.bin.join("conformance"))
            .env("PATH", project::path_with(&self.bin)?)
            .args(["server", "--url", url, "--requirements", revision, "--output-dir"])
            .arg(output)
            // Even an empty baseline makes the suite count warnings as failures.
            .arg("--expected-failures")
            .arg(self.folder.join("baseline.yml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .status()
            .context("could not start the suite; remove conformance/suite/node_modules and try again")?;
        Ok(status.success())
    }

    fn scored(&self, revision: &str) -> Result<Vec<String>> {
        let file = self
            .folder
            .join("node_modules/@modelcontextprotocol/conformance/requirements")
            .join(format!("{revision}.yaml"));
        let text = fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
        Ok(yaml_list(&text, "server"))
    }
}

/// The suite's own output sits beside its reports.
fn suite_log(output: &Path) -> PathBuf {
    output.with_extension("log")
}

/// What one scenario's checks said.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    passed: usize,
    failed: usize,
    warnings: usize,
    reasons: Vec<String>,
}

impl Outcome {
    /// A scenario that checked nothing has shown nothing.
    fn is_clean(&self) -> bool {
        self.passed > 0 && self.failed == 0 && self.warnings == 0
    }

    fn of(checks: Vec<Check>) -> Self {
        let mut outcome = Self::default();
        for check in checks {
            match check.status.as_str() {
                "SUCCESS" => outcome.passed += 1,
                "FAILURE" | "WARNING" => {
                    let count =
                        if check.status == "FAILURE" { &mut outcome.failed } else { &mut outcome.warnings };
                    *count += 1;
                    let why = check.error_message.unwrap_or(check.description);
                    outcome.reasons.push(format!("{}: {why}", check.id));
                }
                _ => {}
            }
        }
        outcome
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    id: String,
    status: String,
    #[serde(default)]
    description: String,
    error_message: Option<String>,
}

/// Reads `server-<scenario>-<time>/checks.json` below `folder`.
fn read_outcomes(folder: &Path) -> Result<BTreeMap<String, Outcome>> {
    let mut outcomes = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let file = entry.path().join("checks.json");
        let Some(scenario) = scenario_of(&name) else { continue };
        if !file.exists() {
            // A scenario that died leaves its folder empty.
            outcomes.entry(scenario.to_owned()).or_insert_with(Outcome::default);
            continue;
        }
        let text = fs::read_to_string(&file)?;
        let checks =
            serde_json::from_str(&text).with_context(|| format!("{} has another form", file.display()))?;
        outcomes.insert(scenario.to_owned(), Outcome::of(checks));
    }
    if outcomes.is_empty() {
        bail!("the suite wrote no reports; read {}", suite_log(folder).display());
    }
    Ok(outcomes)
}

/// `server-tools-list-2026-01-31T10-00-00-000Z` is a run of `tools-list`.
fn scenario_of(folder: &str) -> Option<&str> {
    const TIME: usize = "-2026-01-31T10-00-00-000Z".len();
    let name = folder.strip_prefix("server-")?;
    name.get(..name.len().checked_sub(TIME)?).filter(|scenario| !scenario.is_empty())
}

/// The items of one top-level list in the suite's requirement files.
fn yaml_list(text: &str, key: &str) -> Vec<String> {
    let mut inside = false;
    let mut items = Vec::new();
    for line in text.lines() {
        if !line.starts_with([' ', '#']) && !line.trim().is_empty() {
            inside = line.trim_end() == format!("{key}:");
        } else if let (true, Some(item)) = (inside, line.trim_start().strip_prefix("- ")) {
            items.push(item.split(" #").next().unwrap_or(item).trim().to_owned());
        }
    }
    items
}

/// Counts the clean scored scenarios and says what is wrong with the rest.
fn judge(
    revision: &str,
    count: usize,
    scored: &[String],
    outcomes: &BTreeMap<String, Outcome>,
) -> (usize, Vec<String>) {
    let mut passed = 0;
    let mut complaints = Vec::new();
    if scored.len() != count {
        complaints.push(format!(
            "{revision}: the suite scores {} server scenarios, not {count}; is conformance/suite at the pinned version?",
            scored.len()
        ));
    }
    for scenario in scored {
        match outcomes.get(scenario) {
            Some(outcome) if outcome.is_clean() => passed += 1,
            Some(outcome) if outcome.reasons.is_empty() => {
                complaints.push(format!("{revision}/{scenario}: no check was made"));
            }
            Some(outcome) => complaints.push(format!("{revision}/{scenario}:{}", shorten(&outcome.reasons))),
            None => complaints.push(format!("{revision}/{scenario}: did not run")),
        }
    }
    (passed, complaints)
}

/// The first reasons, each on a line that fits a terminal; the rest is in the report.
fn shorten(reasons: &[String]) -> String {
    const SHOWN: usize = 3;
    let short = |reason: &String| reason.lines().next().unwrap_or_default().chars().take(160).collect();
    let mut lines: Vec<String> = reasons.iter().take(SHOWN).map(short).collect();
    if reasons.len() > SHOWN {
        lines.push(format!("and {} more in its checks.json", reasons.len() - SHOWN));
    }
    lines.iter().flat_map(|line| ["\n    ", line]).collect()
}

fn table(outcomes: &BTreeMap<String, Outcome>, scored: &[String]) -> Table {
    let mut table = Table::new(["scenario", "passed", "failed", "warnings", "scored"]);
    let mut names: Vec<&String> = outcomes.keys().collect();
    names.sort_by_key(|name| (scored.iter().position(|it| it == *name).unwrap_or(usize::MAX), *name));
    for name in names {
        let outcome = &outcomes[name];
        table.row([
            name.clone(),
            outcome.passed.to_string(),
            outcome.failed.to_string(),
            outcome.warnings.to_string(),
            if scored.contains(name) { "yes".into() } else { "no".into() },
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(statuses: &[&str]) -> Outcome {
        let check = |status: &&str| Check {
            id: "c".into(),
            status: (*status).into(),
            description: "d".into(),
            error_message: None,
        };
        Outcome::of(statuses.iter().map(check).collect())
    }

    #[test]
    fn scenario_name_is_what_stands_before_the_time() {
        assert_eq!(
            scenario_of("server-server-initialize-2026-11-15T01-59-11-875Z"),
            Some("server-initialize")
        );
        assert_eq!(scenario_of("server.log"), None);
        assert_eq!(scenario_of("server-x"), None);
    }

    #[test]
    fn only_the_named_list_is_read() {
        let text = "# x\nserver:\n  - a\n  # why\n  - b # note\n\nclient:\n  - c\n";
        assert_eq!(yaml_list(text, "server"), ["a", "b"]);
        assert_eq!(yaml_list(text, "client"), ["c"]);
    }

    #[test]
    fn warnings_and_empty_scenarios_are_not_clean() {
        assert!(outcome(&["SUCCESS", "INFO"]).is_clean());
        assert!(!outcome(&["SUCCESS", "WARNING"]).is_clean());
        assert!(!outcome(&["SKIPPED"]).is_clean());
    }

    #[test]
    fn missing_and_failing_scenarios_are_named() {
        let scored = ["a", "b", "c"].map(String::from);
        let outcomes =
            BTreeMap::from([("a".into(), outcome(&["SUCCESS"])), ("b".into(), outcome(&["FAILURE"]))]);
        let (passed, complaints) = judge("r", 3, &scored, &outcomes);
        assert_eq!(passed, 1);
        assert_eq!(complaints, ["r/b:\n    c: d", "r/c: did not run"]);
        assert_eq!(judge("r", 4, &scored, &outcomes).1.len(), 3);
    }
}
