//! `features.md`: what every crate can be built with.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};
use toml::{Table, Value};

use crate::project::Project;

const HEAD: &str = "\
# Cargo features

This page lists the Cargo features of each crate.
Features are additive: a feature removes nothing.
*Enables* lists other crates, features of the same crate, and features of other crates as `crate/feature`.
";

/// The page.
pub(super) fn page(project: &Project, crates: &[String]) -> Result<String> {
    let mut page = HEAD.to_owned();
    for name in crates {
        let file = project.root.join("crates").join(name).join("Cargo.toml");
        let text = fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
        page.push_str(&section(name, &text).with_context(|| format!("could not read {}", file.display()))?);
    }
    Ok(page)
}

fn section(name: &str, manifest: &str) -> Result<String> {
    let parsed: Table = manifest.parse()?;
    let empty = Table::new();
    let features = parsed.get("features").and_then(Value::as_table).unwrap_or(&empty);
    let default = parts(features.get("default"));
    let comments = comments(manifest);
    let mut section = format!("\n## `{name}`\n\n");
    let mut rows = String::new();
    for (feature, brings) in features.iter().filter(|(it, _)| *it != "default" && !it.starts_with("__")) {
        let what = comments.get(feature.as_str());
        let what =
            what.with_context(|| format!("nothing is said of `{feature}`; put a `##` line above it"))?;
        let is_default = if default.contains(&feature.as_str()) { "yes" } else { "" };
        let brings = parts(Some(brings)).into_iter().filter(|it| !it.starts_with("__"));
        let brings: Vec<String> = brings.map(|it| format!("`{}`", it.trim_start_matches("dep:"))).collect();
        writeln!(rows, "| `{feature}` | {is_default} | {what} | {} |", brings.join(", "))?;
    }
    if rows.is_empty() {
        section.push_str("This crate has no features.\n");
    } else {
        write!(section, "| feature | default | description | enables |\n|---|---|---|---|\n{rows}")?;
    }
    Ok(section)
}

fn parts(feature: Option<&Value>) -> Vec<&str> {
    feature.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// What stands above each feature.
fn comments(manifest: &str) -> BTreeMap<&str, String> {
    let mut comments = BTreeMap::new();
    let mut above: Vec<&str> = Vec::new();
    let lines = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    for line in lines.take_while(|line| !line.starts_with('[')) {
        if let Some(comment) = line.strip_prefix("## ") {
            above.push(comment.trim());
        } else if let Some((name, _)) = line.split_once('=') {
            if !above.is_empty() {
                comments.insert(name.trim(), above.join(" "));
            }
            above.clear();
        } else {
            above.clear();
        }
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"x\"\n\n[features]\ndefault = [\"a\"]\n## Gives `a`.\n\
        a = [\"dep:http\", \"__core\", \"tokio/net\"]\n# Private.\n__core = []\n\n[dependencies]\nb = \"1\"\n";

    #[test]
    fn feature_is_a_row_with_what_it_brings_and_private_ones_are_none() {
        let section = section("x", MANIFEST).unwrap();
        assert!(section.contains("| `a` | yes | Gives `a`. | `http`, `tokio/net` |\n"), "{section}");
        assert!(!section.contains("__core") && !section.contains("`b`"), "{section}");
    }

    #[test]
    fn feature_of_which_nothing_is_said_is_refused() {
        let silent = MANIFEST.replace("## Gives `a`.\n", "");
        assert!(section("x", &silent).unwrap_err().to_string().contains("nothing is said of `a`"));
    }
}
