//! Several questions in one round.

// ANCHOR: recipe
use antiphon::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Traveller {
    /// The name in the passport.
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Seat {
    /// Where do you want to sit?
    place: Place,
}

#[derive(Debug, Deserialize, JsonSchema)]
enum Place {
    Window,
    Aisle,
}

async fn check_in(ctx: &Ctx, _: ()) -> Result<String> {
    let (traveller, out, back) = tokio::try_join!(
        ctx.elicit::<Traveller>("Who travels?"),
        ctx.elicit::<Seat>("The seat of the outbound flight?").key("seat_out"),
        ctx.elicit::<Seat>("The seat of the return flight?").key("seat_back"),
    )?;
    let Traveller { name } = traveller.accepted()?;
    let (out, back) = (out.accepted()?.place, back.accepted()?.place);
    Ok(format!("{name}: {out:?}, {back:?}"))
}
// ANCHOR_END: recipe

#[cfg(test)]
mod tests {
    use antiphon::testing::{Answers, Client, Revision};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn three_questions_take_one_round() -> Result<()> {
        for revision in Revision::BOTH {
            let tool = Tool::new("check_in", "Checks a traveller in", check_in);
            let server = Server::builder("airline", "1.0.0").tool(tool).build()?;
            let answers = Answers::new()
                .accept("traveller", json!({"name": "Ada"}))
                .accept("seat_out", json!({"place": "Window"}))
                .accept("seat_back", json!({"place": "Aisle"}));
            let mut client = Client::connect(&server, revision).await?.with_answers(answers);
            let talk = client.call("check_in", json!({})).await?;
            assert_eq!(talk.text(), "Ada: Window, Aisle");
            assert_eq!(talk.rounds, u32::from(revision == Revision::V2026_07_28));
        }
        Ok(())
    }
}
