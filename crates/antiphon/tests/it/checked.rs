//! A test client whose every frame is checked against the official schema of its revision.
//!
//! The schemas are found in the folder `ANTIPHON_MCP_SCHEMA_DIR` names: `2025-11-25/schema.json` and
//! `2026-07-28/schema.json`, as in the `schema` folder of the specification's repository. Without it
//! frames go unchecked, except in CI, where that is a failure.

use std::{
    collections::HashMap,
    ops::{Deref, DerefMut},
    path::Path,
    sync::{Arc, Mutex, OnceLock},
};

use antiphon::{
    Result, Server,
    testing::{Answers, Client, Frame, Revision},
};
use jsonschema::Validator;
use serde_json::{Value, json};

/// A client that checks what it was sent when it goes.
#[derive(Debug)]
pub(crate) struct Checked(Client);

pub(crate) async fn connect(server: &Server, revision: Revision) -> Result<Checked> {
    Ok(Checked(Client::connect(server, revision).await?))
}

pub(crate) async fn connect_with(
    server: &Server,
    revision: Revision,
    capabilities: Value,
) -> Result<Checked> {
    Ok(Checked(Client::connect_with(server, revision, capabilities).await?))
}

impl Checked {
    pub(crate) fn answering(mut self, answers: Answers) -> Self {
        self.0.set_answers(answers);
        self
    }

    pub(crate) fn saying(mut self, meta: Value) -> Self {
        self.0.set_meta(meta);
        self
    }
}

impl Deref for Checked {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

impl DerefMut for Checked {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.0
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            for frame in self.0.frames() {
                check(self.0.revision(), frame);
            }
        }
    }
}

/// Panics when `frame` is not what `revision` says it must be.
pub(crate) fn check(revision: Revision, frame: &Frame) {
    let Some(schema) = schema(revision) else { return };
    let message = &frame.message;
    let (definition, value) = if let Some(error) = message.get("error") {
        assert!(error["code"].is_i64() && error["message"].is_string(), "{message}");
        ("JSONRPCErrorResponse", message)
    } else if message.get("method").is_some() && message.get("id").is_some() {
        assert_eq!(revision, Revision::V2025_11_25, "a request to a 2026-07-28 client: {message}");
        ("ServerRequest", message)
    } else if message.get("method").is_some() {
        ("ServerNotification", message)
    } else {
        (result_type(frame.method.as_deref(), &message["result"]), &message["result"])
    };
    let problems = schema.problems(definition, value);
    assert!(
        problems.is_empty(),
        "not a {definition} of {}:\n{value:#}\n{}",
        revision.as_str(),
        problems.join("\n")
    );
}

fn result_type(method: Option<&str>, result: &Value) -> &'static str {
    if result["resultType"] == "input_required" {
        return "InputRequiredResult";
    }
    // 2026-07-28 says it of the result; 2025-11-25 has the task in it.
    if result["resultType"] == "task" || (method == Some("tools/call") && result.get("task").is_some()) {
        return "CreateTaskResult";
    }
    // A layer below the SDK gives these their names; a client may use them as they are.
    match method.map(|method| method.trim_start_matches("antiphon/")) {
        Some("tasks/call") => "CreateTaskResult",
        Some("tasks/get") => "GetTaskResult",
        Some("tasks/cancel") => "CancelTaskResult",
        Some("tasks/update") => "UpdateTaskResult",
        Some("tasks/list") => "ListTasksResult",
        Some("initialize") => "InitializeResult",
        Some("server/discover") => "DiscoverResult",
        Some("tools/list") => "ListToolsResult",
        // The result of a task is what the call would have been answered with.
        Some("tools/call" | "tasks/result") => "CallToolResult",
        Some("prompts/list") => "ListPromptsResult",
        Some("prompts/get") => "GetPromptResult",
        Some("resources/list") => "ListResourcesResult",
        Some("resources/templates/list") => "ListResourceTemplatesResult",
        Some("resources/read") => "ReadResourceResult",
        Some("completion/complete") => "CompleteResult",
        Some("subscriptions/listen") => "SubscriptionsListenResult",
        _ => "EmptyResult",
    }
}

/// A revision's schema, compiled a definition at a time.
struct Schema {
    document: Value,
    compiled: Mutex<HashMap<&'static str, Arc<Validator>>>,
}

impl Schema {
    fn problems(&self, definition: &'static str, value: &Value) -> Vec<String> {
        let validator = Arc::clone(self.compiled.lock().unwrap().entry(definition).or_insert_with(|| {
            assert!(self.document["$defs"].get(definition).is_some(), "the schema has no {definition}");
            let wrapped = json!({
                "$schema": self.document["$schema"],
                "$ref": format!("#/$defs/{definition}"),
                "$defs": self.document["$defs"],
            });
            Arc::new(jsonschema::options().build(&wrapped).unwrap())
        }));
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }
}

#[expect(clippy::print_stderr, reason = "who runs the tests should know what they do not check")]
fn schema(revision: Revision) -> Option<&'static Schema> {
    static SCHEMAS: OnceLock<Option<HashMap<&'static str, Schema>>> = OnceLock::new();
    let schemas = SCHEMAS.get_or_init(|| {
        let Some(folder) = std::env::var_os("ANTIPHON_MCP_SCHEMA_DIR") else {
            assert!(
                std::env::var_os("CI").is_none(),
                "set ANTIPHON_MCP_SCHEMA_DIR to a folder with 2025-11-25/schema.json and 2026-07-28/schema.json \
                 (the `schema` folder of github.com/modelcontextprotocol/modelcontextprotocol)"
            );
            eprintln!(
                "skipped: frames are not checked; set ANTIPHON_MCP_SCHEMA_DIR to the `schema` folder of \
                 github.com/modelcontextprotocol/modelcontextprotocol"
            );
            return None;
        };
        let read = |revision: Revision| {
            let path = Path::new(&folder).join(revision.as_str()).join("schema.json");
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let mut document: Value = serde_json::from_str(&text).unwrap();
            if revision == Revision::V2026_07_28 {
                extend(&mut document);
            }
            (revision.as_str(), Schema { document, compiled: Mutex::default() })
        };
        Some(Revision::BOTH.into_iter().map(read).collect())
    });
    schemas.as_ref().map(|schemas| &schemas[revision.as_str()])
}

/// On 2026-07-28 tasks are an extension, with a schema of its own: this says what that says of results, and that a
/// task's result is a tool's.
fn extend(document: &mut Value) {
    let integer = json!({"type": "integer", "minimum": 0});
    let task = json!({
        "type": "object",
        "required": ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "resultType"],
        "properties": {
            "taskId": {"type": "string"},
            "status": {"enum": ["working", "input_required", "completed", "failed", "cancelled"]},
            "statusMessage": {"type": "string"},
            "createdAt": {"type": "string", "pattern": "^[0-9-]{10}T[0-9:.]{8,}Z$"},
            "lastUpdatedAt": {"type": "string", "pattern": "^[0-9-]{10}T[0-9:.]{8,}Z$"},
            "ttlMs": {"anyOf": [integer, {"type": "null"}]},
            "pollIntervalMs": integer,
            // None of these are said of tasks any more.
            "requestState": false, "ttl": false, "pollInterval": false, "task": false,
        },
    });
    let when = |status: &str, field: &str, definition: &str| {
        json!({
            "if": {"properties": {"status": {"const": status}}},
            "then": {"required": [field], "properties": {field: {"$ref": format!("#/$defs/{definition}")}}},
            "else": {"properties": {field: false}},
        })
    };
    let acknowledged = json!({
        "type": "object",
        "required": ["resultType"],
        "properties": {"resultType": {"const": "complete"}, "taskId": false, "status": false},
    });
    let definitions = &mut document["$defs"];
    definitions["CreateTaskResult"] = json!({"allOf": [task, {
        "properties": {
            "resultType": {"const": "task"}, "inputRequests": false, "result": false, "error": false,
        },
    }]});
    definitions["GetTaskResult"] = json!({"allOf": [
        task,
        {"properties": {"resultType": {"const": "complete"}}},
        when("input_required", "inputRequests", "InputRequests"),
        when("completed", "result", "CallToolResult"),
        when("failed", "error", "Error"),
    ]});
    definitions["UpdateTaskResult"] = acknowledged.clone();
    definitions["CancelTaskResult"] = acknowledged;
}

#[test]
fn a_frame_that_is_wrong_is_noticed() {
    if schema(Revision::V2026_07_28).is_none() {
        return;
    }
    let frame = |method: &str, result: Value| Frame {
        method: Some(method.into()),
        message: json!({"jsonrpc": "2.0", "id": 1, "result": result}),
    };
    let wrong = frame("tools/call", json!({"content": [{"type": "text"}], "resultType": "complete"}));
    assert!(std::panic::catch_unwind(|| check(Revision::V2026_07_28, &wrong)).is_err());
    let right =
        frame("tools/call", json!({"content": [{"type": "text", "text": "x"}], "resultType": "complete"}));
    check(Revision::V2026_07_28, &right);
    let task = |ttl: &str, result: Value| {
        let at = "2026-07-28T00:00:00.000Z";
        frame(
            "tasks/get",
            json!({"taskId": "a", "status": "completed", "createdAt": at, "lastUpdatedAt": at, ttl: 1, "result": result,
                "resultType": "complete"}),
        )
    };
    let result = json!({"content": [], "resultType": "complete"});
    check(Revision::V2026_07_28, &task("ttlMs", result.clone()));
    for wrong in [task("ttl", result), task("ttlMs", json!({}))] {
        assert!(std::panic::catch_unwind(|| check(Revision::V2026_07_28, &wrong)).is_err());
    }
}
