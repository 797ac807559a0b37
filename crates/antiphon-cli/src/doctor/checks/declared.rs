//! Checks the capabilities that a server declares.

use serde_json::Value;

use super::{Finding, Level, some};
use crate::doctor::{
    report::Report,
    words::{self, Counts, LEGACY_TASKS, TASKS},
};

/// Reports the numbers of the server's tools, prompts and resources, and the server's other capabilities.
pub(super) fn offers(report: &Report) -> Vec<Finding> {
    let Some(it) = &report.declared else { return Vec::new() };
    let offers = |what: &str, count: usize| (!it.capabilities[what].is_null()).then_some(count);
    let counts = Counts {
        tools: offers("tools", it.tools.len()),
        prompts: offers("prompts", it.prompts),
        resources: offers("resources", it.resources),
        templates: offers("resources", it.templates),
    };
    let mut found = vec![if counts == Counts::default() {
        Finding::new(Level::Warning, "declares no tools, no prompts and no resources")
            .hint("a host cannot use this server; add a tool, a prompt or a resource")
    } else {
        Finding::new(Level::Ok, format!("offers {}", counts.sentence()))
    }];
    let others = words::capabilities(&it.capabilities);
    if !others.is_empty() {
        found.push(Finding::new(Level::Ok, format!("declares: {}", others.join(", "))));
    }
    found
}

/// Reports each declared capability for which the server fails to list its items.
pub(super) fn unlisted(report: &Report) -> Vec<Finding> {
    let unlisted = report.declared.iter().flat_map(|it| &it.unlisted);
    unlisted
        .map(|(what, why)| {
            Finding::new(Level::Problem, format!("declares {what}, but does not list them: {why}"))
                .hint("fix the list, or do not declare the capability")
        })
        .collect()
}

/// Reports whether the server has instructions.
pub(super) fn instructions(report: &Report) -> Vec<Finding> {
    let Some(it) = &report.declared else { return Vec::new() };
    match &it.instructions {
        Some(text) => vec![Finding::new(
            Level::Ok,
            format!("has instructions: {}", text.lines().next().unwrap_or_default()),
        )],
        None => vec![
            Finding::new(Level::Note, "has no instructions")
                .hint("add a sentence that describes when to use the server; it helps the model"),
        ],
    }
}

/// Reports on which protocol revisions the server can run calls as tasks.
pub(super) fn tasks(report: &Report) -> Vec<Finding> {
    let able = |it: &Value| {
        [&it["extensions"][TASKS], &it["experimental"][LEGACY_TASKS], &it["tasks"]]
            .iter()
            .any(|it| !it.is_null())
    };
    let attempts = report.attempts.iter().filter(|attempt| able(&attempt.capabilities));
    let revisions: Vec<String> = attempts.filter_map(|attempt| attempt.ended.clone().ok()).collect();
    if revisions.is_empty() {
        return Vec::new();
    }
    vec![
        Finding::new(Level::Ok, format!("runs tasks on {}", revisions.join(" and ")))
            .hint("a call continues after you disconnect; `antiphon tasks` shows it"),
    ]
}

/// Reports whether the server can return result sets.
pub(super) fn result_sets(report: &Report) -> Vec<Finding> {
    let declared = report.declared.as_ref();
    if declared.is_none_or(|it| it.capabilities["experimental"]["dualResponse"].is_null()) {
        return Vec::new();
    }
    vec![
        Finding::new(Level::Ok, "returns result sets (dual responses)")
            .hint("`antiphon results` pages, sorts and exports them"),
    ]
}

/// Reports tools that the server lists only for hosts that can answer questions.
pub(super) fn hidden_tools(report: &Report) -> Vec<Finding> {
    let (Some(it), Some(bare)) = (&report.declared, &report.bare_tools) else { return Vec::new() };
    let names = it.tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned);
    let hidden: Vec<String> = names.filter(|name| !bare.contains(name)).collect();
    if hidden.is_empty() {
        return Vec::new();
    }
    let message = format!("has tools only for hosts that can answer questions: {}", some(&hidden));
    vec![
        Finding::new(Level::Note, message)
            .hint("these tools use forms, sampling or roots; for sampling, use `antiphon call --model`"),
    ]
}
