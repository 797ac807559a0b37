//! The same tool on both revisions.

use antiphon::{
    prelude::*,
    testing::{Answers, Replicas, Revision},
};
use serde_json::json;

use crate::checked::connect;

#[derive(Deserialize, JsonSchema)]
struct Trip {
    traveller: String,
}

#[derive(Deserialize, JsonSchema)]
struct Destination {
    destination: String,
}

#[derive(Deserialize, JsonSchema)]
struct Month {
    month: String,
}

#[derive(Deserialize, JsonSchema)]
struct Choice {
    choice: String,
}

/// Two questions in a row, three at once, then a step.
async fn plan(ctx: &Ctx, trip: Trip) -> Result<String> {
    let Destination { destination } = ctx.elicit("Where to?").await?.accepted()?;
    let Month { month } = ctx.elicit(format!("When to {destination}?")).await?.accepted()?;
    let (hotel, meal, seat) = tokio::join!(
        ctx.elicit::<Choice>("Which hotel?").key("hotel"),
        ctx.elicit::<Choice>("Which meal?").key("meal"),
        ctx.elicit::<Choice>("Which seat?").key("seat"),
    );
    let reference: String = ctx.step("book", || async { Ok("b-1".to_owned()) }).await?;
    let (hotel, meal, seat) = (hotel?.accepted()?.choice, meal?.accepted()?.choice, seat?.accepted()?.choice);
    Ok(format!("{}: {destination} in {month}, {hotel}, {meal}, {seat}; {reference}", trip.traveller))
}

fn server() -> antiphon::ServerBuilder {
    Server::builder("trips", "1.0.0").tool(Tool::new("plan", "Plans a trip", plan))
}

fn answers() -> Answers {
    Answers::new()
        .accept("destination", json!({"destination": "Lisbon"}))
        .accept("month", json!({"month": "May"}))
        .accept("hotel", json!({"choice": "Sol"}))
        .accept("meal", json!({"choice": "fish"}))
        .accept("seat", json!({"choice": "12A"}))
}

#[tokio::test]
async fn one_source_runs_on_both_revisions() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&server().build()?, revision).await?.answering(answers());
        let talk = client.call("plan", json!({"traveller": "Ada"})).await?;
        assert_eq!(talk.text(), "Ada: Lisbon in May, Sol, fish, 12A; b-1", "{revision:?}");
        assert_eq!(talk.keys(), ["destination", "month", "hotel", "meal", "seat"], "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn questions_asked_together_leave_in_one_round() -> Result<()> {
    let mut client = connect(&server().build()?, Revision::V2026_07_28).await?.answering(answers());
    let talk = client.call("plan", json!({"traveller": "Ada"})).await?;
    assert_eq!(talk.rounds, 3);
    Ok(())
}

#[tokio::test]
async fn a_run_moves_to_a_fresh_replica_at_every_question() -> Result<()> {
    let report =
        Replicas::new(server).schedules(40).run("plan", json!({"traveller": "Ada"}), answers).await?;
    assert_eq!(report.result["content"][0]["text"], "Ada: Lisbon in May, Sol, fish, 12A; b-1");
    assert!(report.duplicates > 0 && report.stale > 0, "{report:?}");
    Ok(())
}
