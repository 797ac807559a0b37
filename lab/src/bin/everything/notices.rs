//! Tools that say something beside their answer: log messages, progress, what has changed.

use std::time::Duration;

use antiphon::{Level, ServerBuilder, prelude::*};
use tokio::time::sleep;

/// Long enough for a client to see each notice by itself.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn add_to(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(Tool::new("test_tool_with_logging", "Logs what it does", with_logging))
        .tool(Tool::new("test_logging_tool", "Logs once", logs_once))
        .tool(Tool::new("test_tool_with_progress", "Says how far it is", with_progress))
        .tool(Tool::new("test_reconnection", "Takes long enough to leave and come back", takes_a_while))
        .tool(Tool::new("test_trigger_tool_change", "Says that the tools have changed", tools_changed))
        .tool(Tool::new("test_trigger_prompt_change", "Says that the prompts have changed", prompts_changed))
}

async fn with_logging(ctx: &Ctx, _: ()) -> Result<&'static str> {
    ctx.log(Level::Info, "Tool execution started");
    sleep(PAUSE).await;
    ctx.log(Level::Info, "Tool processing data");
    sleep(PAUSE).await;
    ctx.log(Level::Info, "Tool execution completed");
    Ok("Logged three messages")
}

/// Who wants no messages gets none; the tool need not ask.
async fn logs_once(ctx: &Ctx, _: ()) -> Result<&'static str> {
    ctx.log(Level::Info, "The logging tool was called");
    Ok("Logged, if you wanted it")
}

async fn with_progress(ctx: &Ctx, _: ()) -> Result<&'static str> {
    ctx.progress(Progress::of(0.0, 100.0));
    sleep(PAUSE).await;
    ctx.progress(Progress::of(50.0, 100.0));
    sleep(PAUSE).await;
    ctx.progress(Progress::of(100.0, 100.0));
    Ok("All done")
}

/// On 2025-11-25 a client may lose the stream meanwhile: who comes back with the id of the last event
/// it saw gets the answer.
async fn takes_a_while(_: &Ctx, _: ()) -> Result<&'static str> {
    sleep(PAUSE * 2).await;
    Ok("Reconnection test completed successfully")
}

async fn tools_changed(ctx: &Ctx, _: ()) -> Result<&'static str> {
    ctx.changes().tools();
    Ok("Whoever listens for tools was told")
}

async fn prompts_changed(ctx: &Ctx, _: ()) -> Result<&'static str> {
    ctx.changes().prompts();
    Ok("Whoever listens for prompts was told")
}
