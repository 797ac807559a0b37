//! Answers that arrive while the server still stores the question.

use std::{sync::Arc, time::Duration};

use antiphon::{elicitation::AskPolicy, prelude::*, testing::Revision};
use antiphon_store::{Bus, Memory, QueueConfig, Result as StoreResult, Subscription};
use bytes::Bytes;
use serde_json::json;

use crate::{
    asking::{apps, form, view_key},
    checked::connect_with,
    tasks::quick,
};

/// A bus on which a publication takes as long as several heartbeats.
#[derive(Debug)]
struct Slow(Arc<dyn Bus>);

#[async_trait::async_trait]
impl Bus for Slow {
    async fn publish(&self, topic: &str, event: Bytes) -> StoreResult<()> {
        tokio::time::sleep(Duration::from_millis(600)).await;
        self.0.publish(topic, event).await
    }

    async fn subscribe(&self, topic: &str) -> StoreResult<Subscription> {
        self.0.subscribe(topic).await
    }
}

#[derive(Deserialize, JsonSchema)]
struct Desk {
    desk: String,
}

async fn onboard(ctx: &Ctx, _: ()) -> Result<String> {
    // The call returns during this step, so the leg has no job and marks its run as held.
    ctx.step("work", || async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(())
    })
    .await?;
    Ok(ctx.elicit::<Desk>("Which desk?").await?.accepted()?.desk)
}

#[tokio::test]
async fn run_that_suspends_while_its_beat_is_due_continues_after_an_answer() -> Result<()> {
    let mut backend = Memory::default().backend(QueueConfig::default());
    backend.bus = Arc::new(Slow(Arc::clone(&backend.bus)));
    let server = Server::builder("onboarding", "1.0.0")
        .with_backend(backend)
        .with_tasks(quick().with_heartbeat_interval(Duration::from_millis(100)))
        .with_asking(AskPolicy::default().with_hand_over_after(Duration::from_millis(100)))
        .tool(Tool::new("onboard", "Takes on a colleague", onboard))
        .build()
        .unwrap();
    let mut client = connect_with(&server, Revision::V2025_11_25, apps()).await?;
    let view = view_key(&mut client).await?;
    let waiting = client.call("onboard", json!({})).await?;
    let id = waiting.result["structuredContent"]["task"]["id"].as_str().unwrap().to_owned();
    let open = loop {
        let open = form(&mut client, "ask_open", json!({"view": view, "id": id})).await?;
        if open["status"] == "input_required" {
            break open;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // The leg has stored the question and still announces it. Its next heartbeat must not hold the run again.
    tokio::time::sleep(Duration::from_millis(150)).await;
    let responses = json!({"desk": {"action": "accept", "content": {"desk": "4"}}});
    let answer = json!({"view": view, "id": id, "ticket": open["ticket"], "responses": responses});
    let done = form(&mut client, "ask_answer", answer).await?;
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(client.call("task_result", json!({"id": id})).await?.text(), "4");
    Ok(())
}
