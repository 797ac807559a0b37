use std::sync::Arc;

use antiphon::llm::Scripted;
use antiphon::{ServerBuilder, prelude::*};

fn my_server() -> ServerBuilder {
    Server::builder("mine", "1.0.0")
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn greet(ctx: &Ctx, _: ()) -> Result<String> {
    let Name { name } = ctx.elicit("Who are you?").await?.accepted()?;
    Ok(format!("Hello, {name}!"))
}

fn greeter() -> ServerBuilder {
    Server::builder("greeter", "1.0.0").tool(Tool::new("greet", "Greets the user", greet))
}

fn answers() -> Answers {
    Answers::new()
}

// ANCHOR: client
use antiphon::testing::{Answers, Client, Revision};
use serde_json::json;

async fn both(server: &Server) -> Result<()> {
    for revision in Revision::BOTH {
        let answers = Answers::new().accept("name", json!({"name": "Ada"}));
        let mut client = Client::connect(server, revision).await?.with_answers(answers);
        let talk = client.call("greet", json!({})).await?;
        assert_eq!(talk.text(), "Hello, Ada!");
    }
    Ok(())
}
// ANCHOR_END: client

// ANCHOR: decline
async fn user_does_not_answer(server: &Server) -> Result<()> {
    for answers in [Answers::new().decline("name"), Answers::new().cancel("name")] {
        let mut client = Client::connect(server, Revision::V2026_07_28).await?.with_answers(answers);
        let talk = client.call("greet", json!({})).await?;
        assert!(talk.is_error(), "`accepted()?` ends the tool");
    }
    Ok(())
}
// ANCHOR_END: decline

// ANCHOR: replicas
use antiphon::testing::Replicas;

async fn bad_day() -> Result<()> {
    let report = Replicas::new(my_server).run("book", json!({"what": "a trip"}), answers).await?;
    assert_eq!(report.result["isError"], false);
    Ok(())
}
// ANCHOR_END: replicas

// ANCHOR: model
async fn model_is_asked_once() -> Result<()> {
    let model = Arc::new(Scripted::new().say("Hello!"));
    let server = my_server().with_model(Arc::clone(&model)).build()?;
    let mut client = Client::connect_with(&server, Revision::V2026_07_28, json!({})).await?;
    client.call("greet", json!({})).await?;
    assert_eq!(model.requests().len(), 1);
    Ok(())
}
// ANCHOR_END: model

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn user_answers_declines_and_cancels() -> Result<()> {
        let server = greeter().build()?;
        both(&server).await?;
        user_does_not_answer(&server).await
    }
}
