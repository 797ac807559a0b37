//! The check of what the host sends can fail.

use serde_json::{Value, json};

use crate::frames::Frames;

/// Whether a frame of the host's passes. `asked` is what the server sent before.
fn passes(revision: &str, asked: Option<&Value>, frame: &Value) -> bool {
    let frames = Frames::new(revision);
    if let Some(asked) = asked {
        frames.received(&asked.to_string());
    }
    frames.allow("tools/call");
    frames.sent(&frame.to_string());
    assert_eq!(frames.checked(), Some(1), "a method that the revision has is checked all the same");
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| frames.assert_valid())).is_ok()
}

#[test]
fn frame_that_is_wrong_is_noticed() {
    if std::env::var_os("ANTIPHON_MCP_SCHEMA_DIR").is_none() {
        drop(Frames::new("2025-11-25"));
        return;
    }
    let call = |params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let named = call(json!({"name": "a", "arguments": {}, "task": {"ttl": 5}}));
    assert!(passes("2025-11-25", None, &named));
    let asks = |method: &str| json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {}});
    let (sample, elicit) = (asks("sampling/createMessage"), asks("elicitation/create"));
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": 7, "result": result});
    let reply = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "a"}});
    assert!(passes("2025-11-25", Some(&sample), &answer(reply.clone())));
    for (revision, asked, wrong) in [
        ("2025-11-25", None, call(json!({"arguments": {}}))),
        ("2025-11-25", None, call(json!({"name": "a", "task": {"ttl": "long"}}))),
        ("2025-11-25", None, json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/update", "params": {}})),
        ("2026-07-28", None, call(json!({"name": "a"}))),
        ("2025-11-25", Some(&elicit), answer(json!({"action": "perhaps"}))),
        ("2025-11-25", Some(&sample), answer(json!({"role": "assistant"}))),
        ("2025-11-25", None, answer(reply)),
    ] {
        assert!(!passes(revision, asked, &wrong), "{wrong}");
    }
}
