//! The server every transport carries: what the contract calls, lists, reads and asks for.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use antiphon::{
    Level, Prompt, Resource, ResourceTemplate, Server, Tool,
    elicitation::UrlElicitation,
    model::{ContentBlock, ResourceLink},
    prelude::*,
    sampling::ToolDefinition,
    task::{TaskConfig, TaskPolicy},
};
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Text {
    input: String,
}

#[derive(Serialize, JsonSchema)]
struct Reversed {
    foo: String,
}

#[derive(Deserialize, JsonSchema)]
struct Uri {
    uri: String,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Number {
    n: u32,
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

async fn sample(ctx: &Ctx, _: ()) -> Result<String> {
    let first = ctx.sample("One?").await?;
    let second = ctx.sample("Two?").await?;
    Ok(format!("{} {}", first.text(), second.text()))
}

async fn calls(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    let tools = ["left", "right"].map(|name| ToolDefinition::new(name, json!({})));
    let reply = ctx.sample_tools("Which way?", tools).await?;
    Ok(Json(json!({"calls": reply.calls.iter().map(|call| call.name.clone()).collect::<Vec<_>>()})))
}

async fn ask(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(match ctx.elicit::<Name>("Who are you?").await? {
        antiphon::Elicited::Accept(answer) => format!("accept {}", answer.value.name),
        antiphon::Elicited::Decline(_) => "decline".into(),
        antiphon::Elicited::Cancel(_) => "cancel".into(),
    })
}

/// Asks, and says which caller it was: a thousand of these must not cross.
async fn nested(ctx: &Ctx, Number { n }: Number) -> Result<String> {
    let (sampled, named) =
        tokio::join!(ctx.sample(format!("sample {n}")), ctx.elicit::<Name>(format!("name {n}")));
    Ok(format!("{n}: {} {}", sampled?.text(), named?.accepted()?.name))
}

async fn rest(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.step("rest", || async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        Ok(())
    })
    .await?;
    Ok("rested".into())
}

async fn wonder(ctx: &Ctx, _: ()) -> Result<String> {
    let name = ctx.elicit::<Name>("Who are you?").await?.accepted()?.name;
    ctx.sleep(Duration::from_millis(20)).await?;
    Ok(format!("{name}, then"))
}

async fn visit(ctx: &Ctx, _: ()) -> Result<String> {
    let pages = ctx.state::<Pages>()?;
    let visited = ctx.elicit_url_with("Sign in", |id| pages.url(id)).await?;
    Ok(format!("agreed {}", visited.agreed))
}

async fn guarded(ctx: &Ctx, _: ()) -> Result<String> {
    if ctx.state::<Gate>()?.open.load(Ordering::SeqCst) {
        return Ok("come in".into());
    }
    let id = "test-elicitation-123";
    let page = UrlElicitation::new(id, ctx.state::<Pages>()?.url(id), "Authorization required");
    Err(Error::url_elicitation_required([page]))
}

struct Gate {
    open: Arc<AtomicBool>,
}

/// A web page that users are sent to. It is not a tool, and nobody who visits it is an MCP client.
struct Pages(SocketAddr);

impl Pages {
    fn url(&self, id: &str) -> String {
        format!("http://{}/done/{id}", self.0)
    }

    /// Serves the page: who visits it is done with it, and opens the gate.
    fn serve(listener: std::net::TcpListener, server: Server, gate: Arc<AtomicBool>) {
        let done = async move |axum::extract::Path(id): axum::extract::Path<String>| {
            gate.store(true, Ordering::SeqCst);
            server.elicitation_complete("nobody-knows-this-one");
            server.elicitation_complete(id);
            "You can close this page."
        };
        let router = axum::Router::new().route("/done/{id}", axum::routing::get(done));
        listener.set_nonblocking(true).expect("a listener of the runtime's kind");
        let listener = tokio::net::TcpListener::from_std(listener).expect("there is a runtime");
        tokio::spawn(async move { axum::serve(listener, router).await });
    }
}

async fn work(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.log(Level::Debug, "too quiet");
    ctx.progress(Progress::of(1.0, 2.0));
    ctx.log(Level::Info, "half-way");
    ctx.progress(Progress::of(2.0, 2.0));
    Ok("worked".into())
}

/// Sleeps until it is cancelled, and leaves a mark when it is.
async fn sleep(ctx: &Ctx, _: ()) -> Result<String> {
    struct Mark(Arc<AtomicBool>);
    impl Drop for Mark {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let _mark = Mark(Arc::clone(&ctx.state::<Cancelled>()?.0));
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    Ok("woke up".into())
}

struct Cancelled(Arc<AtomicBool>);

async fn was_cancelled(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.state::<Cancelled>()?.0.load(Ordering::SeqCst).to_string())
}

async fn touch(ctx: &Ctx, Uri { uri }: Uri) -> Result<String> {
    ctx.changes().resource(uri);
    Ok("touched".into())
}

async fn announce(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.changes().tools();
    ctx.changes().prompts();
    ctx.changes().resources();
    Ok("announced".into())
}

async fn blocks(_: &Ctx, _: ()) -> Result<antiphon::ToolOutput> {
    let mut output = antiphon::ToolOutput::text("text");
    output.content.push(ContentBlock::image("AA==", "image/png"));
    output.content.push(ContentBlock::audio("AA==", "audio/wav"));
    output.content.push(ContentBlock::resource_link(
        ResourceLink::new("file:///a", "a").with_description("An a").with_mime_type("text/plain"),
    ));
    output.content.push(ContentBlock::embedded_text("file:///b", "b"));
    Ok(output)
}

async fn fail(_: &Ctx, _: ()) -> Result<String> {
    Err(Error::tool("no luck"))
}

async fn panics(_: &Ctx, _: ()) -> Result<String> {
    panic!("on purpose")
}

/// Long enough to break the connection under it.
async fn nap(_: &Ctx, _: ()) -> Result<String> {
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    Ok("rested".into())
}

/// Ends the program in the middle of the call, where it is a program of its own.
async fn vanish(ctx: &Ctx, _: ()) -> Result<String> {
    if std::env::var_os(crate::world::SERVE).is_some() {
        std::process::abort();
    }
    nap(ctx, ()).await
}

async fn roots(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.roots().await?.iter().map(|root| root.uri.clone()).collect::<Vec<_>>().join(" "))
}

/// The server. What changes about it is changed by its tools, so that it can be anywhere.
pub(crate) fn server() -> Server {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let pages = Pages(listener.local_addr().expect("it has an address"));
    let open = Arc::<AtomicBool>::default();
    let server = build(pages, Arc::clone(&open));
    Pages::serve(listener, server.clone(), open);
    server
}

fn build(pages: Pages, open: Arc<AtomicBool>) -> Server {
    let reverse = async |_: &Ctx, Text { input }: Text| -> Result<String> { Ok(reversed(&input)) };
    let structured = async |_: &Ctx, Text { input }: Text| -> Result<Json<Reversed>> {
        Ok(Json(Reversed { foo: reversed(&input) }))
    };
    Server::builder("contract", "1.0.0")
        .with_instructions("instructions")
        .with_tasks(
            TaskConfig::default()
                .with_ttl(Duration::from_secs(3600))
                .with_poll_interval(Duration::from_millis(50))
                // The contract is over a loopback, and all who come to it are one.
                .with_anonymous_list(true),
        )
        .tool(Tool::new("rest", "Takes a while, as a task", rest).with_tasks(TaskPolicy::Always))
        .tool(Tool::new("wonder", "Asks, as a task", wonder).with_tasks(TaskPolicy::Always))
        .with_state(Gate { open })
        .with_state(pages)
        .with_state(Cancelled(Arc::default()))
        .tool(Tool::new("reverse", "Reverses", reverse))
        .tool(Tool::new("reverseStructured", "Reverses, as data", structured))
        .tool(Tool::new("sample", "Asks a model twice", sample))
        .tool(Tool::new("calls", "Asks a model for calls", calls))
        .tool(Tool::new("ask", "Asks a person", ask))
        .tool(Tool::new("nested", "Asks both", nested))
        .tool(Tool::new("visit", "Sends a person to a page", visit))
        .tool(Tool::new("guarded", "Wants a page visited first", guarded))
        .tool(Tool::new("work", "Tells how it comes along", work))
        .tool(Tool::new("sleep", "Sleeps", sleep))
        .tool(Tool::new("was_cancelled", "Whether a sleeper was cancelled", was_cancelled))
        .tool(Tool::new("touch", "Changes a resource", touch))
        .tool(Tool::new("announce", "Says that the lists have changed", announce))
        .tool(Tool::new("blocks", "Has every kind of block", blocks))
        .tool(Tool::new("fail", "Fails", fail))
        .tool(Tool::new("panics", "Panics", panics))
        .tool(Tool::new("nap", "Takes a while", nap))
        .tool(Tool::new("vanish", "Is gone, or takes a while", vanish))
        .tool(Tool::new("roots", "Asks where the person works", roots))
        .prompt(Prompt::new(
            "prompt",
            "description",
            async |_: &Ctx, Name { name }: Name| -> Result<String> { Ok(format!("Hello, {name}!")) },
        ))
        .resource(Resource::new("test://text", "text", async |_: &Ctx, _: ()| -> Result<String> {
            Ok("the text".to_owned())
        }))
        .resource_template(
            ResourceTemplate::new(
                "test://number/{name}",
                "number",
                async |_: &Ctx, Name { name }: Name| -> Result<String> { Ok(format!("number {name}")) },
            )
            .completes("name", |_: antiphon::prompt::Completion| async {
                Ok(vec!["1".to_owned(), "2".to_owned()])
            }),
        )
        .build()
        .expect("the contract's server can be built")
}
