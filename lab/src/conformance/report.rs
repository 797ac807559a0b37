//! What the suite leaves behind: a folder for every scenario, and in it what was checked.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::{Side, suite_log};
use crate::table::Table;

/// What became of scenarios, by their names.
pub(super) type Outcomes = BTreeMap<String, Outcome>;

/// What one scenario's checks said.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcome {
    passed: usize,
    failed: usize,
    warnings: usize,
    reasons: Vec<String>,
}

impl Outcome {
    /// A scenario that checked nothing has shown nothing.
    pub(super) fn is_clean(&self) -> bool {
        self.passed > 0 && self.failed == 0 && self.warnings == 0
    }

    /// Checks that passed, failed and warned.
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.passed, self.failed, self.warnings]
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

/// Reads `server-<scenario>-<time>/checks.json` below `folder`; a client's scenario has no such prefix, and
/// may have a folder in its name.
pub(super) fn read_outcomes(folder: &Path, side: Side) -> Result<Outcomes> {
    let mut outcomes = Outcomes::new();
    collect(folder, side, "", &mut outcomes)?;
    if outcomes.is_empty() {
        bail!("the suite wrote no reports; read {}", suite_log(folder).display());
    }
    Ok(outcomes)
}

fn collect(folder: &Path, side: Side, group: &str, outcomes: &mut Outcomes) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(scenario) = scenario_of(&name, side) else {
            if side == Side::Client && entry.path().is_dir() {
                collect(&entry.path(), side, &format!("{group}{name}/"), outcomes)?;
            }
            continue;
        };
        let scenario = format!("{group}{scenario}");
        let file = entry.path().join("checks.json");
        if !file.exists() {
            // A scenario that died leaves its folder empty.
            outcomes.entry(scenario).or_default();
            continue;
        }
        let text = fs::read_to_string(&file)?;
        let checks =
            serde_json::from_str(&text).with_context(|| format!("{} has another form", file.display()))?;
        outcomes.insert(scenario, Outcome::of(checks));
    }
    Ok(())
}

/// `server-tools-list-2026-01-31T10-00-00-000Z` is a run of `tools-list`.
fn scenario_of(folder: &str, side: Side) -> Option<&str> {
    const TIME: &str = "-0000-00-00T00-00-00-000Z";
    let name = match side {
        Side::Server => folder.strip_prefix("server-")?,
        Side::Client => folder,
    };
    let (scenario, time) = name.split_at_checked(name.len().checked_sub(TIME.len())?)?;
    let fits = |(found, form): (u8, u8)| if form == b'0' { found.is_ascii_digit() } else { found == form };
    (!scenario.is_empty() && time.bytes().zip(TIME.bytes()).all(fits)).then_some(scenario)
}

/// The items of one top-level list in the suite's requirement files.
pub(super) fn yaml_list(text: &str, key: &str) -> Vec<String> {
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
pub(super) fn judge(
    revision: &str,
    count: usize,
    scored: &[String],
    outcomes: &Outcomes,
) -> (usize, Vec<String>) {
    let mut passed = 0;
    let mut complaints = Vec::new();
    if scored.len() != count {
        complaints.push(format!(
            "{revision}: the suite scores {} scenarios, not {count}; is lab/conformance/suite at the pinned version?",
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

pub(super) fn table(outcomes: &Outcomes, scored: &[String]) -> Table {
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
        let folder = "server-server-initialize-2026-11-15T01-59-11-875Z";
        assert_eq!(scenario_of(folder, Side::Server), Some("server-initialize"));
        assert_eq!(scenario_of("sse-retry-2026-11-15T01-59-11-875Z", Side::Client), Some("sse-retry"));
        assert_eq!(scenario_of("server.log", Side::Server), None);
        assert_eq!(scenario_of("server-x", Side::Server), None);
        assert_eq!(scenario_of("a-folder-whose-name-is-long-enough", Side::Client), None);
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
