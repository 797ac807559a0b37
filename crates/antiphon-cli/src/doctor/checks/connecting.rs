//! Checks whether a server is reachable, and which protocol revisions it supports.

use super::{Finding, Level};
use crate::doctor::report::{Failure, Report};
use antiphon_transport::revision;

/// Reports why the server is not reachable.
pub(super) fn reached(report: &Report) -> Vec<Finding> {
    if report.attempts.iter().any(|attempt| attempt.ended.is_ok()) {
        return Vec::new();
    }
    let failures = || report.attempts.iter().filter_map(|attempt| attempt.ended.as_ref().err());
    let problem = |message: String| Finding::new(Level::Problem, message);
    vec![if failures().any(|failure| *failure == Failure::Unauthorized) {
        problem("the server requires authentication".into())
            .hint("bring a token: `--token`, ANTIPHON_TOKEN, or a `--header` of its own")
    } else if let Some(Failure::TimedOut(limit)) = failures().next_back() {
        problem(format!("it does not answer within {limit:?}"))
            .hint("is it an MCP server? `--verbose` shows what a program writes to standard error")
    } else {
        let Some(Failure::Other(why)) = failures().next_back() else { return Vec::new() };
        let hint = if report.program {
            "start it by hand: does it say why? It must write nothing but MCP to standard output"
        } else {
            "is it running, and is this its address? Most end with `/mcp`"
        };
        problem(format!("the connection failed: {why}")).hint(hint)
    }]
}

/// Reports which protocol revisions the server supports.
pub(super) fn revisions(report: &Report) -> Vec<Finding> {
    let spoken: Vec<(&str, u128)> = report
        .attempts
        .iter()
        .filter_map(|attempt| Some((attempt.ended.as_deref().ok()?, attempt.took.as_millis())))
        .collect();
    if spoken.is_empty() {
        return Vec::new();
    }
    let names: Vec<&str> = spoken.iter().map(|(name, _)| *name).collect();
    let times: Vec<String> = spoken.iter().map(|(_, millis)| format!("{millis} ms")).collect();
    let message = format!("speaks {} (connected in {})", names.join(" and "), times.join(" and "));
    let mut found = vec![Finding::new(Level::Ok, message)];
    for attempt in report.attempts.iter().filter(|attempt| attempt.ended.is_err()) {
        found.push(if attempt.asked == revision::ROUNDS {
            Finding::new(Level::Note, "does not speak 2026-07-28")
                .hint("nothing to do: hosts fall back; what it asks, it asks in a session")
        } else {
            Finding::new(Level::Warning, format!("does not speak {}", attempt.asked))
                .hint("hosts that are not of 2026 cannot use it")
        });
    }
    found
}
