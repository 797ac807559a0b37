//! Tools that answer with more rows than a model can read, on both revisions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use antiphon::{
    prelude::*,
    seal::KeyRing,
    task::{TaskConfig, TaskPolicy},
    testing::{Answers, Client, Failed, Revision},
};
use antiphon_results::{
    Access, BoxError, CreateOptions, DualResponse, DualResponseServer, DualResponseServerOptions,
    LinkOptions, PageOptions, Rows, Source, source::PageRequest,
};
use serde_json::{Value, json};

use crate::checked::connect;

/// The default limit of the preview.
const PREVIEW_BYTES: usize = 8 * 1024;

/// The default limit of the response to `resources/read`.
const READ_BYTES: usize = 32 * 1024;

#[derive(Deserialize, JsonSchema)]
struct Search {
    /// How many rows are found.
    rows: u64,
}

fn source(count: u64) -> Source {
    let page = move |page: PageRequest| async move {
        let mut rows = Rows::new();
        for id in (page.offset..count).take(usize::try_from(page.limit)?) {
            rows.push(&json!({"id": id, "name": format!("Institution {id}")}))?;
        }
        Ok::<_, BoxError>(rows)
    };
    Source::closures(page, move || async move { Ok(count) })
}

async fn search(ctx: &Ctx, args: Search) -> Result<DualResponse> {
    ctx.dual_response(CreateOptions::new("Institution Search Results", source(args.rows))).await
}

#[derive(Deserialize, JsonSchema)]
struct Sure {
    sure: bool,
}

/// Makes its set first and asks afterwards.
async fn search_and_ask(ctx: &Ctx, args: Search) -> Result<DualResponse> {
    ctx.state::<Arc<AtomicU64>>()?.fetch_add(1, Ordering::SeqCst);
    let response = ctx.dual_response(CreateOptions::new("Found", source(args.rows))).await?;
    let answer = ctx.elicit::<Sure>("Show them?").await?.accepted()?;
    if answer.sure { Ok(response) } else { Err(Error::tool("then not")) }
}

fn results() -> DualResponseServer {
    DualResponseServer::new(DualResponseServerOptions::new("https://api.example.com/resources")).unwrap()
}

fn serve(results: &DualResponseServer) -> Server {
    Server::builder("ipeds-reporting", "1.0.0")
        .with_results(results.clone())
        .with_state(Arc::new(AtomicU64::new(0)))
        .tool(Tool::new("search_institutions", "Search colleges and universities", search))
        .tool(Tool::new("search_and_ask", "Searches, then asks", search_and_ask))
        .build()
        .unwrap()
}

fn id(result: &Value) -> String {
    result["structuredContent"]["resource"]["uri"]
        .as_str()
        .unwrap()
        .strip_prefix("resource://")
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn tool_returns_a_dual_response_and_both_revisions_have_it() -> Result<()> {
    let server = serve(&results());
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?;
        for rows in [1_u64, 15, 1_000, 1_000_000] {
            let talk = client.call("search_institutions", json!({"rows": rows})).await?;
            let content = talk.result["content"].as_array().unwrap();
            assert_eq!(content.len(), 2);
            let text = content[0]["text"].as_str().unwrap();
            assert!(text.len() <= PREVIEW_BYTES);
            assert!(
                text.starts_with(&format!(
                    "Found {rows} results. Sample data and full dataset link included."
                ))
            );
            assert_eq!(text.contains("NOT shown"), rows > 15);
            assert_eq!(content[1]["type"], "resource_link");
            assert!(text.contains(&format!("\nResult set {}: ", id(&talk.result))), "{text}");
            let structured = &talk.result["structuredContent"];
            let wire = structured.to_string();
            assert!(wire.len() <= PREVIEW_BYTES && wire.starts_with("{\"about\":\"Found "), "{wire}");
            assert_eq!(structured["metadata"]["total_count"], rows);
            assert_eq!(structured["results"].as_array().unwrap().len() as u64, rows.min(15));
            assert!(talk.result.to_string().len() < 3 * PREVIEW_BYTES);
        }
        let tools = client.request("tools/list", json!({})).await?;
        let tool = &tools["tools"][0];
        let schema = jsonschema::validator_for(&tool["outputSchema"])?;
        let talk = client.call("search_institutions", json!({"rows": 20})).await?;
        assert!(schema.is_valid(&talk.result["structuredContent"]));
    }
    Ok(())
}

/// Searches that take long are tasks, and their result is the same.
#[tokio::test]
async fn task_has_the_dual_response_as_its_result() -> Result<()> {
    let tool = Tool::new("search_institutions", "Search colleges and universities", search);
    let server = Server::builder("ipeds-reporting", "1.0.0")
        .with_results(results())
        .with_tasks(TaskConfig::default())
        .tool(tool.with_tasks(TaskPolicy::Always))
        .build()?;
    let call = json!({"name": "search_institutions", "arguments": {"rows": 1000}});
    let check = |result: &Value| {
        assert_eq!(result["content"][1]["type"], "resource_link", "{result}");
        assert_eq!(result["structuredContent"]["metadata"]["total_count"], 1000);
    };
    let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client = Client::connect_with(&server, Revision::V2026_07_28, extension).await?;
    let task = client.request("tools/call", call.clone()).await?;
    assert_eq!(task["resultType"], "task");
    let task = loop {
        let task = client.request("tasks/get", json!({"taskId": task["taskId"]})).await?;
        if task["status"] != "working" {
            break task;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    check(&task["result"]);
    let mut client = Client::connect_with(&server, Revision::V2025_11_25, json!({})).await?;
    let mut call = call;
    call["task"] = json!({"ttl": 60_000});
    let created = client.request("tools/call", call).await?;
    let result = client.request("tasks/result", json!({"taskId": created["task"]["taskId"]})).await?;
    check(&result);
    Ok(())
}

#[tokio::test]
async fn link_can_be_read_within_bounds_and_is_not_listed() -> Result<()> {
    let server = serve(&results());
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?;
        let talk = client.call("search_institutions", json!({"rows": 1_000_000})).await?;
        let uri = talk.result["content"][1]["uri"].clone();
        let read = client.request("resources/read", json!({"uri": uri})).await?;
        let text = read["contents"][0]["text"].as_str().unwrap();
        assert!(text.len() < 2 * READ_BYTES, "{} bytes", text.len());
        let read: Value = serde_json::from_str(text)?;
        assert_eq!((&read["total_count"], &read["complete"]), (&json!(1_000_000), &json!(false)));
        let listed = client.request("resources/list", json!({})).await?;
        assert_eq!(listed["resources"], json!([]));
        let unknown = client.request("resources/read", json!({"uri": "resource://rs_nothing"})).await;
        let failed = unknown.unwrap_err();
        let expected = if revision == Revision::V2025_11_25 { -32002 } else { -32602 };
        assert_eq!(
            failed.source().and_then(|source| source.downcast_ref::<Failed>()).map(|failed| failed.code),
            Some(expected)
        );
    }
    Ok(())
}

#[tokio::test]
async fn set_is_made_once_however_many_rounds_there_are() -> Result<()> {
    for revision in Revision::BOTH {
        let made = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&made);
        let options =
            DualResponseServerOptions::new("https://api.example.com/resources").with_audit(move |event| {
                if event.action == antiphon_results::Action::Create {
                    seen.fetch_add(1, Ordering::SeqCst);
                }
            });
        let results = DualResponseServer::new(options)?;
        let answers = Answers::new().accept("sure", json!({"sure": true}));
        let mut client = connect(&serve(&results), revision).await?.answering(answers);
        let talk = client.call("search_and_ask", json!({"rows": 100})).await?;
        assert_eq!(made.load(Ordering::SeqCst), 1);
        let page = results.page(&id(&talk.result), &Access::Program, PageOptions::default()).await?;
        assert_eq!(page.total_count, 100);
    }
    Ok(())
}

#[tokio::test]
async fn server_says_where_result_sets_are() -> Result<()> {
    let server = serve(&results());
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let discovered = client.request("server/discover", json!({})).await?;
    assert_eq!(
        discovered["capabilities"]["experimental"]["dualResponse"],
        json!({"enabled": true, "baseUrl": "https://api.example.com/resources", "defaultExpiration": 900})
    );
    Ok(())
}

#[tokio::test]
async fn without_a_place_for_result_sets_the_error_says_what_to_do() -> Result<()> {
    let server = Server::builder("bare", "1.0.0").tool(Tool::new("search", "Searches", search)).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let talk = client.call("search", json!({"rows": 1})).await?;
    assert!(talk.is_error() && talk.text().contains("`ServerBuilder::with_results`"), "{}", talk.text());
    Ok(())
}

#[tokio::test]
async fn failing_source_is_an_answer_the_model_can_read() -> Result<()> {
    async fn broken(ctx: &Ctx, _: ()) -> Result<DualResponse> {
        let source = Source::closures(
            |_| async { Err::<Rows, BoxError>("the table is gone".into()) },
            || async { Ok(1) },
        );
        ctx.dual_response(CreateOptions::new("x", source)).await
    }
    let server = Server::builder("broken", "1.0.0")
        .with_results(results())
        .tool(Tool::new("broken", "Fails", broken))
        .build()?;
    for revision in Revision::BOTH {
        let talk = connect(&server, revision).await?.call("broken", json!({})).await?;
        assert!(talk.is_error());
        assert_eq!(talk.text(), "the rows could not be read from the source: the table is gone");
    }
    Ok(())
}

#[tokio::test]
async fn links_are_signed_with_keys_made_from_the_seals() -> Result<()> {
    let server = |ring: KeyRing| {
        let options = DualResponseServerOptions::new("https://api.example.com/resources")
            .with_link_keys(ring.link_keys());
        DualResponseServer::new(options).unwrap()
    };
    let old = server(KeyRing::new(1, [1; 32]));
    let set = old.create_response(CreateOptions::new("x", source(3))).await?;
    let link = old.mint_link(&set.resource_id, &Access::Program, LinkOptions::default()).await?;
    let token = link.url.split_once("?link=").unwrap().1;
    assert!(server(KeyRing::new(2, [2; 32]).with_decryption_key(1, [1; 32])).open_link(token).is_ok());
    assert!(server(KeyRing::new(2, [2; 32])).open_link(token).is_err());
    assert!(server(KeyRing::new(1, [3; 32])).open_link(token).is_err());
    Ok(())
}

/// Sets belong to whoever called, and are not there for others.
#[cfg(feature = "http")]
#[tokio::test]
async fn set_of_one_caller_is_not_there_for_another() -> Result<()> {
    use antiphon::http::HttpConfig;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    #[derive(Clone, Copy)]
    struct Caller(&'static str);

    let options = DualResponseServerOptions::new("https://api.example.com/resources")
        .with_link_keys(antiphon_results::LinkKeys::random());
    let results = DualResponseServer::new(options)?;
    let server = Server::builder("ipeds-reporting", "1.0.0")
        .with_results(results.clone())
        .with_principal(|parts| parts.extensions.get::<Caller>().map(|caller| caller.0.to_owned()))
        .tool(Tool::new("search_institutions", "Searches", search))
        .build()?;
    let app = server.router(HttpConfig::default());
    let send = async |caller: &'static str, method: &str, params: Value| -> Result<Value> {
        let mut request = crate::http::post(Revision::V2026_07_28, method, params);
        request.extensions_mut().insert(Caller(caller));
        let body = app.clone().oneshot(request).await?.into_body().collect().await?.to_bytes();
        Ok(serde_json::from_slice(&body)?)
    };
    let call = json!({"name": "search_institutions", "arguments": {"rows": 3}});
    let made = send("ada", "tools/call", call).await?;
    let uri = json!({"uri": made["result"]["content"][1]["uri"]});
    let own = send("ada", "resources/read", uri.clone()).await?;
    assert!(own["result"].is_object(), "{own}");
    let foreign = send("eve", "resources/read", uri).await?;
    let unknown = send("eve", "resources/read", json!({"uri": "resource://rs_unknown"})).await?;
    assert_eq!(foreign["error"], unknown["error"]);
    let resource = results.get_resource(&id(&made["result"])).await?.unwrap();
    assert_eq!(resource.owner.principal.as_deref(), Some("ada"));
    Ok(())
}
