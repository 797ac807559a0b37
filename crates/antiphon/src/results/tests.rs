//! Tests that a replay does not save a result set again, and that saved numbers stay exact.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, SystemTime},
};

use antiphon_replay::Journal;
use antiphon_results::{
    Action, ColumnDefinition, CreateOptions, DualResponseError, DualResponseServer,
    DualResponseServerOptions, Owner, Result as Outcome, Rows, Source,
    snapshot::{
        Aggregate, ColumnStats, Export, ExportRequest, Manifest, Progress, RowSource, SnapshotCapabilities,
        SnapshotId, SnapshotPage, SnapshotStore, SnapshotWrite, SnapshotWriteOptions, View, Written,
    },
};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};
use tokio::sync::watch;
use url::Url;

use super::{RESULT_META, ResultTools};
use crate::{
    run::Run,
    run::{Leg, Pace, run_leg},
    seal::Binding,
    server::Server,
    testing::{Client, Revision},
    tool::ToolOutput,
};

/// Two numbers that a 64-bit float cannot represent exactly. A 64-bit integer cannot represent the second number.
const LARGE: &str = "9007199254740993";
const PRICE: &str = "12345678901234567.89";

fn entries() -> Rows {
    let mut rows = Rows::new();
    rows.push_json(&format!(r#"{{"id":{LARGE},"price":{PRICE}}}"#)).unwrap();
    rows
}

/// A store that discards all rows. For every request, the store returns one fixed ledger entry.
#[derive(Debug)]
struct Ledger;

fn cannot<T>() -> Outcome<T> {
    Err(DualResponseError::Unsupported("this store only records calls".into()))
}

#[async_trait]
impl SnapshotStore for Ledger {
    fn capabilities(&self) -> SnapshotCapabilities {
        SnapshotCapabilities::new(true, [])
    }

    async fn begin(
        &self,
        _: &SnapshotId,
        row_source: RowSource,
        _: SnapshotWriteOptions,
    ) -> Outcome<SnapshotWrite> {
        let RowSource::Rows { parts, .. } = row_source else { return cannot() };
        let parts: Vec<Rows> = parts.try_collect().await.map_err(DualResponseError::Query)?;
        let sample = parts.into_iter().next().unwrap_or_default();
        let columns = vec![ColumnDefinition::integer("id"), ColumnDefinition::number("price")];
        let (rows, bytes) = (sample.len() as u64, sample.bytes() as u64);
        let (_, progress) = watch::channel(Progress { rows, bytes });
        let written = Written::new(rows, bytes, "sha-256:0", columns.clone());
        Ok(SnapshotWrite::new(sample, columns, progress, Box::pin(async move { Ok(written) })))
    }

    async fn manifest(&self, _: &SnapshotId) -> Outcome<Manifest> {
        cannot()
    }

    async fn prepare(&self, _: &SnapshotId, _: &View) -> Outcome<u64> {
        cannot()
    }

    async fn page(&self, _: &SnapshotId, _: &SnapshotPage) -> Outcome<Rows> {
        Ok(entries())
    }

    async fn stats(&self, _: &SnapshotId) -> Outcome<Vec<ColumnStats>> {
        let mut id = ColumnStats::new("id");
        (id.min, id.max) = (json!(7), json!(9_007_199_254_740_993_u64));
        let mut price = ColumnStats::new("price");
        (price.min, price.max) = (json!(0.1), json!(PRICE));
        Ok(vec![id, price])
    }

    async fn aggregate(&self, _: &SnapshotId, _: &Aggregate) -> Outcome<Rows> {
        Ok(entries())
    }

    async fn export(&self, _: &SnapshotId, _: &ExportRequest) -> Outcome<Export> {
        cannot()
    }

    async fn sign(&self, _: &SnapshotId, _: Duration) -> Outcome<Option<Url>> {
        Ok(None)
    }

    async fn query(&self, _: &[(String, SnapshotId)], _: &str, _: &Owner) -> Outcome<RowSource> {
        Ok(RowSource::rows(stream::iter([Ok(entries())])))
    }

    async fn delete(&self, _: &SnapshotId) -> Outcome<()> {
        Ok(())
    }

    fn ids(&self, _: DateTime<Utc>) -> BoxStream<'_, Outcome<SnapshotId>> {
        stream::empty().boxed()
    }

    async fn usage(&self, _: Option<&str>) -> Outcome<u64> {
        Ok(0)
    }
}

/// Returns a server that has one result set, the ID of this result set, and a counter of the result sets that the
/// server has created.
async fn serve() -> (Server, String, Arc<AtomicU32>) {
    let made = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&made);
    let options = DualResponseServerOptions::new("https://api.example.com/resources")
        .with_snapshots(Ledger)
        .with_audit(move |event| {
            if event.action == Action::Create {
                seen.fetch_add(1, SeqCst);
            }
        });
    let results = DualResponseServer::new(options).unwrap();
    let rows = Source::snapshot(RowSource::rows(stream::iter([Ok(entries())])));
    let set = results.create_response(CreateOptions::new("Ledger", rows)).await.unwrap().resource_id;
    let server = Server::builder("ledger", "1.0.0")
        .with_results(results)
        .with_result_tools(ResultTools::new())
        .build()
        .unwrap();
    (server, set, made)
}

/// Returns a client that supports MCP Apps.
async fn host(server: &Server) -> Client {
    let apps = json!({"mimeTypes": ["text/html;profile=mcp-app"]});
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/ui": apps}});
    Client::connect_with(server, Revision::V2026_07_28, capabilities).await.unwrap()
}

/// Runs the tool `query_result` until the tool returns. Returns the result and the journal of this run.
async fn run(server: &Server, arguments: &Value) -> (ToolOutput, Journal) {
    let caller = crate::run::Client::of_task("first", &json!({}), crate::protocol::Revision::Rounds);
    let run = Arc::new(Run::new(caller, Arc::clone(&server.shared.service.runtime), None));
    let registry = server.shared.service.registry();
    let tool = registry.tool("query_result").unwrap();
    let ctx = tool.call.ctx(&run);
    let mut future = tool.call.call(&ctx, arguments);
    let pace = Pace { grace: Duration::from_secs(1), limit: None, task_limit: None, keep_alive: None };
    match run_leg(&run, future.as_mut(), pace, std::future::pending(), |_| Ok(())).await {
        Leg::Done(Ok(output)) => {
            run.id();
            (output, run.take_machine().into_journal())
        }
        other => panic!("the query did not end well: {other:?}"),
    }
}

/// Tests a replica that stops after the query and before the response. The next replica continues with the journal. The
/// client can send one `requestState` several times.
#[tokio::test]
async fn query_that_is_run_again_makes_no_second_set() {
    let (server, set, made) = serve().await;
    let arguments = json!({"sql": "SELECT * FROM result", "result": set});
    let (output, journal) = run(&server, &arguments).await;
    let derived = &output.meta[RESULT_META]["id"];
    assert_eq!(made.load(SeqCst), 2, "the set, and what the query found");

    let shared = &server.shared;
    let binding =
        Binding::new(&shared.service.runtime.audience, "", "tools/call", "query_result", &arguments);
    let state = shared.service.runtime.seal.seal(&journal, &binding, SystemTime::now()).unwrap();
    let mut client = host(&server).await;
    for _ in 0..2 {
        let request = json!({
            "name": "query_result", "arguments": arguments, "requestState": state, "inputResponses": {},
        });
        let again = client.request("tools/call", request).await.unwrap();
        assert_eq!(again["_meta"][RESULT_META]["id"], *derived, "{again}");
        assert_eq!(Some(&again["structuredContent"]), output.structured.as_ref());
    }
    assert_eq!(made.load(SeqCst), 2, "a query that had ended was made again");
}

#[tokio::test]
async fn numbers_keep_every_digit_whichever_tool_answers() {
    let (server, set, _) = serve().await;
    let mut client = host(&server).await;
    let mut call = async |tool: &str, arguments: Value| {
        let talk = client.call(tool, arguments).await.unwrap();
        assert!(!talk.is_error(), "{tool}: {}", talk.text());
        (talk.text(), talk.result["structuredContent"].clone())
    };
    let (text, found) = call("query_result", json!({"sql": "SELECT * FROM result", "result": set})).await;
    assert!(text.contains(LARGE) && text.contains(PRICE), "{text}");
    assert_eq!(found["results"], json!([{"id": 9_007_199_254_740_993_u64, "price": PRICE}]));
    let (text, _) = call("describe_result", json!({"result": set})).await;
    assert!(text.contains(&format!("7 to {LARGE}")) && text.contains(&format!("0.1 to '{PRICE}'")), "{text}");

    // Hosts forward the data to the viewer, and some hosts store every number as a float.
    let entry = json!([{"id": LARGE, "price": PRICE}]);
    let (_, page) = call("result_page", json!({"id": set})).await;
    assert_eq!(page["data"], entry);
    let (_, groups) = call("result_aggregate", json!({"id": set})).await;
    assert_eq!(groups["data"], entry);
    let (_, stats) = call("result_stats", json!({"id": set})).await;
    let ends = |at: usize| (&stats["columns"][at]["min"], &stats["columns"][at]["max"]);
    assert_eq!(ends(0), (&json!(7), &json!(LARGE)));
    assert_eq!(ends(1), (&json!(0.1), &json!(PRICE)));
}
