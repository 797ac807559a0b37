//! The code of `docs/guides/new-code.md`.

#[derive(Deserialize, JsonSchema)]
struct Size {
    /// Small, medium or large.
    size: String,
}

#[derive(Deserialize, JsonSchema)]
struct Gift {
    /// Is it a gift?
    gift: bool,
}

async fn next_number() -> Result<u32> {
    tokio::task::yield_now().await;
    Ok(7)
}

// ANCHOR: version
use antiphon::prelude::*;

/// Raise it with each change that waiting runs must not execute.
const VERSION: u32 = 2;

async fn order(ctx: &Ctx, _: ()) -> Result<String> {
    // A waiting run gets its recorded version, a new run the current one.
    let version: u32 = ctx.step("version", || async { Ok(VERSION) }).await?;
    let Size { size } = ctx.elicit("Which size?").await?.accepted()?;
    let gift = version >= 2 && ctx.elicit::<Gift>("Is it a gift?").await?.accepted()?.gift;
    let number = ctx.step("number", next_number).await?;
    Ok(format!("order {number}: {size}, gift: {gift}"))
}
// ANCHOR_END: version

/// The code before the change.
async fn order_1(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.step("version", || async { Ok(1_u32) }).await?;
    let Size { size } = ctx.elicit("Which size?").await?.accepted()?;
    let number = ctx.step("number", next_number).await?;
    Ok(format!("order {number}: {size}, gift: false"))
}

/// A change that is not safe: the open question has another key.
async fn order_renamed(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.step("version", || async { Ok(VERSION) }).await?;
    let Size { size } = ctx.elicit("Which size?").key("shirt_size").await?.accepted()?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    // ANCHOR: recorded
    use std::time::Duration;

    use antiphon::{
        seal::{KeyRing, SealConfig},
        testing::{Client, Revision},
    };
    use serde_json::{Value, json};

    /// A fixed key and a long lifetime, so that a recorded state can be used for years.
    fn server(tool: Tool) -> Result<Server> {
        let years = Duration::from_secs(100 * 365 * 24 * 60 * 60);
        let seal = SealConfig::default().with_keys(KeyRing::new(1, [7; 32])).with_ttl(years);
        Ok(Server::builder("shop", "1.0.0").with_seal(seal).tool(tool).build()?)
    }

    /// Starts a run, and returns its state at the first question.
    async fn record(server: &Server) -> Result<Value> {
        let mut client = Client::connect(server, Revision::V2026_07_28).await?;
        let reply = client.request("tools/call", json!({"name": "order", "arguments": {}})).await?;
        Ok(reply["requestState"].clone())
    }

    /// Answers the first question of a recorded run.
    async fn resume(server: &Server, state: &Value) -> Result<Value> {
        let mut client = Client::connect(server, Revision::V2026_07_28).await?;
        let answers = json!({"size": {"action": "accept", "content": {"size": "large"}}});
        let call =
            json!({"name": "order", "arguments": {}, "requestState": state, "inputResponses": answers});
        client.request("tools/call", call).await
    }

    #[tokio::test]
    async fn waiting_run_continues_with_the_new_code() -> Result<()> {
        let state = record(&server(Tool::new("order", "Orders a shirt", order_1))?).await?;
        let reply = resume(&server(Tool::new("order", "Orders a shirt", order))?, &state).await?;
        assert_eq!(reply["content"][0]["text"], "order 7: large, gift: false");
        Ok(())
    }
    // ANCHOR_END: recorded

    #[tokio::test]
    async fn renamed_question_drifts() -> Result<()> {
        let state = record(&server(Tool::new("order", "Orders a shirt", order_1))?).await?;
        let reply = resume(&server(Tool::new("order", "Orders a shirt", order_renamed))?, &state).await?;
        let text = reply["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.starts_with("the run cannot be continued") && text.contains("`size`"), "{reply}");
        Ok(())
    }
}
