//! A payment that is not repeated.

/// A placeholder for a payment provider.
async fn charge(key: String, cents: u32) -> Result<String> {
    tokio::task::yield_now().await;
    Ok(format!("{} for {cents} cents", key.len()))
}

// ANCHOR: recipe
use antiphon::{ErrorKind, prelude::*};

#[derive(Deserialize, JsonSchema)]
struct Pay {
    /// The number of the order.
    order: String,
    /// The amount in cents.
    cents: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Consent {
    /// Pay now?
    pay: bool,
}

async fn pay(ctx: &Ctx, Pay { order, cents }: Pay) -> Result<String> {
    let Consent { pay } = ctx.elicit(format!("Pay {cents} cents for {order}?")).await?.accepted()?;
    if !pay {
        return Ok("Nothing was paid.".into());
    }
    // The provider's idempotency key. A new call is a new run, so the key comes from the order, not from the run.
    let key = format!("order-{order}");
    match ctx.step("charge", || charge(key, cents)).at_most_once().await {
        Ok(receipt) => Ok(format!("Paid. Receipt: {receipt}")),
        Err(error) if matches!(error.kind(), ErrorKind::Indeterminate(_)) => {
            Ok(format!("The outcome of the payment for {order} is unknown. Check it with the provider."))
        }
        Err(error) => Err(error),
    }
}

fn tool() -> Tool {
    Tool::new("pay", "Pays an order", pay).needs_backend()
}
// ANCHOR_END: recipe

#[cfg(test)]
mod tests {
    use antiphon::{
        store::{Memory, QueueConfig},
        testing::{Answers, Client, Revision},
    };
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn order_is_paid_after_consent() -> Result<()> {
        for revision in Revision::BOTH {
            let backend = Memory::default().backend(QueueConfig::default());
            let server = Server::builder("shop", "1.0.0").with_backend(backend).tool(tool()).build()?;
            let answers = Answers::new().accept("consent", json!({"pay": true}));
            let mut client = Client::connect(&server, revision).await?.with_answers(answers);
            let talk = client.call("pay", json!({"order": "A7", "cents": 300})).await?;
            assert!(talk.text().starts_with("Paid. Receipt: "), "{}", talk.text());
        }
        Ok(())
    }

    #[tokio::test]
    async fn server_without_a_backend_is_not_built() {
        assert!(Server::builder("shop", "1.0.0").tool(tool()).build().is_err());
    }
}
