//! What a run did, told beside its answers.

use antiphon::{
    prelude::*,
    task::TaskPolicy,
    testing::{Answers, Revision},
};
use serde_json::{Value, json};

use crate::{
    checked,
    tasks::{accept, answer, begin, until},
};

#[derive(Deserialize, JsonSchema)]
struct Secret {
    secret: String,
}

async fn keep(ctx: &Ctx, _: ()) -> Result<String> {
    let receipt: String = ctx.step("reserve", || async { Ok("receipt-4711".to_owned()) }).await?;
    let first = ctx.elicit::<Secret>("First?").key("first").await?.accepted()?.secret;
    let second = ctx.elicit::<Secret>("Second?").key("second").await?.accepted()?.secret;
    Ok(format!("{receipt} {first} {second}"))
}

fn server(policy: TaskPolicy, traces: bool) -> Server {
    let keep = Tool::new("keep", "Keeps two secrets", keep).with_tasks(policy);
    crate::tasks::server().tool(keep).with_replica("a").with_traces(traces).build().unwrap()
}

fn secrets() -> Answers {
    Answers::new()
        .accept("first", json!({"secret": "hunter2"}))
        .accept("second", json!({"secret": "swordfish"}))
}

/// The traces of all answers, in order.
fn traces(client: &checked::Checked) -> Vec<Value> {
    let results = client.frames().iter().filter_map(|frame| frame.message.get("result"));
    results.filter_map(|result| result["_meta"].get("antiphon/trace").cloned()).collect()
}

fn entries(trace: &Value) -> Vec<(&str, bool)> {
    let entries = trace["entries"].as_array().unwrap().iter();
    entries.map(|entry| (entry["key"].as_str().unwrap(), entry["replayed"] == true)).collect()
}

#[tokio::test]
async fn each_round_tells_what_was_replayed_what_is_new_and_what_it_waits_for() -> Result<()> {
    let server = server(TaskPolicy::Never, true);
    let mut client = checked::connect(&server, Revision::V2026_07_28).await?.answering(secrets());
    assert_eq!(client.call("keep", json!({})).await?.text(), "receipt-4711 hunter2 swordfish");
    let traces = traces(&client);
    let told: Vec<_> =
        traces.iter().map(|trace| (entries(trace), trace["asks"].clone(), trace["ended"].clone())).collect();
    assert_eq!(
        told,
        [
            (vec![("reserve", false)], json!(["first"]), json!("suspended")),
            (vec![("reserve", true), ("first", false)], json!(["second"]), json!("suspended")),
            (vec![("reserve", true), ("first", true), ("second", false)], json!([]), json!("returned")),
        ]
    );
    let legs: Vec<_> = traces.iter().map(|trace| (&trace["leg"], &trace["replica"], &trace["run"])).collect();
    let (_, _, run) = legs[0];
    assert!(run.is_string());
    assert_eq!(
        legs,
        [(&json!(1), &json!("a"), run), (&json!(2), &json!("a"), run), (&json!(3), &json!("a"), run)]
    );
    Ok(())
}

#[tokio::test]
async fn a_session_tells_it_once_with_the_result() -> Result<()> {
    let server = server(TaskPolicy::Never, true);
    let mut client = checked::connect(&server, Revision::V2025_11_25).await?.answering(secrets());
    let talk = client.call("keep", json!({})).await?;
    let trace = &talk.result["_meta"]["antiphon/trace"];
    assert_eq!(entries(trace), [("reserve", false), ("first", false), ("second", false)]);
    assert_eq!((traces(&client).len(), &trace["ended"]), (1, &json!("returned")));
    let ops: Vec<_> = trace["entries"].as_array().unwrap().iter().map(|entry| &entry["op"]).collect();
    assert_eq!(ops, ["step", "elicit", "elicit"]);
    Ok(())
}

#[tokio::test]
async fn a_tool_that_fails_says_how_far_it_came() -> Result<()> {
    let server = server(TaskPolicy::Never, true);
    let mut client = checked::connect(&server, Revision::V2026_07_28).await?;
    let talk = client.call("keep", json!({})).await?;
    assert!(talk.is_error(), "declined: {talk:?}");
    let trace = &talk.result["_meta"]["antiphon/trace"];
    assert_eq!(
        (entries(trace), &trace["ended"]),
        (vec![("reserve", true), ("first", false)], &json!("failed"))
    );
    Ok(())
}

#[tokio::test]
async fn a_task_tells_its_legs_to_its_owner() -> Result<()> {
    let server = server(TaskPolicy::Always, true);
    let mut client = crate::tasks::checked(&server, Revision::V2026_07_28).await;
    let id = begin(&mut client, "keep", json!({})).await;
    for key in ["first", "second"] {
        until(&mut client, &id, "input_required").await;
        answer(&mut client, &id, json!({key: accept(json!({"secret": "hunter2"}))})).await;
    }
    let task = until(&mut client, &id, "completed").await;
    let trace = &task["_meta"]["antiphon/trace"];
    assert_eq!((&trace["task"], &trace["legs"]), (&json!(id), &json!(3)));
    assert_eq!(entries(trace), [("reserve", false), ("first", false), ("second", false)]);
    let events: Vec<_> =
        trace["events"].as_array().unwrap().iter().map(|event| event["what"].as_str().unwrap()).collect();
    assert_eq!(events.iter().filter(|what| **what == "leg").count(), 3, "{events:?}");
    assert!(trace["events"].to_string().contains("at a"), "the replica is named: {trace}");
    Ok(())
}

#[tokio::test]
async fn a_task_of_a_session_tells_its_legs_too() -> Result<()> {
    let server = server(TaskPolicy::Always, true);
    let mut client = crate::tasks::checked(&server, Revision::V2025_11_25).await.answering(secrets());
    let params = json!({"name": "keep", "arguments": {}, "task": {}});
    let created = client.request("tools/call", params).await?;
    let id = created["task"]["taskId"].as_str().unwrap().to_owned();
    client.converse("tasks/result", json!({"taskId": id})).await?;
    let task = until(&mut client, &id, "completed").await;
    let trace = &task["_meta"]["antiphon/trace"];
    assert_eq!(entries(trace), [("reserve", false), ("first", false), ("second", false)]);
    Ok(())
}

#[tokio::test]
async fn no_value_is_in_a_trace_and_none_is_told_unasked() -> Result<()> {
    let server = server(TaskPolicy::Never, true);
    let mut client = checked::connect(&server, Revision::V2026_07_28).await?.answering(secrets());
    client.call("keep", json!({})).await?;
    let told = Value::from(traces(&client)).to_string();
    for value in ["receipt-4711", "hunter2", "swordfish", "First?"] {
        assert!(!told.contains(value), "{told}");
    }
    let silent = self::server(TaskPolicy::Never, false);
    let mut client = checked::connect(&silent, Revision::V2026_07_28).await?.answering(secrets());
    client.call("keep", json!({})).await?;
    assert_eq!(traces(&client), [] as [Value; 0]);
    Ok(())
}
