//! The client, against servers that speak HTTP: a good one, and bad ones.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broken;
mod corpus;
mod exporting;
mod fetching;
mod life;
mod origins;
mod parsing;
mod server;
mod streaming;

use antiphon_results::client::{DualResponseClient, DualResponseClientOptions, ParsedDualResponse};
use serde_json::{Value, json};

/// A tool result whose rows are at `url`.
fn tool_result(url: &str) -> Value {
    json!({
        "content": [{"type": "text", "text": "Found 847 results."}],
        "structuredContent": structured(&json!({"uri": "resource://abc123", "name": "People", "url": url})),
    })
}

fn structured(resource: &Value) -> Value {
    json!({
        "results": [{"id": 0, "name": "row 0"}, {"id": 1, "name": "row 1"}],
        "resource": resource,
        "metadata": {
            "total_count": 847,
            "columns": [{"name": "id", "type": "number"}, {"name": "name", "type": "string"}],
            "executed_at": "2025-01-15T10:30:00Z",
            "expires_at": "2025-01-15T10:45:00Z",
        },
    })
}

fn client(options: DualResponseClientOptions) -> DualResponseClient {
    DualResponseClient::new(options).unwrap()
}

/// The set at `url` on this machine, which may be gone to.
fn local(url: &str) -> ParsedDualResponse {
    client(DualResponseClientOptions::new().allow_loopback()).parse(&tool_result(url)).unwrap()
}
