//! One tree of spans a run, wherever its legs run.

use antiphon::{
    seal::KeyRing,
    task::TaskPolicy,
    testing::{Client, Revision},
};
use antiphon_llm::{Reply, Scripted, Usage};
use antiphon_store::{Memory, QueueConfig};
use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry_sdk::trace::SpanData;
use serde_json::{Value, json};

use super::{Heard, attribute, builder, names, secrets, spans_only};
use crate::{
    checked,
    tasks::{accept, answer, begin, everything, quick, until},
};
use antiphon::prelude::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-11111111111111111111111111111111-2222222222222222-01";

fn replica(keys: &KeyRing) -> Server {
    builder(keys, TaskPolicy::Never).with_telemetry(spans_only()).build().unwrap()
}

/// Calls `keep` at each replica in turn, with what `_meta` says there.
async fn in_turn(replicas: &[(&Server, Option<&str>)]) -> Value {
    let call = json!({"name": "keep", "arguments": {"given": "something"}});
    let mut request = call.clone();
    let answers = json!({
        "first": accept(json!({"secret": "hunter2"})), "second": accept(json!({"secret": "swordfish"})),
    });
    for (server, parent) in replicas {
        let mut client = checked::connect(server, Revision::V2026_07_28).await.unwrap();
        if let Some(parent) = parent {
            client = client.saying(json!({"traceparent": parent}));
        }
        let result = client.request("tools/call", request.clone()).await.unwrap();
        if result["resultType"] != "input_required" {
            return result;
        }
        request = call.clone();
        request["requestState"] = result["requestState"].clone();
        for key in result["inputRequests"].as_object().unwrap().keys() {
            request["inputResponses"][key] = answers[key].clone();
        }
    }
    panic!("there are too few replicas");
}

fn parent(span: &SpanData) -> SpanId {
    span.parent_span_id
}

fn id(span: &SpanData) -> SpanId {
    span.span_context.span_id()
}

#[tokio::test]
async fn legs_on_other_replicas_belong_to_the_first_leg_and_no_step_is_told_twice() {
    let (heard, keys) = (Heard::begin(), KeyRing::random());
    let (a, b) = (replica(&keys), replica(&keys));
    let result = in_turn(&[(&a, None), (&b, None), (&a, None)]).await;
    assert_eq!(result["content"][0]["text"], "receipt-4711 something hunter2 swordfish");
    let legs = heard.named("tools/call keep");
    let [first, second, third] = &legs[..] else { panic!("{:?}", names(&heard.spans())) };
    assert_eq!(parent(first), SpanId::INVALID, "a client that says nothing of a trace begins one");
    for leg in [second, third] {
        assert_eq!(leg.span_context.trace_id(), first.span_context.trace_id());
        assert_eq!(parent(leg), id(first));
    }
    let steps = heard.named("step reserve");
    assert_eq!(steps.len(), 1, "what is replayed is no span");
    assert_eq!(parent(&steps[0]), id(first));
    let told = |key: &str| legs.iter().map(|leg| attribute(leg, key).unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(told("antiphon.leg"), ["1", "2", "3"]);
    assert_eq!(told("antiphon.ended"), ["asked", "asked", "returned"]);
    assert_eq!(told("antiphon.replayed"), ["0", "1", "2"]);
    assert_eq!(told("antiphon.entries"), ["1", "1", "1"]);
    let runs = told("antiphon.run");
    assert!(runs[0].len() == 32 && runs.iter().all(|run| *run == runs[0]), "{runs:?}");
}

#[tokio::test]
async fn a_request_belongs_where_its_client_says() {
    let (heard, keys) = (Heard::begin(), KeyRing::random());
    let server = replica(&keys);
    let mut client = checked::connect(&server, Revision::V2026_07_28)
        .await
        .unwrap()
        .saying(json!({"traceparent": PARENT, "tracestate": "rojo=1"}))
        .answering(secrets());
    client.call("keep", json!({"given": "x"})).await.unwrap();
    client.request("tools/list", json!({})).await.unwrap();
    let legs = heard.named("tools/call keep");
    assert_eq!(legs.len(), 3);
    for span in legs.iter().chain(&heard.named("tools/list")) {
        assert_eq!(span.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(parent(span).to_string(), "b7ad6b7169203331");
        assert_eq!(span.span_context.trace_state().header(), "rojo=1");
        assert!(span.parent_span_is_remote && span.span_kind == SpanKind::Server);
    }
    let leg = &legs[0];
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2026-07-28"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "keep"),
        ("network.transport", "pipe"),
        ("antiphon.way", "rounds"),
    ] {
        assert_eq!(attribute(leg, key).as_deref(), Some(value), "{key}");
    }
}

#[tokio::test]
async fn a_client_that_begins_a_trace_for_every_round_is_linked_to() {
    let (heard, keys) = (Heard::begin(), KeyRing::random());
    let server = replica(&keys);
    in_turn(&[(&server, Some(PARENT)), (&server, Some(OTHER)), (&server, Some(OTHER))]).await;
    let legs = heard.named("tools/call keep");
    assert_eq!(parent(&legs[0]).to_string(), "b7ad6b7169203331");
    for leg in &legs[1..] {
        assert_eq!(leg.span_context.trace_id(), legs[0].span_context.trace_id(), "the run stays one tree");
        assert_eq!(parent(leg), id(&legs[0]));
        let linked: Vec<_> = leg.links.iter().map(|link| link.span_context.trace_id().to_string()).collect();
        assert_eq!(linked, ["1".repeat(32)]);
    }
}

#[tokio::test]
async fn what_is_asked_says_to_which_leg_it_belongs() {
    let (heard, keys) = (Heard::begin(), KeyRing::random());
    let server = replica(&keys);
    let mut client = checked::connect(&server, Revision::V2026_07_28).await.unwrap();
    let call = json!({"name": "keep", "arguments": {"given": "x"}});
    let asked = client.request("tools/call", call).await.unwrap();
    let leg = &heard.named("tools/call keep")[0].span_context;
    let expected = format!("00-{}-{}-01", leg.trace_id(), leg.span_id());
    assert_eq!(asked["inputRequests"]["first"]["params"]["_meta"]["traceparent"], expected);
}

#[tokio::test]
async fn a_question_in_a_session_is_a_span_and_says_so() {
    let (heard, keys) = (Heard::begin(), KeyRing::random());
    let server = replica(&keys);
    let mut client = checked::connect(&server, Revision::V2025_11_25).await.unwrap().answering(secrets());
    client.call("keep", json!({"given": "x"})).await.unwrap();
    let [leg] = &heard.named("tools/call keep")[..] else { panic!("one call is one leg") };
    let asks = heard.named("elicitation/create");
    assert_eq!(asks.len(), 2);
    assert!(asks.iter().all(|ask| parent(ask) == id(leg) && ask.span_kind == SpanKind::Client));
    let sent = client.frames().iter().filter(|frame| frame.message["method"] == "elicitation/create");
    let sent: Vec<_> =
        sent.map(|frame| frame.message["params"]["_meta"]["traceparent"].as_str().unwrap()).collect();
    let told: Vec<_> = asks
        .iter()
        .map(|ask| format!("00-{}-{}-01", ask.span_context.trace_id(), ask.span_context.span_id()))
        .collect();
    assert_eq!(sent, told);
    assert_eq!(attribute(leg, "antiphon.way").as_deref(), Some("session"));
}

#[tokio::test]
async fn a_task_is_one_tree_with_the_call_that_began_it_on_whichever_replica_it_runs() {
    let (heard, keys) = (Heard::begin(), KeyRing::random());
    let backend = Memory::default().backend(QueueConfig::default());
    let replica = |workers| {
        builder(&keys, TaskPolicy::Always)
            .with_backend(backend.clone())
            .with_tasks(quick().with_workers(workers))
            .with_telemetry(spans_only())
            .build()
            .unwrap()
    };
    let (front, worker) = (replica(0), replica(4));
    let working = worker.clone();
    tokio::spawn(async move { working.run_workers(std::future::pending()).await });
    let mut client = Client::connect_with(&front, Revision::V2026_07_28, everything())
        .await
        .unwrap()
        .with_meta(json!({"traceparent": PARENT}));
    let task = begin(&mut client, "keep", json!({"given": "x"})).await;
    for key in ["first", "second"] {
        let seen = until(&mut client, &task, "input_required").await;
        let asked = &seen["inputRequests"][key]["params"]["_meta"]["traceparent"];
        assert!(asked.as_str().unwrap().starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{seen}");
        answer(&mut client, &task, json!({key: accept(json!({"secret": "hunter2"}))})).await;
    }
    until(&mut client, &task, "completed").await;
    let legs = heard.soon("leg keep", 3).await;
    let call = &heard.named("tools/call keep")[0];
    assert_eq!(parent(call).to_string(), "b7ad6b7169203331");
    assert_eq!(legs.len(), 3);
    for leg in &legs {
        assert_eq!(leg.span_context.trace_id(), call.span_context.trace_id());
        assert_eq!(parent(leg), id(call));
        assert_eq!(attribute(leg, "antiphon.task").as_deref(), Some(task.as_str()));
    }
    let steps = heard.named("step reserve");
    assert_eq!(steps.len(), 1, "what is replayed is no span");
    assert_eq!(parent(&steps[0]), id(&legs[0]));
}

async fn muse(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.sample("What is the sky?").await?.text().clone())
}

#[tokio::test]
async fn a_model_of_the_servers_is_told_of_as_generative_ai_is() {
    let heard = Heard::begin();
    let usage = Usage { input_tokens: 30, output_tokens: 20 };
    let model = Scripted::new().otherwise(move |_| Ok(Reply::new("sky-1", "blue").with_usage(usage)));
    let server = Server::builder("told", "1.0.0")
        .tool(Tool::new("muse", "Muses", muse))
        .with_model(model)
        .with_telemetry(spans_only())
        .build()
        .unwrap();
    let mut client = Client::connect_with(&server, Revision::V2026_07_28, json!({})).await.unwrap();
    assert_eq!(client.call("muse", json!({})).await.unwrap().text(), "blue");
    let leg = &heard.named("tools/call muse")[0];
    let chats: Vec<_> = heard.spans().into_iter().filter(|span| span.name.starts_with("chat ")).collect();
    let [chat] = &chats[..] else { panic!("{:?}", names(&heard.spans())) };
    assert_eq!(parent(chat), id(leg));
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.response.model", "sky-1"),
        ("gen_ai.usage.input_tokens", "30"),
        ("gen_ai.usage.output_tokens", "20"),
    ] {
        assert_eq!(attribute(chat, key).as_deref(), Some(value), "{key}");
    }
}

async fn fails(_: &Ctx, _: ()) -> Result<String> {
    Err(Error::tool("the card 4111 was declined"))
}

#[tokio::test]
async fn an_error_is_told_by_its_kind_and_not_by_its_words() {
    let heard = Heard::begin();
    let server = Server::builder("told", "1.0.0")
        .tool(Tool::new("fails", "Fails", fails))
        .with_telemetry(spans_only())
        .build()
        .unwrap();
    let mut client = Client::connect(&server, Revision::V2026_07_28).await.unwrap();
    client.call("fails", json!({})).await.unwrap();
    let span = &heard.named("tools/call fails")[0];
    assert_eq!(attribute(span, "error.type").as_deref(), Some("tool_error"));
    assert_eq!(attribute(span, "antiphon.error").as_deref(), Some("tool"));
    assert!(matches!(&span.status, Status::Error { .. }), "{:?}", span.status);
    assert!(!format!("{:?}", heard.spans()).contains("4111"));
    // A method that a client made up must not make a name of its own.
    let _ = client.request("x/4711", json!({})).await;
    assert_eq!(heard.named("_OTHER").len(), 1, "{:?}", names(&heard.spans()));
}
