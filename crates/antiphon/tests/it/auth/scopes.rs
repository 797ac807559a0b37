//! What callers may do, and how they are told what they lack.

use antiphon::{
    Prompt,
    auth::{ApiKey, Auth, Identity},
    http::HttpConfig,
    prelude::*,
    testing::Revision,
};
use axum::Router;
use http::StatusCode;
use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    Answer, METADATA, RESOURCE, authority::Authority, caller::Caller, signer::Signer, tools, trusting,
};

async fn hello(_: &Ctx, _: ()) -> Result<String> {
    Ok("Say hello.".into())
}

/// A server whose prompts and tasks need scopes, too.
async fn world() -> (Router, Signer, Authority) {
    let signer = Signer::new("1");
    let authority = Authority::start(&[&signer]).await;
    let auth = trusting(&authority).with_operation_scopes("prompts/get", ["prompts"]).build().unwrap();
    let server = tools()
        .with_auth(auth)
        .with_tasks(crate::tasks::quick())
        .prompt(Prompt::new("hello", "Greets", hello))
        .build()
        .unwrap();
    (server.router(HttpConfig::default()), signer, authority)
}

fn assert_lacks(answer: &Answer, scopes: &str) {
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.body);
    let expected = format!(
        r#"Bearer error="insufficient_scope", scope="{scopes}", {METADATA}, error_description="the request needs scopes that were not granted""#
    );
    assert_eq!(answer.challenge.as_deref(), Some(&*expected));
}

#[tokio::test]
async fn tool_that_needs_more_is_answered_with_all_it_needs() {
    let (app, signer, authority) = world().await;
    let token = |scope: &str| signer.sign(&authority.claims_of("ada", scope));
    let erase = json!({"name": "erase", "arguments": {}});
    for revision in Revision::BOTH {
        let ada = Caller::new(&app, &token("use"), revision).await;
        assert_lacks(&ada.send("tools/call", erase.clone()).await, "use erase audit");
        // One of two is not enough, and both are named again.
        let ada = ada.with(&token("use audit"));
        assert_lacks(&ada.send("tools/call", erase.clone()).await, "use erase audit");
        // What was granted besides, and means something here, is not lost by asking for more.
        let ada = ada.with(&token("use prompts email"));
        assert_lacks(&ada.send("tools/call", erase.clone()).await, "use erase audit prompts");
        // With the token that comes of it, the same call goes through, in the same session.
        let ada = ada.with(&token("use erase audit"));
        let answer = ada.call("erase").await;
        assert_eq!(
            answer["result"]["content"][0]["text"],
            format!("{}#ada ada", authority.issuer),
            "{answer}"
        );
        // Other tools need no more than they did.
        let answer = ada.with(&token("use")).call("whoami").await;
        assert!(answer["result"]["content"][0]["text"].is_string(), "{answer}");
    }
}

#[tokio::test]
async fn mounted_tool_needs_its_scopes() {
    let signer = Signer::new("1");
    let authority = Authority::start(&[&signer]).await;
    let auth = trusting(&authority).build().unwrap();
    let server = Server::builder("outer", "1.0.0").with_auth(auth).mount("admin", tools()).build().unwrap();
    let app = server.router(HttpConfig::default());
    let token = |scope: &str| signer.sign(&authority.claims_of("ada", scope));
    for revision in Revision::BOTH {
        let ada = Caller::new(&app, &token("use"), revision).await;
        let erase = json!({"name": "admin_erase", "arguments": {}});
        assert_lacks(&ada.send("tools/call", erase).await, "use erase audit");
        let answer = ada.call("admin_whoami").await;
        assert!(answer["result"]["content"][0]["text"].is_string(), "{answer}");
        let answer = ada.with(&token("use erase audit")).call("admin_erase").await;
        assert!(answer["result"]["content"][0]["text"].is_string(), "{answer}");
    }
}

#[tokio::test]
async fn operation_that_needs_more_is_answered_the_same_way() {
    let (app, signer, authority) = world().await;
    let token = |scope: &str| signer.sign(&authority.claims_of("ada", scope));
    for revision in Revision::BOTH {
        let ada = Caller::new(&app, &token("use"), revision).await;
        let listed = ada.ask("prompts/list", json!({})).await;
        assert_eq!(listed["result"]["prompts"][0]["name"], "hello");
        assert_lacks(&ada.send("prompts/get", json!({"name": "hello"})).await, "use prompts");
        let got = ada.with(&token("use prompts")).ask("prompts/get", json!({"name": "hello"})).await;
        assert!(got["result"]["messages"].is_array(), "{got}");
        // What needs a scope can be seen: nobody asks for more on account of what they do not know of.
        let tools = ada.ask("tools/list", json!({})).await;
        let names: Vec<_> =
            tools["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["whoami", "erase"]);
    }
}

#[tokio::test]
async fn call_as_a_task_is_held_to_the_same_scopes() {
    let (app, signer, authority) = world().await;
    let ada = Caller::new(&app, &signer.sign(&authority.claims()), Revision::V2025_11_25).await;
    let call = json!({"name": "erase", "arguments": {}, "task": {}});
    assert_lacks(&ada.send("tools/call", call.clone()).await, "use erase audit");
    // By the name under which it reaches the server itself it is past the challenge, and not past the tool.
    let answer = ada.send("antiphon/tasks/call", call).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_refused(&answer.message(), "use erase audit");
}

/// Two clients of one user: what one may do, the other may not, though the task is the same user's.
#[tokio::test]
async fn task_is_held_to_the_scopes_of_its_tool() {
    let signer = Signer::new("1");
    let authority = Authority::start(&[&signer]).await;
    let auth = trusting(&authority).build().unwrap();
    let task = |tool: Tool| tool.with_tasks(antiphon::task::TaskPolicy::Always);
    let server = Server::builder("guarded", "1.0.0")
        .tool(task(Tool::new("whoami", "Says who is calling", super::whoami)))
        .tool(task(Tool::new("erase", "Erases everything", confirmed).with_scopes(["erase"])))
        .with_auth(auth)
        .with_tasks(crate::tasks::quick())
        .build()
        .unwrap();
    let app = server.router(HttpConfig::default());
    let token = |scope: &str| signer.sign(&authority.claims_of("ada", scope));
    for revision in Revision::BOTH {
        let ada = Caller::new(&app, &token("use erase"), revision).await;
        let less = ada.with(&token("use"));
        let begin = async |tool: &str| {
            let mut call = json!({"name": tool, "arguments": {}});
            if revision == Revision::V2025_11_25 {
                call["task"] = json!({});
            }
            let created = ada.send("tools/call", call).await.message();
            let id = &created["result"]["taskId"];
            let id = if id.is_null() { &created["result"]["task"]["taskId"] } else { id };
            id.as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
        };
        let (erase, whoami) = (begin("erase").await, begin("whoami").await);
        let methods: &[&str] = match revision {
            Revision::V2025_11_25 => &["tasks/get", "tasks/result", "tasks/cancel"],
            Revision::V2026_07_28 => &["tasks/get", "tasks/update", "tasks/cancel"],
        };
        for method in methods {
            let mut params = json!({"taskId": erase});
            if *method == "tasks/update" {
                params["inputResponses"] = json!({"x": {"action": "accept", "content": {"yes": true}}});
            }
            assert_lacks(&less.send(method, params.clone()).await, "use erase");
            if revision == Revision::V2025_11_25 {
                // By the name under which it reaches the server itself it is past the challenge, and not past the tool.
                let answer = less.send(&format!("antiphon/{method}"), params).await;
                assert_refused(&answer.message(), "use erase");
            }
        }
        // What needs no more than the caller has is theirs, and nothing was done to the other.
        let seen = less.send("tasks/get", json!({"taskId": whoami})).await.message();
        assert!(seen["error"].is_null(), "{seen}");
        let seen = ada.send("tasks/get", json!({"taskId": erase})).await.message();
        let status = seen["result"]["status"].as_str().unwrap_or_else(|| panic!("{seen}"));
        assert!(["working", "input_required"].contains(&status), "{seen}");
        if revision == Revision::V2025_11_25 {
            let ids = async |caller: &Caller| -> Vec<Value> {
                let listed = caller.send("tasks/list", json!({})).await.message();
                let tasks =
                    listed["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{listed}")).clone();
                tasks.iter().map(|task| task["taskId"].clone()).collect()
            };
            let (all, seen) = (ids(&ada).await, ids(&less).await);
            assert!(all.contains(&json!(erase)) && all.contains(&json!(whoami)), "{all:?}");
            assert!(!seen.contains(&json!(erase)) && seen.contains(&json!(whoami)), "{seen:?}");
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Sure {
    yes: bool,
}

async fn confirmed(ctx: &Ctx, _: ()) -> Result<String> {
    let sure = ctx.elicit::<Sure>("Sure?").await?.accepted()?.yes;
    Ok(format!("erased: {sure}"))
}

fn assert_refused(message: &Value, scopes: &str) {
    assert_eq!(message["error"]["code"], -32600, "{message}");
    assert_eq!(message["error"]["data"], json!({"error": "insufficient_scope", "scope": scopes}));
}

/// Two ways in which a message may not be what its headers, or its first half, say.
#[tokio::test]
async fn what_a_request_says_of_itself_does_not_get_it_past_its_scopes() {
    let (app, signer, authority) = world().await;
    let token = signer.sign(&authority.claims());
    let ada = Caller::new(&app, &token, Revision::V2026_07_28).await;
    let mut request = ada.request("tools/call", json!({"name": "erase", "arguments": {}}));
    request.headers_mut().insert("mcp-name", "whoami".parse().unwrap());
    let answer = super::send(&app, request).await;
    // The SDK refuses a header that contradicts its body.
    assert_eq!(
        (answer.status, answer.message()["error"]["code"].as_i64()),
        (StatusCode::BAD_REQUEST, Some(-32020))
    );
    let eve = Caller::new(&app, &token, Revision::V2025_11_25).await;
    let mut request = eve.request("tools/call", json!({}));
    let twice = r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"erase","arguments":{}}}"#;
    *request.body_mut() = twice.into();
    let answer = super::send(&app, request).await;
    assert!(!answer.body.contains("#ada"), "{}", answer.body);
}

/// What does not come over streamable HTTP cannot be answered with a status, and is held to its scopes all the same.
#[tokio::test]
async fn connection_of_its_own_is_held_to_scopes_too() -> Result<()> {
    let auth = Auth::builder(RESOURCE).with_api_keys([ApiKey::new("x", &"x".repeat(32))]).build()?;
    let server = tools().with_auth(auth).build()?;
    for (identity, expected) in [
        (None, json!({"error": "unauthorized"})),
        (Some(Identity::new("ada")), json!({"error": "insufficient_scope", "scope": "erase audit"})),
        (Some(Identity::new("ada").with_scopes(["erase", "audit"])), Value::Null),
    ] {
        let answer = over_a_message(&server, identity).await;
        assert_eq!(answer["error"]["data"], expected, "{answer}");
        if expected.is_null() {
            assert_eq!(answer["result"]["content"][0]["text"], "ada ");
        }
    }
    Ok(())
}

/// Calls `erase` over a transport whose messages bring an HTTP request, as those of a WebSocket do.
pub(super) async fn over_a_message(server: &Server, identity: Option<Identity>) -> Value {
    let (mut parts, ()) = http::Request::get("/ws").body(()).unwrap().into_parts();
    if let Some(identity) = identity {
        parts.extensions.insert(identity);
    }
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let params = json!({"name": "erase", "arguments": {}, "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let mut message: ClientJsonRpcMessage = serde_json::from_value(call).unwrap();
    message.insert_extension(parts);
    let (said, incoming) = mpsc::channel(1);
    let (outgoing, mut heard) = mpsc::channel(8);
    said.send(message).await.unwrap();
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve_transport(Wire { incoming, outgoing }).await }
    });
    let answer = heard.recv().await.expect("an answer");
    drop(said);
    serving.await.unwrap().unwrap();
    serde_json::to_value(answer).unwrap()
}

/// A transport of messages that somebody else has read.
struct Wire {
    incoming: mpsc::Receiver<ClientJsonRpcMessage>,
    outgoing: mpsc::Sender<ServerJsonRpcMessage>,
}

impl Transport<RoleServer> for Wire {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = std::io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        async move { outgoing.send(message).await.map_err(|_| std::io::ErrorKind::BrokenPipe.into()) }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
