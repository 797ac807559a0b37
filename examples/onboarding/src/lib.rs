//! Takes somebody on: an account, a manager's word, a first week, a welcome. It takes days, and no process has to live
//! that long.

use std::time::Duration;

use antiphon::{
    ErrorKind, Progress, ServerBuilder,
    prelude::*,
    task::{TaskConfig, TaskPolicy},
};

/// Whom to take on.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Onboard {
    /// The new colleague.
    name: String,
    /// How long the first week is, in seconds.
    #[serde(default = "a_week")]
    first_week: u64,
}

fn a_week() -> u64 {
    7 * 24 * 3600
}

/// What the manager says.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Approval {
    /// Whether they may start.
    approve: bool,
    /// Which desk is theirs.
    desk: String,
}

async fn onboard(ctx: &Ctx, new: Onboard) -> Result<String> {
    let account: String = ctx.step("account", || create_account(&new.name)).await?;
    ctx.progress(Progress::of(1, 3).message("the account is there; a manager has to approve"));
    let approval = match ctx.elicit::<Approval>(format!("May {} start?", new.name)).await {
        // Cancelled while nobody answered: what was begun is taken back.
        Err(error) if matches!(error.kind(), ErrorKind::Cancelled) => {
            ctx.step("close account", || close_account(&account)).await?;
            return Err(error);
        }
        answered => answered?.accepted()?,
    };
    if !approval.approve {
        ctx.step("close account", || close_account(&account)).await?;
        return Ok(format!("{} does not start", new.name));
    }
    ctx.progress(Progress::of(2, 3).message("the first week has begun"));
    ctx.sleep(Duration::from_secs(new.first_week)).await?;
    ctx.step("welcome", || send_welcome(&account)).await?;
    Ok(format!("{} has desk {} and the account {account}", new.name, approval.desk))
}

// What would be calls to other services.

async fn create_account(name: &str) -> Result<String> {
    tokio::time::sleep(Duration::from_millis(10)).await;
    Ok(format!("{}@example.com", name.to_lowercase()))
}

async fn close_account(_: &str) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(10)).await;
    Ok(())
}

async fn send_welcome(_: &str) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(10)).await;
    Ok(())
}

/// The server, but for where its tasks are kept.
pub fn server() -> ServerBuilder {
    Server::builder("onboarding", "1.0.0")
        .with_tasks(TaskConfig::default().with_ttl(Duration::from_secs(30 * 24 * 3600)))
        .tool(
            Tool::new("onboard", "Takes on a new colleague; takes a week", onboard)
                .with_tasks(TaskPolicy::Always),
        )
}
