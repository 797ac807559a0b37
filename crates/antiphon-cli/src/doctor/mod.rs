//! `antiphon doctor`: checks servers and reports problems.

mod checks;
mod gather;
mod report;
mod web;
pub(crate) mod words;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};

use self::{
    checks::{Finding, Level},
    report::Report,
};
use crate::{exit::Outcome, global::App, print, target::ConnectionArgs};

/// Check servers: show their capabilities and report problems. No tool is called.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  antiphon doctor https://mcp.example.com/mcp
  antiphon doctor \"npx -y @modelcontextprotocol/server-everything\" weather

The exit code is 0 if every server can be used, and 1 if not.")]
pub(crate) struct Doctor {
    /// The servers: names from the configuration, URLs, or programs with their arguments, in quotes.
    #[arg(value_name = "SERVER", required = true)]
    servers: Vec<String>,
    #[command(flatten)]
    reach: ConnectionArgs,
}

impl Doctor {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        let mut values = Vec::new();
        let mut unusable = Vec::new();
        for server in &self.servers {
            let (report, findings) = match gather::gather(app, server, &self.reach).await {
                Ok(report) => {
                    let findings = checks::all(&report);
                    (report, findings)
                }
                // If one of several servers cannot be checked, report that and check the others.
                Err(error) if self.servers.len() > 1 => {
                    let report = Report { server: server.clone(), ..Report::default() };
                    (report, vec![Finding::new(Level::Problem, format!("{error:#}"))])
                }
                Err(error) => return Err(error),
            };
            let usable = report.declared.is_some() && findings.iter().all(|it| it.level != Level::Problem);
            if !usable {
                unusable.push(format!("`{server}`"));
            }
            if app.json {
                values.push(value(&report, &findings, usable));
            } else {
                print::line(&text(&report, &findings));
            }
        }
        if app.json {
            print::json(&format!("{:#}", Value::from(values)));
        }
        if !unusable.is_empty() {
            bail!("{} cannot be used; the problems above are the reasons", unusable.join(", "));
        }
        Ok(Outcome::Done)
    }
}

fn value(report: &Report, findings: &[Finding], usable: bool) -> Value {
    let mut value = report.json();
    value["usable"] = json!(usable);
    value["findings"] = findings
        .iter()
        .map(|it| json!({"level": it.level.name(), "message": it.message, "hint": it.hint}))
        .collect();
    value
}

fn text(report: &Report, findings: &[Finding]) -> String {
    let mut lines = vec![print::first_line(&report.server)];
    if let Some(declared) = &report.declared {
        lines.push(format!("  {}", declared.title));
    }
    for finding in findings {
        // Findings can contain text of the server, so `first_line` cleans them.
        lines.push(format!("  {:8} {}", finding.level.name(), print::first_line(&finding.message)));
        lines.extend(
            finding.message.lines().skip(1).map(|line| format!("  {:8} |{}", "", print::clean(line))),
        );
        if let Some(hint) = &finding.hint {
            lines.push(format!("  {:8} hint: {}", "", print::first_line(hint)));
        }
    }
    lines.join("\n") + "\n"
}
