//! Which model is asked: the client's, or a provider's.

use std::sync::Arc;

use antiphon::{
    ErrorKind, Limits,
    exchange::History,
    prelude::*,
    sampling::{Block, ModelError, Reply, Request, SamplingPolicy, ToolDefinition, Via},
    testing::{Answers, Question, Replicas, Revision, Talk},
    tool::ToolCall,
};
use antiphon_llm::{SCHEMA_TOOL, Scripted};
use serde_json::{Value, json};

use crate::{checked::connect_with, sample_schema::Move};

/// What every model in these tests thinks, whoever asks it and however.
fn brain(request: &Request) -> Reply {
    let last = request.messages.last().map(antiphon::sampling::Message::text).unwrap_or_default();
    let data = json!({"cell": 4, "reasoning": "the centre"});
    let call = json!({"threat": "a fork"});
    if request.schema().is_some() {
        Reply::new("brain", Block::tool_use("call_b", SCHEMA_TOOL, data))
    } else if request.tools.iter().any(|tool| tool.name == "play_defensive") {
        Reply::new("brain", Block::tool_use("call_a", "play_defensive", call))
    } else if last.contains("JSON Schema, and with nothing else") {
        Reply::new("brain", format!("Here you are:\n```json\n{data}\n```"))
    } else if last.contains("You have these tools") {
        let call = json!({"tool_calls": [{"name": "play_defensive", "arguments": call}]});
        Reply::new("brain", call.to_string())
    } else {
        Reply::new("brain", "Well played.")
    }
}

/// The tool. It knows nothing of who samples.
async fn game(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Defence {
        threat: String,
    }
    let mut history = History::new();
    let tools = [ToolDefinition::of::<Defence>("play_defensive")];
    let plan = ctx.sample_tools("Choose your strategy.", tools).await?;
    let ToolCall { name, arguments, .. } = plan.calls[0].clone();
    history.push(plan.exchange.close_with(|_| "Then do."))?;
    let pick = ctx.sample_schema::<Move>("Pick a cell.").history(&history).await?;
    history.push(pick.exchange)?;
    let comment = ctx.sample("How did it go?").history(&history).await?;
    history.push(comment.exchange.clone())?;
    let roles: Vec<Value> = history.messages().iter().map(|message| json!(message.role)).collect();
    Ok(Json(json!({
        "plan": name, "because": arguments, "move": pick.parsed, "comment": comment.text(), "roles": roles,
    })))
}

/// A client that passes everything on to its model as it is.
fn naive(question: &Question) -> Value {
    let request: Request = serde_json::from_value(question.params.clone()).unwrap();
    json!(brain(&request))
}

/// A client that knows the reserved tool: it asks its model for JSON in its own best way, and still
/// answers with a `tool_use`.
fn smart(question: &Question) -> Value {
    let mut request: Request = serde_json::from_value(question.params.clone()).unwrap();
    if request.schema().is_none() {
        return naive(question);
    }
    request.tools.clear();
    request.tool_choice = None;
    let native = json!({"cell": 4, "reasoning": "the centre"});
    json!(Reply::new("brain", Block::tool_use("native_1", SCHEMA_TOOL, native)))
}

type Answering = fn(&Question) -> Value;

#[tokio::test]
async fn the_same_tool_gives_the_same_result_with_every_kind_of_client() -> Result<()> {
    let all = json!({"sampling": {"tools": {}}});
    let plain = json!({"sampling": {}});
    let ways: [(&str, Value, Option<Answering>); 4] = [
        ("smart", all.clone(), Some(smart as Answering)),
        ("naive", all, Some(naive)),
        ("without tools", plain, Some(naive)),
        ("without sampling, with a provider", json!({}), None),
    ];
    let expected = json!({
        "plan": "play_defensive", "because": {"threat": "a fork"},
        "move": {"cell": 4, "reasoning": "the centre"}, "comment": "Well played.",
        "roles": ["user", "assistant", "user", "user", "assistant", "user", "user", "assistant"],
    });
    for (way, capabilities, client) in ways {
        // Live requests on the one revision, rounds on the other.
        for revision in Revision::BOTH {
            let mut server = Server::builder("game", "1.0.0").tool(Tool::new("game", "Plays", game));
            if client.is_none() {
                server = server.with_model(Scripted::new().otherwise(|request| Ok(brain(request))));
            }
            let answers = client.map_or_else(Answers::new, |client| {
                Answers::new().otherwise(move |question| Some(client(question)))
            });
            let mut connected =
                connect_with(&server.build()?, revision, capabilities.clone()).await?.answering(answers);
            let talk = connected.call("game", json!({})).await?;
            assert_eq!(talk.result["structuredContent"], expected, "{way}, {revision:?}");
            let asked = if client.is_some() { 3 } else { 0 };
            assert_eq!(talk.asked.len(), asked, "{way}, {revision:?}");
            let has_tools = talk.asked.iter().any(|question| question.params.get("tools").is_some());
            assert_eq!(has_tools, capabilities["sampling"]["tools"].is_object(), "{way}");
        }
    }
    Ok(())
}

async fn ask(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    let reply = ctx.sample("?").await?;
    let via: Option<Via> = reply.meta.get("antiphon/via").cloned().map(serde_json::from_value).transpose()?;
    Ok(Json(json!({"text": reply.text(), "because": via.map(|via| via.because)})))
}

fn server() -> antiphon::ServerBuilder {
    Server::builder("asks", "1.0.0").tool(Tool::new("ask", "Asks", ask))
}

async fn talk(
    server: antiphon::ServerBuilder,
    revision: Revision,
    capabilities: Value,
    answers: Answers,
) -> Result<Talk> {
    let mut client = connect_with(&server.build()?, revision, capabilities).await?.answering(answers);
    client.call("ask", json!({})).await
}

#[tokio::test]
async fn a_policy_says_who_is_asked_first_and_who_else() -> Result<()> {
    use SamplingPolicy::{ClientFirst, ClientOnly, ProviderFirst, ProviderOnly};
    let able = json!({"sampling": {}});
    let unable = json!({});
    let works = || Scripted::new().say("provider");
    let fails = || Scripted::new().then(Err(ModelError::Unavailable("down".into())));
    let policy = json!("the policy says so");
    let missing = json!("the client has not declared `sampling`");
    for revision in Revision::BOTH {
        for (policy, capabilities, model, text, because) in [
            (ClientFirst, &able, works(), "client", &Value::Null),
            (ClientFirst, &unable, works(), "provider", &missing),
            (ProviderFirst, &able, works(), "provider", &policy),
            (ProviderFirst, &able, fails(), "client", &Value::Null),
            (ClientOnly, &able, works(), "client", &Value::Null),
            (ProviderOnly, &able, works(), "provider", &policy),
        ] {
            let server = server().with_model(model).with_sampling(policy);
            let answers = Answers::new().sample("sample", "client");
            let talk = talk(server, revision, capabilities.clone(), answers).await?;
            let got = &talk.result["structuredContent"];
            assert_eq!((&got["text"], &got["because"]), (&json!(text), because), "{policy:?}, {revision:?}");
            assert_eq!(talk.asked.len(), usize::from(text == "client"), "{policy:?}, {revision:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_error_says_who_was_tried() -> Result<()> {
    async fn why(ctx: &Ctx, _: ()) -> Result<String> {
        let error = ctx.sample("?").await.expect_err("nobody can be asked");
        assert!(matches!(error.kind(), ErrorKind::Model(_)), "{error}");
        Ok(error.to_string())
    }
    let fails = || Scripted::new().then(Err(ModelError::Unavailable("down".into())));
    let server = |policy| {
        Server::builder("asks", "1.0.0")
            .tool(Tool::new("why", "Asks", why))
            .with_model(fails())
            .with_sampling(policy)
    };
    for (policy, capabilities, text) in [
        (
            SamplingPolicy::ClientFirst,
            json!({"sampling": {}}),
            "no model answered: the client answered: User rejected sampling request; the provider cannot be reached or has failed: down",
        ),
        (
            SamplingPolicy::ClientFirst,
            json!({}),
            "no model answered: the provider cannot be reached or has failed: down; the client has not declared `sampling`",
        ),
        (
            SamplingPolicy::ProviderOnly,
            json!({"sampling": {}}),
            "no model answered: the provider cannot be reached or has failed: down",
        ),
    ] {
        let mut client = connect_with(&server(policy).build()?, Revision::V2025_11_25, capabilities)
            .await?
            .answering(Answers::new().error("sample", -1, "User rejected sampling request"));
        assert_eq!(client.call("why", json!({})).await?.text(), text);
    }
    Ok(())
}

#[tokio::test]
async fn a_refusal_moves_a_call_down_the_ladder() -> Result<()> {
    let server = server().with_model(Scripted::new().say("provider"));
    let answers = Answers::new().error("sample", -1, "User rejected sampling request");
    let talk = talk(server, Revision::V2025_11_25, json!({"sampling": {}}), answers).await?;
    let got = &talk.result["structuredContent"];
    assert_eq!(got["text"], "provider");
    assert_eq!(got["because"], "the client refused or failed");
    Ok(())
}

#[tokio::test]
async fn that_a_provider_is_asked_instead_is_said_once() -> Result<()> {
    async fn thrice(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.sample("a").await?;
        ctx.sample("b").await?;
        let _ = ctx.elicit::<Move>("Your move").await?;
        ctx.sample("c").await?;
        Ok("done".into())
    }
    let model = || Scripted::new().otherwise(|_| Ok(Reply::new("m", "!")));
    for revision in Revision::BOTH {
        let server = Server::builder("s", "1").tool(Tool::new("thrice", "Asks", thrice)).with_model(model());
        let mut client = connect_with(&server.build()?, revision, json!({"elicitation": {}}))
            .await?
            .saying(json!({"io.modelcontextprotocol/logLevel": "info"}));
        let talk = client.call("thrice", json!({})).await?;
        let said: Vec<_> =
            talk.notifications.iter().filter(|note| note["params"]["logger"] == "antiphon").collect();
        assert_eq!(said.len(), 1, "{revision:?}: {said:?}");
        assert_eq!(
            said[0]["params"]["data"],
            json!({"message": "asking `scripted` instead of the client's model", "because": "the client has not declared `sampling`"})
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_choice_that_was_made_is_never_made_again() -> Result<()> {
    async fn both(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let (sampled, picked) = tokio::join!(ctx.sample("?"), ctx.elicit::<Move>("Your move"));
        Ok(Json(json!({"text": sampled?.text(), "cell": picked?.accepted()?.cell})))
    }
    let model = Arc::new(Scripted::new().say("once"));
    let server =
        Server::builder("s", "1").tool(Tool::new("both", "Asks", both)).with_model(Arc::clone(&model));
    // The client cannot sample when it is asked and can when it answers.
    let server = server.build()?;
    let mut client = connect_with(&server, Revision::V2026_07_28, json!({"elicitation": {}})).await?;
    let first = client.request("tools/call", json!({"name": "both", "arguments": {}})).await?;
    assert_eq!(first["inputRequests"].as_object().unwrap().len(), 1);
    let mut client =
        connect_with(&server, Revision::V2026_07_28, json!({"elicitation": {}, "sampling": {"tools": {}}}))
            .await?;
    let retry = json!({
        "name": "both", "arguments": {}, "requestState": first["requestState"],
        "inputResponses": {"move": {"action": "accept", "content": {"cell": 3}}},
    });
    let done = client.request("tools/call", retry).await?;
    assert_eq!(done["structuredContent"], json!({"text": "once", "cell": 3}));
    assert_eq!(model.requests().len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_provider_is_given_all_that_a_client_would_be() -> Result<()> {
    async fn full(ctx: &Ctx, _: ()) -> Result<String> {
        let tools = [ToolDefinition::new("go", json!({"properties": {"way": {"type": "string"}}}))];
        ctx.sample_tools("Which way?", tools).system("Be bold").max_tokens(9).temperature(0.5).await?;
        ctx.sample_schema::<Move>("Pick").stop_sequences(["END"]).await?;
        Ok("done".into())
    }
    let model =
        Arc::new(Scripted::new().call("go", json!({"way": "left"})).call(SCHEMA_TOOL, json!({"cell": 1})));
    let server =
        Server::builder("s", "1").tool(Tool::new("full", "Asks", full)).with_model(Arc::clone(&model));
    let mut client = connect_with(&server.build()?, Revision::V2026_07_28, json!({})).await?;
    let talk = client.call("full", json!({})).await?;
    assert_eq!((talk.text().as_str(), talk.rounds), ("done", 0));
    let [tools, schema] = model.requests().try_into().unwrap();
    assert_eq!(tools.tools[0].name, "go");
    assert!(tools.must_call());
    assert_eq!(
        (tools.system_prompt.as_deref(), tools.max_tokens, tools.temperature),
        (Some("Be bold"), 9, Some(0.5))
    );
    assert_eq!(schema.schema(), Some(&antiphon_llm::schema_of::<Move>()));
    assert_eq!(schema.stop_sequences, ["END"]);
    Ok(())
}

#[tokio::test]
async fn a_tool_without_a_client_samples_with_the_servers_model() -> Result<()> {
    let server = server().with_model(Scripted::new().say("alone")).build()?;
    let result = server
        .call_tool(ToolCall::from_value(json!({"id": "1", "name": "ask", "arguments": {}})).unwrap())
        .await;
    assert!(!result.is_error, "{result:?}");
    assert!(json!(result.content).to_string().contains("alone"));
    Ok(())
}

/// Twelve questions to a model, one after the other.
async fn twelve(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    let mut said = Vec::new();
    for i in 1..=12 {
        said.push(ctx.sample(format!("Question {i}")).await?.text());
    }
    Ok(Json(json!({"said": said})))
}

#[tokio::test]
async fn twelve_questions_fit_into_ten_rounds_where_there_is_a_provider() -> Result<()> {
    let model = Arc::new(Scripted::new().otherwise(|_| Ok(Reply::new("m", "provider"))));
    let server =
        Server::builder("s", "1").tool(Tool::new("twelve", "Asks", twelve)).with_model(Arc::clone(&model));
    let mut client = connect_with(&server.build()?, Revision::V2026_07_28, json!({"sampling": {}}))
        .await?
        .answering(Answers::new().sample("sample", "client"));
    client.set_max_rounds(10);
    let talk = client.call("twelve", json!({})).await?;
    let said = talk.result["structuredContent"]["said"].as_array().unwrap();
    // Three rounds are kept for people, in case the tool still has to ask one.
    assert_eq!(said.iter().filter(|said| *said == "client").count(), 6);
    assert_eq!(said.iter().filter(|said| *said == "provider").count(), 6);
    assert_eq!((talk.rounds, model.requests().len()), (6, 6));
    Ok(())
}

#[tokio::test]
async fn twelve_questions_without_a_provider_end_with_the_budgets_name() -> Result<()> {
    let server = Server::builder("s", "1").tool(Tool::new("twelve", "Asks", twelve)).build()?;
    let mut client = connect_with(&server, Revision::V2026_07_28, json!({"sampling": {}}))
        .await?
        .answering(Answers::new().sample("sample", "client"));
    client.set_max_rounds(10);
    let talk = client.call("twelve", json!({})).await?;
    assert!(talk.is_error());
    assert_eq!(
        talk.text(),
        "the run has taken 9 rounds, its limit; ask several questions at once (`tokio::join!`), add a model for sampling requests (`ServerBuilder::with_model`), or raise `Limits::with_max_rounds` if your clients allow more"
    );
    Ok(())
}

#[tokio::test]
async fn rounds_that_are_made_anyway_take_samples_along() -> Result<()> {
    async fn pairs(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let mut said = Vec::new();
        for _ in 0..9 {
            let (sampled, picked) = tokio::join!(ctx.sample("?"), ctx.elicit::<Move>("Your move"));
            picked?.accepted()?;
            said.push(sampled?.text());
        }
        Ok(Json(json!({"said": said})))
    }
    let model = Arc::new(Scripted::new());
    let server =
        Server::builder("s", "1").tool(Tool::new("pairs", "Asks", pairs)).with_model(Arc::clone(&model));
    let mut client =
        connect_with(&server.build()?, Revision::V2026_07_28, json!({"sampling": {}, "elicitation": {}}))
            .await?
            .answering(Answers::new().sample("sample", "client").accept("move", json!({"cell": 1})));
    let talk = client.call("pairs", json!({})).await?;
    assert_eq!((talk.rounds, talk.is_error()), (9, false), "{}", talk.text());
    assert!(model.requests().is_empty());
    Ok(())
}

#[tokio::test]
async fn replies_of_a_provider_survive_replicas() -> Result<()> {
    async fn mixed(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
        let a = ctx.sample("a").await?.text();
        let cell = ctx.elicit::<Move>("Your move").await?.accepted()?.cell;
        let b = ctx.sample(format!("b{cell}")).await?.text();
        let again = ctx.elicit::<Move>("Again").await?.accepted()?.cell;
        Ok(Json(json!({"a": a, "b": b, "cells": [cell, again]})))
    }
    let echo = |request: &Request| Ok(Reply::new("m", format!("re: {}", request.messages[0].text())));
    let report = Replicas::new(move || {
        Server::builder("s", "1")
            .tool(Tool::new("mixed", "Asks", mixed))
            .with_model(Scripted::new().otherwise(echo))
            .with_sampling(SamplingPolicy::ProviderOnly)
    })
    .run("mixed", json!({}), || Answers::new().accept("move", json!({"cell": 5})))
    .await?;
    assert_eq!(report.result["structuredContent"], json!({"a": "re: a", "b": "re: b5", "cells": [5, 5]}));
    Ok(())
}

#[test]
fn a_policy_that_needs_a_model_and_has_none_does_not_build() {
    let error = server().with_sampling(SamplingPolicy::ProviderOnly).build().unwrap_err();
    assert_eq!(
        error.problems(),
        [
            "the sampling policy ProviderOnly requires a model, but the server has none; add one with `ServerBuilder::with_model`"
        ]
    );
}

#[tokio::test]
async fn a_provider_that_hangs_is_bounded_by_the_tools_time() -> Result<()> {
    #[derive(Debug)]
    struct Hangs;
    impl antiphon::sampling::Model for Hangs {
        fn reply<'a>(&'a self, _: &'a Request) -> antiphon_llm::BoxFuture<'a, Result<Reply, ModelError>> {
            Box::pin(std::future::pending())
        }
        fn name(&self) -> &'static str {
            "hangs"
        }
    }
    for revision in Revision::BOTH {
        let limits = Limits::default().with_tool_timeout(std::time::Duration::from_millis(50));
        let server = server().with_model(Hangs).with_limits(limits);
        let talk = talk(server, revision, json!({}), Answers::new()).await?;
        assert_eq!((talk.is_error(), talk.text().as_str()), (true, "the time limit of 50ms was exceeded"));
    }
    Ok(())
}
