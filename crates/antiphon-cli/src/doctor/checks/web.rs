//! Checks of servers over HTTP.

use super::{Finding, Level};
use crate::doctor::report::Report;

pub(super) fn transport_security(report: &Report) -> Vec<Finding> {
    if report.web.as_ref().is_none_or(|web| web.tls || web.loopback) {
        return Vec::new();
    }
    vec![
        Finding::new(Level::Warning, "is on a network without TLS")
            .hint("whoever is on the way reads and changes what is said; use https"),
    ]
}

/// Reports whether a web page of another origin can use the server from the user's browser.
pub(super) fn origin(report: &Report) -> Vec<Finding> {
    let Some(status) = report.web.as_ref().and_then(|web| web.foreign_origin) else { return Vec::new() };
    vec![match status {
        200..=299 => {
            Finding::new(Level::Warning, "answers web pages of anybody's (it does not check `Origin`)")
                .hint("a page in your browser could use it; MCP wants such requests refused with 403")
        }
        401 | 407 => return Vec::new(),
        _ => Finding::new(Level::Ok, format!("web pages of others are refused ({status})")),
    }]
}

pub(super) fn session(report: &Report) -> Vec<Finding> {
    let Some(session) = report.web.as_ref().and_then(|web| web.session) else { return Vec::new() };
    vec![if session {
        Finding::new(Level::Ok, "keeps sessions for hosts of 2025-11-25")
    } else {
        Finding::new(Level::Note, "has no sessions for hosts of 2025-11-25")
            .hint("on that revision its tools can ask nothing; on 2026-07-28 they can")
    }]
}
