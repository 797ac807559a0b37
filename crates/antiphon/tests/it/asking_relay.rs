//! Answers that the model relays from the chat.

use std::{sync::atomic::Ordering, time::Duration};

use antiphon::{
    ServerBuilder,
    elicitation::AskPolicy,
    prelude::*,
    task::RetryPolicy,
    testing::{Answers, Failed, Revision},
};
use serde_json::{Value, json};

use crate::{
    asking::apps,
    checked::{Checked, connect_with},
    tasks::quick,
    visibility::switched,
};

#[derive(Deserialize, JsonSchema)]
struct Colour {
    name: String,
    #[schemars(range(min = 1, max = 3))]
    coats: u8,
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    sure: bool,
}

/// Asks a question that the model can relay.
async fn paint(ctx: &Ctx, _: ()) -> Result<String> {
    let colour = ctx.elicit::<Colour>("Which colour?").relayed().await?.into_answer()?;
    let Colour { name, coats } = &colour.value;
    Ok(format!("{coats} coats of {name}, {:?}", colour.via()))
}

/// Asks a question that only the user can answer.
async fn demolish(ctx: &Ctx, _: ()) -> Result<String> {
    let approval = ctx.elicit::<Approval>("Tear the wall down?").await?.into_answer()?;
    Ok(format!("{}, {:?}", approval.value.sure, approval.via()))
}

/// Asks with a schema that is made at run time, twice.
async fn paint_again(ctx: &Ctx, _: ()) -> Result<String> {
    let fields = json!({"name": {"type": "string"}});
    let schema = || json!({"type": "object", "properties": fields, "required": ["name"]});
    let first = ctx.elicit_value("first", "Which colour?", schema()).relayed().await?.into_answer()?;
    let second = ctx.elicit_value("second", "And then?", schema()).relayed().await?.into_answer()?;
    Ok(format!("{} {:?}, {} {:?}", first.value["name"], first.via(), second.value["name"], second.via()))
}

fn builder(policy: AskPolicy) -> ServerBuilder {
    Server::builder("painter", "1.0.0")
        .with_tasks(quick().with_retry(RetryPolicy::never()))
        .with_asking(policy)
        .tool(Tool::new("paint", "Paints a wall", paint))
        .tool(Tool::new("demolish", "Tears a wall down", demolish))
        .tool(Tool::new("paint_again", "Paints a wall twice", paint_again))
}

fn relaying() -> AskPolicy {
    AskPolicy::default().with_relay(true)
}

fn teal() -> Value {
    json!({"colour": {"action": "accept", "content": {"name": "teal", "coats": 2}}})
}

/// Calls a tool whose question the model relays, and returns the ID of its task.
async fn park(client: &mut Checked, tool: &str) -> Result<String> {
    let talk = client.call(tool, json!({})).await?;
    assert!(talk.text().starts_with("NOT FINISHED") && talk.asked.is_empty(), "{}", talk.text());
    assert!(talk.text().contains("call `task_answer` with {\"id\":"), "{}", talk.text());
    Ok(talk.result["structuredContent"]["task"]["id"].as_str().unwrap().to_owned())
}

/// Returns the code of the error with which a call fails.
async fn code(client: &mut Checked, tool: &str) -> i64 {
    let error = client.call(tool, json!({})).await.unwrap_err();
    error.source().and_then(|source| source.downcast_ref::<Failed>()).unwrap().code
}

#[tokio::test]
async fn model_relays_the_answer_of_the_user() -> Result<()> {
    let server = builder(relaying()).build()?;
    for revision in Revision::BOTH {
        let mut client = connect_with(&server, revision, json!({})).await?;
        let id = park(&mut client, "paint").await?;
        let misfit = json!({"colour": {"action": "accept", "content": {"name": "teal", "coats": 9}}});
        let wrong = client.call("task_answer", json!({"id": id, "answers": misfit})).await?;
        let begins = "the answer does not match the form: `colour.coats` ";
        assert!(wrong.is_error() && wrong.text().starts_with(begins), "{}", wrong.text());
        let done = client.call("task_answer", json!({"id": id, "answers": teal()})).await?;
        assert_eq!(done.text(), "2 coats of teal, Relay", "{revision:?}");
        assert!(!done.is_error());
        let again = client.call("task_result", json!({"id": id})).await?;
        assert_eq!(again.text(), done.text());

        let id = park(&mut client, "paint").await?;
        let declined = json!({"colour": {"action": "decline"}});
        let done = client.call("task_answer", json!({"id": id, "answers": declined})).await?;
        assert!(done.is_error() && done.text().contains("declined"), "{}", done.text());
    }
    Ok(())
}

#[tokio::test]
async fn answer_to_a_hidden_tool_is_not_relayed() -> Result<()> {
    for revision in Revision::BOTH {
        let (shown, condition) = switched();
        shown.store(true, Ordering::SeqCst);
        let server = Server::builder("painter", "1.0.0")
            .with_tasks(quick().with_retry(RetryPolicy::never()))
            .with_asking(relaying())
            .tool(Tool::new("paint", "Paints a wall", paint).visible_if(condition))
            .build()?;
        let mut client = connect_with(&server, revision, json!({})).await?;
        let id = park(&mut client, "paint").await?;
        shown.store(false, Ordering::SeqCst);
        let hidden = client.call("task_answer", json!({"id": id, "answers": teal()})).await?;
        let unknown = json!({"id": format!("t_{}", "0".repeat(32)), "answers": teal()});
        assert!(hidden.is_error());
        assert_eq!(hidden.result, client.call("task_answer", unknown).await?.result);
        shown.store(true, Ordering::SeqCst);
        let done = client.call("task_answer", json!({"id": id, "answers": teal()})).await?;
        assert_eq!(done.text(), "2 coats of teal, Relay");
    }
    Ok(())
}

#[tokio::test]
async fn next_question_follows_a_relayed_answer() -> Result<()> {
    let server = builder(relaying()).build()?;
    for revision in Revision::BOTH {
        let mut client = connect_with(&server, revision, json!({})).await?;
        let id = park(&mut client, "paint_again").await?;
        let answer = |key: &str, name: &str| json!({key: {"action": "accept", "content": {"name": name}}});
        let next = client.call("task_answer", json!({"id": id, "answers": answer("first", "teal")})).await?;
        assert!(next.text().contains(">second: And then?</data-"), "{}", next.text());
        let done = client.call("task_answer", json!({"id": id, "answers": answer("second", "blue")})).await?;
        assert_eq!(done.text(), "\"teal\" Relay, \"blue\" Relay", "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn question_and_server_must_allow_the_relay() -> Result<()> {
    let (with, without) = (builder(relaying()).build()?, builder(AskPolicy::default()).build()?);
    for (server, tool) in [(&with, "demolish"), (&without, "paint"), (&without, "demolish")] {
        let mut client = connect_with(server, Revision::V2026_07_28, json!({})).await?;
        assert_eq!(code(&mut client, tool).await, -32021, "{tool}");
        let mut client = connect_with(server, Revision::V2025_11_25, json!({})).await?;
        let talk = client.call(tool, json!({})).await?;
        assert!(talk.is_error() && talk.text().contains("`elicitation`"), "{tool}: {}", talk.text());
    }
    for revision in Revision::BOTH {
        let mut client = connect_with(&without, revision, json!({})).await?;
        let listed = client.request("tools/list", json!({})).await?;
        assert!(!listed.to_string().contains("task_answer"), "{listed}");
        client.call("task_answer", json!({"id": "t_0", "answers": teal()})).await.unwrap_err();
        let mut client = connect_with(&with, revision, json!({})).await?;
        let listed = client.request("tools/list", json!({})).await?;
        let mut tools = listed["tools"].as_array().unwrap().iter();
        let tool = tools.find(|tool| tool["name"] == "task_answer").unwrap();
        assert_eq!(tool["_meta"]["anthropic/requiresUserInteraction"], true);
        assert_eq!(tool["annotations"]["destructiveHint"], true);
    }
    // A client that follows tasks sees no tools for waiting results, so its model cannot relay an answer.
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut client = connect_with(&with, Revision::V2026_07_28, tasks).await?;
    assert_eq!(code(&mut client, "paint").await, -32021);
    Ok(())
}

#[tokio::test]
async fn other_channels_come_before_the_relay() -> Result<()> {
    let server = builder(relaying()).build()?;
    for revision in Revision::BOTH {
        let mut client = connect_with(&server, revision, apps()).await?;
        let talk = client.call("paint", json!({})).await?;
        let text = talk.text();
        assert!(text.contains("task_question") && !text.contains("task_answer"), "{text}");
        let id = &talk.result["structuredContent"]["task"]["id"];
        let relayed = client.call("task_answer", json!({"id": id, "answers": teal()})).await?;
        let begins = "the answer was not relayed: ";
        assert!(relayed.is_error() && relayed.text().starts_with(begins), "{}", relayed.text());
        let still = client.call("task_result", json!({"id": id, "wait": 0})).await?;
        assert!(still.text().starts_with("NOT FINISHED"), "{}", still.text());
        // Another client of the same caller, without apps.
        let mut other = connect_with(&server, revision, json!({})).await?;
        let step = other.call("task_result", json!({"id": id, "wait": 0})).await?;
        assert!(step.text().contains("call `task_answer`"), "{}", step.text());
        let done = other.call("task_answer", json!({"id": id, "answers": teal()})).await?;
        assert_eq!(done.text(), "2 coats of teal, Relay", "{revision:?}");

        let forms = json!({"elicitation": {"form": {}}});
        let answers = Answers::new().raw("colour", teal()["colour"].clone());
        let mut client = connect_with(&server, revision, forms).await?.answering(answers);
        let talk = client.call("paint", json!({})).await?;
        let expected = ("2 coats of teal, Client", vec!["colour"]);
        assert_eq!((talk.text().as_str(), talk.keys()), expected, "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn model_cannot_answer_what_the_client_has_refused() -> Result<()> {
    let server = builder(relaying().with_quick(Duration::from_secs(20))).build()?;
    for revision in Revision::BOTH {
        for action in ["decline", "cancel"] {
            let answers = Answers::new().raw("colour", json!({"action": action}));
            let forms = json!({"elicitation": {"form": {}}});
            let mut client = connect_with(&server, revision, forms).await?.answering(answers);
            let talk = client.call("paint", json!({})).await?;
            assert!(talk.is_error() && !talk.text().contains("task_answer"), "{action}: {}", talk.text());
        }
    }
    Ok(())
}

#[tokio::test]
async fn operators_see_that_an_answer_was_relayed() -> Result<()> {
    let server = builder(relaying()).build()?;
    let mut client = connect_with(&server, Revision::V2026_07_28, json!({})).await?;
    let id = park(&mut client, "paint").await?;
    client.call("task_answer", json!({"id": id, "answers": teal()})).await?;
    let runs = server.runs().unwrap();
    let run = runs.list(None, None, 10).await?.runs.remove(0).run;
    let report = runs.inspect(&run).await?.unwrap();
    let via: Vec<_> = report.journal.iter().map(|entry| entry.via).collect();
    assert_eq!(via, [Some("relay")]);
    let answered: Vec<_> = report.timeline.iter().filter(|event| event.what == "answered").collect();
    assert_eq!(answered[0].detail.as_deref(), Some("colour (relay)"), "{answered:?}");
    let shown = json!(report).to_string();
    assert!(!shown.contains("teal"), "a report has no values: {shown}");
    Ok(())
}
