use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

type Revise = fn(&[u8]) -> Option<Vec<u8>>;

fn check(revise: Revise, message: &str, expect: &str) {
    let found = revise(message.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(found.as_deref(), Some(expect), "{message}");
}

fn same(revise: Revise, message: &str) {
    let found = revise(message.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(found, None, "{message}");
}

fn check_json(revise: Revise, message: &Value, expect: &Value) {
    let found = revise(message.to_string().as_bytes()).expect("it is revised");
    assert_eq!(&serde_json::from_slice::<Value>(&found).unwrap(), expect);
}

#[test]
fn a_call_with_a_task_gets_another_name_and_nothing_else_changes() {
    // The conversion does not change spaces, the order of keys, large numbers, and text that looks like a method.
    check(
        server_in,
        r#"{ "params": {"task": {"ttl": 60000}, "name":"method", "arguments":{"n":123456789012345678901234567890,"method":"tools/call"}} , "method" : "tools/call","id":7,"jsonrpc":"2.0"}"#,
        r#"{ "params": {"task": {"ttl": 60000}, "name":"method", "arguments":{"n":123456789012345678901234567890,"method":"tools/call"}} , "method" : "antiphon/tasks/call","id":7,"jsonrpc":"2.0"}"#,
    );
    check(
        server_in,
        r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","task":{}}}"#,
        r#"{"jsonrpc":"2.0","id":"a","method":"antiphon/tasks/call","params":{"name":"x","task":{}}}"#,
    );
}

#[test]
fn requests_about_tasks_and_lists_of_tools_get_other_names() {
    for method in ["tasks/get", "tasks/cancel", "tasks/list", "tasks/result", "tools/list"] {
        for params in [
            "",
            r#","params":null"#,
            r#","params":{}"#,
            r#","params":{"taskId":"t","cursor":"c","_meta":{}}"#,
        ] {
            let call = |name: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}"{params}}}"#);
            check(server_in, &call(method), &call(&format!("antiphon/{method}")));
            check(server_in, &call(&method.replace('/', r"\/")), &call(&format!("antiphon/{method}")));
        }
    }
    check(
        server_in,
        "\u{feff}{\"id\":1,\"method\":\"tasks/get\"}\r",
        "\u{feff}{\"id\":1,\"method\":\"antiphon/tasks/get\"}\r",
    );
}

#[test]
fn what_the_newer_revision_asks_is_left_alone() {
    let call = |version: &str, method: &str| {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": version});
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"taskId": "t", "task": {}, "_meta": meta}})
            .to_string()
    };
    for method in ["tools/call", "tools/list", "tasks/get", "tasks/cancel", "tasks/list", "tasks/result"] {
        same(server_in, &call("2026-07-28", method));
        same(server_in, &call("2027-01-01", method));
        assert!(server_in(call("2025-11-25", method).as_bytes()).is_some(), "{method}");
    }
}

#[test]
fn everything_else_to_a_server_is_left_alone() {
    let strings = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": {
        "text": r#"{"method":"tools/list","task":{},"tasks/get"}"#, "method": "tasks/get", "task": {"ttl": 1},
    }}});
    same(server_in, &strings.to_string());
    for message in [
        "",
        "{",
        "17",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":null}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":"t"}}"#,
        // These messages are not requests.
        r#"{"jsonrpc":"2.0","method":"tasks/get","params":{"taskId":"t"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"method":"tasks/get","task":{}}}"#,
        // A batch, and arrays that serde would parse as a struct.
        r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#,
        r#"[1,"tools/list"]"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[{},{}],"task":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["task",{}],"x":"task"}"#,
        // The SDK rejects these messages.
        r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","method":"tasks/get"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":["tasks/get"]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":7}"#,
    ] {
        same(server_in, message);
    }
    assert_eq!(server_in(b"{\"id\":1,\"method\":\"tasks/get\",\"x\":\"\xff\"}"), None);
}

#[test]
fn nesting_and_size_are_no_trouble() {
    let deep = "[".repeat(1_000_000);
    same(server_in, &format!(r#"{{"id":1,"method":"tools/call","params":{{"task":{deep}"#));
    let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
    let call = |name| format!(r#"{{"id":1,"method":"{name}","params":{{"x":{open}{close},"task":{{}}}}}}"#);
    check(server_in, &call("tools/call"), &call("antiphon/tasks/call"));
    let large = "x".repeat(8 << 20);
    let call = |name| format!(r#"{{"id":1,"params":{{"x":"{large}","task":{{}}}},"method":"{name}"}}"#);
    check(server_in, &call("tools/call"), &call("antiphon/tasks/call"));
}

#[test]
fn a_server_says_that_it_has_tasks_where_the_revision_has_them() {
    let said = |version: &str, capabilities: Value| json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": version, "capabilities": capabilities}});
    let tasks = json!({"list": {}, "requests": {"tools": {"call": {}}}});
    check_json(
        server_out,
        &said("2025-11-25", json!({"tools": {}, "experimental": {TASKS: tasks}})),
        &said("2025-11-25", json!({"tools": {}, "tasks": tasks})),
    );
    check_json(
        server_out,
        &said("2025-11-25", json!({"experimental": {TASKS: tasks, "other": {}}})),
        &said("2025-11-25", json!({"tasks": tasks, "experimental": {"other": {}}})),
    );
    check_json(
        server_out,
        &said("2025-06-18", json!({"tools": {}, "experimental": {TASKS: tasks}})),
        &said("2025-06-18", json!({"tools": {}})),
    );
    let discovered = |capabilities: Value| {
        json!({"jsonrpc": "2.0", "id": 0, "result": {
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
        }})
    };
    check_json(
        server_out,
        &discovered(json!({"tools": {}, "experimental": {TASKS: tasks}})),
        &discovered(json!({"tools": {}})),
    );
}

#[test]
fn everything_else_from_a_server_is_left_alone() {
    for message in [
        json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-11-25", "capabilities": {}}}),
        json!({"jsonrpc": "2.0", "id": 0, "result": {"structuredContent": {TASKS: 1}, "content": []}}),
        json!({"jsonrpc": "2.0", "id": 0, "result": {"content": [{"type": "text", "text": "\"antiphon/tasks\""}]}}),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": {"experimental": {TASKS: 1}}}}),
    ] {
        same(server_out, &message.to_string());
    }
}

#[test]
fn a_client_writes_the_names_that_every_server_knows() {
    for (ours, official) in [
        ("antiphon/tasks/call", "tools/call"),
        ("antiphon/tasks/get", "tasks/get"),
        ("antiphon/tasks/cancel", "tasks/cancel"),
        ("antiphon/tasks/list", "tasks/list"),
        ("antiphon/tasks/result", "tasks/result"),
        ("antiphon/tools/list", "tools/list"),
    ] {
        let call = |name| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}","params":{{"task":{{}}}}}}"#);
        check(client_out, &call(ours), &call(official));
        // The conversion is reversible.
        check(server_in, &call(official), &call(ours));
    }
    for method in ["antiphon/tasks/other", "antiphon/things", "tools/call", "initialize"] {
        same(client_out, &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#));
    }
    same(
        client_out,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"antiphon/tasks/call"}}"#,
    );
    same(client_out, r#"{"jsonrpc":"2.0","method":"antiphon/tasks/get"}"#);
}

#[test]
fn a_client_keeps_what_its_sdk_would_drop() {
    let tasks = json!({"requests": {"tools": {"call": {}}}});
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": 1, "result": result});
    let said =
        |capabilities: Value| answer(json!({"protocolVersion": "2025-11-25", "capabilities": capabilities}));
    check_json(
        client_in,
        &said(json!({"tasks": tasks, "tools": {}, "experimental": {"other": {}}})),
        &said(json!({"tools": {}, "experimental": {"other": {}, TASKS: tasks}})),
    );
    check_json(client_in, &said(json!({"tasks": {}})), &said(json!({"experimental": {TASKS: {}}})));
    let execution = json!({"taskSupport": "required"});
    check_json(
        client_in,
        &answer(json!({"tools": [
            {"name": "a", "execution": execution},
            {"name": "b"},
            {"name": "c", "execution": execution, "_meta": {"x": 1}},
        ], "nextCursor": "c"})),
        &answer(json!({"tools": [
            {"name": "a", "execution": execution, "_meta": {EXECUTION: execution}},
            {"name": "b"},
            {"name": "c", "execution": execution, "_meta": {"x": 1, EXECUTION: execution}},
        ], "nextCursor": "c"})),
    );
    let task = json!({"taskId": "t", "status": "working", "ttl": null, "pollInterval": 5});
    check_json(client_in, &answer(task.clone()), &answer(json!({"task": task})));
    let finished = json!({"taskId": "t", "status": "completed", "_meta": {"x": 1}});
    check_json(client_in, &answer(finished.clone()), &answer(json!({"task": finished})));
    check_json(
        client_in,
        &answer(json!({"task": {"taskId": "t"}, "_meta": {"x": 1}})),
        &answer(json!({"task": {"taskId": "t", "_meta": {"x": 1}}})),
    );
    check_json(client_in, &answer(json!({"tasks": [], "_meta": {"x": 1}})), &answer(json!({"tasks": []})));
}

#[test]
fn everything_else_to_a_client_is_left_alone() {
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25", "capabilities": {"x": "tasks"}}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "execution"}]}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [], "structuredContent": {"tools": [{"execution": {}}]}}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"tasks": [{"taskId": "t", "ttl": 1}]}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"task": {"taskId": "t", "ttl": 1}}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"taskId": "t", "ttlMs": 1}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "x", "data": {"tasks": 1}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": {"taskId": "t", "ttl": 1}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"tools": [], "execution": {}}}),
        json!([{"id": 1, "result": {"tools": [{"execution": {}}]}}]),
    ] {
        same(client_in, &message.to_string());
    }
}

#[test]
fn only_two_requests_ask_for_capabilities() {
    assert!(asks_for_capabilities(br#"{"id":1,"method":"initialize","params":{}}"#));
    assert!(asks_for_capabilities(br#"{"id":1,"method":"server\/discover"}"#));
    assert!(!asks_for_capabilities(br#"{"id":1,"method":"tools/call","params":{"name":"initialize"}}"#));
    assert!(!asks_for_capabilities(br#"{"method":"initialize"}"#));
}

const CALL: &str = r#"{"id":1,"method":"tools/call","params":{"task":{}}}"#;
const CALLED: &str = r#"{"id":1,"method":"antiphon/tasks/call","params":{"task":{}}}"#;
const PING: &str = r#"{"id":2,"method":"ping"}"#;

#[tokio::test]
async fn lines_are_revised_however_they_are_cut() {
    let sent = format!("{CALL}\n\n{PING}\r\n{CALL}\nrest");
    let expect = format!("{CALLED}\n\n{PING}\r\n{CALLED}\nrest");
    for size in [1, 2, 7, 50, 1000] {
        let (near, mut far) = tokio::io::duplex(size);
        let writing = tokio::spawn({
            let sent = sent.clone();
            async move { far.write_all(sent.as_bytes()).await }
        });
        let mut found = String::new();
        Lines::server(near).read_to_string(&mut found).await.unwrap();
        writing.await.unwrap().unwrap();
        assert_eq!(found, expect, "in pieces of {size}");
    }
}

#[tokio::test]
async fn what_is_written_is_revised_and_a_flush_sends_every_whole_line() {
    for size in [1, 30, 4096] {
        let (near, mut far) = tokio::io::duplex(size);
        let reading = tokio::spawn(async move {
            let mut found = String::new();
            far.read_to_string(&mut found).await.map(|_| found)
        });
        let mut lines = Lines::client(near);
        for piece in CALLED.as_bytes().chunks(9) {
            lines.write_all(piece).await.unwrap();
        }
        lines.write_all(format!("\n{PING}\n").as_bytes()).await.unwrap();
        lines.flush().await.unwrap();
        lines.write_all(b"rest").await.unwrap();
        lines.shutdown().await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), format!("{CALL}\n{PING}\nrest"), "in pieces of {size}");
    }
    let (near, mut far) = tokio::io::duplex(4096);
    let mut lines = Lines::client(near);
    lines.write_all(format!("{CALLED}\nbegun").as_bytes()).await.unwrap();
    lines.flush().await.unwrap();
    let mut found = vec![0; CALL.len() + 1];
    far.read_exact(&mut found).await.unwrap();
    assert_eq!(found, format!("{CALL}\n").as_bytes());
}

#[tokio::test]
async fn a_line_that_is_too_long_passes_unchanged_and_the_next_is_revised() {
    let long = CALL.replace("{}", &format!(r#"{{"x":"{}"}}"#, "x".repeat(16 << 20)));
    let (near, mut far) = tokio::io::duplex(1 << 16);
    let sent = format!("{long}\n{CALL}\n");
    let writing = tokio::spawn(async move { far.write_all(sent.as_bytes()).await });
    let mut found = String::new();
    Lines::server(near).read_to_string(&mut found).await.unwrap();
    writing.await.unwrap().unwrap();
    let (first, rest) = found.split_once('\n').unwrap();
    assert!(first == long, "the long line has changed");
    assert_eq!(rest, format!("{CALLED}\n"));
}
