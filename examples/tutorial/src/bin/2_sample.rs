//! A help desk whose model reads the problem first.

// ANCHOR: tool
use antiphon::llm::providers::{OpenAiCompatible, ProviderConfig};
use antiphon::{ServerBuilder, prelude::*};

#[derive(Deserialize, JsonSchema)]
struct Problem {
    /// The problem, in the customer's words.
    problem: String,
}

/// The data that the model returns.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Triage {
    team: Team,
    /// From 1 (not urgent) to 5 (very urgent).
    #[schemars(range(min = 1, max = 5))]
    urgency: u8,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
enum Team {
    Billing,
    Hardware,
    Network,
}

// ANCHOR: triage
async fn triage(ctx: &Ctx, Problem { problem }: Problem) -> Result<String> {
    let question = format!("Whose problem is this, and how urgent is it?\n\n{problem}");
    let Triage { team, urgency } = ctx.sample_schema(question).key("triage").await?.parsed;
    let reply =
        ctx.sample(format!("Write one friendly sentence to whoever wrote this:\n\n{problem}")).key("reply");
    Ok(format!("{team:?}, urgency {urgency}. {}", reply.max_tokens(100).await?.text()))
}
// ANCHOR_END: triage

fn desk() -> ServerBuilder {
    Server::builder("desk", "1.0.0").tool(Tool::new("triage", "Reads a problem", triage))
}
// ANCHOR_END: tool

// ANCHOR: main
#[tokio::main]
async fn main() -> Result<()> {
    let mut desk = desk();
    // Any server with an OpenAI-compatible API: llama.cpp, vLLM, Ollama under `/v1`.
    if let Ok(url) = std::env::var("MODEL_URL") {
        let name = std::env::var("MODEL_NAME").unwrap_or_else(|_| "default".into());
        desk = desk
            .with_model(OpenAiCompatible::new(ProviderConfig::local().with_base_url(url).with_model(name))?);
    }
    desk.build()?.serve_stdio().await?;
    Ok(())
}
// ANCHOR_END: main

// ANCHOR: tests
#[cfg(test)]
mod tests {
    use antiphon::testing::{Answers, Client, Revision};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn reply_that_does_not_fit_is_asked_for_again() {
        let answers = Answers::new()
            .data("triage", json!({"team": "Catering", "urgency": 9}))
            .data("triage", json!({"team": "Hardware", "urgency": 4}))
            .sample("reply", "Somebody is on the way with coffee.");
        let server = desk().build().unwrap();
        let mut client = Client::connect(&server, Revision::V2026_07_28).await.unwrap().with_answers(answers);
        let talk = client.call("triage", json!({"problem": "No coffee"})).await.unwrap();
        assert_eq!(talk.text(), "Hardware, urgency 4. Somebody is on the way with coffee.");
        println!("{} questions: {}", talk.asked.len(), talk.text());
    }

    #[tokio::test]
    async fn client_without_a_model_is_told_so() {
        for revision in Revision::BOTH {
            let server = desk().build().unwrap();
            let mut client = Client::connect_with(&server, revision, json!({})).await.unwrap();
            let told = match client.call("triage", json!({"problem": "No coffee"})).await {
                Ok(talk) if talk.is_error() => format!("the tool failed: {}", talk.text()),
                Ok(talk) => panic!("nobody was asked, and it said {}", talk.text()),
                Err(error) => format!("{error:#}"),
            };
            assert!(told.contains("the server has no model"));
            println!("{}: {told}", revision.as_str());
        }
    }

    #[tokio::test]
    async fn model_of_the_server_stands_in() {
        let model = antiphon::llm::Scripted::new()
            .call(antiphon::llm::SCHEMA_TOOL, json!({"team": "Hardware", "urgency": 4}))
            .say("Somebody is on the way with coffee.");
        let server = desk().with_model(model).build().unwrap();
        let mut client = Client::connect_with(&server, Revision::V2026_07_28, json!({})).await.unwrap();
        let talk = client.call("triage", json!({"problem": "No coffee"})).await.unwrap();
        assert_eq!(talk.text(), "Hardware, urgency 4. Somebody is on the way with coffee.");
        assert!(talk.asked.is_empty(), "the client was asked nothing");
    }
}
// ANCHOR_END: tests
