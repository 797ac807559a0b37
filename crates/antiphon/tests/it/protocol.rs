//! What the engine leaves open, closed.

use std::time::Duration;

use antiphon::{
    Limits,
    model::ServerHandler,
    prelude::*,
    testing::{Answers, Failed, Revision},
};
use serde_json::{Value, json};

use crate::checked::connect;

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

async fn ask(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.elicit::<Word>("Word?").await?.accepted()?.word)
}

async fn panics(_: &Ctx, _: ()) -> Result<String> {
    panic!("a secret of the server's");
}

async fn announce(ctx: &Ctx, _: ()) -> Result<()> {
    ctx.changes().tools();
    ctx.changes().resource("lib://watched");
    ctx.changes().resource("lib://other");
    Ok(())
}

fn server() -> Result<Server> {
    Ok(Server::builder("protocol", "1.2.3")
        .with_instructions("Ask nicely")
        .tool(Tool::new("ask", "Asks", ask))
        .tool(Tool::new("panics", "Panics", panics))
        .tool(Tool::new("announce", "Announces", announce))
        .resource(antiphon::Resource::new(
            "lib://watched",
            "watched",
            async |_: &Ctx, (): ()| -> Result<&str> { Ok("x") },
        ))
        .build()?)
}

fn failed(error: &Error) -> Failed {
    error
        .source()
        .and_then(|source| source.downcast_ref::<Failed>())
        .cloned()
        .unwrap_or_else(|| panic!("{error:#}"))
}

#[tokio::test]
async fn a_client_of_2025_11_25_is_answered_with_2025_11_25() -> Result<()> {
    let client = connect(&server()?, Revision::V2025_11_25).await?;
    let hello = &client.frames()[0].message["result"];
    assert_eq!(hello["protocolVersion"], "2025-11-25");
    assert_eq!(hello["serverInfo"]["name"], "protocol");
    assert_eq!(hello["serverInfo"]["version"], "1.2.3");
    assert_eq!(hello["instructions"], "Ask nicely");
    assert_eq!(hello["capabilities"]["tools"], json!({"listChanged": true}));
    assert_eq!(hello["capabilities"]["resources"], json!({"listChanged": true, "subscribe": true}));
    assert_eq!(hello["capabilities"].get("prompts"), None, "there are none");
    Ok(())
}

#[tokio::test]
async fn a_client_of_2026_07_28_discovers_the_same_server() -> Result<()> {
    let mut client = connect(&server()?, Revision::V2026_07_28).await?;
    let found = client.request("server/discover", json!({})).await?;
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    assert_eq!(found["capabilities"]["tools"], json!({"listChanged": true}));
    Ok(())
}

#[tokio::test]
async fn a_2026_07_28_client_on_a_plain_stream_is_never_sent_a_request() -> Result<()> {
    for discover in [false, true] {
        let mut client = connect(&server()?, Revision::V2026_07_28)
            .await?
            .answering(Answers::new().accept("word", json!({"word": "a"})));
        if discover {
            client.request("server/discover", json!({})).await?;
        }
        let talk = client.call("ask", json!({})).await?;
        assert_eq!((talk.text().as_str(), talk.rounds), ("a", 1));
        assert!(client.frames().iter().all(|frame| frame.message.get("method").is_none()));
    }
    Ok(())
}

#[tokio::test]
async fn a_tool_that_panics_answers_all_the_same() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&server()?, revision)
            .await?
            .answering(Answers::new().accept("word", json!({"word": "a"})));
        let talk = client.call("panics", json!({})).await?;
        assert!(talk.is_error());
        assert!(!talk.text().contains("secret"), "what a panic says is for the log: {}", talk.text());
        assert_eq!(client.call("ask", json!({})).await?.text(), "a", "the server lives on");
    }
    Ok(())
}

#[tokio::test]
async fn parameters_that_cannot_be_read_are_invalid_not_unknown() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&server()?, revision).await?;
        let error = client.request("tools/call", json!({"name": 5})).await.unwrap_err();
        assert_eq!(failed(&error).code, -32602, "{error}");
        let error = client.request("no/such/method", json!({})).await.unwrap_err();
        assert_eq!(failed(&error).code, -32601, "{error}");
        let error = client.request("logging/setLevel", json!({})).await.unwrap_err();
        let removed = revision == Revision::V2026_07_28;
        assert_eq!(failed(&error).code, if removed { -32601 } else { -32602 }, "{error}");
        let error = client.call("no_such_tool", json!({})).await.unwrap_err();
        assert_eq!(
            (failed(&error).code, failed(&error).message.as_str()),
            (-32602, "there is no tool `no_such_tool`")
        );
    }
    Ok(())
}

#[tokio::test]
async fn wrong_and_surplus_answers_are_ignored_and_missing_ones_asked_for_again() -> Result<()> {
    let mut client = connect(&server()?, Revision::V2026_07_28).await?;
    let first = client.request("tools/call", json!({"name": "ask", "arguments": {}})).await?;
    let state = first["requestState"].clone();
    for wrong in [
        json!({}),
        json!({"other": {"action": "accept"}}),
        json!({"word": 5}),
        json!({"word": null}),
        json!({"word": {}}),
    ] {
        let retry = json!({"name": "ask", "arguments": {}, "requestState": state, "inputResponses": wrong});
        let again = client.request("tools/call", retry).await?;
        assert_eq!(again["resultType"], "input_required", "{wrong}");
        assert!(again["inputRequests"].get("word").is_some());
    }
    let answer =
        json!({"word": {"action": "accept", "content": {"word": "a"}}, "extra": {"action": "accept"}});
    let retry = json!({"name": "ask", "arguments": {}, "requestState": state, "inputResponses": answer});
    assert_eq!(client.request("tools/call", retry).await?["content"][0]["text"], "a");
    let at_once = json!({"name": "ask", "arguments": {}, "inputResponses": answer});
    assert_eq!(
        client.request("tools/call", at_once).await?["content"][0]["text"],
        "a",
        "answers may come with the first call"
    );
    Ok(())
}

#[tokio::test]
async fn a_session_hears_of_what_it_subscribed_to_and_nothing_else() -> Result<()> {
    let mut client = connect(&server()?, Revision::V2025_11_25).await?;
    client.request("resources/subscribe", json!({"uri": "lib://watched"})).await?;
    let mut heard = client.call("announce", json!({})).await?.notifications;
    while heard.len() < 2 {
        heard.push(client.notification().await?);
    }
    let methods: Vec<_> = heard.iter().map(|note| note["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["notifications/tools/list_changed", "notifications/resources/updated"]);
    assert_eq!(heard[1]["params"]["uri"], "lib://watched");
    client.request("resources/unsubscribe", json!({"uri": "lib://watched"})).await?;
    let mut heard = client.call("announce", json!({})).await?.notifications;
    while heard.is_empty() {
        heard.push(client.notification().await?);
    }
    client.request("ping", json!({})).await?;
    assert!(heard.iter().all(|note| note["method"] == "notifications/tools/list_changed"), "{heard:?}");
    Ok(())
}

#[tokio::test]
async fn a_listener_hears_of_what_it_asked_for_and_nothing_else() -> Result<()> {
    let server = server()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let filter = json!({"resourceSubscriptions": ["lib://watched"]});
    let id = client.start("subscriptions/listen", json!({"notifications": filter})).await?;
    let first = client.notification().await?;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    connect(&server, Revision::V2026_07_28).await?.call("announce", json!({})).await?;
    let heard = client.notification().await?;
    assert_eq!(heard["method"], "notifications/resources/updated");
    assert_eq!(heard["params"]["uri"], "lib://watched");
    assert_eq!(heard["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], json!(id));
    let quiet = tokio::time::timeout(Duration::from_millis(100), client.notification()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    Ok(())
}

#[tokio::test]
async fn tools_come_and_go_while_the_server_runs() -> Result<()> {
    let server = server()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    client.request("ping", json!({})).await?;
    server.add_tool(Tool::new("late", "Comes late", announce))?;
    assert_eq!(client.notification().await?["method"], "notifications/tools/list_changed");
    let names = |listed: &Value| {
        listed["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&client.request("tools/list", json!({})).await?), ["ask", "panics", "announce", "late"]);
    assert!(server.remove_tool("panics") && !server.remove_tool("panics"));
    assert_eq!(client.notification().await?["method"], "notifications/tools/list_changed");
    assert_eq!(names(&client.request("tools/list", json!({})).await?), ["ask", "announce", "late"]);
    assert!(server.add_tool(Tool::new("late", "Again", announce)).is_err());
    Ok(())
}

#[tokio::test]
async fn long_lists_come_in_pages() -> Result<()> {
    let mut builder = Server::builder("pages", "1.0.0").with_limits(Limits::default().with_list_page_size(2));
    for n in 0..5 {
        builder = builder.tool(Tool::new(format!("t{n}"), "One of many", announce));
    }
    let mut client = connect(&builder.build()?, Revision::V2026_07_28).await?;
    let (mut names, mut page) = (Vec::new(), json!({}));
    loop {
        let listed = client.request("tools/list", page).await?;
        names.extend(listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()));
        match listed.get("nextCursor") {
            Some(cursor) => page = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert_eq!(names, ["t0", "t1", "t2", "t3", "t4"]);
    let error = client.request("tools/list", json!({"cursor": "nonsense"})).await.unwrap_err();
    assert_eq!(failed(&error).code, -32602);
    Ok(())
}

#[tokio::test]
async fn more_requests_than_allowed_are_refused_with_a_reason() -> Result<()> {
    async fn work(_: &Ctx, _: ()) -> Result<()> {
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        Ok(())
    }
    let server = Server::builder("busy", "1.0.0")
        .with_limits(Limits::default().with_in_flight(1))
        .tool(Tool::new("work", "Works for a minute", work))
        .tool(Tool::new("ask", "Asks", ask))
        .build()?;
    let mut first = connect(&server, Revision::V2025_11_25).await?;
    first.start("tools/call", json!({"name": "work", "arguments": {}})).await?;
    let mut second = connect(&server, Revision::V2026_07_28).await?;
    let error = loop {
        match second.request("tools/call", json!({"name": "ask", "arguments": {}})).await {
            Err(error) => break error,
            Ok(_) => tokio::task::yield_now().await,
        }
    };
    let refused = failed(&error);
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (-32000, "the server has reached its limit of 1 concurrent requests; try again later")
    );
    assert_eq!(refused.data, json!({"limit": "in_flight", "retryAfter": 1}));
    Ok(())
}

#[tokio::test]
async fn completion_has_a_place_and_a_time_limit() -> Result<()> {
    async fn speech(_: &Ctx, _: ()) -> Result<String> {
        Ok("a speech".into())
    }
    let never = async |_: antiphon::prompt::Completion| std::future::pending().await;
    let limits = Limits::default().with_in_flight(1).with_tool_timeout(std::time::Duration::from_secs(1));
    let server = Server::builder("busy", "1.0.0")
        .with_limits(limits)
        .prompt(antiphon::Prompt::new("speech", "Asks for a speech", speech).completes("topic", never))
        .build()?;
    let complete =
        json!({"ref": {"type": "ref/prompt", "name": "speech"}, "argument": {"name": "topic", "value": "r"}});
    let mut first = connect(&server, Revision::V2025_11_25).await?;
    first.start("completion/complete", complete.clone()).await?;
    let mut second = connect(&server, Revision::V2025_11_25).await?;
    let mut seen = std::collections::BTreeSet::new();
    // One of the two has the place; the other is refused, and has it later.
    while seen.len() < 2 {
        let failed = failed(&second.request("completion/complete", complete.clone()).await.unwrap_err());
        if failed.code == -32000 {
            assert_eq!(failed.data["limit"], "in_flight");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        } else {
            assert!(failed.message.contains("the time limit of 1s was exceeded"), "{failed:?}");
            first.start("completion/complete", complete.clone()).await?;
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        seen.insert(failed.code);
    }
    Ok(())
}

/// A handler as one writes it for the SDK.
#[derive(Clone)]
struct Existing;

impl ServerHandler for Existing {
    fn get_info(&self) -> rmcp::model::ServerConfig {
        rmcp::model::ServerConfig::new(rmcp::model::ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<rmcp::model::PaginatedRequestParams>,
        _: rmcp::service::RequestContext<rmcp::RoleServer>,
    ) -> Result<rmcp::model::ListToolsResult, rmcp::ErrorData> {
        let tool = |name| {
            rmcp::model::Tool::new(
                name,
                "An old tool",
                serde_json::Map::from_iter([("type".into(), "object".into())]),
            )
        };
        Ok(rmcp::model::ListToolsResult::with_all_items(vec![tool("old"), tool("ask")]))
    }

    async fn call_tool(
        &self,
        request: rmcp::model::CallToolRequestParams,
        _: rmcp::service::RequestContext<rmcp::RoleServer>,
    ) -> Result<rmcp::model::CallToolResponse, rmcp::ErrorData> {
        let text = format!("old {}", request.name);
        Ok(rmcp::model::CallToolResult::success(vec![rmcp::model::ContentBlock::text(text)]).into())
    }
}

#[tokio::test]
async fn an_existing_handler_is_served_with_new_tools_beside_its_own() -> Result<()> {
    let server =
        Server::builder("both", "1.0.0").handler(Existing).tool(Tool::new("ask", "Asks", ask)).build()?;
    for revision in Revision::BOTH {
        let mut client =
            connect(&server, revision).await?.answering(Answers::new().accept("word", json!({"word": "a"})));
        let listed = client.request("tools/list", json!({})).await?;
        let names: Vec<_> =
            listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["ask", "old"], "where both have a tool, ours is served");
        assert_eq!(client.call("old", json!({})).await?.text(), "old old");
        assert_eq!(client.call("ask", json!({})).await?.text(), "a");
    }
    Ok(())
}

#[tokio::test]
async fn tool_of_an_existing_handler_replaces_a_hidden_tool() -> Result<()> {
    let ask = Tool::new("ask", "Asks", ask).visible_if(|_| false);
    let server = Server::builder("both", "1.0.0").handler(Existing).tool(ask).build()?;
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?;
        let listed = client.request("tools/list", json!({})).await?;
        let tools: Vec<_> = listed["tools"].as_array().unwrap().iter().collect();
        assert_eq!(tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), ["old", "ask"]);
        assert_eq!(tools[1]["description"], "An old tool");
        assert_eq!(client.call("ask", json!({})).await?.text(), "old ask");
    }
    Ok(())
}

#[tokio::test]
async fn a_cancelled_call_drops_the_tool() -> Result<()> {
    struct Dropped(tokio::sync::mpsc::UnboundedSender<()>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    async fn long(ctx: &Ctx, _: ()) -> Result<String> {
        let _dropped = Dropped(ctx.state::<tokio::sync::mpsc::UnboundedSender<()>>()?.clone());
        tokio::time::sleep(Duration::from_secs(600)).await;
        Ok("late".into())
    }
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<()>();
    let server = Server::builder("long", "1.0.0")
        .with_state(sender)
        .tool(Tool::new("long", "Takes long", long))
        .build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    let id = client.start("tools/call", json!({"name": "long", "arguments": {}})).await?;
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"})).await?;
    tokio::time::timeout(Duration::from_secs(10), receiver.recv()).await?;
    Ok(())
}
