//! Converts messages so that the tasks of MCP 2025-11-25 work with the SDK. The SDK itself supports only the tasks of
//! MCP 2026-07-28.
//!
//! The SDK discards `params.task` of a call, `capabilities.tasks` of a server and `execution` of a tool. The SDK
//! parses `tasks/get` and `tasks/cancel` as requests of MCP 2026-07-28. But the SDK does not change messages with
//! unknown methods. So this module renames methods before the SDK reads a message, and restores the names after the
//! SDK has written a message.
//!
//! | to a server | as the SDK reads it |
//! |---|---|
//! | `tools/call` with `params.task` | `antiphon/tasks/call` |
//! | `tasks/get`, `tasks/cancel`, `tasks/list`, `tasks/result` | `antiphon/tasks/get` and so on, with the same prefix |
//! | `tools/list` | `antiphon/tools/list` |
//!
//! Requests of MCP 2026-07-28 or later stay unchanged. A client's handler writes the names in the right column of this
//! table, and the server receives the names in the left column.
//!
//! | from a server | as a handler writes it, and a client reads it |
//! |---|---|
//! | `capabilities.tasks` of `initialize` | `capabilities.experimental["antiphon/tasks"]` |
//! | `execution` of a tool | only in clients: a copy of `execution` in the tool's `_meta["antiphon/execution"]` |
//! | a task as a result | only in clients: `{"task": …}`, because the SDK would parse the task as MCP 2026-07-28 |
//! | `_meta` next to `task` or `tasks` | only in clients: the `_meta` is moved into the task, or removed |
//!
//! The conversion of `_meta` next to `task` or `tasks` is necessary, because the SDK would otherwise lose all fields
//! of the result except `_meta`. Each conversion function of this module takes one message. The function returns the
//! converted message, or `None` if the message does not change. The conversion functions do not parse most messages,
//! but only search the messages for a few words.

mod lines;

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, value::RawValue};

pub use self::lines::Lines;
use crate::revision;

/// The key under `capabilities.experimental` that contains the `tasks` of a server's capabilities. A server's handler
/// writes this key, and a client reads this key.
pub const TASKS: &str = "antiphon/tasks";
/// The key in a tool's `_meta` that contains the tool's `execution`. A client reads this key.
pub const EXECUTION: &str = "antiphon/execution";

/// The method name of a replacement request. A replacement request replaces a request that is too large to parse. The
/// `params` of the replacement request are the error that the server must return.
pub const REJECTED: &str = "antiphon/rejected";

/// Returns the replacement request for a rejected request. `error` contains the ID of the rejected request. The server
/// must return `error` as its response.
fn as_request(error: &[u8]) -> Vec<u8> {
    #[derive(Deserialize)]
    struct Rejected {
        id: Value,
        error: Value,
    }
    let Ok(Rejected { id, error }) = serde_json::from_slice(error) else { return Vec::new() };
    if id.is_null() {
        // Without an ID, the client could not match a response to its request.
        return Vec::new();
    }
    serde_json::json!({"jsonrpc": "2.0", "id": id, "method": REJECTED, "params": error})
        .to_string()
        .into_bytes()
}

/// Converts `message` before a server's SDK reads it.
pub fn server_in(message: &[u8]) -> Option<Vec<u8>> {
    // Quotes inside a string are escaped, so only keys and complete strings match. Some languages escape slashes.
    const WORDS: [&str; 4] = [r#""task""#, r#""tasks"#, r#""tools/list""#, r#""tools\/list""#];
    let call = Call::read(message, &WORDS)?;
    let name = match &*call.name()? {
        "tools/call" => "antiphon/tasks/call",
        "tools/list" => "antiphon/tools/list",
        "tasks/get" => "antiphon/tasks/get",
        "tasks/cancel" => "antiphon/tasks/cancel",
        "tasks/list" => "antiphon/tasks/list",
        "tasks/result" => "antiphon/tasks/result",
        _ => return None,
    };
    let params = match call.params {
        // The SDK rejects params that are not an object.
        Some(params) if !params.get().starts_with('{') => return None,
        Some(params) => serde_json::from_str(params.get()).ok()?,
        None => Params::default(),
    };
    let newer =
        params.meta.and_then(|meta| meta.version).is_some_and(|version| &*version >= revision::ROUNDS);
    let plain = name == "antiphon/tasks/call" && params.task.is_none();
    if newer || plain { None } else { Some(call.renamed(message, name)) }
}

/// Converts `message` after a server's SDK has written it.
pub fn server_out(message: &[u8]) -> Option<Vec<u8>> {
    let text = text(message, &[r#""antiphon/tasks""#])?;
    let mut answer: Value = serde_json::from_str(text).ok()?;
    let result = answer.get_mut("result")?;
    let knows_tasks =
        result.get("protocolVersion").and_then(Value::as_str).is_some_and(|it| it >= revision::SESSION);
    let capabilities = result.get_mut("capabilities")?.as_object_mut()?;
    let experimental = capabilities.get_mut("experimental")?.as_object_mut()?;
    let tasks = experimental.remove(TASKS)?;
    if experimental.is_empty() {
        capabilities.remove("experimental");
    }
    // Only the response to `initialize` contains a single version. The response to `server/discover` must not contain
    // these tasks.
    if knows_tasks {
        capabilities.insert("tasks".into(), tasks);
    }
    serde_json::to_vec(&answer).ok()
}

/// Converts `message` before a client's SDK reads it.
pub fn client_in(message: &[u8]) -> Option<Vec<u8>> {
    let text = text(message, &[r#""execution""#, r#""tasks""#, r#""taskId""#])?;
    let answer: Answer<'_> = serde_json::from_str(text).ok()?;
    let found: Found = serde_json::from_str(answer.result?.get()).ok()?;
    let revise = match found {
        Found { version: Some(_), .. } => keep_capability,
        Found { tools: Some(_), .. } => keep_executions,
        Found { task_id: Some(_), result_type: None, ttl_ms: false, .. } => wrap_task,
        Found { task: Some(_), meta: Some(_), result_type: None, .. } => move_meta,
        Found { tasks: Some(_), meta: Some(_), result_type: None, .. } => drop_meta,
        Found { .. } => return None,
    };
    let mut answer: Value = serde_json::from_str(text).ok()?;
    revise(answer.get_mut("result")?.as_object_mut()?)?;
    serde_json::to_vec(&answer).ok()
}

/// Converts `message` after a client's SDK has written it.
pub fn client_out(message: &[u8]) -> Option<Vec<u8>> {
    let call = Call::read(message, &[r#""antiphon/t"#])?;
    let name = official(&call.name()?)?;
    Some(call.renamed(message, name))
}

/// Returns the MCP name of the renamed method `method`, or `None` if this module has not renamed `method`.
pub fn official(method: &str) -> Option<&'static str> {
    match method {
        "antiphon/tasks/call" => Some("tools/call"),
        "antiphon/tasks/get" => Some("tasks/get"),
        "antiphon/tasks/cancel" => Some("tasks/cancel"),
        "antiphon/tasks/list" => Some("tasks/list"),
        "antiphon/tasks/result" => Some("tasks/result"),
        "antiphon/tools/list" => Some("tools/list"),
        _ => None,
    }
}

/// Returns whether `message` requests the capabilities of a server. Only responses to requests for which this function
/// returns `true` need [`server_out`].
pub fn asks_for_capabilities(message: &[u8]) -> bool {
    const WORDS: [&str; 3] = [r#""initialize""#, r#""server/discover""#, r#""server\/discover""#];
    let name = Call::read(message, &WORDS);
    let name = name.as_ref().and_then(Call::name);
    name.is_some_and(|name| matches!(&*name, "initialize" | "server/discover"))
}

/// Returns `message` as text if it is a JSON object that contains one of `words`.
fn text<'a>(message: &'a [u8], words: &[&str]) -> Option<&'a str> {
    let text = std::str::from_utf8(message).ok()?;
    // The SDK also ignores a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // serde would parse an array as the fields of a struct, in their order.
    let is_object = text.trim_ascii_start().starts_with('{');
    (is_object && words.iter().any(|word| text.contains(word))).then_some(text)
}

/// The parts of a request, which borrow from the message.
#[derive(Deserialize)]
struct Call<'a> {
    #[serde(rename = "id")]
    _id: IgnoredAny,
    #[serde(borrow)]
    method: &'a RawValue,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

impl<'a> Call<'a> {
    fn read(message: &'a [u8], words: &[&str]) -> Option<Self> {
        serde_json::from_str(text(message, words)?).ok()
    }

    fn name(&self) -> Option<Cow<'a, str>> {
        serde_json::from_str(self.method.get()).ok()
    }

    /// Returns the message with the method `name`. The rest of the message is unchanged.
    fn renamed(&self, message: &[u8], name: &str) -> Vec<u8> {
        let method = self.method.get();
        // Invariant: `method` points into `message`, so the difference of the addresses is its offset.
        let start = method.as_ptr().addr() - message.as_ptr().addr();
        let mut renamed = Vec::with_capacity(message.len() + name.len());
        renamed.extend_from_slice(&message[..start]);
        renamed.push(b'"');
        renamed.extend_from_slice(name.as_bytes());
        renamed.push(b'"');
        renamed.extend_from_slice(&message[start + method.len()..]);
        renamed
    }
}

#[derive(Default, Deserialize)]
struct Params<'a> {
    task: Option<IgnoredAny>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

/// The fields of a result that show the kind of the result.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    #[serde(rename = "protocolVersion")]
    version: Option<IgnoredAny>,
    tools: Option<IgnoredAny>,
    task_id: Option<IgnoredAny>,
    task: Option<IgnoredAny>,
    tasks: Option<IgnoredAny>,
    result_type: Option<IgnoredAny>,
    #[serde(rename = "_meta")]
    meta: Option<IgnoredAny>,
    /// Whether the field `ttlMs` exists. In a task of MCP 2026-07-28 without a time limit, the value of this field is
    /// `null`.
    #[serde(default, deserialize_with = "is_there")]
    ttl_ms: bool,
}

fn is_there<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| true)
}

fn keep_capability(result: &mut Map<String, Value>) -> Option<()> {
    let capabilities = result.get_mut("capabilities")?.as_object_mut()?;
    let tasks = capabilities.remove("tasks")?;
    let experimental = capabilities.entry("experimental").or_insert_with(|| Map::new().into());
    experimental.as_object_mut()?.insert(TASKS.into(), tasks);
    Some(())
}

fn keep_executions(result: &mut Map<String, Value>) -> Option<()> {
    let mut kept = None;
    for tool in result.get_mut("tools")?.as_array_mut()?.iter_mut().filter_map(Value::as_object_mut) {
        if let Some(execution) = tool.get("execution").filter(|it| it.is_object()).cloned() {
            kept = keep(tool, EXECUTION, execution).or(kept);
        }
    }
    kept
}

#[expect(clippy::unnecessary_wraps, reason = "as the others do it")]
fn wrap_task(result: &mut Map<String, Value>) -> Option<()> {
    let task = std::mem::take(result);
    result.insert("task".into(), task.into());
    Some(())
}

fn move_meta(result: &mut Map<String, Value>) -> Option<()> {
    let meta = result.remove("_meta")?;
    result.get_mut("task")?.as_object_mut()?.insert("_meta".into(), meta);
    Some(())
}

fn drop_meta(result: &mut Map<String, Value>) -> Option<()> {
    result.remove("_meta").map(drop)
}

fn keep(object: &mut Map<String, Value>, key: &str, value: Value) -> Option<()> {
    let meta = object.entry("_meta").or_insert_with(|| Map::new().into());
    meta.as_object_mut()?.insert(key.into(), value);
    Some(())
}

#[cfg(test)]
mod tests;
