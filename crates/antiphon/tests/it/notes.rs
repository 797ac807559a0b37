//! Logs and progress.

use antiphon::{
    Level,
    prelude::*,
    testing::{Answers, Revision},
};
use serde_json::{Value, json};

use crate::checked::connect;

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

async fn chatty(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.log(Level::Debug, "looking");
    ctx.log_from("search", Level::Info, json!({"found": 3}));
    ctx.progress(Progress::of(1_usize, 4_u64).message("looking"));
    ctx.progress(1.0);
    ctx.progress(0.5);
    let Word { word } = ctx.elicit("Which?").await?.accepted()?;
    ctx.log(Level::Error, "lost it");
    ctx.progress(Progress::of(4.0, 4.0));
    Ok(word)
}

fn server() -> Result<Server> {
    Ok(Server::builder("chatty", "1.0.0").tool(Tool::new("chatty", "Says a lot", chatty)).build()?)
}

fn answers() -> Answers {
    Answers::new().accept("word", json!({"word": "that"}))
}

fn messages(notifications: &[Value]) -> Vec<(&str, &Value)> {
    let logs = notifications.iter().filter(|note| note["method"] == "notifications/message");
    logs.map(|log| (log["params"]["level"].as_str().unwrap(), &log["params"]["data"])).collect()
}

#[tokio::test]
async fn a_session_hears_what_its_level_lets_through() -> Result<()> {
    let mut client = connect(&server()?, Revision::V2025_11_25).await?.answering(answers());
    let talk = client.call("chatty", json!({})).await?;
    assert_eq!(messages(&talk.notifications), [("info", &json!({"found": 3})), ("error", &json!("lost it"))]);
    assert_eq!(talk.notifications[0]["params"]["logger"], "search");
    client.request("logging/setLevel", json!({"level": "error"})).await?;
    let talk = client.call("chatty", json!({})).await?;
    assert_eq!(messages(&talk.notifications), [("error", &json!("lost it"))]);
    client.request("logging/setLevel", json!({"level": "debug"})).await?;
    let talk = client.call("chatty", json!({})).await?;
    assert_eq!(messages(&talk.notifications).len(), 3);
    Ok(())
}

#[tokio::test]
async fn a_stateless_request_hears_only_what_it_asks_for() -> Result<()> {
    let mut client = connect(&server()?, Revision::V2026_07_28).await?.answering(answers());
    let talk = client.call("chatty", json!({})).await?;
    assert_eq!(talk.notifications, Vec::<Value>::new());
    let mut client = connect(&server()?, Revision::V2026_07_28)
        .await?
        .answering(answers())
        .saying(json!({"io.modelcontextprotocol/logLevel": "debug"}));
    let talk = client.call("chatty", json!({})).await?;
    let logs = messages(&talk.notifications);
    assert_eq!(
        logs,
        [("debug", &json!("looking")), ("info", &json!({"found": 3})), ("error", &json!("lost it"))]
    );
    Ok(())
}

#[tokio::test]
async fn all_eight_levels_are_sent_by_name() -> Result<()> {
    async fn scale(ctx: &Ctx, _: ()) -> Result<()> {
        use Level::{Alert, Critical, Debug, Emergency, Error, Info, Notice, Warning};
        for level in [Debug, Info, Notice, Warning, Error, Critical, Alert, Emergency] {
            ctx.log(level, "x");
        }
        Ok(())
    }
    let server = Server::builder("scale", "1.0.0").tool(Tool::new("scale", "Logs", scale)).build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    client.request("logging/setLevel", json!({"level": "debug"})).await?;
    let talk = client.call("scale", json!({})).await?;
    let levels: Vec<_> = messages(&talk.notifications).into_iter().map(|(level, _)| level).collect();
    assert_eq!(levels, ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]);
    Ok(())
}

#[tokio::test]
async fn progress_is_sent_with_the_callers_token_and_only_increases() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client =
            connect(&server()?, revision).await?.answering(answers()).saying(json!({"progressToken": "p-7"}));
        let talk = client.call("chatty", json!({})).await?;
        let progress: Vec<_> = talk
            .notifications
            .iter()
            .filter(|note| note["method"] == "notifications/progress")
            .map(|note| &note["params"])
            .collect();
        assert_eq!(
            progress[0],
            &json!({"progressToken": "p-7", "progress": 1.0, "total": 4.0, "message": "looking"})
        );
        assert_eq!(progress[1], &json!({"progressToken": "p-7", "progress": 4.0, "total": 4.0}));
        assert_eq!(
            progress.len(),
            2,
            "{revision:?}: what does not increase is not sent, nor what was sent before"
        );
    }
    Ok(())
}

#[tokio::test]
async fn progress_without_a_token_is_not_sent() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&server()?, revision).await?.answering(answers());
        let talk = client.call("chatty", json!({})).await?;
        assert!(!talk.notifications.iter().any(|note| note["method"] == "notifications/progress"));
    }
    Ok(())
}
