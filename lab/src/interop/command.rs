//! The `antiphon` command with servers of other makers: `doctor`, and `call` with and without a question.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::peers::{SERVERS, Server, Tools};
use super::report::Cell;
use super::{LIMIT, drive, wants};
use crate::server;

/// Those whose servers are tried: each over every transport it has.
const PEERS: [&str; 3] = ["server-everything", "Python v2", "FastMCP"];

/// What is answered to whatever is asked.
const ANSWERS: &str = r#"{"*": {"name": "Ada"}}"#;

/// How many things were tried, and which went wrong.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    pub(crate) passed: usize,
    pub(crate) failures: Vec<String>,
}

/// Tries the command with each server.
pub(crate) fn run(tools: &Tools, antiphon: &Path, logs: &Path, only: &str) -> Result<Tried> {
    let mut tried = Tried::default();
    let answers = logs.join("answers.json");
    fs::write(&answers, ANSWERS)?;
    for server in &SERVERS {
        let name = server.name(tools)?;
        if !PEERS.iter().any(|peer| name.starts_with(peer)) || !wants(only, &name, server.transport) {
            continue;
        }
        let log = format!("antiphon-{}-{}", server.script, server.transport);
        let address = server::free_address()?;
        let mut command = server.command(tools, address.port());
        let started = if server.transport == "stdio" {
            None
        } else {
            let log = logs.join(format!("{log}-server.log"));
            let mut started = server::Server::spawn(&mut command, address, &log)?;
            started.wait_until_ready()?;
            Some(started)
        };
        let one = One {
            tools,
            antiphon,
            answers: &answers,
            target: target(server, &command, address.port()),
            log: logs.join(log),
            config: logs.join("antiphon-config"),
        };
        for (what, outcome) in [
            ("doctor", one.doctor(server)),
            ("call", one.call(server, Cell::Call)),
            ("answer", one.call(server, Cell::Ask)),
        ] {
            match outcome {
                Ok(()) => tried.passed += 1,
                Err(error) => {
                    tried.failures.push(format!("antiphon {what}, {name} {}: {error:#}", server.transport));
                }
            }
        }
        drop(started);
    }
    Ok(tried)
}

/// One server.
struct One<'a> {
    tools: &'a Tools,
    antiphon: &'a Path,
    answers: &'a Path,
    target: String,
    log: std::path::PathBuf,
    config: std::path::PathBuf,
}

impl One<'_> {
    fn doctor(&self, server: &Server) -> Result<()> {
        let printed = self.antiphon("doctor", &["doctor", &self.target, "--json"], server)?;
        let reports: Value = serde_json::from_str(&printed).context("doctor printed no JSON")?;
        let report = &reports[0];
        ensure!(report["usable"] == true, "doctor finds it unusable: {}", report["findings"]);
        let spoken = |at: usize| !report["attempts"][at]["spoken"].is_null();
        let modern = server.unable(super::Era::Modern).is_none();
        ensure!(spoken(0) == modern && spoken(1), "doctor hears other revisions: {}", report["attempts"]);
        let tools = report["declared"]["tools"].as_array().context("doctor found no tools")?;
        for call in server.calls() {
            ensure!(tools.contains(&json!(call.tool)), "doctor does not see `{}` among {tools:?}", call.tool);
        }
        Ok(())
    }

    fn call(&self, server: &Server, cell: Cell) -> Result<()> {
        let calls = server.calls();
        let call = calls.iter().find(|call| call.cell == cell).context("nothing is called")?;
        let (arguments, answers) = (call.arguments.to_string(), self.answers.to_string_lossy());
        let name = if cell == Cell::Ask { "answer" } else { "call" };
        let printed = self.antiphon(
            name,
            &["call", "--arguments", &arguments, "--answers", &answers, &self.target, call.tool],
            server,
        )?;
        ensure!(printed.contains(call.text), "printed {printed:?}, without {:?}", call.text);
        Ok(())
    }

    fn antiphon(&self, name: &str, arguments: &[&str], server: &Server) -> Result<String> {
        let mut command = Command::new(self.antiphon);
        let (verb, rest) = arguments.split_first().context("nothing is to be done")?;
        let sse = (server.transport == "sse").then_some("--sse");
        command.arg(verb).args(sse).args(rest).env("ANTIPHON_CONFIG_DIR", &self.config);
        self.tools.compile_once(&mut command);
        drive(&mut command, &self.log.with_extension(format!("{name}.log")), LIMIT)
    }
}

/// How the command is told which server is meant: a URL, or the words that start it.
fn target(server: &Server, command: &Command, port: u16) -> String {
    if server.transport != "stdio" {
        return server.url(port);
    }
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| format!("'{}'", word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}
