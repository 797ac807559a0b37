//! Describes how a given host uses a server.

use antiphon::testing::{FormBehavior, ModelReads};
use serde_json::{Value, json};

use super::{Finding, Level, connecting, declared, some};
use crate::doctor::{
    report::{Report, SeenBy},
    words,
};

/// The name of the MCP extension for MCP Apps.
const APPS: &str = "io.modelcontextprotocol/ui";

/// The tool with which a model reads the result of a call that continues on the server.
const TASK_RESULT: &str = "task_result";

/// The tool that shows the server's form.
const TASK_QUESTION: &str = "task_question";

const ASKING: &str = "the server can use `ServerBuilder::with_asking(AskPolicy::default())`";

/// Returns the findings about how the host uses the server. The report names the host.
pub(crate) fn all(report: &Report) -> Vec<Finding> {
    let always: [fn(&Report) -> Vec<Finding>; 3] =
        [connecting::reached, connecting::stray_output, declared::unlisted];
    let mut found: Vec<Finding> = always.iter().flat_map(|check| check(report)).collect();
    if let Some(host) = &report.host {
        let checks: [fn(&Report, &SeenBy) -> Vec<Finding>; 6] =
            [about, listed, questions, long_calls, required_tasks, results];
        found.extend(checks.iter().flat_map(|check| check(report, host)));
    }
    found
}

/// A tool of the server, and how the host uses the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostTool {
    pub(crate) name: String,
    /// Whether the model can call the tool: `yes`, `no`, or `only its app`.
    pub(crate) callable: &'static str,
    pub(crate) remark: String,
}

/// Returns the tools of the server, and how the host uses each tool. Returns an empty list if the report is not for a
/// host.
pub(crate) fn tools(report: &Report) -> Vec<HostTool> {
    let (Some(host), Some(declared)) = (&report.host, &report.declared) else { return Vec::new() };
    let seen = |name: &str| declared.tools.iter().find(|tool| tool["name"] == *name);
    let hidden = host.all_tools.iter().filter(|tool| is_for_models(tool) && seen(name(tool)).is_none());
    let rows = declared.tools.iter().chain(hidden).map(|tool| {
        let callable = match seen(name(tool)) {
            None => "no",
            Some(tool) if !is_for_models(tool) => "only its app",
            Some(_) => "yes",
        };
        HostTool { name: name(tool).to_owned(), callable, remark: remark(tool, host) }
    });
    rows.collect()
}

fn remark(tool: &Value, host: &SeenBy) -> String {
    let mut remarks = Vec::new();
    if is_task_only(tool) && !host.profile.has_tasks(host.revision) {
        remarks.push("runs only as a task, which the host does not support");
    }
    if tool["_meta"]["ui"]["resourceUri"].is_string() {
        remarks.push(if host.profile.shows_apps() { "shows an app" } else { "its app is not shown" });
    }
    remarks.join(", ")
}

fn about(report: &Report, host: &SeenBy) -> Vec<Finding> {
    let capabilities = host.profile.capabilities(host.revision);
    let mut declared: Vec<String> =
        capabilities.as_object().into_iter().flat_map(|it| it.keys().cloned()).collect();
    declared.retain(|name| name != "extensions");
    if host.profile.shows_apps() {
        declared.push("MCP Apps".to_owned());
    }
    let declared = if declared.is_empty() { "no capabilities".to_owned() } else { declared.join(", ") };
    let revision = report.declared.as_ref().map_or(host.revision.as_str(), |it| it.revision.as_str());
    let message = format!("as {}: uses {revision} and declares {declared}", host.profile.title());
    vec![
        Finding::new(Level::Note, message)
            .hint("this is a profile from observations and public reports; hosts change often"),
    ]
}

fn listed(report: &Report, _: &SeenBy) -> Vec<Finding> {
    let tools = tools(report);
    let with = |callable: &str| -> Vec<String> {
        tools.iter().filter(|tool| tool.callable == callable).map(|tool| tool.name.clone()).collect()
    };
    let (callable, hidden) = (with("yes"), with("no"));
    let counts = words::Counts { tools: Some(callable.len()), ..words::Counts::default() };
    let mut found = vec![Finding::new(Level::Ok, format!("the model can call {}", counts.sentence()))];
    if !hidden.is_empty() {
        found.push(
            Finding::new(Level::Note, format!("the host does not list {}", some(&hidden)))
                .hint("these tools need capabilities that the host does not declare"),
        );
    }
    found
}

/// Reports whether a question reaches the user, and through which channel.
fn questions(report: &Report, host: &SeenBy) -> Vec<Finding> {
    let profile = host.profile;
    let has_form = report.declared.as_ref().is_some_and(|it| !it.capabilities["extensions"][APPS].is_null())
        && has_tool(report, TASK_QUESTION);
    let behavior = profile.form(&json!({}));
    let unshown = match behavior {
        FormBehavior::Declines => "the host declines each form without its user",
        FormBehavior::AcceptsEmpty => "the host accepts each form without its user and without values",
        FormBehavior::Ignores => "the host does not answer forms",
        _ => "the host does not declare forms",
    };
    let reached = "questions reach the user through the server's form (MCP App)";
    let mut found = vec![match (behavior, has_form) {
        (FormBehavior::Shows, _) => Finding::new(Level::Ok, "questions reach the user: the host shows forms"),
        (FormBehavior::Ignores, true) => {
            Finding::new(Level::Warning, format!("after a call that timed out, {reached}: {unshown}"))
        }
        (_, true) => Finding::new(Level::Ok, format!("{reached}: {unshown}"))
            .hint(format!("the model shows the form with `{TASK_QUESTION}`")),
        (_, false) => {
            let hint = if profile.shows_apps() {
                format!("{ASKING}, which offers a form as an MCP App")
            } else {
                "the host shows no MCP Apps; a tool can use a default if `ctx.elicit` fails".to_owned()
            };
            Finding::new(Level::Warning, format!("questions do not reach the user: {unshown}")).hint(hint)
        }
    }];
    let unshown: Vec<&str> = ["array", "boolean", "integer", "number", "string"]
        .into_iter()
        .filter(|kind| !profile.shows_field(&json!({"type": kind})))
        .collect();
    if !unshown.is_empty() {
        let message =
            format!("the host accepts forms with these fields without values: {}", unshown.join(", "));
        // The list of tools does not show which forms a tool sends. So this finding states a rule, and does not name
        // tools.
        found.push(Finding::new(Level::Warning, message).hint("use strings and enums in forms"));
    }
    found
}

fn long_calls(report: &Report, host: &SeenBy) -> Vec<Finding> {
    if has_tool(report, TASK_RESULT) {
        let message = "a long call returns early, and its run continues on the server";
        let hint = format!("the model reads the result with `{TASK_RESULT}`");
        return vec![Finding::new(Level::Ok, message).hint(hint)];
    }
    let Some(limit) = host.profile.gives_up_after() else { return Vec::new() };
    let message = format!("the host ends a call after about {limit:?}");
    vec![Finding::new(Level::Warning, message).hint(format!("{ASKING}: a long call then returns earlier"))]
}

/// Reports the tools that run only as tasks, if the host does not support tasks.
fn required_tasks(report: &Report, host: &SeenBy) -> Vec<Finding> {
    if host.profile.has_tasks(host.revision) {
        return Vec::new();
    }
    let declared = report.declared.iter().flat_map(|it| &it.tools);
    let names: Vec<String> =
        declared.filter(|tool| is_task_only(tool)).map(|tool| name(tool).to_owned()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let message = format!("calls of these tools fail, because the host has no tasks: {}", some(&names));
    vec![Finding::new(Level::Warning, message).hint(ASKING)]
}

/// Reports which parts of a result the model reads.
fn results(_: &Report, host: &SeenBy) -> Vec<Finding> {
    let part = match host.profile.model_reads() {
        ModelReads::Text => "only the text of a result, so the text must be complete",
        ModelReads::Structured => "only `structuredContent` if a result has it, so it must be complete",
        _ => "the text and `structuredContent` of a result",
    };
    let mut found = vec![Finding::new(Level::Ok, format!("the model reads {part}"))];
    if let Some(most) = host.profile.max_result_chars() {
        let message = format!("the host removes the middle of results with more than {most} characters");
        found.push(Finding::new(Level::Note, message).hint("keep results below 8 KiB"));
    }
    found
}

fn name(tool: &Value) -> &str {
    tool["name"].as_str().unwrap_or_default()
}

fn has_tool(report: &Report, wanted: &str) -> bool {
    report.declared.iter().flat_map(|it| &it.tools).any(|tool| name(tool) == wanted)
}

/// Returns whether a host offers the tool to its model. Tools that a host does not offer to its model are for apps.
fn is_for_models(tool: &Value) -> bool {
    let visibility = tool["_meta"]["ui"]["visibility"].as_array();
    visibility.is_none_or(|visibility| visibility.iter().any(|it| it == "model"))
}

/// Returns whether the tool runs only as a task. On MCP 2026-07-28, a server does not declare whether a tool runs only
/// as a task.
fn is_task_only(tool: &Value) -> bool {
    tool["_meta"]["antiphon/execution"]["taskSupport"] == "required"
}

#[cfg(test)]
mod tests {
    use antiphon::testing::{HostProfile, Revision};

    use super::*;
    use crate::doctor::report::Declared;

    fn report(profile: HostProfile, tools: Value, capabilities: Value) -> Report {
        let tools: Vec<Value> = serde_json::from_value(tools).unwrap();
        let revision = Revision::V2025_11_25;
        Report {
            declared: Some(Declared { tools: tools.clone(), capabilities, ..Declared::default() }),
            host: Some(SeenBy { profile, revision, all_tools: tools }),
            ..Report::default()
        }
    }

    #[track_caller]
    fn check(report: &Report, level: Level, message: &str) {
        let found = all(report);
        let is_found = found.iter().any(|it| it.level == level && it.message.contains(message));
        assert!(is_found, "no {level:?} {message:?} in {found:#?}");
    }

    #[test]
    fn channel_of_questions_depends_on_the_host_and_on_the_server() {
        let plain = json!([{"name": "onboard"}]);
        let asking = json!([{"name": "onboard"}, {"name": "task_result"}, {"name": "task_question"}]);
        let apps = json!({"extensions": {APPS: {}}});
        check(&report(HostProfile::Cursor, plain.clone(), json!({})), Level::Ok, "the host shows forms");
        let web = report(HostProfile::ClaudeWeb, plain, json!({}));
        check(&web, Level::Warning, "questions do not reach the user");
        check(&web, Level::Warning, "after about 60s");
        let web = report(HostProfile::ClaudeWeb, asking.clone(), apps.clone());
        check(&web, Level::Ok, "through the server's form");
        check(&web, Level::Ok, "a long call returns early");
        check(&report(HostProfile::Declining, asking, apps), Level::Ok, "declines each form");
    }

    #[test]
    fn limits_of_codex_are_reported() {
        let required = json!({"antiphon/execution": {"taskSupport": "required"}});
        let tools = json!([{"name": "onboard", "_meta": required}]);
        let codex = report(HostProfile::Codex, tools.clone(), json!({}));
        check(&codex, Level::Warning, "without values: array, integer");
        check(&codex, Level::Warning, "has no tasks: `onboard`");
        check(&codex, Level::Ok, "only `structuredContent`");
        check(&codex, Level::Note, "more than 12000 characters");
        let vscode = report(HostProfile::VsCode, tools, json!({}));
        assert!(!all(&vscode).iter().any(|it| it.message.contains("has no tasks")));
    }

    #[test]
    fn tools_for_apps_and_hidden_tools_are_listed_as_such() {
        let ui = |visibility: Value| json!({"ui": {"resourceUri": "ui://x", "visibility": visibility}});
        let (show, open) = (ui(json!(["model"])), ui(json!(["app"])));
        let tools = json!([{"name": "show", "_meta": show}, {"name": "open", "_meta": open}]);
        let mut report = report(HostProfile::ClaudeWeb, tools, json!({}));
        report.host.as_mut().unwrap().all_tools.push(json!({"name": "sample"}));
        let rows: Vec<_> =
            super::tools(&report).into_iter().map(|it| (it.name, it.callable, it.remark)).collect();
        assert_eq!(
            rows,
            [
                ("show".to_owned(), "yes", "shows an app".to_owned()),
                ("open".to_owned(), "only its app", "shows an app".to_owned()),
                ("sample".to_owned(), "no", String::new()),
            ]
        );
        check(&report, Level::Note, "does not list `sample`");
    }
}
