//! Streams a result set once with `fetch_stream` and prints rows and seconds.
//!
//! `fetch-results --url http://…/resources/rs_… --maps|--raw|--text`: what every row becomes.

use std::time::Instant;

use antiphon_results::client::{DualResponseClient, DualResponseClientOptions, StreamOptions};
use futures_util::TryStreamExt as _;
use lab::programs::{is_asked, rows::argument};
use serde_json::{json, value::RawValue};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the result is read from there")]
async fn main() -> anyhow::Result<()> {
    let url = argument("--url")?;
    let client = DualResponseClient::new(DualResponseClientOptions::new().allow_loopback())?;
    let id = url.rsplit('/').next().unwrap_or_default();
    let structured = json!({
        "results": [],
        "resource": {"uri": format!("resource://{id}"), "url": url, "name": "x", "mimeType": "application/json"},
        "metadata": {"total_count": 0, "columns": [], "executed_at": "2025-01-15T10:30:00Z", "expires_at": null},
    });
    let parsed = client.parse_strict(&json!({"content": [], "structuredContent": structured}))?;
    let options = StreamOptions::new().with_batch_size(1_000);
    let start = Instant::now();
    let mut rows = 0;
    if is_asked("--raw") {
        let mut batches = parsed.fetch_stream_as::<Box<RawValue>>(options);
        while let Some(batch) = batches.try_next().await? {
            rows += batch.len();
        }
    } else if is_asked("--text") {
        let mut batches = parsed.fetch_stream_text(options);
        while let Some(batch) = batches.try_next().await? {
            rows += batch.len();
        }
    } else {
        let mut batches = parsed.fetch_stream(options);
        while let Some(batch) = batches.try_next().await? {
            rows += batch.len();
        }
    }
    println!("{rows} {}", start.elapsed().as_secs_f64());
    Ok(())
}
