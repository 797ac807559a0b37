//! The code of `docs/guides/connect.md`.

use antiphon::ServerBuilder;

// ANCHOR: fallback
use antiphon::{Capability, prelude::*};

#[derive(Deserialize, JsonSchema)]
struct Export {
    /// The file format. Used only if the client does not support forms.
    format: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Choice {
    /// Which file format do you want?
    format: String,
}

async fn export(ctx: &Ctx, Export { format }: Export) -> Result<String> {
    let format = if ctx.supports(Capability::Elicitation).await? {
        ctx.elicit::<Choice>("Export the report?").await?.accepted()?.format
    } else {
        format.unwrap_or_else(|| "pdf".to_owned())
    };
    ctx.step("export", || export_report(&format)).await?;
    Ok(format!("The report was exported as {format}."))
}
// ANCHOR_END: fallback

async fn export_report(_: &str) -> Result<()> {
    tokio::task::yield_now().await;
    Ok(())
}

fn reports() -> ServerBuilder {
    Server::builder("reports", "1.0.0").tool(Tool::new("export", "Exports the report", export))
}

#[cfg(test)]
mod tests {
    use antiphon::testing::{Answers, Client, Revision};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn client_with_forms_is_asked() -> Result<()> {
        for revision in Revision::BOTH {
            let answers = Answers::new().accept("choice", json!({"format": "csv"}));
            let mut client = Client::connect(&reports().build()?, revision).await?.with_answers(answers);
            let talk = client.call("export", json!({})).await?;
            assert_eq!(talk.text(), "The report was exported as csv.");
            assert_eq!(talk.asked.len(), 1);
        }
        Ok(())
    }

    #[tokio::test]
    async fn client_without_forms_chooses_with_an_argument() -> Result<()> {
        for revision in Revision::BOTH {
            let mut client = Client::connect_with(&reports().build()?, revision, json!({})).await?;
            let talk = client.call("export", json!({})).await?;
            assert_eq!(talk.text(), "The report was exported as pdf.");
            let talk = client.call("export", json!({"format": "csv"})).await?;
            assert_eq!(talk.text(), "The report was exported as csv.");
            assert!(talk.asked.is_empty());
        }
        Ok(())
    }
}
