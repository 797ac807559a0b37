//! The code of `docs/guides/concurrency.md`.

use antiphon::ServerBuilder;

#[derive(Deserialize, JsonSchema)]
struct Seat {
    /// A window seat?
    window: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Meal {
    /// A vegetarian meal?
    vegetarian: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Vote {
    /// Do you agree?
    yes: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Item {
    /// The item to buy.
    item: String,
    /// Add another item?
    more: bool,
}

// ANCHOR: join
use antiphon::prelude::*;

async fn book(ctx: &Ctx, _: ()) -> Result<String> {
    let (seat, meal) = tokio::join!(ctx.elicit::<Seat>("Which seat?"), ctx.elicit::<Meal>("Which meal?"));
    let (Seat { window }, Meal { vegetarian }) = (seat?.accepted()?, meal?.accepted()?);
    Ok(format!("window: {window}, vegetarian: {vegetarian}"))
}
// ANCHOR_END: join

// ANCHOR: branch
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn agrees(ctx: &Ctx, team: &str) -> Result<bool> {
    Ok(ctx.elicit::<Vote>(format!("{team}: do you agree?")).await?.accepted()?.yes)
}

async fn vote(ctx: &Ctx, _: ()) -> Result<String> {
    let (legal, finance) = tokio::join!(
        ctx.branch("legal", async |ctx| agrees(ctx, "Legal").await),
        ctx.branch("finance", async |ctx| agrees(ctx, "Finance").await).max_asks(2).timeout(DAY),
    );
    // An error of this branch, for example a timeout, counts as "no".
    Ok(format!("legal: {}, finance: {}", legal?, finance.unwrap_or(false)))
}
// ANCHOR_END: branch

// ANCHOR: loop
use std::ops::ControlFlow;

async fn shopping_list(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.loop_with_state("items", Vec::new(), async |ctx, mut items: Vec<String>| {
        let question = format!("Item {}?", items.len() + 1);
        let Item { item, more } = ctx.elicit(question).await?.accepted()?;
        items.push(item);
        Ok(if more { ControlFlow::Continue(items) } else { ControlFlow::Break(items.join(", ")) })
    })
    .await
}
// ANCHOR_END: loop

fn server() -> ServerBuilder {
    Server::builder("desk", "1.0.0")
        .tool(Tool::new("book", "Books a trip", book))
        .tool(Tool::new("vote", "Asks two teams", vote))
        .tool(Tool::new("shopping_list", "Writes a shopping list", shopping_list))
}

#[cfg(test)]
mod tests {
    use antiphon::testing::{Answers, Client, Replicas, Revision};
    use serde_json::json;

    use super::*;

    fn answers() -> Answers {
        Answers::new()
            .accept("seat", json!({"window": true}))
            .accept("meal", json!({"vegetarian": false}))
            .accept("vote", json!({"yes": true}))
            .accept("item", json!({"item": "tea", "more": true}))
            .accept("item", json!({"item": "milk", "more": false}))
    }

    #[tokio::test]
    async fn questions_share_a_round_and_loops_keep_their_state() -> Result<()> {
        for revision in Revision::BOTH {
            let mut client = Client::connect(&server().build()?, revision).await?.with_answers(answers());
            let book = client.call("book", json!({})).await?;
            assert_eq!(book.text(), "window: true, vegetarian: false");
            let vote = client.call("vote", json!({})).await?;
            assert_eq!(vote.text(), "legal: true, finance: true");
            let list = client.call("shopping_list", json!({})).await?;
            assert_eq!(list.text(), "tea, milk");
            if revision == Revision::V2026_07_28 {
                assert_eq!((book.rounds, vote.rounds, list.rounds), (1, 1, 2));
            }
        }
        Ok(())
    }

    #[tokio::test]
    async fn tools_are_deterministic() -> Result<()> {
        // `Replicas` gives one answer for each key, and the questions of the loop share a key.
        for tool in ["book", "vote"] {
            Replicas::new(server).run(tool, json!({}), answers).await?;
        }
        Ok(())
    }
}
