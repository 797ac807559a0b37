//! `cargo xtask clients`: SDK clients of other languages drive the `tour` example to its end.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::project::{self, Profile, Project};
use crate::python::Python;
use crate::server::{self, Server};
use crate::table::Table;

const LIMIT: Duration = Duration::from_mins(1);
const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";
const TEXT: &str = "Ada: Lisbon in May, Aurora, fish, window; booked ref-";

/// Script, mode on its command line, revision it must end up with.
const PEERS: [(&str, &str, &str); 5] = [
    ("ts1.mjs", "legacy", LEGACY),
    ("ts2.mjs", "legacy", LEGACY),
    ("ts2.mjs", MODERN, MODERN),
    ("py2.py", "legacy", LEGACY),
    ("py2.py", MODERN, MODERN),
];

/// Options of `cargo xtask clients`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Use this executable instead of building the `tour` example.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Runs every client over every transport.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let folder = project.root.join("conformance").join("clients");
    let bin = project::npm_install(&folder)?;
    let venv = project.target.join("clients").join("venv");
    let python = Python::with_packages(&venv, &folder.join("requirements.txt"), || {
        eprintln!("installing the Python packages of {}", folder.display());
    })?;
    let tour = match &options.binary {
        Some(binary) => binary.clone(),
        None => project.build("tour", "tour", Profile::Dev)?,
    };
    let logs = project.target.join("clients");
    fs::create_dir_all(&logs)?;
    let server = Server::start(&tour, server::free_address()?, &[], &logs.join("tour.log"))?;

    let mut table = Table::new(["client", "revision", "transport", "calls", "seconds", "result"]);
    let mut complaints = Vec::new();
    let mut passed = 0;
    for (script, mode, revision) in PEERS {
        for transport in ["http", "stdio"] {
            eprintln!("{script} {mode} over {transport}");
            let path = folder.join(script);
            let mut command = if path.extension().is_some_and(|it| it == "py") {
                python.script(&path)
            } else {
                let mut node = Command::new(bin.join("node"));
                node.arg(path);
                node
            };
            command.arg(mode);
            if transport == "http" {
                command.arg(server.url());
            } else {
                command.arg(&tour).arg("--stdio");
            }
            let start = Instant::now();
            let log = logs.join(format!("{script}-{mode}-{transport}.log"));
            let found = drive(&mut command, &log).and_then(|report| {
                report.check(revision)?;
                Ok(report.calls)
            });
            let seconds = format!("{:.1}", start.elapsed().as_secs_f64());
            let (calls, verdict) = match &found {
                Ok(calls) => (calls.to_string(), "ok"),
                Err(_) => ("-".into(), "FAILED"),
            };
            table.row([script.into(), revision.into(), transport.into(), calls, seconds, verdict.into()]);
            match found {
                Ok(_) => passed += 1,
                Err(error) => complaints.push(format!("{script} {mode} over {transport}: {error:#}")),
            }
        }
    }
    println!("\n{table}");
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!("{passed} passed, {} failed", complaints.len());
    ensure!(complaints.is_empty(), "not every client came to its end; their logs are in {}", logs.display());
    Ok(())
}

/// The one line a driver script prints.
#[derive(Debug, Deserialize)]
struct Report {
    revision: Option<String>,
    text: Option<String>,
    #[serde(default)]
    structured: Value,
    asked: Vec<String>,
    calls: usize,
    ok: bool,
}

impl Report {
    fn check(&self, revision: &str) -> Result<()> {
        let negotiated = self.revision.as_deref().unwrap_or("none");
        ensure!(negotiated == revision, "the revision is {negotiated}, not {revision}");
        ensure!(self.ok, "the tool answered with an error: {:?}", self.text);
        let text = self.text.as_deref().unwrap_or_default();
        let reference = text.strip_prefix(TEXT).with_context(|| format!("the text is {text:?}"))?;
        ensure!(reference.len() == 8, "the booking reference in {text:?} has not 8 characters");
        let structured = structured(reference);
        ensure!(
            self.structured == structured,
            "the structured content is {}, not {structured}",
            self.structured
        );

        // The three concurrent questions may come in any order, but after the two serial ones.
        let (serial, concurrent) = self.asked.split_at(self.asked.len().min(2));
        let mut concurrent = concurrent.to_vec();
        concurrent.sort();
        ensure!(
            serial == ["destination", "month"] && concurrent == ["hotel", "meal", "seat"],
            "the questions were {:?}",
            self.asked
        );
        // At 2026-07-28 each round is a call: the first, two serial answers, three answers at once.
        let calls = if revision == MODERN { 4 } else { 1 };
        ensure!(self.calls == calls, "{} `tools/call` requests were sent, not {calls}", self.calls);
        Ok(())
    }
}

fn structured(reference: &str) -> Value {
    json!({
        "traveller": "Ada", "destination": "Lisbon", "month": "May",
        "hotel": "Aurora", "meal": "fish", "seat": "window",
        "reference": format!("ref-{reference}"),
    })
}

/// Runs one driver script and reads its report.
fn drive(command: &mut Command, log: &Path) -> Result<Report> {
    let file = File::create(log).with_context(|| format!("could not write {}", log.display()))?;
    let output = log.with_extension("json");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(File::create(&output)?)
        .stderr(file)
        .spawn()
        .context("could not start the client")?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            bail!("gave up after {} s; see {}", LIMIT.as_secs(), log.display());
        }
        thread::sleep(Duration::from_millis(20));
    };
    ensure!(status.success(), "ended with {status}; see {}", log.display());
    let text = fs::read_to_string(&output)?;
    let line = text.lines().last().with_context(|| format!("printed no report; see {}", log.display()))?;
    serde_json::from_str(line).with_context(|| format!("printed {line:?} instead of a report"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(asked: &[&str], calls: usize) -> Report {
        Report {
            revision: Some(MODERN.into()),
            text: Some(format!("{TEXT}0123abcd")),
            structured: structured("0123abcd"),
            asked: asked.iter().map(ToString::to_string).collect(),
            calls,
            ok: true,
        }
    }

    #[test]
    fn concurrent_questions_may_come_in_any_order() {
        assert!(report(&["destination", "month", "seat", "hotel", "meal"], 4).check(MODERN).is_ok());
        assert!(report(&["month", "destination", "seat", "hotel", "meal"], 4).check(MODERN).is_err());
    }

    #[test]
    fn a_question_asked_twice_is_an_error() {
        let asked = ["destination", "month", "seat", "hotel", "meal", "meal"];
        assert!(report(&asked, 4).check(MODERN).is_err());
    }

    #[test]
    fn one_round_too_many_is_an_error() {
        let asked = ["destination", "month", "seat", "hotel", "meal"];
        assert!(report(&asked, 6).check(MODERN).is_err());
    }

    #[test]
    fn another_revision_than_asked_for_is_an_error() {
        let asked = ["destination", "month", "seat", "hotel", "meal"];
        assert!(report(&asked, 1).check(LEGACY).is_err());
    }
}
