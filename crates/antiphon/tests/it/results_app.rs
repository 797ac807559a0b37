//! Tools on result sets, and the viewer as an MCP App, on both revisions.

use antiphon::{
    http::HttpConfig,
    prelude::*,
    results::{RESULT_META, RESULT_VIEWER, ResultTools, result_viewer},
    testing::{Failed, Revision},
};
use antiphon_results::{
    CreateOptions, DualResponse, DualResponseServer, DualResponseServerOptions, LinkKeys, Rows, Source,
    VIEWER,
};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{
    checked::{Checked, connect, connect_with},
    http::{post, post_with},
};

const BASE: &str = "https://api.example.com:8443/resources";

/// What only the viewer calls.
const FOR_APPS: [&str; 5] =
    ["result_manifest", "result_page", "result_stats", "result_aggregate", "result_link"];

async fn people(ctx: &Ctx, _: ()) -> Result<DualResponse> {
    let mut rows = Rows::new();
    for id in 0..250 {
        rows.push(&json!({"id": id, "Full Name": format!("Person {id}")}))?;
    }
    ctx.dual_response(CreateOptions::new("People", Source::rows(rows))).await
}

fn results() -> DualResponseServer {
    let options = DualResponseServerOptions::new(BASE).with_link_keys(LinkKeys::random());
    DualResponseServer::new(options).unwrap()
}

fn serve() -> Server {
    // The tools may be asked for before there is a place for sets.
    Server::builder("people", "1.0.0")
        .with_result_tools(ResultTools::new())
        .with_results(results())
        .tool(Tool::new("people", "Lists people", people).with_result_viewer())
        .build()
        .unwrap()
}

/// What a host declares that shows apps.
fn apps() -> Value {
    let apps = json!({"mimeTypes": ["text/html;profile=mcp-app"]});
    json!({"extensions": {"io.modelcontextprotocol/ui": apps}})
}

/// A host that shows apps.
async fn host(server: &Server, revision: Revision) -> Result<Checked> {
    connect_with(server, revision, apps()).await
}

async fn tools(client: &mut Checked) -> Result<Vec<Value>> {
    Ok(client.request("tools/list", json!({})).await?["tools"].as_array().unwrap().clone())
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// What `@modelcontextprotocol/ext-apps` 2.0.4 takes as a tool's `_meta.ui`: these members and no others.
fn tool_meta() -> jsonschema::Validator {
    jsonschema::validator_for(&json!({
        "type": "object",
        "properties": {
            "resourceUri": {"type": "string", "pattern": "^ui://"},
            "visibility": {"type": "array", "items": {"enum": ["model", "app"]}},
        },
        "additionalProperties": false,
    }))
    .unwrap()
}

/// What it takes as a resource's.
fn resource_meta() -> jsonschema::Validator {
    let domains = json!({"type": "array", "items": {"type": "string"}});
    jsonschema::validator_for(&json!({
        "type": "object",
        "properties": {
            "csp": {
                "type": "object",
                "properties": {
                    "connectDomains": domains, "resourceDomains": domains, "frameDomains": domains,
                    "baseUriDomains": domains,
                },
                "additionalProperties": false,
            },
            "permissions": {"type": "object"},
            "domain": {"type": "string"},
            "prefersBorder": {"type": "boolean"},
        },
        "additionalProperties": false,
    }))
    .unwrap()
}

#[tokio::test]
async fn tools_of_the_viewer_are_there_for_hosts_that_show_apps_and_for_no_others() -> Result<()> {
    let server = serve();
    for revision in Revision::BOTH {
        let mut host = host(&server, revision).await?;
        let listed = tools(&mut host).await?;
        for name in FOR_APPS {
            let tool = listed.iter().find(|tool| tool["name"] == name).unwrap();
            assert_eq!(tool["_meta"]["ui"], json!({"visibility": ["app"]}));
        }
        for tool in listed.iter().filter(|tool| tool["_meta"]["ui"].is_object()) {
            assert!(tool_meta().is_valid(&tool["_meta"]["ui"]), "{tool}");
        }

        let mut plain = connect(&server, revision).await?;
        let listed = tools(&mut plain).await?;
        assert_eq!(names(&listed), ["people", "query_result", "describe_result"]);
        for name in FOR_APPS {
            let called = plain.call(name, json!({"id": "rs_a"})).await.unwrap_err();
            let failed = called.source().and_then(|source| source.downcast_ref::<Failed>()).unwrap();
            assert_eq!(
                (failed.code, failed.message.as_str()),
                (-32602, &*format!("there is no tool `{name}`"))
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn tools_that_bring_the_viewer_name_it_as_the_specification_and_as_older_hosts_want() -> Result<()> {
    let server = serve();
    for revision in Revision::BOTH {
        let listed = tools(&mut host(&server, revision).await?).await?;
        for name in ["people", "query_result"] {
            let meta = &listed.iter().find(|tool| tool["name"] == name).unwrap()["_meta"];
            assert_eq!(meta["ui"]["resourceUri"], result_viewer());
            assert_eq!(meta["ui/resourceUri"], result_viewer());
            assert!(meta["ui"].get("visibility").is_none(), "it is for models and for apps");
        }
    }
    Ok(())
}

#[tokio::test]
async fn viewer_is_a_listed_resource_that_may_connect_to_the_sets_and_nowhere_else() -> Result<()> {
    let server = serve();
    for revision in Revision::BOTH {
        let mut client = host(&server, revision).await?;
        let listed = client.request("resources/list", json!({})).await?;
        let read = client.request("resources/read", json!({"uri": result_viewer()})).await?;
        assert_eq!(read["contents"][0]["text"], VIEWER);
        assert_eq!(listed["resources"].as_array().unwrap().len(), 1);
        for described in [&listed["resources"][0], &read["contents"][0]] {
            assert_eq!(described["uri"], result_viewer());
            assert_eq!(described["mimeType"], "text/html;profile=mcp-app");
            let ui = &described["_meta"]["ui"];
            assert!(resource_meta().is_valid(ui), "{ui}");
            assert_eq!(ui["csp"], json!({"connectDomains": ["https://api.example.com:8443"]}));
        }
    }
    Ok(())
}

/// Hosts cache pages by URI. During an upgrade, a host can read the URI of one replica from another.
#[tokio::test]
async fn viewer_has_its_digest_in_its_uri_and_is_served_at_those_of_other_versions() -> Result<()> {
    let digest = result_viewer().strip_prefix(RESULT_VIEWER).and_then(|rest| rest.strip_prefix('/')).unwrap();
    assert!(digest.len() == 16 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
    let server = serve();
    for revision in Revision::BOTH {
        let mut client = host(&server, revision).await?;
        for uri in [RESULT_VIEWER, &format!("{RESULT_VIEWER}/0123456789abcdef"), result_viewer()] {
            let read = client.request("resources/read", json!({"uri": uri})).await?;
            let content = &read["contents"][0];
            assert_eq!((&content["uri"], &content["text"]), (&json!(uri), &json!(VIEWER)));
            assert_eq!(content["mimeType"], "text/html;profile=mcp-app");
            assert!(content["_meta"]["ui"]["csp"].is_object(), "{}", content["_meta"]);
        }
        for rest in ["/", "/not-a-digest", "s", "/0123456789abcdef/more"] {
            let uri = format!("{RESULT_VIEWER}{rest}");
            let read = client.request("resources/read", json!({"uri": uri})).await;
            assert!(read.is_err(), "{uri}: {read:?}");
        }
    }
    Ok(())
}

/// Some hosts pass nothing to the viewer if the answer has a link.
#[tokio::test]
async fn answer_has_a_link_unless_the_client_shows_the_viewer_with_it() -> Result<()> {
    let server = Server::builder("people", "1.0.0")
        .with_result_tools(ResultTools::new())
        .with_results(results())
        .tool(Tool::new("people", "Lists people", people).with_result_viewer())
        .tool(Tool::new("plain", "Lists people without the viewer", people))
        .build()?;
    let kinds = |result: &Value| -> Vec<Value> {
        result["content"].as_array().unwrap().iter().map(|block| block["type"].clone()).collect()
    };
    for revision in Revision::BOTH {
        let mut apps = host(&server, revision).await?;
        let shown = apps.call("people", json!({})).await?;
        assert_eq!(kinds(&shown.result), ["text"]);
        let id = shown.result["_meta"][RESULT_META]["id"].as_str().unwrap();
        assert!(shown.text().contains(&format!("Result set {id}: ")), "{}", shown.text());
        assert_eq!(kinds(&apps.call("plain", json!({})).await?.result), ["text", "resource_link"]);
        let mut plain = connect(&server, revision).await?;
        for tool in ["people", "plain"] {
            assert_eq!(kinds(&plain.call(tool, json!({})).await?.result), ["text", "resource_link"]);
        }
    }
    Ok(())
}

#[tokio::test]
async fn viewer_without_a_result_finds_the_newest_set_of_the_only_caller() -> Result<()> {
    for revision in Revision::BOTH {
        let server = serve();
        let mut client = host(&server, revision).await?;
        let none = client.call("result_manifest", json!({})).await?;
        assert!(none.is_error());
        assert_eq!(none.result["structuredContent"]["error"]["code"], "RESOURCE_NOT_FOUND");
        for _ in 0..2 {
            let made = client.call("people", json!({})).await?;
            let found = client.call("result_manifest", json!({})).await?;
            assert!(!found.is_error(), "{}", found.text());
            let manifest = &found.result["structuredContent"];
            assert_eq!(manifest["id"], made.result["_meta"][RESULT_META]["id"]);
            assert_eq!(manifest["rows"], 250);
        }
    }
    Ok(())
}

#[tokio::test]
async fn newest_set_over_http_is_that_of_the_authenticated_caller() -> Result<()> {
    #[derive(Clone, Copy)]
    struct Caller(&'static str);

    let server = Server::builder("people", "1.0.0")
        .with_result_tools(ResultTools::new())
        .with_results(results())
        .with_principal(|parts| parts.extensions.get::<Caller>().map(|caller| caller.0.to_owned()))
        .tool(Tool::new("people", "Lists people", people).with_result_viewer())
        .build()?;
    let router = server.router(HttpConfig::default());
    let call = async |caller: Option<&'static str>, tool: &str| -> Result<Value> {
        let params = json!({"name": tool, "arguments": {}});
        let mut request = post_with(Revision::V2026_07_28, "tools/call", params, apps());
        if let Some(caller) = caller {
            request.extensions_mut().insert(Caller(caller));
        }
        let body = router.clone().oneshot(request).await?.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)?;
        assert!(answer["result"].is_object(), "{tool}: {answer}");
        Ok(answer["result"].clone())
    };
    let made = call(Some("ada"), "people").await?;
    call(Some("grace"), "people").await?;
    call(None, "people").await?;
    let found = call(Some("ada"), "result_manifest").await?;
    assert_eq!(found["structuredContent"]["id"], made["_meta"][RESULT_META]["id"], "{found}");
    for (caller, code) in [(Some("eve"), "RESOURCE_NOT_FOUND"), (None, "INVALID_REQUEST")] {
        let refused = call(caller, "result_manifest").await?;
        assert_eq!(refused["structuredContent"]["error"]["code"], code, "{caller:?}: {refused}");
    }
    Ok(())
}

#[tokio::test]
async fn extension_is_declared_where_there_is_a_viewer() -> Result<()> {
    for (viewer, expected) in
        [(true, json!({"mimeTypes": ["text/html;profile=mcp-app"]})), (false, Value::Null)]
    {
        let server = Server::builder("people", "1.0.0")
            .with_results(results())
            .with_result_tools(ResultTools::new().with_viewer(viewer))
            .build()?;
        let mut client = host(&server, Revision::V2026_07_28).await?;
        let discovered = client.request("server/discover", json!({})).await?;
        assert_eq!(discovered["capabilities"]["extensions"]["io.modelcontextprotocol/ui"], expected);
        let listed = tools(&mut client).await?;
        assert_eq!(names(&listed).contains(&"result_page"), viewer);
    }
    Ok(())
}

#[tokio::test]
async fn answer_names_its_set_for_the_app_and_has_no_signed_link_anywhere() -> Result<()> {
    let server = serve();
    for revision in Revision::BOTH {
        let mut client = host(&server, revision).await?;
        let talk = client.call("people", json!({})).await?;
        let uri = talk.result["structuredContent"]["resource"]["uri"].as_str().unwrap();
        let id = uri.strip_prefix("resource://").unwrap();
        assert_eq!(talk.result["_meta"][RESULT_META], json!({"id": id, "url": format!("{BASE}/{id}")}));
        assert!(!talk.result.to_string().contains("link="));
    }
    Ok(())
}

#[tokio::test]
async fn app_pages_through_the_host_by_id_by_uri_and_by_url() -> Result<()> {
    let server = serve();
    for revision in Revision::BOTH {
        let mut client = host(&server, revision).await?;
        let talk = client.call("people", json!({})).await?;
        let named = &talk.result["_meta"][RESULT_META];
        let (id, url) = (named["id"].as_str().unwrap(), named["url"].as_str().unwrap());
        for id in [id, &format!("resource://{id}"), url, &format!("{url}/view?link=abc")] {
            let ask =
                json!({"id": id, "offset": 200, "limit": 100, "sort": {"field": "id", "order": "desc"}});
            let talk = client.call("result_page", ask).await?;
            let page = &talk.result["structuredContent"];
            assert_eq!(page["data"][0], json!({"id": 49, "Full Name": "Person 49"}));
            assert_eq!(
                (&page["total_count"], &page["returned_count"], &page["offset"], &page["next_offset"]),
                (&json!(250), &json!(50), &json!(200), &Value::Null)
            );
            assert_eq!(talk.text(), "Rows of a result set (50 rows), for the app.");
        }
        let manifest = client.call("result_manifest", json!({"id": id})).await?.result;
        assert_eq!(manifest["structuredContent"]["rows"], 250);
        assert_eq!(manifest["structuredContent"]["name"], "People");
        let link = client.call("result_link", json!({"id": id, "expires_in": 60})).await?.result;
        let link = &link["structuredContent"];
        assert!(link["url"].as_str().unwrap().starts_with(&format!("{url}?link=")), "{link}");
        assert_eq!(link["scopes"], json!(["read"]));
        let more = client.call("result_link", json!({"id": id, "scopes": ["read", "delete"]})).await;
        assert!(more.map_or(true, |talk| talk.is_error()), "a page asks for reading and no more");
    }
    Ok(())
}

/// Without a session nobody knows what a 2025-11-25 client can do.
#[tokio::test]
async fn client_that_cannot_say_that_it_shows_apps_has_none_of_their_tools() -> Result<()> {
    let revision = Revision::V2025_11_25;
    let router = serve().router(HttpConfig::default().with_sessions(false));
    let ask = async |method: &str, params: Value| -> Result<Value> {
        let response = router.clone().oneshot(post(revision, method, params)).await?;
        Ok(serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?)
    };
    let listed = ask("tools/list", json!({})).await?;
    let names = names(listed["result"]["tools"].as_array().unwrap());
    assert_eq!(names, ["people", "query_result", "describe_result"]);
    let called = ask("tools/call", json!({"name": "result_link", "arguments": {"id": "rs_a"}})).await?;
    assert_eq!(called["error"]["message"], "there is no tool `result_link`", "{called}");
    Ok(())
}

async fn ledger(ctx: &Ctx, _: ()) -> Result<DualResponse> {
    let mut rows = Rows::new();
    rows.push_json(r#"{"id":9007199254740993,"small":7,"share":0.1,"price":12345678901234567.89}"#)?;
    ctx.dual_response(CreateOptions::new("Ledger", Source::rows(rows))).await
}

#[tokio::test]
async fn number_that_a_page_cannot_hold_reaches_it_as_text() -> Result<()> {
    let server = Server::builder("ledger", "1.0.0")
        .with_result_tools(ResultTools::new())
        .with_results(results())
        .tool(Tool::new("ledger", "Lists entries", ledger))
        .build()?;
    let mut client = host(&server, Revision::V2026_07_28).await?;
    let made = client.call("ledger", json!({})).await?;
    // JSON has room for the first, and what holds it here too; the other would lose digits on its way.
    let shown = &made.result["structuredContent"]["results"][0];
    assert_eq!(shown["id"], 9_007_199_254_740_993_u64);
    assert_eq!(shown["price"], "12345678901234567.89");
    assert!(made.text().contains("9007199254740993") && made.text().contains("12345678901234567.89"));
    let id = &made.result["_meta"][RESULT_META]["id"];
    let page = client.call("result_page", json!({"id": id})).await?.result;
    assert_eq!(
        page["structuredContent"]["data"],
        json!([{"id": "9007199254740993", "small": 7, "share": 0.1, "price": "12345678901234567.89"}])
    );
    Ok(())
}

#[tokio::test]
async fn what_goes_wrong_is_told_to_the_app_with_its_code() -> Result<()> {
    let server = serve();
    let mut client = host(&server, Revision::V2026_07_28).await?;
    let set = client.call("people", json!({})).await?.result["_meta"][RESULT_META]["id"].clone();
    let mut code = async |tool: &str, ask: Value| -> Result<Value> {
        let talk = client.call(tool, ask).await?;
        assert!(talk.is_error(), "{:?}", talk.result);
        let error = &talk.result["structuredContent"]["error"];
        assert_eq!(error["message"], talk.text());
        Ok(error["code"].clone())
    };
    for named in ["rs_nothing", "resource://rs_nothing", &format!("{BASE}/rs_nothing")] {
        assert_eq!(code("result_page", json!({"id": named})).await?, "RESOURCE_NOT_FOUND");
    }
    for named in
        ["", "../../etc/passwd", "https://elsewhere.example.com/rs_a", "other://rs_a", &"a".repeat(65)]
    {
        assert_eq!(code("result_page", json!({"id": named})).await?, "INVALID_REQUEST", "{named}");
    }
    let sort = json!({"field": "salary"});
    assert_eq!(code("result_page", json!({"id": set, "sort": sort})).await?, "INVALID_REQUEST");
    assert_eq!(code("result_stats", json!({"id": set})).await?, "NOT_SUPPORTED");
    let many = client.call("result_aggregate", json!({"id": set, "limit": 10_001})).await?;
    assert!(many.is_error() && many.text().contains("maximum of 10000"), "{}", many.text());
    Ok(())
}

/// Of a set that is another's, nobody learns that it is there.
#[tokio::test]
async fn set_of_another_is_to_every_tool_as_one_that_is_not_there() -> Result<()> {
    #[derive(Clone, Copy)]
    struct Caller(&'static str);

    let server = Server::builder("people", "1.0.0")
        .with_result_tools(ResultTools::new())
        .with_results(results())
        .with_principal(|parts| parts.extensions.get::<Caller>().map(|caller| caller.0.to_owned()))
        .tool(Tool::new("people", "Lists people", people))
        .build()?;
    let router = server.router(HttpConfig::default());
    let call = async |caller: &'static str, tool: &str, arguments: &Value| -> Result<Value> {
        let params = json!({"name": tool, "arguments": arguments});
        let mut request = post_with(Revision::V2026_07_28, "tools/call", params, apps());
        request.extensions_mut().insert(Caller(caller));
        let body = router.clone().oneshot(request).await?.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)?;
        assert!(answer["result"].is_object(), "{tool}: {answer}");
        Ok(answer["result"].clone())
    };
    let made = call("ada", "people", &json!({})).await?;
    let set = made["_meta"][RESULT_META]["id"].as_str().unwrap();
    let asks = |id: &str| {
        let mut asks = vec![
            ("query_result", json!({"sql": "SELECT count(*) FROM result", "result": id})),
            ("describe_result", json!({"result": id})),
        ];
        asks.extend(FOR_APPS.map(|tool| (tool, json!({"id": id}))));
        asks
    };
    let nothing = "rs_nothing";
    for ((tool, theirs), (_, nobodys)) in asks(set).into_iter().zip(asks(nothing)) {
        let foreign = call("eve", tool, &theirs).await?;
        let unknown = call("eve", tool, &nobodys).await?;
        // Whoever asks may be told what they asked for, and nothing else.
        assert_eq!(foreign.to_string().replace(set, nothing), unknown.to_string(), "{tool}");
        assert_eq!(foreign["isError"], true, "{tool}: {foreign}");
        let said = match tool {
            "query_result" | "describe_result" => foreign["content"][0]["text"].to_string(),
            _ => foreign["structuredContent"]["error"].to_string(),
        };
        let frozen = match tool {
            "query_result" | "describe_result" => "the result set does not exist or has expired",
            _ => "RESOURCE_NOT_FOUND",
        };
        assert!(said.contains(frozen), "{tool}: {said}");
        let own = call("ada", tool, &theirs).await?;
        assert!(!own.to_string().contains(frozen), "{tool}: its owner finds it: {own}");
    }
    Ok(())
}

/// What the model reads when it asks wrongly: what to do next.
#[tokio::test]
async fn model_is_told_how_to_mend_its_call() -> Result<()> {
    let server = serve();
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?;
        let set = client.call("people", json!({})).await?.result["_meta"][RESULT_META]["id"].clone();
        let mut text = async |ask: Value| -> Result<String> {
            let talk = client.call("query_result", ask).await?;
            assert!(talk.is_error(), "{:?}", talk.result);
            Ok(talk.text())
        };
        let sql = "SELECT count(*) FROM result";
        let gone = text(json!({"sql": sql, "result": "rs_nothing"})).await?;
        assert!(
            gone.contains("`rs_nothing` (table `result`)") && gone.contains("repeat the tool call"),
            "{gone}"
        );
        let joined = json!({"sql": sql, "result": set, "tables": {"other": "resource://rs_gone"}});
        // The set has rows in hand, and those cannot be queried at all; that is said first.
        assert!(!text(joined).await?.is_empty());
        let nothing = text(json!({"sql": sql, "result": "the last one"})).await?;
        assert!(
            nothing.starts_with("`result`: this is not the ID or the link of a result set")
                && nothing.contains("rs_…"),
            "{nothing}"
        );
        let twice = text(json!({"sql": sql, "result": set, "tables": {"result": set}})).await?;
        assert!(twice.contains("use another name"), "{twice}");
        let saved = text(json!({"sql": sql, "result": set})).await?;
        assert!(saved.contains("saved"), "{saved}");
    }
    Ok(())
}

#[tokio::test]
async fn set_without_statistics_is_described_by_its_columns() -> Result<()> {
    let server = serve();
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?;
        let set = client.call("people", json!({})).await?.result["_meta"][RESULT_META]["url"].clone();
        let text = client.call("describe_result", json!({"result": set})).await?.text();
        assert!(text.starts_with("250 rows. It expires at 20"), "{text}");
        assert!(
            text.contains("Column statistics are not available: only result sets with saved rows have them."),
            "{text}"
        );
        assert!(text.contains("\nid integer\n") && text.contains("\n\"Full Name\" string\n"), "{text}");
        let one = client.call("describe_result", json!({"result": set, "columns": ["id"]})).await?.text();
        assert!(one.contains("\nid integer\n</data-"), "{one}");
        let gone = client.call("describe_result", json!({"result": "rs_nothing"})).await?;
        assert!(
            gone.is_error() && gone.text().contains("repeat the tool call that created the result set"),
            "{}",
            gone.text()
        );
    }
    Ok(())
}

#[test]
fn server_without_what_its_tools_need_is_not_built() {
    let alone = Server::builder("x", "1.0.0").with_result_tools(ResultTools::new()).build().unwrap_err();
    assert_eq!(
        alone.problems(),
        [
            "result tools are enabled, but the server has no result sets; add them with `ServerBuilder::with_results`"
        ]
    );
    let tool = Tool::new("people", "Lists people", people).with_result_viewer();
    let blind = Server::builder("x", "1.0.0").with_results(results()).tool(tool).build().unwrap_err();
    assert_eq!(
        blind.problems(),
        [
            "the tool `people` uses the result viewer, but the server has none; add it with `ServerBuilder::with_result_tools`"
        ]
    );
}
