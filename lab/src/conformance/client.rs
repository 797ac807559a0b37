use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::report::{Outcome, Outcomes, judge, read_outcomes};
use super::{REVISIONS, Side, Suite, conclude, fresh_results, results_folder, suite_log};
use crate::project::{Profile, Project};
use crate::table::Table;

/// Scenarios that the suite does not score and that we hold ourselves to all the same.
const BEYOND: [&str; 4] = [
    "json-schema-2020-12-preservation",
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/enterprise-managed-authorization",
];
/// How long a scenario may take, in milliseconds. Clients wait for their turn within it.
const PATIENCE: &str = "120000";
/// What passed in the last run, a line each.
const PASSED: &str = "passed.txt";

/// The suite against our client.
///
/// Each revision's set runs with the client told which revision it is. The suite does not look at exit codes
/// there, so we do. Then each scenario runs by itself, where it does; the client is not told, and finds out.
pub(super) fn main() -> Result<()> {
    let project = Project::open()?;
    let suite = Suite::install(&project)?;
    let results = fresh_results(&project, Side::Client)?;
    let binary = project.build("lab", "everything-client", Profile::Dev)?;
    let mut passed = Vec::new();
    let mut count = 0;
    let mut complaints = Vec::new();
    for revision in REVISIONS {
        let start = Instant::now();
        let output = results.join(revision);
        let turns =
            Turn { folder: results.join(format!("{revision}-turns")), client: binary.clone(), url: None };
        let set = ["client", "--timeout", PATIENCE, "--command", &turns.command()?];
        let content = suite.run_set(&set, revision, &output)?;
        let outcomes = read_outcomes(&output, Side::Client)?;
        let exits = turns.exits()?;
        let scored = suite.scored(revision, Side::Client)?;
        let held: Vec<String> = scored.iter().cloned().chain(BEYOND.map(String::from)).collect();
        let alone = run_alone(&suite, &binary, revision, &held, &results)?;

        let seconds = start.elapsed().as_secs_f64();
        print!("\nclient {revision}, {seconds:.1} s\n{}", table(&held, &scored, &outcomes, &exits, &alone));
        let (good, mut found) = judge(revision, Side::Client.count(revision), &scored, &outcomes);
        let beyond = BEYOND.map(String::from);
        let (extra, more) = judge(revision, beyond.len(), &beyond, &outcomes);
        found.extend(more);
        found.extend(held.iter().filter_map(|scenario| {
            let exit = exits.get(scenario).map_or("no client was started", String::as_str);
            (exit != "0").then(|| format!("{revision}/{scenario}: the client ended with: {exit}"))
        }));
        count += good + extra;
        for (scenario, content) in &alone {
            if *content {
                count += 1;
            } else {
                let log = suite_log(&folder_alone(&results, revision, scenario));
                found.push(format!("{revision}/{scenario}, by itself: read {}", log.display()));
            }
        }
        let is_fine = |it: &&String| {
            let ended_well = exits.get(*it).is_some_and(|exit| exit == "0");
            ended_well && alone.get(*it) == Some(&true) && is_clean(&outcomes, it)
        };
        passed.extend(held.iter().filter(is_fine).map(|scenario| format!("{revision}/{scenario}\n")));
        if !content && found.is_empty() {
            found.push(format!("{revision}: the suite itself failed; read {}", suite_log(&output).display()));
        }
        complaints.extend(found);
    }
    fs::write(results.join(PASSED), passed.concat())?;
    conclude(count, &complaints, &results)
}

/// The scenarios that passed in the last run, in the set and by themselves.
pub(super) fn passed(project: &Project) -> Result<Vec<String>> {
    let file = results_folder(project, Side::Client).join(PASSED);
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
    Ok(text.lines().map(|scenario| format!("client/{scenario}")).collect())
}

/// Runs each scenario by itself; whether the suite was content, which then means the exit code too. It is also
/// content with a scenario that it skips, so a clean report must be there.
fn run_alone(
    suite: &Suite,
    binary: &Path,
    revision: &str,
    scenarios: &[String],
    results: &Path,
) -> Result<BTreeMap<String, bool>> {
    eprintln!("running each scenario at {revision} by itself");
    let command = format!("{} --auto", plain(binary)?);
    let mut contents = BTreeMap::new();
    for scenario in scenarios {
        let output = folder_alone(results, revision, scenario);
        let mut arguments =
            vec!["client", "--timeout", PATIENCE, "--command", &command, "--scenario", scenario];
        // Extensions belong to no revision, and with one they are skipped and called a success.
        let is_extension = scenario.starts_with("auth/") && BEYOND.contains(&scenario.as_str());
        if !is_extension {
            arguments.extend(["--spec-version", revision]);
        }
        let content = suite.run(&arguments, &output)?;
        let outcomes = read_outcomes(&output, Side::Client).unwrap_or_default();
        contents.insert(scenario.clone(), content && is_clean(&outcomes, scenario));
    }
    Ok(contents)
}

fn is_clean(outcomes: &Outcomes, scenario: &str) -> bool {
    outcomes.get(scenario).is_some_and(Outcome::is_clean)
}

fn folder_alone(results: &Path, revision: &str, scenario: &str) -> PathBuf {
    results.join(format!("{revision}-alone")).join(flat(scenario))
}

/// A scenario's name without folders in it.
fn flat(scenario: &str) -> String {
    scenario.replace('/', "+")
}

/// The suite takes commands apart at spaces.
fn plain(path: &Path) -> Result<&str> {
    let text = path.to_str().filter(|it| !it.contains(char::is_whitespace));
    text.with_context(|| format!("the suite cannot start {}: no spaces in the path, please", path.display()))
}

fn table(
    held: &[String],
    scored: &[String],
    outcomes: &Outcomes,
    exits: &BTreeMap<String, String>,
    alone: &BTreeMap<String, bool>,
) -> Table {
    let mut table = Table::new(["scenario", "passed", "failed", "warnings", "exit", "by itself", "scored"]);
    let rest = outcomes.keys().filter(|name| !held.contains(name));
    for name in held.iter().chain(rest) {
        let [passed, failed, warnings] = outcomes.get(name).map_or([0; 3], Outcome::counts);
        table.row([
            name.clone(),
            passed.to_string(),
            failed.to_string(),
            warnings.to_string(),
            exits.get(name).cloned().unwrap_or_default(),
            alone.get(name).map_or("", |content| if *content { "ok" } else { "FAILED" }).to_owned(),
            if scored.contains(name) { "yes".into() } else { "no".into() },
        ]);
    }
    table
}

/// One client of many. The suite starts all of a set at once, and some scenarios measure time: so no more run
/// at a time than there are processors. How each ended is written down, because the suite does not.
#[derive(Debug, clap::Args)]
pub(crate) struct Turn {
    /// Where the locks are, and what is written down.
    folder: PathBuf,
    /// The client.
    client: PathBuf,
    /// The server, from the suite.
    url: Option<String>,
}

impl Turn {
    /// What the suite starts.
    fn command(&self) -> Result<String> {
        fs::create_dir_all(&self.folder)?;
        let ourselves = std::env::current_exe().context("could not find this program's own file")?;
        let words = [plain(&ourselves)?, "conformance", "turn", plain(&self.folder)?, plain(&self.client)?];
        Ok(words.join(" "))
    }

    pub(super) fn run(&self) -> Result<()> {
        let url = self.url.as_deref().context("the suite gave no address")?;
        let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").context("the suite named no scenario")?;
        // Held until this process ends, whichever way.
        let _turn = self.wait()?;
        let ended = Command::new(&self.client).arg(url).status().context("could not start the client")?;
        let exit = ended.code().map_or_else(|| ended.to_string(), |code| code.to_string());
        fs::write(self.folder.join(format!("{}.exit", flat(&scenario))), exit)?;
        ensure!(ended.success(), "the client failed ({ended})");
        Ok(())
    }

    fn wait(&self) -> Result<File> {
        let places = thread::available_parallelism().map_or(1, usize::from);
        loop {
            for place in 0..places {
                let lock = File::create(self.folder.join(format!("{place}.lock")))?;
                match lock.try_lock() {
                    Ok(()) => return Ok(lock),
                    Err(TryLockError::WouldBlock) => {}
                    Err(TryLockError::Error(error)) => {
                        return Err(error).context("could not wait for a turn");
                    }
                }
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// How each client ended, by scenario.
    fn exits(&self) -> Result<BTreeMap<String, String>> {
        let mut exits = BTreeMap::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().replace('+', "/");
            if let Some(scenario) = name.strip_suffix(".exit") {
                exits.insert(scenario.to_owned(), fs::read_to_string(entry.path())?);
            }
        }
        Ok(exits)
    }
}
