//! What a release must pass before anything is built: what is written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Outcome;
use crate::project::Project;

/// A crate that is published.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) name: String,
    pub(super) rust_version: String,
    /// What of ours it stands on.
    pub(super) needs: BTreeSet<String>,
}

/// The packages that are published.
pub(super) fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    // An empty list is `publish = false`.
    packages.filter(|it| it["publish"].as_array().is_none_or(|registries| !registries.is_empty()))
}

/// The crates that are published, as far as a release cares.
pub(super) fn published(metadata: &Value) -> Vec<Published> {
    let names: BTreeSet<&str> = packages(metadata).filter_map(|it| it["name"].as_str()).collect();
    let of = |package: &Value| {
        let needs = package["dependencies"].as_array().into_iter().flatten();
        // What only tests need is needed too: cargo packs it with its version.
        let needs = needs.filter_map(|it| it["name"].as_str()).filter(|name| names.contains(name));
        Published {
            name: package["name"].as_str().unwrap_or_default().to_owned(),
            rust_version: package["rust_version"].as_str().unwrap_or_default().to_owned(),
            needs: needs.map(ToOwned::to_owned).collect(),
        }
    };
    packages(metadata).map(of).collect()
}

/// What crates.io asks of a crate, and what people look for.
pub(super) fn manifests(metadata: &Value) -> Result<Outcome> {
    let mut missing = Vec::new();
    let mut checked = 0;
    for package in packages(metadata) {
        let name = package["name"].as_str().unwrap_or_default();
        for field in ["description", "license", "repository", "rust_version"] {
            if package[field].as_str().is_none_or(str::is_empty) {
                missing.push(format!("{name} has no {field}"));
            }
        }
        for field in ["keywords", "categories"] {
            match package[field].as_array().map_or(0, Vec::len) {
                0 => missing.push(format!("{name} has no {field}")),
                6.. => missing.push(format!("{name} has more than five {field}")),
                _ => {}
            }
        }
        let has_library =
            package["targets"].as_array().into_iter().flatten().any(|it| it["kind"][0] == "lib");
        if has_library && package["metadata"]["docs"]["rs"]["all-features"] != true {
            missing.push(format!("{name} does not have docs.rs show all its features"));
        }
        checked += 1;
    }
    ensure!(missing.is_empty(), "{}", missing.join("; "));
    Ok(Outcome::Found(format!("{checked} crates")))
}

/// The crates, each after all that it stands on.
pub(super) fn order(crates: &[Published]) -> Result<Vec<String>> {
    let mut left: BTreeMap<&str, &Published> = crates.iter().map(|it| (it.name.as_str(), it)).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let ready: Vec<&str> = left
            .values()
            .filter(|it| it.needs.iter().all(|need| !left.contains_key(need.as_str())))
            .map(|it| it.name.as_str())
            .collect();
        ensure!(!ready.is_empty(), "these stand on each other: {:?}", left.keys());
        for name in ready {
            left.remove(name);
            order.push(name.to_owned());
        }
    }
    Ok(order)
}

/// The one version of all crates.
pub(super) fn version(metadata: &Value) -> Result<String> {
    let found: BTreeSet<&str> = packages(metadata).filter_map(|it| it["version"].as_str()).collect();
    let mut found = found.into_iter();
    let version = found.next().context("no crate is published")?;
    ensure!(found.next().is_none(), "the crates have several versions; they are released together");
    Ok(version.to_owned())
}

/// Each crate asks for the others at the version that is released with it.
pub(super) fn versions(project: &Project, version: &str) -> Result<Outcome> {
    let text = fs::read_to_string(project.root.join("Cargo.toml"))?;
    let stale = stale(&text, version)?;
    ensure!(stale.is_empty(), "Cargo.toml asks for another version than {version} of {}", stale.join(", "));
    Ok(Outcome::Found(version.to_owned()))
}

/// Those of our crates that the workspace's manifest wants in another version.
fn stale(manifest: &str, version: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse().context("Cargo.toml is no TOML")?;
    let dependencies = &manifest["workspace"]["dependencies"];
    let ours = dependencies.as_table().into_iter().flatten().filter(|(_, it)| it.get("path").is_some());
    let other = ours.filter(|(_, it)| it.get("version").and_then(toml::Value::as_str) != Some(version));
    Ok(other.map(|(name, _)| name.clone()).collect())
}

/// A release says what is new in it.
pub(super) fn changelog(project: &Project, version: &str) -> Result<Outcome> {
    let text = fs::read_to_string(project.root.join("CHANGELOG.md"))?;
    Ok(Outcome::Found(newest(&text, version)?))
}

/// What the changelog has under its newest section: of what is not released yet, or of this very version. Every section
/// has its parts in one order, so that it can be put together again from the same entries.
fn newest(text: &str, version: &str) -> Result<String> {
    const PARTS: [&str; 4] = ["Breaking", "Added", "Changed", "Fixed"];
    let mut sections: Vec<&str> = Vec::new();
    let (mut parts, mut entries) = (Vec::new(), 0);
    for line in text.lines() {
        if let Some(section) = line.strip_prefix("## ") {
            ensure!(!sections.contains(&section), "CHANGELOG.md has two sections `{section}`");
            sections.push(section);
            parts.clear();
        } else if let Some(part) = line.strip_prefix("### ") {
            let at = PARTS.iter().position(|it| *it == part);
            let at = at.with_context(|| format!("`{part}` is none of {}", PARTS.join(", ")))?;
            ensure!(parts.last().is_none_or(|last| *last < at), "`{part}` comes too late, or twice");
            parts.push(at);
        } else if line.starts_with("- ") && sections.len() == 1 {
            ensure!(!parts.is_empty(), "an entry is under no part: {line}");
            entries += 1;
        }
    }
    let newest = *sections.first().context("CHANGELOG.md has no section")?;
    let of_this = newest.split([' ', ',']).next() == Some(version);
    ensure!(
        newest == "Unreleased" || of_this,
        "the newest section is `{newest}`, neither `Unreleased` nor `{version}`"
    );
    ensure!(entries > 0, "nothing is written under `{newest}`");
    Ok(format!("{entries} entries under `{newest}`"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata() -> Value {
        json!({"packages": [
            {"name": "top", "publish": null, "rust_version": "1.88", "dependencies": [{"name": "middle"}, {"name": "serde"}]},
            {"name": "middle", "publish": null, "rust_version": "1.88", "dependencies": [{"name": "leaf"}]},
            {"name": "leaf", "publish": null, "rust_version": "1.88", "dependencies": []},
            {"name": "xtask", "publish": [], "rust_version": null, "dependencies": [{"name": "top"}]},
        ]})
    }

    #[test]
    fn a_crate_is_published_after_all_it_stands_on() {
        assert_eq!(order(&published(&metadata())).unwrap(), ["leaf", "middle", "top"]);
    }

    #[test]
    fn crates_that_stand_on_each_other_have_no_order() {
        let mut circle = metadata();
        circle["packages"][2]["dependencies"] = json!([{"name": "top"}]);
        assert!(order(&published(&circle)).unwrap_err().to_string().contains("leaf"));
    }

    #[test]
    fn a_manifest_that_lacks_something_is_named() {
        let error = manifests(&metadata()).map(drop).unwrap_err().to_string();
        assert!(
            error.contains("leaf has no description") && error.contains("leaf has no keywords"),
            "{error}"
        );
        assert!(!error.contains("xtask") && !error.contains("docs.rs"), "{error}");
        let mut library = metadata();
        library["packages"][2]["targets"] = json!([{"kind": ["lib"]}]);
        let error = manifests(&library).map(drop).unwrap_err().to_string();
        assert!(error.contains("leaf does not have docs.rs"), "{error}");
    }

    #[test]
    fn crate_that_is_wanted_in_another_version_is_named() {
        let manifest = "[workspace.dependencies]\na = { path = \"a\", version = \"0.2.0\" }\nb = { path = \"b\", version = \"0.1.0\" }\nurl = \"2\"\n";
        assert_eq!(stale(manifest, "0.2.0").unwrap(), ["b"]);
    }

    #[test]
    fn changelog_must_be_of_what_is_released_and_in_order() {
        let good = "# Changelog\n\n## Unreleased\n\n### Added\n\n- A.\n- B.\n\n### Fixed\n\n- C.\n\n## 0.1.0, 2026-01-02\n\n### Added\n\n- D.\n";
        assert_eq!(newest(good, "0.1.0").unwrap(), "3 entries under `Unreleased`");
        let of_this = good.replace("Unreleased", "0.2.0, 2026-02-03");
        newest(&of_this, "0.2.0").unwrap();
        assert!(newest(&of_this, "0.3.0").unwrap_err().to_string().contains("neither"));
        let swapped = good.replace("### Fixed", "### Breaking");
        assert!(newest(&swapped, "0.1.0").unwrap_err().to_string().contains("`Breaking` comes too late"));
        newest(&good.replace("### Added", "### News"), "0.1.0").unwrap_err();
        newest("## Unreleased\n", "0.1.0").unwrap_err();
    }
}
