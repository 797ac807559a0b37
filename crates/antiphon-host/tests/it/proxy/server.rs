//! The server behind the proxy: its tools ask in every way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use antiphon::{
    Level, Prompt, Resource, ResourceTemplate, ToolOutput,
    elicitation::UrlElicitation,
    model::{ContentBlock, Icon, ResourceLink, ToolAnnotations},
    prelude::*,
    task::{TaskConfig, TaskPolicy},
};
use serde_json::json;

/// The length of the text of `large`.
pub(super) const LARGE: usize = 1 << 20;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Name {
    pub(super) name: String,
}

/// What happened behind the proxy.
#[derive(Clone, Default)]
pub(super) struct Seen {
    pub(super) greetings: Arc<AtomicUsize>,
    pub(super) sleepers: Arc<AtomicUsize>,
}

async fn greet(ctx: &Ctx, State(seen): State<Seen>, _: ()) -> Result<String> {
    let name = match ctx.elicit::<Name>("Who are you?").await? {
        Elicited::Accept(answer) => answer.value.name,
        Elicited::Decline(_) => return Ok("declined".into()),
        Elicited::Cancel(_) => return Ok("cancelled".into()),
    };
    let greetings = Arc::clone(&seen.greetings);
    ctx.step("greet", || async move {
        greetings.fetch_add(1, Ordering::SeqCst);
        Ok(())
    })
    .await?;
    Ok(format!("Hello, {name}!"))
}

/// Asks twice, one after the other, and then two questions at once.
async fn interview(ctx: &Ctx, _: ()) -> Result<String> {
    let first = ctx.elicit::<Name>("First?").key("first").await?.accepted()?.name;
    let second = ctx.elicit::<Name>("Second?").key("second").await?.accepted()?.name;
    let (third, sampled) = tokio::join!(ctx.elicit::<Name>("Third?").key("third"), ctx.sample("Fourth?"));
    Ok(format!("{first} {second} {} {}", third?.accepted()?.name, sampled?.text()))
}

/// Continues without the answer after 10 seconds.
async fn impatient(ctx: &Ctx, _: ()) -> Result<String> {
    let question = ctx.elicit::<Name>("Who are you?");
    match tokio::time::timeout(Duration::from_secs(10), question).await {
        Ok(answer) => Ok(answer?.accepted()?.name),
        Err(_) => Ok("nobody".into()),
    }
}

async fn visit(ctx: &Ctx, _: ()) -> Result<String> {
    let visited = ctx.elicit_url("Sign in", "https://example.com/sign-in").await?;
    Ok(format!("agreed {}", visited.agreed))
}

async fn guarded(_: &Ctx, _: ()) -> Result<String> {
    let page = UrlElicitation::new("visit-1", "https://example.com/visit", "Visit first");
    Err(Error::url_elicitation_required([page]))
}

async fn sample(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.sample("How many?").system("Count").max_tokens(7).await?.text())
}

async fn work(ctx: &Ctx, _: ()) -> Result<String> {
    let pause = || tokio::time::sleep(Duration::from_millis(150));
    ctx.log(Level::Debug, "too quiet");
    ctx.progress(Progress::of(1.0, 2.0).message("first half"));
    pause().await;
    ctx.log_from("worker", Level::Info, json!({"half": "way"}));
    ctx.progress(Progress::of(2.0, 2.0));
    // In a session over HTTP, log messages have a stream of their own.
    pause().await;
    Ok("worked".into())
}

async fn task(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.progress(Progress::from(1.0).message("thinking"));
    ctx.sleep(Duration::from_millis(200)).await?;
    let name = ctx.elicit::<Name>("Who are you?").await?.accepted()?.name;
    ctx.sleep(Duration::from_millis(20)).await?;
    Ok(format!("{name}, then"))
}

async fn large(_: &Ctx, _: ()) -> Result<ToolOutput> {
    let link = ResourceLink::new("rows://set/all%20rows/1", "rows").with_mime_type("text/csv");
    Ok(ToolOutput::text("x".repeat(LARGE))
        .with(ContentBlock::image("AA==", "image/png"))
        .with(ContentBlock::resource_link(link))
        .with_structured(json!({"rows": 3}))
        .with_meta("example.com/origin", "behind"))
}

async fn fail(_: &Ctx, _: ()) -> Result<String> {
    Err(Error::tool("no luck"))
}

async fn refuse(_: &Ctx, _: ()) -> Result<String> {
    Err(Error::protocol(-32050, "not today").with_data(json!({"retry": "tomorrow"})))
}

async fn sleep(_: &Ctx, State(seen): State<Seen>, _: ()) -> Result<String> {
    struct Asleep(Arc<AtomicUsize>);
    impl Drop for Asleep {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    seen.sleepers.fetch_add(1, Ordering::SeqCst);
    let _asleep = Asleep(seen.sleepers);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    Ok("awake".into())
}

/// Returns the names of the request's headers that can identify a caller.
async fn credentials(ctx: &Ctx, _: ()) -> Result<String> {
    let has = |name: &&str| ctx.headers().is_some_and(|headers| headers.contains_key(*name));
    let telling = ["authorization", "cookie"].into_iter().filter(has);
    Ok(telling.collect::<Vec<_>>().join(" "))
}

/// The server and what it has seen.
pub(super) fn server() -> (Server, Seen) {
    let seen = Seen::default();
    let title = async |_: &Ctx, Name { name }: Name| -> Result<String> { Ok(format!("Hello, {name}")) };
    let text = async |_: &Ctx, _: ()| -> Result<String> { Ok("the text".into()) };
    let rows = async |_: &Ctx, Name { name }: Name| -> Result<String> { Ok(format!("the rows of {name}")) };
    let tasks = TaskConfig::default()
        .with_poll_interval(Duration::from_millis(50))
        // A cancelled task ends at once.
        .with_cancel_grace(Duration::ZERO);
    let server = Server::builder("behind", "1.0.0")
        .with_state(seen.clone())
        .with_tasks(tasks)
        .tool(
            Tool::new("greet", "Greets you by name", greet)
                .with_title("Greeting")
                .with_annotations(ToolAnnotations::new().read_only(true))
                .with_icons([Icon::new("https://example.com/icon.png")])
                .with_meta("example.com/kind", "polite"),
        )
        .tool(Tool::new("interview", "Asks four questions", interview))
        .tool(Tool::new("impatient", "Asks, and continues without an answer", impatient))
        .tool(Tool::new("visit", "Sends you to a page", visit))
        .tool(Tool::new("guarded", "Requires a visit first", guarded))
        .tool(Tool::new("sample", "Asks a model", sample))
        .tool(Tool::new("work", "Reports its progress", work))
        .tool(Tool::new("task", "Asks in a task", task).with_tasks(TaskPolicy::Always))
        .tool(
            Tool::new("large", "Returns a large result", large)
                .with_output_schema(json!({"type": "object", "required": ["rows"]})),
        )
        .tool(Tool::new("fail", "Fails", fail))
        .tool(Tool::new("refuse", "Returns a JSON-RPC error", refuse))
        .tool(Tool::new("sleep", "Sleeps", sleep))
        .tool(Tool::new("sleep_as_task", "Sleeps in a task", sleep).with_tasks(TaskPolicy::Always))
        .tool(Tool::new("credentials", "Lists credentials", credentials))
        .prompt(Prompt::new("hello", "Greets", title))
        .resource(Resource::new("text://one", "one", text).with_mime_type("text/plain"))
        .resource_template(ResourceTemplate::new("rows://set/{name}/1", "rows", rows))
        .build()
        .unwrap();
    (server, seen)
}
