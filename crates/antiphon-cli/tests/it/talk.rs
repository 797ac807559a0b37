//! A server that has something of everything to talk about.

use antiphon::{
    Level, Prompt, Resource, ToolOutput,
    prelude::*,
    task::{TaskConfig, TaskPolicy},
};
use serde_json::{Map, Value, json};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Order {
    /// How large it is
    size: Size,
    /// How many
    #[schemars(range(min = 1, max = 9))]
    count: u8,
    /// Anything else
    note: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Size {
    Small,
    Large,
}

#[derive(Deserialize, JsonSchema)]
struct Sure {
    sure: bool,
}

async fn order(ctx: &Ctx, _: ()) -> Result<String> {
    let Order { size, count, note } = ctx.elicit("What shall it be?").await?.accepted()?;
    let Sure { sure } = ctx.elicit("Are you sure?").await?.accepted()?;
    let note = note.unwrap_or_else(|| "nothing".into());
    if sure { Ok(format!("{count} x {size:?}, {note}")) } else { Err(Error::tool("then not")) }
}

async fn long(ctx: &Ctx, _: ()) -> Result<String> {
    for done in 1..=3 {
        ctx.progress(Progress::of(f64::from(done), 3.0).message(format!("file {done}")));
    }
    ctx.log(Level::Debug, "too small to matter");
    ctx.log_from("disk", Level::Warning, json!({"free": 3}));
    Ok("read".into())
}

async fn say(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.sample("Say a word").system("You are brief").await?.text())
}

async fn sign_in(ctx: &Ctx, _: ()) -> Result<String> {
    let visited = ctx.elicit_url("Sign in, please", "https://example.com/sign-in").await?;
    if visited.agreed { Ok("signed in".into()) } else { Err(Error::tool("not signed in")) }
}

async fn picture(_: &Ctx, _: ()) -> Result<ToolOutput> {
    Ok(ToolOutput::text("look").with_image(b"not really", "image/png"))
}

/// What `echo` takes.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Echo {
    /// Who it is
    name: String,
    /// How often
    #[schemars(range(min = 1, max = 9))]
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
    #[schemars(length(max = 3))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tag: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mood: Option<Mood>,
    /// A flag we have as well
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    address: Address,
    #[serde(skip_serializing_if = "Option::is_none")]
    rest: Option<Map<String, Value>>,
    #[serde(rename = "odd name", skip_serializing_if = "Option::is_none")]
    odd: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mood {
    Glad,
    Sad,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Address {
    city: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    zip: Option<u32>,
}

async fn echo(_: &Ctx, echo: Echo) -> Result<ToolOutput> {
    Ok(ToolOutput::new([]).with_structured(json!(echo)))
}

pub(crate) fn server() -> Server {
    let hostile = "Innocent\u{1b}[2J\u{1b}]0;owned\u{7}\nsecond line";
    let failing = async |_: &Ctx, _: ()| -> Result<String> { Err(Error::tool("out of\u{1b}[31m paper")) };
    let sleeping = async |_: &Ctx, _: ()| -> Result<String> {
        tokio::time::sleep(std::time::Duration::from_hours(1)).await;
        Ok("late".into())
    };
    Server::builder("talker", "1.0.0")
        .with_tasks(TaskConfig::default())
        .tool(Tool::new("echo", "Says what it was told", echo))
        .tool(
            Tool::new("order", "Takes an order", order)
                .elicits::<Order>()
                .elicits::<Sure>()
                .with_tasks(TaskPolicy::Never),
        )
        .tool(Tool::new("later", "Takes an order, and its time", order).with_tasks(TaskPolicy::Always))
        .tool(Tool::new("long", "Tells how far it is", long))
        .tool(Tool::new("say", "Asks the model", say))
        .tool(Tool::new("sign_in", "Sends you to a page", sign_in))
        .tool(Tool::new("picture", "Draws", picture))
        .tool(Tool::new("fail", hostile, failing))
        .tool(Tool::new("sleep", "Takes an hour", sleeping))
        .prompt(Prompt::new("review", "Asks for a review", prompted))
        .resource(Resource::new("talk://motto", "motto", motto).with_mime_type("text/plain"))
        .build()
        .unwrap()
}

#[derive(Deserialize, JsonSchema)]
struct Review {
    /// The code to look at.
    code: String,
}

async fn prompted(_: &Ctx, Review { code }: Review) -> Result<String> {
    Ok(format!("Review this: {code}"))
}

async fn motto(_: &Ctx, _: ()) -> Result<String> {
    Ok("call and response".into())
}

/// A model behind the API that everybody speaks, that always says the same.
pub(crate) fn model() -> axum::Router {
    let reply = json!({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "word"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}});
    let replying = axum::routing::post(move || std::future::ready(axum::Json(reply.clone())));
    axum::Router::new().route("/v1/chat/completions", replying)
}
