//! `cargo xtask threats`: every row of the threat model names a test that is there, or says that it is a gap.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::project::Project;

const MODEL: &str = "docs/reference/threat-model.md";
/// Where tests are.
const ROOMS: [&str; 4] = ["crates", "examples", "lab", "xtask"];

/// Reads the document and the sources, and compares them.
pub(crate) fn main() -> Result<()> {
    println!("{}", check(&Project::open()?)?);
    Ok(())
}

/// What the document says, in a line; or what is wrong with it.
pub(crate) fn check(project: &Project) -> Result<String> {
    let file = project.root.join(MODEL);
    let text = fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
    let mut words = BTreeSet::new();
    for room in ROOMS {
        gather(&project.root.join(room), &mut words)?;
    }
    let attacks = attacks(&text);
    ensure!(!attacks.is_empty(), "{MODEL} has no table of attacks");
    let complaints = complaints(&attacks, &words);
    ensure!(complaints.is_empty(), "{MODEL} is not backed by tests:\n{}", complaints.join("\n"));
    let tests: BTreeSet<&str> = attacks.iter().flat_map(|attack| attack.tests.iter().copied()).collect();
    let gaps = attacks.iter().filter(|attack| attack.gap).count();
    Ok(format!("{} attacks, {} tests, {gaps} gaps", attacks.len(), tests.len()))
}

/// A row of a table.
#[derive(Debug, PartialEq, Eq)]
struct Attack<'a> {
    name: &'a str,
    tests: Vec<&'a str>,
    /// Whether the row says that something is not stopped.
    gap: bool,
}

/// The rows of all tables whose last column is `proof`.
fn attacks(text: &str) -> Vec<Attack<'_>> {
    let mut found = Vec::new();
    let mut is_proof = false;
    for line in text.lines() {
        let Some(row) = line.strip_prefix('|').and_then(|row| row.trim_end().strip_suffix('|')) else {
            is_proof = false;
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let last = cells.last().copied().unwrap_or_default();
        if last == "proof" {
            is_proof = true;
        } else if is_proof && !row.starts_with("---") {
            let tests = last.split('`').skip(1).step_by(2).filter(|name| is_test(name)).collect();
            let gap = last.to_ascii_lowercase().contains("gap");
            found.push(Attack { name: cells[0], tests, gap });
        }
    }
    found
}

/// Whether this can be the name of a test: a sentence. What else stands in backticks is code.
fn is_test(name: &str) -> bool {
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    plain && name.matches('_').count() >= 2
}

fn complaints(attacks: &[Attack<'_>], words: &BTreeSet<String>) -> Vec<String> {
    let mut complaints = Vec::new();
    for Attack { name, tests, gap } in attacks {
        if tests.is_empty() && !gap {
            complaints.push(format!("`{name}`: no test is named, and no gap"));
        }
        let missing = tests.iter().filter(|test| !words.contains(**test));
        complaints.extend(missing.map(|test| format!("`{name}`: there is no test `{test}`")));
    }
    complaints
}

/// Gathers what is defined in the sources below `folder`: functions, and what macros make them of.
fn gather(folder: &Path, words: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with("node_modules") {
                gather(&path, words)?;
            }
        } else if path.extension().is_some_and(|it| it == "rs") {
            defined(&fs::read_to_string(&path)?, words);
        }
    }
    Ok(())
}

fn defined(source: &str, words: &mut BTreeSet<String>) {
    for line in source.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
        let is_name = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
        let name = |text: &str| text.split(|byte| !is_name(byte)).next().unwrap_or_default().to_owned();
        if let Some((_, after)) = line.split_once("fn ") {
            words.insert(name(after));
        } else if let Some((before, _)) =
            line.split_once(": \"").filter(|(before, _)| before.chars().all(is_name))
        {
            // One test a line, in a list that a macro reads.
            words.insert(before.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Model\n\n| actor | what |\n|---|---|\n| page | `is_no_test_at_all` |\n\n\
        | attack | what stops it | proof |\n|---|---|---|\n\
        | read it | it is sealed | `seal_cannot_be_read`, `Seal::open` |\n\
        | break it | nothing | gap: known |\n\
        | bend it | a hope | none |\n\nNo table: `not_a_row_here`.\n";

    #[test]
    fn rows_of_attacks_are_read_and_no_others() {
        let found = attacks(TEXT);
        let names: Vec<&str> = found.iter().map(|attack| attack.name).collect();
        assert_eq!(names, ["read it", "break it", "bend it"]);
        assert_eq!((found[0].tests.as_slice(), found[0].gap), (["seal_cannot_be_read"].as_slice(), false));
        assert!(found[1].gap && found[1].tests.is_empty());
    }

    #[test]
    fn test_that_is_not_there_and_row_without_one_are_complaints() {
        let mut words = BTreeSet::new();
        defined("    async fn seal_cannot_be_read() {\n// fn gone_long_ago() {}\n", &mut words);
        assert_eq!(complaints(&attacks(TEXT), &words), ["`bend it`: no test is named, and no gap"]);
        let none = complaints(&attacks(TEXT), &BTreeSet::new());
        assert_eq!(none[0], "`read it`: there is no test `seal_cannot_be_read`");
        assert!(!words.contains("gone_long_ago"));
    }

    #[test]
    fn tests_that_a_macro_makes_are_found() {
        let mut words = BTreeSet::new();
        defined("stopped! {\n    nothing_recurs_here: \"no_recursion\", 14;\n}\n", &mut words);
        assert!(words.contains("nothing_recurs_here"));
    }
}
