use antiphon::ErrorKind;
use antiphon::store::Backend;
use axum::Router;

#[derive(Deserialize, JsonSchema)]
struct Onboard {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    desk: String,
}

async fn create_account(name: &str) -> Result<String> {
    tokio::task::yield_now().await;
    Ok(name.to_owned())
}

async fn close_account(_: &str) -> Result<()> {
    tokio::task::yield_now().await;
    Ok(())
}

async fn send_welcome(_: &str) -> Result<()> {
    tokio::task::yield_now().await;
    Ok(())
}

// ANCHOR: onboard
use std::time::Duration;

use antiphon::{
    ServerBuilder,
    prelude::*,
    seal::{KeyRing, SealConfig},
    task::{TaskConfig, TaskPolicy},
};

async fn onboard(ctx: &Ctx, new: Onboard) -> Result<String> {
    let account: String = ctx.step("account", || create_account(&new.name)).await?; // recorded
    let approval = ctx.elicit::<Approval>("May they start?").await?.accepted()?; // waits for a user
    ctx.sleep(Duration::from_secs(7 * 24 * 3600)).await?; // uses no memory
    ctx.step("welcome", || send_welcome(&account)).await?;
    Ok(format!("{} has desk {}", new.name, approval.desk))
}

fn server(backend: Backend, keys: KeyRing) -> ServerBuilder {
    Server::builder("onboarding", "1.0.0")
        .with_backend(backend) // without one, tasks end with the process
        .with_seal(SealConfig::default().with_keys(keys)) // the same for all replicas
        .with_tasks(TaskConfig::default())
        .tool(Tool::new("onboard", "Takes on a colleague", onboard).with_tasks(TaskPolicy::Always))
}
// ANCHOR_END: onboard

// ANCHOR: cancelled
async fn approved(ctx: &Ctx, account: &str) -> Result<Approval> {
    match ctx.elicit::<Approval>("May they start?").await {
        Err(error) if matches!(error.kind(), ErrorKind::Cancelled) => {
            ctx.step("close account", || close_account(account)).await?;
            Err(error)
        }
        answered => answered?.accepted(),
    }
}
// ANCHOR_END: cancelled

// ANCHOR: operators
/// Requires this bearer token, and accepts only loopback host names.
fn operators(server: &Server, token: &str) -> Result<Router> {
    Ok(server.operator_router(token)?)
}
// ANCHOR_END: operators
