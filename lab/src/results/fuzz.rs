//! Schemathesis against a real server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{build, document_path};
use crate::project::{Project, show};
use crate::python::Python;
use crate::server::{self, Server};

/// A way to ask.
struct Pass {
    name: &'static str,
    /// Whether callers must show who they are.
    callers: bool,
    /// What rows are asked for as; without it, everything is asked for.
    accept: Option<&'static str>,
}

const PASSES: [Pass; 4] = [
    Pass { name: "anybody", callers: false, accept: None },
    Pass { name: "callers", callers: true, accept: None },
    Pass { name: "ndjson", callers: false, accept: Some("application/x-ndjson") },
    Pass { name: "csv", callers: false, accept: Some("text/csv") },
];

/// The passes have so many operations together whose requests differ.
const OPERATIONS: u64 = 18;

/// Asks at least `cases` things.
pub(super) fn main(project: &Project, cases: u64) -> Result<()> {
    let binary = build(project)?;
    let folder = project.target.join("results-fuzz");
    fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
    let requirements = project.root.join("lab/conformance/results/requirements.txt");
    Python::with_packages(&folder.join("python"), &requirements, || println!("installing schemathesis"))?;
    let document = document_path(project);
    let document =
        fs::read_to_string(&document).with_context(|| format!("could not read {}", document.display()))?;
    let document: Value = serde_json::from_str(&document).context("openapi.json is not JSON")?;
    // Beside those there are some that are always tried, so the sum is more.
    let examples = (cases / OPERATIONS).max(1);
    let (mut passed, mut failed) = (0, 0);
    for pass in &PASSES {
        let counted = pass.run(&binary, &folder, &document, examples)?;
        println!("{}: {} passed, {} failed", pass.name, counted.passed, counted.failed);
        passed += counted.passed;
        failed += counted.failed;
    }
    println!("{passed} passed, {failed} failed");
    ensure!(
        failed == 0,
        "{failed} answers are not what openapi.json says; the reports are in {}",
        folder.display()
    );
    ensure!(passed >= cases, "only {passed} requests were tried, not {cases}");
    Ok(())
}

/// How many requests were answered as they should be, and how many not.
#[derive(Debug, PartialEq, Eq)]
struct Counted {
    passed: u64,
    failed: u64,
}

impl Pass {
    fn run(&self, binary: &Path, folder: &Path, document: &Value, examples: u64) -> Result<Counted> {
        let file = |ending: &str| -> PathBuf { folder.join(format!("{}{ending}", self.name)) };
        let (ids, report, log) = (file("-ids.json"), file("-report.json"), file(".log"));
        for old in [&ids, &report, &log] {
            // What is not there need not be removed.
            let _ = fs::remove_file(old);
        }
        let mut extra = vec!["--ids".to_owned(), ids.display().to_string()];
        extra.extend(self.callers.then(|| "--callers".to_owned()));
        let server = Server::start(binary, server::free_address()?, &extra, &log)?;
        let ids = wait_for(&ids)?;
        let known = file("-openapi.json");
        fs::write(&known, with_known(document.clone(), &ids)?.to_string())
            .with_context(|| format!("could not write {}", known.display()))?;
        let mut command = Command::new(folder.join("python/bin/schemathesis"));
        command.arg("run").arg(&known).arg("--url").arg(format!("http://{}/resources", server.address()));
        command.args(["--checks", "all", "--seed", "1", "--no-color", "--continue-on-failure"]);
        command.args(["--max-examples", &examples.to_string(), "--report", "json"]);
        command.arg("--report-json-path").arg(&report);
        if self.callers {
            command.args(["--header", "Authorization: Bearer fuzz"]);
        } else {
            // Where nobody is asked who they are, that is no fault.
            command.args(["--exclude-checks", "ignored_auth"]);
        }
        if let Some(accept) = self.accept {
            command.args(["--header", &format!("Accept: {accept}")]);
            command.args(["--include-operation-id", "readPage", "--include-operation-id", "readRows"]);
        }
        // It keeps what it has learnt in the folder it runs in.
        command.current_dir(folder).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("could not start `{}`", show(&command)))?;
        let counted = count(&fs::read_to_string(&report).unwrap_or_default());
        if !output.status.success() || counted.is_err() {
            println!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let counted = counted?;
        // An exit that is no success must not be counted as one, whatever the report says.
        let unexplained = u64::from(!output.status.success() && counted.failed == 0);
        Ok(Counted { failed: counted.failed + unexplained, ..counted })
    }
}

/// Reads what schemathesis says it has done.
fn count(report: &str) -> Result<Counted> {
    let report: Value = serde_json::from_str(report).context("schemathesis left no report")?;
    let number = |name: &str| {
        report["test_cases"][name].as_u64().with_context(|| format!("no `{name}` in the report"))
    };
    ensure!(report["complete"] == true, "schemathesis has not finished");
    let failed = number("with_failures")? + number("errored")?;
    Ok(Counted { passed: number("generated")?.saturating_sub(failed), failed })
}

/// The sets that the server has made. It writes them down after it has begun to listen.
fn wait_for(path: &Path) -> Result<Vec<String>> {
    let start = std::time::Instant::now();
    loop {
        if let Some(ids) = fs::read_to_string(path).ok().and_then(|text| serde_json::from_str(&text).ok()) {
            return Ok(ids);
        }
        ensure!(start.elapsed().as_secs() < 10, "the server wrote no {}", path.display());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The document with what this server has: nobody guesses an id, nor the name of a column. Sets to be deleted are
/// others than those that stay. A cursor belongs to one page of one set, which a document cannot say, so it is left
/// to the tests.
fn with_known(mut document: Value, ids: &[String]) -> Result<Value> {
    let columns = json!({"type": "string", "enum": ["id", "name"]});
    let components = &mut document["components"];
    components["parameters"]["id"]["schema"] = json!({"type": "string", "enum": ids});
    components["parameters"]["id"]["example"] = json!(ids.first());
    components["schemas"]["Sort"]["properties"]["field"] = columns.clone();
    let page = &mut components["schemas"]["PageRequest"];
    page["examples"][0]["sort"]["field"] = json!("id");
    page["properties"].as_object_mut().context("a page is asked for without members")?.remove("cursor");
    document["paths"]["/{id}"]["delete"]["parameters"] = json!([
        {"name": "id", "in": "path", "required": true, "schema": {"type": "string", "pattern": "^go_[0-9]{9}$"}}
    ]);
    // The page is the same for every set, and for none: its own tests say so.
    document["paths"].as_object_mut().context("there are no paths")?.remove("/{id}/view");
    for path in ["/{id}/rows", "/{id}/export"] {
        let parameters = document["paths"][path]["get"]["parameters"].as_array_mut();
        let parameters = parameters.context("rows are asked for without parameters")?;
        parameters.retain(|parameter| parameter["name"] != "cursor");
        for parameter in parameters.iter_mut().filter(|parameter| parameter["name"] == "sort") {
            parameter["schema"] = columns.clone();
        }
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_not_counted_as_passed() {
        let report =
            r#"{"complete": true, "test_cases": {"generated": 10, "with_failures": 2, "errored": 1}}"#;
        assert_eq!(count(report).unwrap(), Counted { passed: 7, failed: 3 });
        assert!(count(&report.replace("true", "false")).is_err());
        assert!(count("").is_err());
    }
}
