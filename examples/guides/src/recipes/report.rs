//! A nightly report as a task.

use std::time::SystemTime;

/// A placeholder for a query.
async fn count_orders() -> std::io::Result<u64> {
    tokio::task::yield_now().await;
    Ok(12)
}

/// A placeholder for a mail server.
async fn send_mail(_: u64) -> Result<()> {
    tokio::task::yield_now().await;
    Ok(())
}

/// Returns the number of seconds until the next time that it is `hour` o'clock in UTC, 1 to 86,400.
fn seconds_until(hour: u64) -> u64 {
    const DAY: u64 = 24 * 60 * 60;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    DAY - (now + DAY - hour * 60 * 60) % DAY
}

// ANCHOR: recipe
use std::{ops::ControlFlow, time::Duration};

use antiphon::{prelude::*, task::TaskPolicy};

#[derive(Deserialize, JsonSchema)]
struct Nights {
    /// The number of nights.
    nights: u32,
}

async fn nightly_report(ctx: &Ctx, Nights { nights }: Nights) -> Result<String> {
    ctx.loop_with_state("nights", (0_u32, nights), async |ctx, (sent, nights): (u32, u32)| {
        if sent == nights {
            return Ok(ControlFlow::Break(format!("{sent} reports were sent")));
        }
        let wait = ctx.step("wait", || async { Ok(seconds_until(2)) }).await?;
        ctx.sleep(Duration::from_secs(wait)).await?; // no process holds the run
        let orders = ctx.try_step("count", count_orders).await?;
        ctx.step("mail", || send_mail(orders)).await?;
        ctx.progress(Progress::of(sent + 1, nights));
        Ok(ControlFlow::Continue((sent + 1, nights)))
    })
    .await
}

fn tool() -> Tool {
    Tool::new("nightly_report", "Mails a report every night", nightly_report).with_tasks(TaskPolicy::Always)
}
// ANCHOR_END: recipe

#[cfg(test)]
mod tests {
    use antiphon::{
        store::{Memory, QueueConfig},
        task::TaskConfig,
    };

    use super::*;

    #[tokio::test]
    async fn server_is_built() {
        let backend = Memory::default().backend(QueueConfig::default());
        let server = Server::builder("reports", "1.0.0").with_backend(backend);
        assert!(server.with_tasks(TaskConfig::default()).tool(tool()).build().is_ok());
    }

    #[test]
    fn wait_is_between_a_second_and_a_day() {
        for hour in 0..24 {
            assert!((1..=86_400).contains(&seconds_until(hour)));
        }
    }
}
