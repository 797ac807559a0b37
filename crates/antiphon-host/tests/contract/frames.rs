//! Checks each frame that the host sends against the official schema of its revision.
//!
//! `ANTIPHON_MCP_SCHEMA_DIR` names the folder with `2025-11-25/schema.json` and `2026-07-28/schema.json`. Without it
//! frames are not checked, except in CI, where that is a failure.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, Mutex},
};

use jsonschema::Validator;
use serde_json::{Value, json};

/// The frames of one host, and what is wrong with them. Clones share it.
#[derive(Clone)]
pub(crate) struct Frames(Option<Arc<Checker>>);

struct Checker {
    document: Value,
    /// The definition of a request or notification, by its method.
    definitions: BTreeMap<String, String>,
    compiled: Mutex<HashMap<String, Arc<Validator>>>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The methods of the server's requests, by their IDs.
    asked: HashMap<String, String>,
    checked: usize,
    problems: Vec<String>,
    /// Methods that the test sends on purpose, although the revision does not have them.
    foreign: Vec<String>,
}

impl Frames {
    /// A checker for a revision, such as `2025-11-25`.
    #[expect(clippy::print_stderr, reason = "who runs the tests should know what they do not check")]
    pub(crate) fn new(revision: &str) -> Self {
        let Some(folder) = std::env::var_os("ANTIPHON_MCP_SCHEMA_DIR") else {
            assert!(std::env::var_os("CI").is_none(), "ANTIPHON_MCP_SCHEMA_DIR is not set");
            eprintln!("skipped: the host's frames are not checked; set ANTIPHON_MCP_SCHEMA_DIR");
            return Self(None);
        };
        let path = Path::new(&folder).join(revision).join("schema.json");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut document: Value = serde_json::from_str(&text).unwrap();
        if revision == "2026-07-28" {
            extend(&mut document);
        }
        let definitions = by_method(&document["$defs"]);
        Self(Some(Arc::new(Checker {
            document,
            definitions,
            compiled: Mutex::default(),
            seen: Mutex::default(),
        })))
    }

    /// The host has sent this line.
    pub(crate) fn sent(&self, line: &str) {
        if let Some(checker) = &self.0 {
            checker.sent(line);
        }
    }

    /// The server has sent this line.
    pub(crate) fn received(&self, line: &str) {
        let (Some(checker), Ok(frame)) = (&self.0, serde_json::from_str::<Value>(line)) else { return };
        if let (Some(method), Some(id)) = (frame["method"].as_str(), frame.get("id")) {
            checker.seen.lock().unwrap().asked.insert(id.to_string(), method.to_owned());
        }
    }

    /// The test sends this method on purpose, to see it rejected.
    pub(crate) fn allow(&self, method: &str) {
        if let Some(checker) = &self.0 {
            checker.seen.lock().unwrap().foreign.push(method.to_owned());
        }
    }

    /// How many frames were checked; `None` without a schema.
    pub(crate) fn checked(&self) -> Option<usize> {
        Some(self.0.as_ref()?.seen.lock().unwrap().checked)
    }

    /// Fails if a frame was wrong.
    pub(crate) fn assert_valid(&self) {
        let Some(checker) = &self.0 else { return };
        let seen = checker.seen.lock().unwrap();
        assert!(
            seen.problems.is_empty(),
            "the host sent what its revision does not have:\n{}",
            seen.problems.join("\n")
        );
    }
}

impl Checker {
    fn sent(&self, line: &str) {
        let Ok(frame) = serde_json::from_str::<Value>(line) else {
            self.seen.lock().unwrap().problems.push(format!("not JSON: {line}"));
            return;
        };
        if frame["method"].as_str().is_some_and(|method| self.is_foreign(method)) {
            return;
        }
        let asked = frame.get("id").map(Value::to_string);
        let asked = asked.and_then(|id| self.seen.lock().unwrap().asked.get(&id).cloned());
        let problems = match self.definition(&frame, asked.as_deref()) {
            Ok((definition, value)) => self.problems(&definition, value),
            Err(problem) => vec![problem],
        };
        let mut seen = self.seen.lock().unwrap();
        seen.checked += 1;
        seen.problems.extend(problems.into_iter().map(|problem| format!("{problem}\n  in {line}")));
    }

    fn is_foreign(&self, method: &str) -> bool {
        let allowed = self.seen.lock().unwrap().foreign.iter().any(|foreign| foreign == method);
        allowed && !self.definitions.contains_key(method)
    }

    /// The definition that a frame must match, and the part of the frame that must.
    fn definition<'a>(&self, frame: &'a Value, asked: Option<&str>) -> Result<(String, &'a Value), String> {
        if let Some(method) = frame["method"].as_str() {
            let definition = self.definitions.get(method);
            return Ok((definition.ok_or_else(|| format!("there is no method `{method}`"))?.clone(), frame));
        }
        if frame.get("error").is_some() {
            return Ok(("JSONRPCErrorResponse".to_owned(), frame));
        }
        let result = match asked {
            Some("sampling/createMessage") => "CreateMessageResult",
            Some("elicitation/create") => "ElicitResult",
            Some("roots/list") => "ListRootsResult",
            Some("ping") => "EmptyResult",
            other => return Err(format!("an answer to {other:?}")),
        };
        Ok((result.to_owned(), &frame["result"]))
    }

    fn problems(&self, definition: &str, value: &Value) -> Vec<String> {
        let mut compiled = self.compiled.lock().unwrap();
        let validator = compiled.entry(definition.to_owned()).or_insert_with(|| {
            let wrapped = json!({
                "$schema": self.document["$schema"],
                "$ref": format!("#/$defs/{definition}"),
                "$defs": self.document["$defs"],
            });
            Arc::new(jsonschema::options().build(&wrapped).unwrap())
        });
        let problem = |error: jsonschema::ValidationError<'_>| {
            format!("not a {definition}: {}: {error}", error.instance_path())
        };
        validator.iter_errors(value).map(problem).collect()
    }
}

/// The names of the definitions of all that a client sends, by method.
fn by_method(definitions: &Value) -> BTreeMap<String, String> {
    let mut names = Vec::new();
    for union in ["ClientRequest", "ClientNotification"] {
        match definitions[union]["anyOf"].as_array() {
            Some(any) => {
                names.extend(
                    any.iter().filter_map(|one| Some(one["$ref"].as_str()?.rsplit('/').next()?.to_owned())),
                );
            }
            None => names.push(union.to_owned()),
        }
    }
    let method = |name: String| {
        let method = definitions[&name]["properties"]["method"]["const"].as_str()?.to_owned();
        Some((method, name))
    };
    names.into_iter().filter_map(method).collect()
}

/// On 2026-07-28 tasks are an extension with requests of its own.
fn extend(document: &mut Value) {
    let request = |method: &str, more: Value| {
        let mut properties =
            json!({"taskId": {"type": "string"}, "_meta": {"$ref": "#/$defs/RequestMetaObject"}});
        properties.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        json!({
            "type": "object",
            "required": ["jsonrpc", "id", "method", "params"],
            "properties": {
                "jsonrpc": {"const": "2.0"},
                "id": {"$ref": "#/$defs/RequestId"},
                "method": {"const": method},
                "params": {"type": "object", "required": ["taskId", "_meta"], "properties": properties},
            },
        })
    };
    let answers = json!({"inputResponses": {"$ref": "#/$defs/InputResponses"}});
    let definitions = &mut document["$defs"];
    definitions["GetTaskRequest"] = request("tasks/get", json!({}));
    definitions["CancelTaskRequest"] = request("tasks/cancel", json!({}));
    definitions["UpdateTaskRequest"] = request("tasks/update", answers);
    let requests = definitions["ClientRequest"]["anyOf"].as_array_mut().unwrap();
    for name in ["GetTaskRequest", "CancelTaskRequest", "UpdateTaskRequest"] {
        requests.push(json!({"$ref": format!("#/$defs/{name}")}));
    }
}
