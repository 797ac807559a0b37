//! The code of `docs/guides/errors.md`.

use antiphon::ServerBuilder;

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// The name of the item.
    item: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Send the order?
    sure: bool,
}

/// A placeholder for your code, with another error type.
async fn reserve(item: &str) -> std::io::Result<u32> {
    tokio::task::yield_now().await;
    if item == "tea" { Ok(7) } else { Err(std::io::Error::other("the stock service is down")) }
}

// ANCHOR: errors
use antiphon::prelude::*;

async fn order(ctx: &Ctx, Order { item }: Order) -> Result<String> {
    if item.is_empty() {
        return Err(Error::tool("the item has no name").terminal()); // a retry cannot succeed
    }
    // `reserve` returns `std::io::Result<u32>`.
    let number = ctx.try_step("reserve", || reserve(&item)).await?;
    Ok(format!("order {number}: {item}"))
}
// ANCHOR_END: errors

// ANCHOR: kinds
use antiphon::ErrorKind;

async fn is_confirmed(ctx: &Ctx, question: &str) -> Result<bool> {
    match ctx.elicit::<Confirm>(question).await {
        // `ok()` is `None` if the user declined or dismissed the form.
        Ok(answer) => Ok(answer.ok().is_some_and(|answer| answer.sure)),
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported(_)) => {
            Err(Error::tool("this client cannot show forms, so the order cannot be confirmed"))
        }
        Err(error) => Err(error),
    }
}
// ANCHOR_END: kinds

// ANCHOR: timeout
use std::time::Duration;

async fn send(ctx: &Ctx, _: ()) -> Result<String> {
    let minutes = Duration::from_secs(10 * 60);
    let sure = ctx.branch("confirm", async |ctx| is_confirmed(ctx, "Send it?").await).timeout(minutes).await;
    match sure {
        Err(error) if matches!(error.kind(), ErrorKind::Timeout(_)) => {
            Ok("no answer within ten minutes".into())
        }
        sure => Ok(if sure? { "sent".into() } else { "not sent".into() }),
    }
}
// ANCHOR_END: timeout

#[derive(Deserialize, JsonSchema)]
struct Invoice {
    /// The number of the invoice.
    number: String,
}

/// A placeholder for your storage.
fn find_invoice(number: &str) -> Option<String> {
    (number == "7").then(|| "tea, 3 EUR".to_owned())
}

// ANCHOR: protocol
use antiphon::ResourceTemplate;

async fn invoice(_: &Ctx, Invoice { number }: Invoice) -> Result<String> {
    // MCP has a code for a resource that does not exist.
    find_invoice(&number).ok_or_else(|| Error::protocol(-32002, format!("invoice {number} does not exist")))
}

fn invoices() -> ResourceTemplate {
    ResourceTemplate::new("invoice://{number}", "invoice", invoice)
}
// ANCHOR_END: protocol

// ANCHOR: retries
use antiphon::task::RetryPolicy;

fn tools() -> [Tool; 2] {
    let retry = RetryPolicy::default().with_attempts(5).with_backoff(Duration::from_secs(2));
    [
        Tool::new("order", "Orders an item", order).with_retry(retry).with_timeout(Duration::from_secs(60)),
        Tool::new("send", "Sends the order, after a confirmation", send).with_retry(RetryPolicy::never()),
    ]
}
// ANCHOR_END: retries

fn shop() -> ServerBuilder {
    Server::builder("shop", "1.0.0").tools(tools()).resource_template(invoices())
}

#[cfg(test)]
mod tests {
    use antiphon::testing::{Answers, Client, Revision};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn model_reads_the_text_of_the_error() -> Result<()> {
        for revision in Revision::BOTH {
            let mut client = Client::connect(&shop().build()?, revision).await?;
            let talk = client.call("order", json!({"item": "tea"})).await?;
            assert_eq!(talk.text(), "order 7: tea");
            let talk = client.call("order", json!({"item": "gin"})).await?;
            assert!(talk.is_error());
            assert_eq!(talk.text(), "the stock service is down");
        }
        Ok(())
    }

    #[tokio::test]
    async fn missing_resource_is_a_protocol_error() -> Result<()> {
        for revision in Revision::BOTH {
            let mut client = Client::connect(&shop().build()?, revision).await?;
            let read = client.request("resources/read", json!({"uri": "invoice://7"})).await?;
            assert_eq!(read["contents"][0]["text"], "tea, 3 EUR");
            let error = client.request("resources/read", json!({"uri": "invoice://8"})).await.err();
            assert!(error.is_some_and(|error| format!("{error:#}").contains("invoice 8 does not exist")));
        }
        Ok(())
    }

    #[tokio::test]
    async fn tool_handles_a_client_without_forms_and_a_user_who_declines() -> Result<()> {
        for revision in Revision::BOTH {
            let mut client = Client::connect_with(&shop().build()?, revision, json!({})).await?;
            let talk = client.call("send", json!({})).await?;
            assert!(talk.text().starts_with("this client cannot show forms"), "{}", talk.text());
            let answers = Answers::new().decline("confirm");
            let mut client = Client::connect(&shop().build()?, revision).await?.with_answers(answers);
            assert_eq!(client.call("send", json!({})).await?.text(), "not sent");
        }
        Ok(())
    }
}
