//! A help desk whose refunds wait for a manager, and outlive the process they began in.
#![expect(clippy::print_stderr, reason = "whoever starts it wants to know where it is")]

// ANCHOR: tool
use std::time::Duration;

use antiphon::store::{Backend, QueueConfig};
use antiphon::{
    ServerBuilder,
    http::{HttpConfig, shutdown_signal},
    prelude::*,
    seal::{KeyRing, SealConfig},
    task::{TaskConfig, TaskPolicy},
};
use tokio::net::TcpListener;

#[derive(Deserialize, JsonSchema)]
struct Refund {
    /// The order number.
    order: u32,
    /// The amount to pay back.
    cents: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Whether to pay the refund.
    approve: bool,
}

async fn refund(ctx: &Ctx, Refund { order, cents }: Refund) -> Result<String> {
    // Recorded: a later leg gets the same number. The number shows which process ran the step.
    let number: String = ctx.step("number", || async { Ok(format!("R{}", std::process::id())) }).await?;
    let question = format!("Refund {number}: pay back {cents} cents for order {order}?");
    let Approval { approve } = ctx.elicit(question).await?.accepted()?;
    if !approve {
        return Ok(format!("Refund {number} was turned down."));
    }
    // Time to cancel. A sleeping run uses no memory, even if it sleeps for a week.
    ctx.sleep(Duration::from_secs(2)).await?;
    ctx.step("pay", || pay(order, cents)).await?;
    Ok(format!("Refund {number}: {cents} cents are on their way."))
}

/// Stands for a call to the bank.
async fn pay(_order: u32, _cents: u32) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(10)).await;
    Ok(())
}

fn desk(backend: Backend, keys: KeyRing) -> ServerBuilder {
    let tool = Tool::new("refund", "Pays back what was paid", refund).with_tasks(TaskPolicy::Always);
    Server::builder("desk", "1.0.0")
        .with_backend(backend)
        .with_seal(SealConfig::default().with_keys(keys))
        .with_tasks(TaskConfig::default())
        .tool(tool)
}
// ANCHOR_END: tool

// ANCHOR: main
#[tokio::main]
async fn main() -> Result<()> {
    let variable = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.into());
    // Task records are encrypted. Every process that continues a run needs the same key.
    let keys = std::env::var("SEAL_KEYS").map_or_else(|_| Ok(KeyRing::random()), |keys| keys.parse())?;
    let backend = Backend::connect(&variable("STORE_URL", "memory:"), "desk", QueueConfig::default()).await?;
    let listener = TcpListener::bind(variable("ADDRESS", "127.0.0.1:8000")).await?;
    eprintln!("process {} listens on http://{}/mcp", std::process::id(), listener.local_addr()?);
    let server = desk(backend, keys).build()?;
    server.serve_listener(listener, HttpConfig::default(), shutdown_signal()).await?;
    Ok(())
}
// ANCHOR_END: main

// ANCHOR: tests
#[cfg(test)]
mod tests {
    use antiphon::store::Memory;
    use antiphon::testing::{Client, Revision};
    use serde_json::{Value, json};

    use super::*;

    async fn connect(server: &Server) -> Client {
        let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
        Client::connect_with(server, Revision::V2026_07_28, capabilities).await.unwrap()
    }

    async fn until(client: &mut Client, id: &Value, status: &str) -> Value {
        loop {
            let task = client.request("tasks/get", json!({"taskId": id})).await.unwrap();
            if task["status"] == status {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    #[tokio::test]
    async fn refund_that_one_server_began_is_paid_by_another() {
        // Both servers share this store. It is in memory, and outlives the first server.
        let (backend, keys) = (Memory::default().backend(QueueConfig::default()), KeyRing::random());
        let first = desk(backend.clone(), keys.clone()).build().unwrap();
        let mut client = connect(&first).await;
        let call = json!({"name": "refund", "arguments": {"order": 17, "cents": 2500}});
        let id = client.request("tools/call", call).await.unwrap()["taskId"].clone();
        until(&mut client, &id, "input_required").await;
        first.shut_down();

        let second = desk(backend, keys).build().unwrap();
        let mut client = connect(&second).await;
        let yes = json!({"approval": {"action": "accept", "content": {"approve": true}}});
        client.request("tasks/update", json!({"taskId": id, "inputResponses": yes})).await.unwrap();
        let task = until(&mut client, &id, "completed").await;
        let text = task["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.ends_with("2500 cents are on their way."));
        println!("{text}");
    }
}
// ANCHOR_END: tests
