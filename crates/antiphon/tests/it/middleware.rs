//! Layers around MCP requests.

use std::{
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use antiphon::{
    Prompt, Resource, ServerBuilder,
    middleware::{
        self, CallToolResponse, ErrorCode, ErrorData, GetPromptResponse, Next, Params, ReadResourceResponse,
        Request, Response,
    },
    model::ContentBlock,
    prelude::*,
    task::TaskPolicy,
    testing::{Answers, Client, Failed, Revision},
};
use serde_json::{Value, json};
use tower::{Layer, Service};

use crate::{
    checked::connect,
    tasks::{quick, refused},
};

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

async fn echo(_: &Ctx, Word { word }: Word) -> Result<String> {
    Ok(word)
}

async fn ask(ctx: &Ctx, Word { word }: Word) -> Result<String> {
    let Word { word: answer } = ctx.elicit("Word?").await?.accepted()?;
    Ok(format!("{word} {answer} {}", stamp(ctx)))
}

/// The value that a layer has added.
#[derive(Clone)]
struct Stamp(String);

fn stamp(ctx: &Ctx) -> &str {
    ctx.extension::<Stamp>().map_or("nothing", |stamp| &stamp.0)
}

async fn stamped(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(stamp(ctx).to_owned())
}

fn server() -> ServerBuilder {
    Server::builder("layered", "1.0.0")
        .tool(Tool::new("echo", "Returns the word", echo))
        .tool(Tool::new("ask", "Asks for another word", ask))
        .tool(Tool::new("stamped", "Returns the stamp", stamped))
        .prompt(Prompt::new("stamped", "Returns the stamp", stamped))
        .resource(Resource::new("test://stamped", "stamped", stamped))
}

/// A tower layer that writes down each request, as a service that is written by hand.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl<S> Layer<S> for Seen {
    type Service = Recorder<S>;

    fn layer(&self, next: S) -> Recorder<S> {
        Recorder { seen: self.clone(), next }
    }
}

#[derive(Clone)]
struct Recorder<S> {
    seen: Seen,
    next: S,
}

impl<S: Service<Request>> Service<Request> for Recorder<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.next.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> S::Future {
        let resumed = if request.is_resumed() { " again" } else { "" };
        self.seen.0.lock().unwrap().push(format!("{}{resumed}", request.method()));
        self.next.call(request)
    }
}

async fn add_stamp(mut request: Request, next: Next) -> Result<Response, ErrorData> {
    let stamp = request.protocol_version().unwrap_or_default();
    request.extensions_mut().insert(Stamp(stamp));
    next.run(request).await
}

fn failed(error: &Error) -> Failed {
    error.source().and_then(|error| error.downcast_ref::<Failed>()).unwrap().clone()
}

#[tokio::test]
async fn layer_receives_every_request_and_each_round_of_a_run() -> Result<()> {
    let seen = Seen::default();
    let server = server().layer(seen.clone()).build()?;
    for revision in Revision::BOTH {
        let answers = Answers::new().accept("word", json!({"word": "b"}));
        let mut client = connect(&server, revision).await?.answering(answers);
        for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            client.request(method, json!({})).await?;
        }
        client.request("prompts/get", json!({"name": "stamped"})).await?;
        client.request("resources/read", json!({"uri": "test://stamped"})).await?;
        let complete = json!({
            "ref": {"type": "ref/prompt", "name": "stamped"},
            "argument": {"name": "x", "value": "4"},
        });
        client.request("completion/complete", complete).await?;
        assert_eq!(client.call("ask", json!({"word": "a"})).await?.text(), "a b nothing");
        let mut expected = vec![
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "prompts/get",
            "resources/read",
            "completion/complete",
            "tools/call",
        ];
        match revision {
            Revision::V2025_11_25 => {
                expected.insert(0, "initialize");
                for (method, params) in [
                    ("ping", json!({})),
                    ("logging/setLevel", json!({"level": "info"})),
                    ("resources/subscribe", json!({"uri": "test://stamped"})),
                    ("resources/unsubscribe", json!({"uri": "test://stamped"})),
                ] {
                    client.request(method, params).await?;
                    expected.push(method);
                }
            }
            Revision::V2026_07_28 => {
                expected.push("tools/call again");
                client.request("server/discover", json!({})).await?;
                expected.push("server/discover");
                client
                    .start("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))
                    .await?;
                client.notification().await?;
                // The request has begun when its change is received.
                server.changes().tools();
                client.notification().await?;
                expected.push("subscriptions/listen");
            }
        }
        assert_eq!(seen.take(), expected, "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn layer_adds_a_value_that_tools_prompts_and_resources_read() -> Result<()> {
    let server = server().layer(middleware::from_fn(add_stamp)).build()?;
    for revision in Revision::BOTH {
        let answers = Answers::new().accept("word", json!({"word": "b"}));
        let mut client = connect(&server, revision).await?.answering(answers);
        assert_eq!(client.call("stamped", json!({})).await?.text(), revision.as_str());
        // The value is also there in the leg after an answer.
        let talk = client.call("ask", json!({"word": "a"})).await?;
        assert_eq!(talk.text(), format!("a b {}", revision.as_str()));
        let prompt = client.request("prompts/get", json!({"name": "stamped"})).await?;
        assert_eq!(prompt["messages"][0]["content"]["text"], revision.as_str());
        let read = client.request("resources/read", json!({"uri": "test://stamped"})).await?;
        assert_eq!(read["contents"][0]["text"], revision.as_str());
    }
    Ok(())
}

#[tokio::test]
async fn layer_rejects_changes_arguments_and_changes_results() -> Result<()> {
    async fn shout(mut request: Request, next: Next) -> Result<Response, ErrorData> {
        match request.params_mut() {
            Params::CallTool(call) if call.name == "stamped" => {
                return Err(ErrorData::new(ErrorCode(-32050), "not today", Some(json!({"try": "tomorrow"}))));
            }
            Params::CallTool(call) => {
                let arguments = call.arguments.get_or_insert_default();
                let word = arguments["word"].as_str().unwrap().to_uppercase();
                arguments.insert("word".into(), word.into());
            }
            Params::ListTools(_) => {
                let mut response = next.run(request).await?;
                let Response::ListTools(listed) = &mut response else { unreachable!() };
                listed.tools.retain(|tool| tool.name != "stamped");
                return Ok(response);
            }
            _ => {}
        }
        let mut response = next.run(request).await?;
        match &mut response {
            Response::CallTool(CallToolResponse::Complete(result)) => {
                result.content.push(ContentBlock::text("!"));
            }
            Response::GetPrompt(GetPromptResponse::Complete(result)) => {
                result.description = Some("changed".into());
            }
            Response::ReadResource(ReadResourceResponse::Complete(result)) => result.contents.clear(),
            _ => {}
        }
        Ok(response)
    }
    let server = server().layer(middleware::from_fn(shout)).build()?;
    for revision in Revision::BOTH {
        let answers = Answers::new().accept("word", json!({"word": "b"}));
        let mut client = connect(&server, revision).await?.answering(answers);
        assert_eq!(client.call("echo", json!({"word": "owl"})).await?.text(), "OWL\n!");
        // Every leg has the changed arguments, so the sealed state stays valid.
        assert_eq!(client.call("ask", json!({"word": "a"})).await?.text(), "A b nothing\n!");
        let error = failed(&client.call("stamped", json!({})).await.unwrap_err());
        assert_eq!((error.code, error.message.as_str()), (-32050, "not today"));
        assert_eq!(error.data, json!({"try": "tomorrow"}));
        let listed = client.request("tools/list", json!({})).await?;
        let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["echo", "ask"]);
        let prompt = client.request("prompts/get", json!({"name": "stamped"})).await?;
        assert_eq!(prompt["description"], "changed");
        let read = client.request("resources/read", json!({"uri": "test://stamped"})).await?;
        assert_eq!(read["contents"], json!([]));
    }
    Ok(())
}

#[tokio::test]
async fn first_layer_receives_the_request_first() -> Result<()> {
    let (outer, inner) = (Seen::default(), Seen::default());
    let stop = async |request: Request, next: Next| match request.params() {
        Params::CallTool(_) => Err(ErrorData::invalid_request("stopped", None)),
        _ => next.run(request).await,
    };
    let server =
        server().layer(outer.clone()).layer(middleware::from_fn(stop)).layer(inner.clone()).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let error = failed(&client.call("stamped", json!({})).await.unwrap_err());
    assert_eq!(error.message, "stopped");
    client.request("tools/list", json!({})).await?;
    assert_eq!(outer.take(), ["tools/call", "tools/list"]);
    assert_eq!(inner.take(), ["tools/list"]);
    Ok(())
}

#[tokio::test]
async fn layer_of_tower_with_another_error_type_works() -> Result<()> {
    async fn slow(_: &Ctx, _: ()) -> Result<String> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok("too late".into())
    }
    let timeout = tower::timeout::TimeoutLayer::new(Duration::from_secs(1));
    let server = server().tool(Tool::new("slow", "Takes a minute", slow)).layer(timeout).build()?;
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?;
        assert_eq!(client.call("stamped", json!({})).await?.text(), "nothing");
        let error = failed(&client.call("slow", json!({})).await.unwrap_err());
        assert_eq!((error.code, error.message.as_str()), (-32603, "the request failed"));
    }
    Ok(())
}

#[tokio::test]
async fn layer_that_answers_with_the_result_of_another_method_fails() -> Result<()> {
    let wrong = async |request: Request, next: Next| match request.params() {
        Params::CallTool(_) => Ok(Response::Empty),
        _ => next.run(request).await,
    };
    let mut client =
        connect(&server().layer(middleware::from_fn(wrong)).build()?, Revision::V2026_07_28).await?;
    let error = failed(&client.call("stamped", json!({})).await.unwrap_err());
    assert_eq!((error.code, error.message.as_str()), (-32603, "the request failed"));
    Ok(())
}

/// On MCP 2025-11-25, the SDK reads neither a call with a `task` nor the other requests about tasks.
#[tokio::test]
async fn layer_receives_and_changes_calls_as_tasks() -> Result<()> {
    async fn change(mut request: Request, next: Next) -> Result<Response, ErrorData> {
        if let Params::CallTool(call) = request.params_mut() {
            if call.name == "stamped" {
                return Err(ErrorData::invalid_request("not as a task", None));
            }
            call.arguments = json!({"word": "changed"}).as_object().cloned();
        }
        next.run(request).await
    }
    let seen = Seen::default();
    let server = Server::builder("tasks", "1.0.0")
        .with_tasks(quick())
        .tool(Tool::new("echo", "Returns the word", echo).with_tasks(TaskPolicy::Always))
        .tool(Tool::new("stamped", "Returns the stamp", stamped).with_tasks(TaskPolicy::Always))
        .layer(seen.clone())
        .layer(middleware::from_fn(change))
        .build()?;
    let mut client = Client::connect(&server, Revision::V2025_11_25).await?;
    let listed = client.request("tools/list", json!({})).await?;
    assert_eq!(listed["tools"][0]["execution"]["taskSupport"], "required", "{listed}");
    let call = |name: &str| json!({"name": name, "arguments": {"word": "sent"}, "task": {}});
    let created = client.request("tools/call", call("echo")).await?;
    let id = created["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let result = client.request("tasks/result", json!({"taskId": id})).await?;
    assert_eq!(result["content"][0]["text"], "changed");
    let error = refused(&mut client, "tools/call", call("stamped")).await;
    assert_eq!(error.message, "not as a task");
    let methods = ["initialize", "tools/list", "tools/call", "tasks/result", "tools/call"];
    assert_eq!(seen.take(), methods);
    Ok(())
}

#[tokio::test]
async fn mounted_server_with_a_layer_is_refused() {
    let inner = Server::builder("inner", "1.0.0").layer(Seen::default());
    let error = Server::builder("outer", "1.0.0").mount("inner", inner).build().unwrap_err();
    assert!(error.problems()[0].starts_with("mounted server `inner`: `ServerBuilder::layer` has no effect"));
}

#[cfg(feature = "http")]
#[tokio::test]
async fn layer_receives_the_caller_and_the_headers_over_http() -> Result<()> {
    use antiphon::http::HttpConfig;
    use tower::ServiceExt as _;

    use crate::{
        http::{messages, post},
        replicas::fleet::{Fleet, text},
    };

    async fn caller(mut request: Request, next: Next) -> Result<Response, ErrorData> {
        let header = request.headers().and_then(|headers| headers.get("x-caller")?.to_str().ok());
        let stamp = format!("{} {}", header.unwrap_or("none"), request.principal().unwrap_or("nobody"));
        request.extensions_mut().insert(Stamp(stamp));
        next.run(request).await
    }
    let server = server()
        .with_principal(|parts| Some(format!("principal {}", parts.headers.get("x-caller")?.to_str().ok()?)))
        .layer(middleware::from_fn(caller))
        .build()?;
    let mut request = post(Revision::V2026_07_28, "tools/call", json!({"name": "stamped", "arguments": {}}));
    request.headers_mut().insert("x-caller", "ada".parse()?);
    let answer = server.router(HttpConfig::default()).oneshot(request).await?;
    let answer: Value = messages(answer).await?.remove(0);
    assert_eq!(answer["result"]["content"][0]["text"], "ada principal ada");

    let mut fleet = Fleet::empty();
    fleet.add(server, HttpConfig::default()).await?;
    let client = fleet.client_called(Some("bob"), 0).await?;
    let (_, mut stream) = client.call(0, "stamped", json!({})).await?;
    assert_eq!(text(&stream.message().await?), "bob principal bob");
    Ok(())
}
