//! Checks whether a server is reachable, and which protocol revisions it supports.

use super::{Finding, Level};
use crate::doctor::report::{Failure, Report};
use antiphon_transport::revision::Revision;

/// Reports the reason why the server is not reachable.
pub(super) fn reached(report: &Report) -> Vec<Finding> {
    if report.attempts.iter().any(|attempt| attempt.ended.is_ok()) {
        return Vec::new();
    }
    let failures = || report.attempts.iter().filter_map(|attempt| attempt.ended.as_ref().err());
    let problem = |message: String| Finding::new(Level::Problem, message);
    vec![if failures().any(|failure| *failure == Failure::Unauthorized) {
        problem("the server requires authentication".into())
            .hint("pass a token with `--token`, ANTIPHON_TOKEN or `--header`")
    } else if let Some(Failure::TimedOut(limit)) = failures().next_back() {
        problem(format!("the server did not respond within {limit:?}"))
            .hint("check that it is an MCP server; `--verbose` shows the error output of a program")
    } else {
        let Some(Failure::Other { cause, hint }) = failures().next_back() else { return Vec::new() };
        let finding = problem(format!("the connection failed: {cause}"));
        match hint {
            Some(hint) => finding.hint(*hint),
            None => finding,
        }
    }]
}

/// Reports text on the standard output of a program. The standard output of a server program is only for MCP messages.
pub(super) fn stray_output(report: &Report) -> Vec<Finding> {
    let Some(line) = &report.stray else { return Vec::new() };
    let message = format!("wrote a line to standard output that is not an MCP message: `{line}`");
    let hint = "a server must write logs to standard error; other hosts can fail because of this line";
    vec![Finding::new(Level::Warning, message).hint(hint)]
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
    let message = format!("supports {} (connected in {})", names.join(" and "), times.join(" and "));
    let mut found = vec![Finding::new(Level::Ok, message)];
    for attempt in report.attempts.iter().filter(|attempt| attempt.ended.is_err()) {
        let message = format!("does not support {}", attempt.asked);
        found.push(if Revision::of(Some(attempt.asked)) == Revision::Rounds {
            Finding::new(Level::Note, message)
                .hint("no action needed: hosts use 2025-11-25, and the server sends questions in a session")
        } else {
            Finding::new(Level::Warning, message)
                .hint("hosts that support only this revision cannot use the server")
        });
    }
    found
}
