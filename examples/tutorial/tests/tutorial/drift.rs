//! What a tool that forgets the rules of replay is told. The concept page shows this test and what it prints.

// ANCHOR: drift
use std::sync::atomic::{AtomicU32, Ordering};

use antiphon::{
    ServerBuilder,
    prelude::*,
    testing::{Answers, Replicas},
};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Seat {
    seat: String,
}

#[derive(Deserialize, JsonSchema)]
struct Sure {
    sure: bool,
}

/// Stands for a non-deterministic value: a clock, a random number, a price that is looked up.
static PRICE: AtomicU32 = AtomicU32::new(100);

fn price() -> u32 {
    PRICE.fetch_add(1, Ordering::Relaxed)
}

async fn book(ctx: &Ctx, _: ()) -> Result<String> {
    let price = price(); // not recorded: differs in every round
    let Seat { seat } = ctx.elicit(format!("A seat for {price}?")).await?.accepted()?;
    let Sure { sure } = ctx.elicit("Sure?").await?.accepted()?;
    Ok(format!("{seat} for {price}: {sure}"))
}

async fn book_well(ctx: &Ctx, _: ()) -> Result<String> {
    let price: u32 = ctx.step("price", || async { Ok(price()) }).await?; // recorded: the same in every round
    let Seat { seat } = ctx.elicit(format!("A seat for {price}?")).await?.accepted()?;
    let Sure { sure } = ctx.elicit("Sure?").await?.accepted()?;
    Ok(format!("{seat} for {price}: {sure}"))
}
// ANCHOR_END: drift

fn tours() -> ServerBuilder {
    let (book, book_well) =
        (Tool::new("book", "Books a seat", book), Tool::new("book_well", "Books a seat", book_well));
    Server::builder("tours", "1.0.0").tool(book).tool(book_well)
}

fn answers() -> Answers {
    Answers::new().accept("seat", json!({"seat": "12A"})).accept("sure", json!({"sure": true}))
}

#[tokio::test]
async fn drift_names_the_entry_and_says_what_to_do() {
    let error = Replicas::new(tours).run("book", json!({}), answers).await.unwrap_err();
    let error = format!("{error:#}");
    println!("{error}");
    assert!(error.contains("`ctx.step`"), "{error}");
    let report = Replicas::new(tours).allow_different_results().run("book_well", json!({}), answers).await;
    assert!(report.unwrap().replicas > 2);
}
