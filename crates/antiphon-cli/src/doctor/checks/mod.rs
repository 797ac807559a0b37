//! Evaluates the collected facts. Each check is a function that takes a [`Report`] and returns its findings.

mod connecting;
mod declared;
pub(crate) mod host;
mod schemas;
mod tools;
mod web;

use super::report::Report;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The checked feature works.
    Ok,
    /// The finding is useful information.
    Note,
    /// The checked feature does not work, or does not work with all hosts.
    Warning,
    /// Hosts cannot use the server in this state.
    Problem,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// A finding, with a hint that describes how to fix the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Finding {
    pub(super) fn new(level: Level, message: impl Into<String>) -> Self {
        Self { level, message: message.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Runs all checks and returns their findings.
pub(crate) fn all(report: &Report) -> Vec<Finding> {
    let checks: &[fn(&Report) -> Vec<Finding>] = &[
        connecting::reached,
        connecting::revisions,
        connecting::stray_output,
        declared::offers,
        declared::unlisted,
        declared::instructions,
        declared::tasks,
        declared::result_sets,
        declared::hidden_tools,
        tools::descriptions,
        tools::clashes,
        tools::names,
        tools::structured,
        schemas::inputs,
        schemas::outputs,
        schemas::forms,
        web::transport_security,
        web::origin,
        web::session,
    ];
    checks.iter().flat_map(|check| check(report)).collect()
}

/// Formats a list of names, for example as `a`, `b` and 3 more.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::doctor::{
        report::{Attempt, Declared, Failure, Web},
        words::TASKS,
    };

    /// Returns the report about a server without problems, which supports both revisions and has these tools.
    fn sound(tools: Value) -> Report {
        let capabilities = json!({"tools": {}, "extensions": {TASKS: {}}});
        let attempt = |asked: &'static str, capabilities| Attempt {
            asked,
            took: Duration::from_millis(5),
            ended: Ok(asked.to_owned()),
            capabilities,
        };
        let tools: Vec<Value> = serde_json::from_value(tools).unwrap();
        Report {
            server: "it".into(),
            attempts: vec![
                attempt("2026-07-28", capabilities.clone()),
                attempt("2025-11-25", json!({"tools": {}})),
            ],
            declared: Some(Declared {
                title: "it 1.0.0".into(),
                revision: "2026-07-28".into(),
                instructions: Some("Be kind.".into()),
                capabilities,
                tools,
                ..Declared::default()
            }),
            ..Report::default()
        }
    }

    fn tool(name: &str) -> Value {
        json!({"name": name, "description": "Does it", "inputSchema": {"type": "object"}})
    }

    /// Asserts that a report has a finding of this level with this message.
    #[track_caller]
    fn check(report: &Report, level: Level, message: &str) {
        let found = all(report);
        assert!(
            found.iter().any(|it| it.level == level && it.message.contains(message)),
            "no {level:?} {message:?} in {found:#?}"
        );
    }

    #[test]
    fn nothing_is_found_at_a_server_that_is_well() {
        let report = sound(json!([tool("do_it")]));
        let bad: Vec<Finding> = all(&report)
            .into_iter()
            .filter(|it| matches!(it.level, Level::Warning | Level::Problem))
            .collect();
        assert_eq!(bad, []);
        check(&report, Level::Ok, "supports 2026-07-28 and 2025-11-25");
        check(&report, Level::Ok, "tasks on 2026-07-28");
        check(&report, Level::Ok, "1 tool");
    }

    #[test]
    fn what_keeps_a_server_from_being_reached_is_said() {
        let failed = |failure: Failure| {
            let mut report = sound(json!([]));
            report.declared = None;
            for attempt in &mut report.attempts {
                attempt.ended = Err(failure.clone());
            }
            report
        };
        check(&failed(Failure::Unauthorized), Level::Problem, "requires authentication");
        check(&failed(Failure::TimedOut(Duration::from_mins(1))), Level::Problem, "within 60s");
        check(
            &failed(Failure::Other { cause: "connection refused".into(), hint: None }),
            Level::Problem,
            "connection refused",
        );
        let mut legacy = sound(json!([tool("a")]));
        legacy.attempts[0].ended = Err(Failure::Other { cause: "no".into(), hint: None });
        check(&legacy, Level::Note, "does not support 2026-07-28");
        let mut modern = sound(json!([tool("a")]));
        modern.attempts[1].ended = Err(Failure::Other { cause: "no".into(), hint: None });
        check(&modern, Level::Warning, "does not support 2025-11-25");
        let mut chatty = sound(json!([tool("a")]));
        chatty.stray = Some("Listening".into());
        check(&chatty, Level::Warning, "not an MCP message: `Listening`");
    }

    #[test]
    fn what_is_wrong_with_tools_is_said() {
        let bare = json!({"name": "a", "inputSchema": {"type": "object"}});
        check(&sound(json!([bare])), Level::Warning, "no description: `a`");
        check(&sound(json!([tool("a"), tool("a")])), Level::Problem, "with the same name: `a`");
        check(&sound(json!([tool("a b")])), Level::Warning, "`a b`");
        let mut hidden = sound(json!([tool("a"), tool("b")]));
        hidden.bare_tools = Some(vec!["a".into()]);
        check(&hidden, Level::Note, "only for hosts that can answer questions: `b`");
        let mut unlisted = sound(json!([]));
        unlisted.declared.as_mut().unwrap().unlisted = vec![("prompts", "method not found".into())];
        check(&unlisted, Level::Problem, "declares prompts, but does not list them");
    }

    #[test]
    fn what_is_wrong_with_schemas_is_said() {
        let with = |field: &str, schema: Value| {
            let mut tool = tool("a");
            tool[field] = schema;
            sound(json!([tool]))
        };
        check(&with("inputSchema", json!({"type": "objekt"})), Level::Problem, "input schema of `a`");
        check(&with("inputSchema", json!({"type": "string"})), Level::Problem, "not an object");
        check(
            &with("outputSchema", json!({"type": "object", "required": "x"})),
            Level::Warning,
            "output schema of `a`",
        );
        check(&with("outputSchema", json!({"type": "object"})), Level::Ok, "1 of 1 tools");
        let nested =
            json!({"type": "object", "properties": {"deep": {"type": "object"}, "flat": {"type": "string"}}});
        check(&with("inputSchema", nested), Level::Note, "`a.deep`");
    }

    #[test]
    fn what_is_wrong_with_http_is_said() {
        let at = |web: Web| Report { web: Some(web), ..sound(json!([tool("a")])) };
        let local = Web { loopback: true, foreign_origin: Some(403), session: Some(true), ..Web::default() };
        check(&at(local.clone()), Level::Ok, "rejects requests from other web pages");
        check(&at(local.clone()), Level::Ok, "sessions");
        check(&at(Web { foreign_origin: Some(200), ..local.clone() }), Level::Warning, "any web page");
        // If the path of the URL is wrong, the server rejects all requests.
        let wrong = Web { foreign_origin: Some(404), ..local.clone() };
        let wrong = all(&Report { declared: None, ..at(wrong) });
        assert!(!wrong.iter().any(|it| it.message.contains("other web pages")), "{wrong:#?}");
        check(&at(Web { session: Some(false), ..local.clone() }), Level::Note, "does not support sessions");
        check(&at(Web { loopback: false, ..local }), Level::Warning, "without TLS");
    }
}
