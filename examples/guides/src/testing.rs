use std::sync::Arc;

use antiphon::llm::Scripted;
use antiphon::{ServerBuilder, prelude::*};

fn my_server() -> ServerBuilder {
    Server::builder("mine", "1.0.0")
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
