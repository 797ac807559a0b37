//! The code of `docs/guides/connect.md`.

use antiphon::ServerBuilder;

// ANCHOR: fallback
use antiphon::{Capability, prelude::*};

#[derive(Deserialize, JsonSchema)]
struct Remove {
    /// The name of the file.
    file: String,
    /// Set this to `true` only after the user has confirmed.
    #[serde(default)]
    confirmed: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Remove the file?
    sure: bool,
}

async fn remove(ctx: &Ctx, Remove { file, confirmed }: Remove) -> Result<String> {
    let sure = if ctx.supports(Capability::Elicitation).await? {
        ctx.elicit::<Confirm>(format!("Remove {file}?")).await?.accepted()?.sure
    } else {
        confirmed
    };
    if !sure {
        return Ok(format!("{file} was not removed. Ask the user, then call again with `confirmed`."));
    }
    ctx.step("remove", || remove_file(&file)).await?;
    Ok(format!("{file} was removed."))
}
// ANCHOR_END: fallback

async fn remove_file(_: &str) -> Result<()> {
    tokio::task::yield_now().await;
    Ok(())
}

fn files() -> ServerBuilder {
    Server::builder("files", "1.0.0").tool(Tool::new("remove", "Removes a file", remove))
}

#[cfg(test)]
mod tests {
    use antiphon::testing::{Answers, Client, Revision};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn client_with_forms_is_asked() -> Result<()> {
        for revision in Revision::BOTH {
            let answers = Answers::new().accept("confirm", json!({"sure": true}));
            let mut client = Client::connect(&files().build()?, revision).await?.with_answers(answers);
            let talk = client.call("remove", json!({"file": "a.txt"})).await?;
            assert_eq!(talk.text(), "a.txt was removed.");
            assert_eq!(talk.asked.len(), 1);
        }
        Ok(())
    }

    #[tokio::test]
    async fn client_without_forms_confirms_with_an_argument() -> Result<()> {
        for revision in Revision::BOTH {
            let mut client = Client::connect_with(&files().build()?, revision, json!({})).await?;
            let talk = client.call("remove", json!({"file": "a.txt"})).await?;
            assert!(talk.text().contains("not removed"), "{}", talk.text());
            let talk = client.call("remove", json!({"file": "a.txt", "confirmed": true})).await?;
            assert_eq!(talk.text(), "a.txt was removed.");
            assert!(talk.asked.is_empty());
        }
        Ok(())
    }
}
