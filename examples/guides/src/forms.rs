//! The code of `docs/guides/forms.md`.

use antiphon::ServerBuilder;

// ANCHOR: form
use antiphon::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Delivery {
    /// Who receives the parcel?
    #[schemars(length(min = 1, max = 80))]
    name: String,
    /// The address for the invoice.
    #[schemars(email)]
    email: String,
    /// The number of boxes.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 20))]
    boxes: u32,
    /// How fast?
    speed: Speed,
    /// Extras, if any.
    extras: Vec<Extra>,
    /// A note for the driver.
    note: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Speed {
    /// In three to five days
    Standard,
    /// Tomorrow
    Express,
}

#[derive(Debug, Deserialize, JsonSchema)]
enum Extra {
    GiftWrap,
    Insurance,
}

fn one() -> u32 {
    1
}
// ANCHOR_END: form

// ANCHOR: ask
async fn send(ctx: &Ctx, _: ()) -> Result<String> {
    let answer = ctx
        .elicit::<Delivery>("Where do we send it?")
        .check(|it| {
            let is_heavy = it.boxes > 5 && matches!(it.speed, Speed::Express);
            if is_heavy { Err("an express parcel has at most 5 boxes".into()) } else { Ok(()) }
        })
        .retries(2) // three attempts
        .await?;
    Ok(match answer {
        Elicited::Accept(answer) => {
            let Delivery { name, email, boxes, extras, note, .. } = answer.value;
            let note = note.unwrap_or_default();
            format!("{boxes} boxes for {name}, invoice to {email}, extras {extras:?}. {note}")
        }
        Elicited::Decline(_) => "The user does not want to send it.".into(),
        Elicited::Cancel(_) => "The user closed the form without an answer.".into(),
    })
}
// ANCHOR_END: ask

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Is it correct?
    sure: bool,
}

// ANCHOR: key
use antiphon::elicitation::ElicitKey;

const CONFIRM_RETURN: ElicitKey<Confirm> = ElicitKey::new("confirmReturn");

async fn take_back(ctx: &Ctx, _: ()) -> Result<String> {
    let Confirm { sure } = ctx.elicit_as(CONFIRM_RETURN, "Send it back?").await?.accepted()?;
    Ok(if sure { "It is on its way back.".into() } else { "It stays.".into() })
}

fn tools() -> [Tool; 2] {
    [
        Tool::new("send", "Sends a parcel", send).elicits::<Delivery>(),
        Tool::new("take_back", "Sends a parcel back", take_back).elicits_as(CONFIRM_RETURN),
    ]
}
// ANCHOR_END: key

fn post() -> ServerBuilder {
    Server::builder("post", "1.0.0").tools(tools())
}

#[cfg(test)]
mod tests {
    use antiphon::testing::{Answers, Client, Revision};
    use serde_json::{Value, json};

    use super::*;

    fn delivery(boxes: u32) -> Value {
        json!({"name": "Ada", "email": "ada@example.com", "boxes": boxes, "speed": "express", "extras": ["Insurance"]})
    }

    #[tokio::test]
    async fn form_has_the_fields_of_its_type() -> Result<()> {
        for revision in Revision::BOTH {
            let mut client = Client::connect(&post().build()?, revision).await?;
            let talk = client.call("send", json!({})).await?;
            assert_eq!(talk.text(), "The user does not want to send it.");
            let expected = json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Who receives the parcel?", "minLength": 1, "maxLength": 80},
                    "email": {"type": "string", "description": "The address for the invoice.", "format": "email"},
                    "boxes": {"type": "integer", "description": "The number of boxes.", "minimum": 1, "maximum": 20, "default": 1},
                    "speed": {"type": "string", "description": "How fast?", "oneOf": [
                        {"const": "standard", "title": "In three to five days"},
                        {"const": "express", "title": "Tomorrow"},
                    ]},
                    "extras": {"type": "array", "description": "Extras, if any.", "items": {"type": "string", "enum": ["GiftWrap", "Insurance"]}},
                    "note": {"type": "string", "description": "A note for the driver."},
                },
                "required": ["name", "email", "speed", "extras"],
            });
            assert_eq!(talk.asked[0].params["requestedSchema"], expected);
        }
        Ok(())
    }

    #[tokio::test]
    async fn answer_that_the_check_rejects_is_asked_for_again() -> Result<()> {
        for revision in Revision::BOTH {
            let answers = Answers::new().accept("delivery", delivery(9)).accept("delivery", delivery(2));
            let mut client = Client::connect(&post().build()?, revision).await?.with_answers(answers);
            let talk = client.call("send", json!({})).await?;
            assert!(talk.text().starts_with("2 boxes for Ada"), "{}", talk.text());
            assert!(talk.asked[1].message().ends_with("an express parcel has at most 5 boxes"));
        }
        Ok(())
    }

    #[tokio::test]
    async fn field_without_a_value_gets_its_default() -> Result<()> {
        for revision in Revision::BOTH {
            let content = json!({"name": "Ada", "email": "no address", "speed": "standard", "extras": []});
            let answers = Answers::new().accept("delivery", content);
            let mut client = Client::connect(&post().build()?, revision).await?.with_answers(answers);
            let talk = client.call("send", json!({})).await?;
            assert!(talk.text().starts_with("1 boxes for Ada, invoice to no address"), "{}", talk.text());
        }
        Ok(())
    }

    #[tokio::test]
    async fn typed_key_is_the_key_of_the_question() -> Result<()> {
        for revision in Revision::BOTH {
            let answers = Answers::new().accept("confirmReturn", json!({"sure": true}));
            let mut client = Client::connect(&post().build()?, revision).await?.with_answers(answers);
            assert_eq!(client.call("take_back", json!({})).await?.text(), "It is on its way back.");
        }
        Ok(())
    }

    #[test]
    fn server_with_a_nested_form_is_not_built() {
        #[derive(Deserialize, JsonSchema)]
        struct Order {
            delivery: Delivery,
        }
        let tool = Tool::new("send", "Sends a parcel", send).elicits::<Order>();
        let error = Server::builder("post", "1.0.0").tool(tool).build().err();
        assert!(error.is_some_and(|error| error.problems()[0].contains("is nested; a form is flat")));
    }
}
