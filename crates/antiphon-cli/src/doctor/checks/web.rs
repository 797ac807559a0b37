//! Checks of servers over HTTP.

use super::{Finding, Level};
use crate::doctor::report::Report;

pub(super) fn transport_security(report: &Report) -> Vec<Finding> {
    if report.web.as_ref().is_none_or(|web| web.tls || web.loopback) {
        return Vec::new();
    }
    vec![
        Finding::new(Level::Warning, "uses a network without TLS")
            .hint("others on the network can read and change the messages; use https"),
    ]
}

/// Reports whether a web page of another origin can use the server from the user's browser.
pub(super) fn origin(report: &Report) -> Vec<Finding> {
    let Some(status) = report.web.as_ref().and_then(|web| web.foreign_origin) else { return Vec::new() };
    vec![match status {
        // The server rejects all requests, for example because the path is wrong.
        300.. if report.declared.is_none() => return Vec::new(),
        200..=299 => {
            Finding::new(Level::Warning, "accepts requests from any web page (it does not check `Origin`)")
                .hint("any page in your browser could call the server; MCP requires status 403 for this")
        }
        401 | 407 => return Vec::new(),
        _ => Finding::new(Level::Ok, format!("rejects requests from other web pages (status {status})")),
    }]
}

pub(super) fn session(report: &Report) -> Vec<Finding> {
    let Some(session) = report.web.as_ref().and_then(|web| web.session) else { return Vec::new() };
    vec![if session {
        Finding::new(Level::Ok, "supports sessions of 2025-11-25")
    } else {
        Finding::new(Level::Note, "does not support sessions of 2025-11-25")
            .hint("its tools can send questions only on 2026-07-28")
    }]
}
