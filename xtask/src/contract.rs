//! `cargo xtask contract`: the streaming contract, over every transport and on both revisions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::project::{self, Project};
use crate::requirements;
use crate::table::Table;

const BINARY: &str = "antiphon-host::contract";
const COLUMNS: [(&str, &str); 5] = [
    ("in_process", "pipe"),
    ("stdio", "stdio"),
    ("streamable_http", "http"),
    ("websocket", "ws"),
    ("legacy_sse", "sse"),
];
const REVISIONS: [(&str, &str); 2] = [("2025_11_25", "25"), ("2026_07_28", "26")];

/// Runs the cells and prints them as a matrix.
pub(crate) fn main() -> Result<()> {
    let project = Project::open()?;
    let mut command = project::cargo();
    command.args(["nextest", "run", "--profile", "contract", "--package", "antiphon-host", "--all-features"]);
    let ran = project::run(command.args(["--test", "contract"]).current_dir(&project.root));
    let report = project.root.join("target/nextest/contract/junit.xml");
    let report = fs::read_to_string(&report)
        .with_context(|| format!("nextest left no {}", report.display()))
        .or_else(|missing| ran.as_ref().map(|()| String::new()).map_err(|_| missing))?;
    let passed = requirements::passed_tests(&report)?;
    let matrix = Matrix::read(&report, &passed)?;
    println!("\n{}", matrix.table());
    println!("`x` is a cell whose revision the transport may not carry: that it is refused was checked.");
    let failed = matrix.cells() - passed.len();
    println!("{} passed, {failed} failed", passed.len());
    ran.context("some cells are red; the tests above say why")?;
    ensure!(failed == 0, "{failed} cells are red");
    Ok(())
}

/// Which cell of which behaviour passed.
#[derive(Debug, Default)]
struct Matrix(BTreeMap<String, BTreeMap<(String, String), bool>>);

impl Matrix {
    fn read(report: &str, passed: &BTreeSet<String>) -> Result<Self> {
        let document = roxmltree::Document::parse(report).context("the test report is not XML")?;
        let mut matrix = Self::default();
        for case in document.descendants().filter(|node| node.has_tag_name("testcase")) {
            let name = case.attribute("name").unwrap_or_default();
            let [behaviour, transport, revision] = name.split("::").collect::<Vec<_>>()[..] else { continue };
            let green = passed.contains(&format!("{BINARY} {name}"));
            let row = matrix.0.entry(behaviour.replace('_', " ")).or_default();
            row.insert((transport.to_owned(), revision.to_owned()), green);
        }
        ensure!(!matrix.0.is_empty(), "no cell of the contract ran");
        Ok(matrix)
    }

    fn cells(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    fn table(&self) -> Table {
        let heads: Vec<String> = COLUMNS
            .iter()
            .flat_map(|(_, transport)| REVISIONS.map(|(_, revision)| format!("{transport} {revision}")))
            .collect();
        let mut header = vec!["behaviour"];
        header.extend(heads.iter().map(String::as_str));
        let mut table = Table::of(&header);
        for (behaviour, cells) in &self.0 {
            let mut row = vec![behaviour.clone()];
            for (transport, _) in COLUMNS {
                for (revision, _) in REVISIONS {
                    let forbidden = transport == "legacy_sse" && revision == "2026_07_28";
                    row.push(match cells.get(&(transport.to_owned(), revision.to_owned())) {
                        Some(true) if forbidden => "x".into(),
                        Some(true) => "ok".into(),
                        Some(false) => "RED".into(),
                        None => "?".into(),
                    });
                }
            }
            table.push(row);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_red_unless_its_test_passed() {
        let report = r#"<testsuites><testsuite name="antiphon-host::contract">
            <testcase name="tools::stdio::2025_11_25" classname="antiphon-host::contract"/>
            <testcase name="tools::stdio::2026_07_28" classname="antiphon-host::contract"><failure/></testcase>
            </testsuite></testsuites>"#;
        let passed = requirements::passed_tests(report).unwrap();
        let matrix = Matrix::read(report, &passed).unwrap();
        assert_eq!(matrix.cells(), 2);
        let table = matrix.table().to_string();
        assert!(table.contains("ok") && table.contains("RED"), "{table}");
    }
}
