//! `cargo xtask requirements`: every row of the requirements table is proven, void or open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use xtask::lab;

use crate::project::{self, Project};

/// Rows are numbered from 1 to this, without a gap.
const LAST: u16 = 423;
const TABLE: &str = "lab/conformance/requirements.toml";
const SUITE: &str = "conformance:";
/// The cells of the streaming contract in which the transport rejects the revision. They run no behaviour.
const REFUSED: &str = "::legacy_sse::2026_07_28";
/// How a test says that it lacks a service or a model, on a line of its output.
const SKIPPED: &str = "skipped: ";

/// Reads the table, the list of tests and the last reports, and compares them.
pub(crate) fn main() -> Result<()> {
    let project = Project::open()?;
    let file = project.root.join(TABLE);
    let text = fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
    let rows = parse(&text)?;
    let evidence = Evidence::gather(&project)?;
    let tally = check(&rows, &evidence);
    for complaint in &tally.complaints {
        println!("{complaint}");
    }
    println!("{} proven, {} void, {} open", tally.proven, tally.void, tally.open);
    ensure!(
        tally.complaints.is_empty(),
        "{} rows of {TABLE} are not backed by tests; correct the table, or run `cargo xtask verify` and \
         `cargo xtask conformance` for server and client if their reports are old; tests that were skipped need \
         `cargo xtask services`, `cargo xtask models` and ANTIPHON_MCP_SCHEMA_DIR",
        tally.complaints.len()
    );
    Ok(())
}

/// What the table says of one row; exactly one of the three is given.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Row {
    /// Tests by their nextest names, `binary path::of::test`, or `conformance:revision/scenario` for what a
    /// server passed, or `conformance:client/revision/scenario` for what a client did.
    proven: Vec<String>,
    /// Why the row asks for nothing.
    void: String,
    /// What the row waits for.
    open: String,
}

fn parse(text: &str) -> Result<BTreeMap<String, Row>> {
    // TOML itself refuses a key that is given twice, and says on which line.
    toml::from_str(text).with_context(|| format!("{TABLE} cannot be read"))
}

/// What exists and what was seen to pass.
#[derive(Debug, Default)]
struct Evidence {
    /// All tests of the workspace.
    tests: BTreeSet<String>,
    /// Those that passed in the last `cargo xtask verify`.
    passed: BTreeSet<String>,
    /// Those of them that lacked a service or a model, and why: they tested nothing.
    skipped: BTreeMap<String, String>,
    /// Conformance scenarios that passed in the last run.
    scenarios: BTreeSet<String>,
}

impl Evidence {
    fn gather(project: &Project) -> Result<Self> {
        let report = project.junit();
        let junit = fs::read_to_string(&report).with_context(|| {
            format!("there is no test report {}; run `cargo xtask verify` first", report.display())
        })?;
        eprintln!("listing the tests");
        let listed = project::read(
            project::cargo()
                .args(["nextest", "list", "--workspace", "--all-features", "--message-format=json"])
                .current_dir(&project.root),
        )
        .context(
            "`cargo nextest list` failed; run `cargo nextest list --workspace --all-features` to see why",
        )?;
        Ok(Self {
            tests: listed_tests(&listed)?,
            passed: passed_tests(&junit)?,
            skipped: skipped_tests(&junit)?,
            scenarios: project::read(lab::command().args(["conformance", "passed"]))?
                .lines()
                .map(String::from)
                .collect(),
        })
    }

    /// What is wrong with one piece of evidence, if anything.
    fn objection(&self, name: &str) -> Option<String> {
        if let Some(scenario) = name.strip_prefix(SUITE) {
            let leg = if scenario.starts_with("client/") { "client" } else { "server" };
            let hint = format!("did not pass in the last `cargo xtask conformance {leg}`");
            return (!self.scenarios.contains(scenario)).then(|| format!("scenario `{scenario}` {hint}"));
        }
        if !self.tests.contains(name) {
            return Some(format!("there is no test `{name}`; see `cargo nextest list --all-features`"));
        }
        if name.ends_with(REFUSED) {
            return Some(format!(
                "`{name}` only tests that a transport rejects the revision; cite another cell"
            ));
        }
        if let Some(why) = self.skipped.get(name) {
            return Some(format!("test `{name}` was skipped in the last `cargo xtask verify`: {why}"));
        }
        let hint = "did not pass in the last `cargo xtask verify`";
        (!self.passed.contains(name)).then(|| format!("test `{name}` {hint}"))
    }
}

#[derive(Debug, Default)]
struct Tally {
    proven: usize,
    void: usize,
    open: usize,
    complaints: Vec<String>,
}

fn check(rows: &BTreeMap<String, Row>, evidence: &Evidence) -> Tally {
    let mut tally = Tally::default();
    let ids: BTreeSet<String> = (1..=LAST).map(|number| format!("R-{number:03}")).collect();
    for id in &ids {
        let Some(row) = rows.get(id) else {
            tally.complaints.push(format!("{id}: not in the table"));
            continue;
        };
        match (row.proven.as_slice(), row.void.as_str(), row.open.as_str()) {
            ([], void, "") if !void.is_empty() => tally.void += 1,
            ([], "", open) if !open.is_empty() => tally.open += 1,
            (proofs, "", "") if !proofs.is_empty() => {
                let objections: Vec<String> = proofs.iter().filter_map(|it| evidence.objection(it)).collect();
                if objections.is_empty() {
                    tally.proven += 1;
                }
                tally.complaints.extend(objections.into_iter().map(|it| format!("{id}: {it}")));
            }
            _ => tally
                .complaints
                .push(format!("{id}: needs exactly one of `proven`, `void` and `open`, not empty")),
        }
    }
    let unknown = rows.keys().filter(|id| !ids.contains(*id));
    tally.complaints.extend(unknown.map(|id| format!("{id}: no such requirement")));
    tally
}

/// The names in `cargo nextest list --message-format json`, as nextest prints them.
fn listed_tests(json: &str) -> Result<BTreeSet<String>> {
    let list: Value = serde_json::from_str(json).context("`cargo nextest list` did not print JSON")?;
    let suites = list["rust-suites"].as_object().context("`cargo nextest list` has no `rust-suites`")?;
    let mut names = BTreeSet::new();
    for (binary, suite) in suites {
        let tests = suite["testcases"].as_object().into_iter().flatten();
        // An ignored test proves nothing, and names nobody should rely on.
        let live = tests.filter(|(_, test)| test["ignored"] != true);
        names.extend(live.map(|(test, _)| format!("{binary} {test}")));
    }
    Ok(names)
}

/// The tests of a `JUnit` report that neither failed nor were left out.
pub(crate) fn passed_tests(xml: &str) -> Result<BTreeSet<String>> {
    let document = roxmltree::Document::parse(xml).context("the test report is not XML")?;
    Ok(passed_cases(&document).map(|(name, _)| name).collect())
}

/// The tests of a `JUnit` report that passed without the service or model they need, and the reason that each printed.
fn skipped_tests(xml: &str) -> Result<BTreeMap<String, String>> {
    let document = roxmltree::Document::parse(xml).context("the test report is not XML")?;
    let why = |case: roxmltree::Node<'_, '_>| {
        let output = case
            .children()
            .filter(|node| ["system-out", "system-err"].iter().any(|stream| node.has_tag_name(*stream)));
        let mut lines = output.filter_map(|node| node.text()).flat_map(str::lines);
        lines.find_map(|line| line.strip_prefix(SKIPPED)).map(str::to_owned)
    };
    Ok(passed_cases(&document).filter_map(|(name, case)| Some((name, why(case)?))).collect())
}

fn passed_cases<'a, 'input>(
    document: &'a roxmltree::Document<'input>,
) -> impl Iterator<Item = (String, roxmltree::Node<'a, 'input>)> {
    let bad = |node: roxmltree::Node<'_, '_>| {
        ["failure", "error", "skipped"].iter().any(|it| node.has_tag_name(*it))
    };
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    cases.filter(move |case| !case.children().any(bad)).filter_map(|case| {
        let (binary, test) = (case.attribute("classname")?, case.attribute("name")?);
        Some((format!("{binary} {test}"), case))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUNIT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
        <testsuites><testsuite name="a::it">
        <testcase name="m::good" classname="a::it"/>
        <testcase name="m::flaky" classname="a::it"><flakyFailure/><system-out>x</system-out></testcase>
        <testcase name="m::bad" classname="a::it"><failure message="no"/></testcase>
        <testcase name="m::alone" classname="a::it"><system-out>running 1 test</system-out>
        <system-err>skipped: A_URL is not set; start it
</system-err></testcase>
        <testcase name="tasks::legacy_sse::2026_07_28" classname="a::it"/>
        </testsuite></testsuites>"#;

    fn evidence() -> Evidence {
        Evidence {
            tests: [
                "a::it m::good",
                "a::it m::bad",
                "a::it m::new",
                "a::it m::alone",
                "a::it tasks::legacy_sse::2026_07_28",
            ]
            .map(String::from)
            .into(),
            passed: passed_tests(JUNIT).unwrap(),
            skipped: skipped_tests(JUNIT).unwrap(),
            scenarios: ["2025-11-25/ping", "client/2025-11-25/initialize"].map(String::from).into(),
        }
    }

    fn all_open() -> BTreeMap<String, Row> {
        let row = |number| (format!("R-{number:03}"), Row { open: "later".into(), ..Row::default() });
        (1..=LAST).map(row).collect()
    }

    fn with(id: &str, row: Row) -> Tally {
        let mut rows = all_open();
        rows.insert(id.into(), row);
        check(&rows, &evidence())
    }

    fn proven(names: &[&str]) -> Row {
        Row { proven: names.iter().map(ToString::to_string).collect(), ..Row::default() }
    }

    #[test]
    fn a_test_that_passed_is_a_proof() {
        let tally = with("R-001", proven(&["a::it m::good", "a::it m::good"]));
        assert_eq!((tally.proven, tally.open), (1, 422));
        assert!(tally.complaints.is_empty(), "{:?}", tally.complaints);
    }

    #[test]
    fn a_test_that_failed_did_not_run_or_does_not_exist_is_no_proof() {
        for name in ["a::it m::bad", "a::it m::new", "a::it m::gone", "conformance:2025-11-25/pong"] {
            let tally = with("R-001", proven(&["a::it m::good", name]));
            assert_eq!((tally.proven, tally.complaints.len()), (0, 1), "{name}");
        }
    }

    #[test]
    fn a_test_without_its_service_is_no_proof() {
        let tally = with("R-001", proven(&["a::it m::good", "a::it m::alone"]));
        assert_eq!(tally.proven, 0);
        assert_eq!(
            tally.complaints,
            [
                "R-001: test `a::it m::alone` was skipped in the last `cargo xtask verify`: A_URL is not set; start it"
            ]
        );
    }

    #[test]
    fn a_cell_that_is_refused_is_no_proof() {
        let tally = with("R-001", proven(&["a::it m::good", "a::it tasks::legacy_sse::2026_07_28"]));
        assert_eq!((tally.proven, tally.complaints.len()), (0, 1));
        assert!(tally.complaints[0].contains("cite another cell"), "{tally:?}");
    }

    #[test]
    fn a_scenario_of_the_suite_is_a_proof() {
        assert_eq!(with("R-001", proven(&["conformance:2025-11-25/ping"])).proven, 1);
        assert_eq!(with("R-001", proven(&["conformance:client/2025-11-25/initialize"])).proven, 1);
        let swapped = with("R-001", proven(&["conformance:client/2025-11-25/ping"]));
        assert!(swapped.complaints[0].ends_with("`cargo xtask conformance client`"), "{swapped:?}");
    }

    #[test]
    fn a_row_says_one_thing() {
        assert_eq!(with("R-001", Row::default()).complaints.len(), 1);
        let both = Row { void: "x".into(), open: "y".into(), ..Row::default() };
        assert_eq!(with("R-001", both).complaints.len(), 1);
    }

    #[test]
    fn missing_unknown_and_double_rows_are_found() {
        let mut rows = all_open();
        rows.remove("R-007");
        rows.insert("R-424".into(), Row { open: "x".into(), ..Row::default() });
        assert_eq!(
            check(&rows, &evidence()).complaints,
            ["R-007: not in the table", "R-424: no such requirement"]
        );
        assert!(parse("R-001.open = 'x'\nR-001.open = 'y'").is_err());
        assert!(parse("R-001.shut = 'x'").is_err());
    }

    #[test]
    fn ignored_tests_are_not_listed() {
        let json =
            r#"{"rust-suites":{"a::it":{"testcases":{"m::x":{"ignored":false},"m::y":{"ignored":true}}}}}"#;
        assert_eq!(listed_tests(json).unwrap(), ["a::it m::x".to_owned()].into());
    }
}
