//! Pays a refund after a manager approves it. Any replica with the same keys can continue the run.

use std::time::Duration;

use antiphon::{ServerBuilder, prelude::*};

#[derive(Deserialize, JsonSchema)]
struct Refund {
    /// The order number.
    order: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Whether to pay the refund.
    approve: bool,
    /// A message to the customer.
    message: Option<String>,
}

async fn refund(ctx: &Ctx, Refund { order }: Refund) -> Result<String> {
    let euros: u32 = ctx.step("price", || price_of(order)).await?;
    let question = format!("Pay back {euros} euros for order {order}?");
    let Approval { approve, message } = ctx.elicit(question).await?.accepted()?;
    if !approve {
        return Ok(format!("The refund for order {order} was declined."));
    }
    // A real bank recognizes a repeated payment by this idempotency key.
    let receipt = ctx.step_with_key("pay", async |key: String| Ok(format!("R-{}", &key[..6]))).await?;
    let message = message.map(|it| format!(" Message: {it}")).unwrap_or_default();
    Ok(format!("{euros} euros were paid back for order {order}, receipt {receipt}.{message}"))
}

/// A placeholder for a database.
async fn price_of(order: u32) -> Result<u32> {
    tokio::time::sleep(Duration::from_millis(12)).await;
    Ok(20 + order % 80)
}

/// The server, without its keys.
pub fn server() -> ServerBuilder {
    let about = "Pays back the price of an order, after a manager approves";
    // The names of the steps are not secret, and `antiphon studio` shows them.
    Server::builder("shop", "1.0.0").with_traces(true).tool(Tool::new("refund", about, refund))
}
