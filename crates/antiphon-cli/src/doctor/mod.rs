//! `antiphon doctor`: checks servers and reports problems.

mod checks;
mod gather;
mod report;
mod web;
pub(crate) mod words;

use antiphon::testing::HostProfile;
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
  antiphon doctor --as claude-web https://mcp.example.com/mcp

The exit code is 0 if every server can be used, and 1 if not.")]
pub(crate) struct Doctor {
    /// The servers: names from the configuration, URLs, or programs with their arguments, in quotes.
    #[arg(value_name = "SERVER", required = true)]
    servers: Vec<String>,
    /// Describe the server as users of this host see it: claude-web, claude-desktop, claude-ios, chatgpt, vscode,
    /// cursor, zed, goose, gemini-cli, codex, declining, accepting-empty, hanging or generic.
    #[arg(long = "as", value_name = "HOST", value_parser = profile)]
    host: Option<HostProfile>,
    #[command(flatten)]
    reach: ConnectionArgs,
}

impl Doctor {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        let mut values = Vec::new();
        let mut unusable = Vec::new();
        for server in &self.servers {
            let gathered = match self.host {
                Some(profile) => gather::gather_as(app, server, &self.reach, profile).await,
                None => gather::gather(app, server, &self.reach).await,
            };
            let (report, findings) = match gathered {
                Ok(report) => {
                    let check = if self.host.is_some() { checks::host::all } else { checks::all };
                    let findings = check(&report);
                    (report, findings)
                }
                // If one of several servers cannot be checked, report this failure and check the other servers.
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

/// Returns the profile of the host with the name `name`.
fn profile(name: &str) -> Result<HostProfile, String> {
    let mut profiles = HostProfile::ALL.iter().copied();
    profiles.find(|profile| profile.name() == name).ok_or_else(|| {
        let names: Vec<&str> = HostProfile::ALL.iter().map(|profile| profile.name()).collect();
        format!("the host is unknown; use one of {}", names.join(", "))
    })
}

fn value(report: &Report, findings: &[Finding], usable: bool) -> Value {
    let mut value = report.json();
    if let Some(seen) = &report.host {
        let tools = checks::host::tools(report).into_iter();
        let tools = tools.map(|it| json!({"name": it.name, "callable": it.callable, "remark": it.remark}));
        value["as"] = json!({
            "host": seen.profile.name(), "title": seen.profile.title(), "tools": tools.collect::<Vec<_>>(),
        });
    }
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
        // Findings can contain text from the server, so `first_line` makes this text safe to print.
        lines.push(format!("  {:8} {}", finding.level.name(), print::first_line(&finding.message)));
        lines.extend(
            finding.message.lines().skip(1).map(|line| format!("  {:8} |{}", "", print::clean(line))),
        );
        if let Some(hint) = &finding.hint {
            lines.push(format!("  {:8} hint: {}", "", print::first_line(hint)));
        }
    }
    let tools = checks::host::tools(report);
    if !tools.is_empty() {
        let mut table = print::table(["TOOL", "THE MODEL CAN CALL IT", "REMARK"]);
        for tool in tools {
            table.add_row([print::first_line(&tool.name), tool.callable.to_owned(), tool.remark]);
        }
        lines.extend(print::trimmed(&table).lines().map(|line| format!("  {line}")));
    }
    lines.join("\n") + "\n"
}
