//! Tools whose runs outlive the call: the suite's tasks.
//!
//! `ctx.continue_as_task()` has the client get a task at the tool's next await. A client that knows no tasks waits for the
//! answer instead, and the tool is the same.

use std::time::Duration;

use antiphon::{
    Error, ServerBuilder,
    prelude::*,
    task::{TaskConfig, TaskPolicy},
};

pub(crate) fn add_to(server: ServerBuilder) -> ServerBuilder {
    server
        .with_tasks(TaskConfig::default())
        .tool(Tool::new("greet", "Greets you at once", greet).with_tasks(TaskPolicy::Never))
        .tool(Tool::new("slow_compute", "Takes its time", compute))
        .tool(Tool::new("failing_job", "Fails after a while", fail).with_tasks(TaskPolicy::Always))
        .tool(
            Tool::new("protocol_error_job", "Ends with a JSON-RPC error", break_down)
                .with_tasks(TaskPolicy::Always),
        )
        .tool(Tool::new("confirm_delete", "Deletes nothing, once you confirm it", delete))
        .tool(Tool::new("multi_input", "Asks two at once", two_at_once))
        .tool(Tool::new("test_tool_with_task", "Asks first and takes its time then", ask_then_work))
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn greet(_: &Ctx, arguments: Name) -> Result<String> {
    Ok(format!("Hello, {}!", arguments.name))
}

#[derive(Deserialize, JsonSchema)]
struct Work {
    /// How long it takes.
    seconds: f64,
    /// What it is called.
    label: String,
}

/// A wait that ends early when the task is cancelled. Nothing of the run is in memory meanwhile.
async fn compute(ctx: &Ctx, work: Work) -> Result<String> {
    ctx.continue_as_task();
    ctx.sleep(Duration::try_from_secs_f64(work.seconds)?).await?;
    Ok(format!("{}: computed for {} s", work.label, work.seconds))
}

/// An error that is terminal is an answer, and is not tried again.
async fn fail(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.sleep(Duration::from_secs(1)).await?;
    Err(Error::tool("the job failed, as it always does").terminal())
}

async fn break_down(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.sleep(Duration::from_millis(200)).await?;
    Err(Error::protocol(-32603, "the job broke down, as it always does"))
}

#[derive(Deserialize, JsonSchema)]
struct File {
    filename: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    confirm: bool,
}

async fn delete(ctx: &Ctx, File { filename }: File) -> Result<String> {
    ctx.continue_as_task();
    let Confirm { confirm } = ctx.elicit(format!("Delete {filename}?")).await?.accepted()?;
    Ok(if confirm { format!("{filename} was deleted") } else { format!("{filename} was kept") })
}

/// Questions that are awaited together can be answered one at a time.
async fn two_at_once(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.continue_as_task();
    let (name, confirm) =
        tokio::join!(ctx.elicit::<Name>("What is your name?"), ctx.elicit::<Confirm>("Are you sure?"));
    let (Name { name }, Confirm { confirm }) = (name?.accepted()?, confirm?.accepted()?);
    Ok(format!("{name} is {}", if confirm { "sure" } else { "not sure" }))
}

#[derive(Deserialize, JsonSchema)]
struct UserName {
    name: String,
}

/// The question goes out in a round, because there is no task yet; the answer is still there in the task.
async fn ask_then_work(ctx: &Ctx, _: ()) -> Result<String> {
    let UserName { name } = ctx.elicit("What is your name?").await?.accepted()?;
    ctx.continue_as_task();
    ctx.sleep(Duration::from_millis(500)).await?;
    Ok(format!("Done, {name}"))
}
