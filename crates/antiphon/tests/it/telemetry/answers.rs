//! The channels of answers, in metrics, spans and traces.

use std::time::Duration;

use antiphon::{
    ServerBuilder,
    elicitation::AskPolicy,
    prelude::*,
    task::RetryPolicy,
    telemetry::{Prometheus, Telemetry},
    testing::{Answers, Revision},
};
use serde_json::{Value, json};

use super::{
    Heard, attribute,
    metrics::{check, figure},
    secrets, spans_only,
};
use crate::{
    asking::{apps, form, view_key},
    checked::{Checked, connect_with},
    tasks::quick,
};

#[derive(Deserialize, JsonSchema)]
struct Secret {
    secret: String,
}

/// Asks two questions, so that the second leg replays the first answer.
async fn keep(ctx: &Ctx, _: ()) -> Result<String> {
    let first = ctx.elicit::<Secret>("First?").key("first").relayed().await?.accepted()?.secret;
    let second = ctx.elicit::<Secret>("Second?").key("second").relayed().await?.accepted()?.secret;
    Ok(format!("{first} {second}"))
}

fn builder() -> ServerBuilder {
    Server::builder("told", "1.0.0")
        .with_tasks(quick().with_retry(RetryPolicy::never()))
        .with_asking(AskPolicy::default().with_relay(true))
        .with_traces(true)
        .tool(Tool::new("keep", "Keeps two secrets", keep))
}

fn accept(key: &str) -> Value {
    json!({key: {"action": "accept", "content": {"secret": "hunter2"}}})
}

/// Calls `keep`, which waits, and returns the ID of its task.
async fn park(client: &mut Checked) -> Result<String> {
    let talk = client.call("keep", json!({})).await?;
    Ok(talk.result["structuredContent"]["task"]["id"].as_str().unwrap().to_owned())
}

/// Answers the first question in the form, and declines the second.
async fn answer_in_form(client: &mut Checked) -> Result<()> {
    let (id, view) = (park(client).await?, view_key(client).await?);
    let declined = json!({"second": {"action": "decline"}});
    for responses in [accept("first"), declined] {
        let open = form(client, "ask_open", json!({"view": view, "id": id})).await?;
        let arguments = json!({"view": view, "id": id, "ticket": open["ticket"], "responses": responses});
        form(client, "ask_answer", arguments).await?;
    }
    client.call("task_result", json!({"id": id, "wait": 20})).await?;
    Ok(())
}

/// Relays both answers.
async fn relay(client: &mut Checked) -> Result<()> {
    let id = park(client).await?;
    for key in ["first", "second"] {
        client.call("task_answer", json!({"id": id, "answers": accept(key)})).await?;
    }
    Ok(())
}

#[tokio::test]
async fn answers_count_once_by_channel() -> Result<()> {
    for revision in Revision::BOTH {
        let prometheus = Prometheus::new("told").unwrap();
        let server = builder().with_telemetry(Telemetry::new(&prometheus)).build()?;
        let forms = json!({"elicitation": {"form": {}}});
        let mut client = connect_with(&server, revision, forms.clone()).await?.answering(secrets());
        client.call("keep", json!({})).await?;
        let cancelled = Answers::new().raw("first", json!({"action": "cancel"}));
        let mut client = connect_with(&server, revision, forms).await?.answering(cancelled);
        assert!(client.call("keep", json!({})).await?.is_error());
        answer_in_form(&mut connect_with(&server, revision, apps()).await?).await?;
        relay(&mut connect_with(&server, revision, json!({})).await?).await?;

        let answers = "antiphon_answers_total";
        let of = |channel, outcome| [("antiphon_channel", channel), ("antiphon_outcome", outcome)];
        let kinds = [
            (of("client", "accept"), 2.0),
            (of("client", "cancel"), 1.0),
            (of("app", "accept"), 1.0),
            (of("app", "decline"), 1.0),
            (of("relay", "accept"), 2.0),
        ];
        // A leg counts after its result is stored, which the caller can see before.
        for _ in 0..100 {
            if figure(&prometheus.text(), answers, &[]) >= 7.0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let text = prometheus.text();
        for (labels, count) in &kinds {
            check(&text, &[(answers, labels.as_slice(), *count)]);
        }
        check(&text, &[(answers, &[("gen_ai_tool_name", "keep")], 7.0)]);
    }
    Ok(())
}

#[tokio::test]
async fn span_of_a_leg_names_the_channel_of_its_new_answer() -> Result<()> {
    let heard = Heard::begin();
    let server = builder().with_telemetry(spans_only()).build()?;
    relay(&mut connect_with(&server, Revision::V2026_07_28, json!({})).await?).await?;
    let legs = heard.soon("leg keep", 2).await;
    let channels: Vec<_> = legs.iter().map(|leg| attribute(leg, "antiphon.channel")).collect();
    assert_eq!(channels, [Some("relay".to_owned()), Some("relay".to_owned())]);
    let call = &heard.named("tools/call keep")[0];
    assert_eq!(attribute(call, "antiphon.channel"), None, "the first leg received no answer");

    let forms = json!({"elicitation": {"form": {}}});
    let mut client = connect_with(&server, Revision::V2025_11_25, forms).await?.answering(secrets());
    client.call("keep", json!({})).await?;
    let call = heard.named("tools/call keep").pop().unwrap();
    assert_eq!(attribute(&call, "antiphon.channel").as_deref(), Some("client"));
    Ok(())
}

#[tokio::test]
async fn trace_names_the_channel_of_each_answer() -> Result<()> {
    let server = builder().build()?;
    let forms = json!({"elicitation": {"form": {}}});
    let mut client = connect_with(&server, Revision::V2026_07_28, forms).await?.answering(secrets());
    let talk = client.call("keep", json!({})).await?;
    let entries = talk.result["_meta"]["antiphon/trace"]["entries"].as_array().unwrap();
    let via: Vec<_> = entries.iter().map(|entry| entry["via"].as_str()).collect();
    assert_eq!(via, [Some("client"), Some("client")]);

    let mut client = connect_with(&server, Revision::V2026_07_28, apps()).await?;
    answer_in_form(&mut client).await?;
    let runs = server.runs().unwrap();
    let page = runs.list(None, None, 10).await?;
    let report = runs.inspect(&page.runs[0].run).await?.unwrap();
    let via: Vec<_> = report.journal.iter().map(|entry| entry.via).collect();
    assert_eq!(via, [Some("app"), Some("app")]);
    Ok(())
}
