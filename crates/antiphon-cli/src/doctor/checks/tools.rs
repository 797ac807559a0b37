//! Checks the names and descriptions of tools.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Finding, Level, some};
use crate::doctor::report::Report;

pub(super) fn tools(report: &Report) -> impl Iterator<Item = (&str, &Value)> {
    let tools = report.declared.iter().flat_map(|it| &it.tools);
    tools.map(|tool| (tool["name"].as_str().unwrap_or_default(), tool))
}

pub(super) fn descriptions(report: &Report) -> Vec<Finding> {
    let silent = |tool: &Value| tool["description"].as_str().unwrap_or_default().trim().is_empty();
    let names: Vec<String> =
        tools(report).filter(|(_, tool)| silent(tool)).map(|(name, _)| name.to_owned()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    vec![
        Finding::new(Level::Warning, format!("has tools with no description: {}", some(&names)))
            .hint("add descriptions, so that a model can decide when to call the tools"),
    ]
}

pub(super) fn clashes(report: &Report) -> Vec<Finding> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in tools(report) {
        *counts.entry(name).or_default() += 1;
    }
    let twice: Vec<String> =
        counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name.to_owned()).collect();
    if twice.is_empty() {
        return Vec::new();
    }
    vec![
        Finding::new(Level::Problem, format!("has several tools with the same name: {}", some(&twice)))
            .hint("only one of them can be called; give each tool a different name"),
    ]
}

/// Reports tool names that some model APIs reject.
pub(super) fn names(report: &Report) -> Vec<Finding> {
    let plain = |name: &str| {
        (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    let odd: Vec<String> =
        tools(report).map(|(name, _)| name.to_owned()).filter(|name| !plain(name)).collect();
    if odd.is_empty() {
        return Vec::new();
    }
    vec![
        Finding::new(Level::Warning, format!("has tools with names that some models reject: {}", some(&odd)))
            .hint("use 1 to 64 letters, digits, `_` and `-`"),
    ]
}

/// Reports how many tools have an output schema.
pub(super) fn structured(report: &Report) -> Vec<Finding> {
    let all = tools(report).count();
    let structured = tools(report).filter(|(_, tool)| !tool["outputSchema"].is_null()).count();
    if structured == 0 {
        return Vec::new();
    }
    vec![Finding::new(Level::Ok, format!("{structured} of {all} tools have an output schema"))]
}
