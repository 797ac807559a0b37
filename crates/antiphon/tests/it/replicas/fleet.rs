//! Replicas, and a client that goes to a different one each time.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use antiphon::{
    Level, ServerBuilder,
    http::HttpConfig,
    prelude::*,
    seal::{KeyRing, SealConfig},
    testing::{Frame, Revision},
};
use antiphon_store::Backend;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Semaphore};

use super::wire::{self, Event, Response};
use crate::checked::check;

type Opening = Pin<Box<dyn Future<Output = Backend> + Send>>;

/// Opens a backend; every time the same one.
#[derive(Clone)]
pub(crate) struct Opener(Arc<dyn Fn() -> Opening + Send + Sync>);

impl Opener {
    pub(crate) fn new<F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Backend> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(open())))
    }

    pub(crate) async fn open(&self) -> Backend {
        (self.0)().await
    }
}

/// Lets a tool go on, one step at a time.
pub(crate) struct Gate(pub(crate) Arc<Semaphore>);

pub(crate) struct Fleet {
    pub(crate) servers: Vec<Server>,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) gate: Arc<Semaphore>,
}

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

async fn ask(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.elicit::<Word>("Word?").await?.accepted()?.word)
}

/// Sends the user to a web page, and returns the ID by which the page is known.
async fn pay(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.elicit_url_with("Pay", |id| format!("https://shop.example/pay/{id}")).await?.id)
}

async fn sample(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.sample("Go on").await?.text())
}

#[derive(Deserialize, JsonSchema)]
struct Steps {
    steps: u32,
}

/// Takes a step whenever it may.
async fn count(ctx: &Ctx, Steps { steps }: Steps) -> Result<String> {
    for step in 1..=steps {
        ctx.state::<Gate>()?.0.acquire().await.unwrap().forget();
        ctx.progress(Progress::of(step, steps).message(format!("step {step}")));
    }
    ctx.state::<Gate>()?.0.acquire().await.unwrap().forget();
    Ok("counted".into())
}

#[derive(Deserialize, JsonSchema)]
struct Said {
    level: String,
    text: String,
}

async fn say(ctx: &Ctx, said: Said) -> Result<String> {
    ctx.log(if said.level == "debug" { Level::Debug } else { Level::Info }, said.text);
    Ok("said".into())
}

async fn large(_: &Ctx, _: ()) -> Result<String> {
    Ok("large ".repeat(200_000))
}

/// Waits until nobody wants the answer any more.
async fn wait(ctx: &Ctx, _: ()) -> Result<String> {
    struct Gone(Arc<Semaphore>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.add_permits(1);
        }
    }
    let _gone = Gone(Arc::clone(&ctx.state::<Gate>()?.0));
    ctx.progress(1.0);
    std::future::pending().await
}

pub(crate) fn builder(gate: &Arc<Semaphore>) -> ServerBuilder {
    Server::builder("fleet", "1.0.0")
        .tool(Tool::new("ask", "Asks", ask))
        .tool(Tool::new("pay", "Sends to a page", pay))
        .tool(Tool::new("sample", "Samples", sample))
        .tool(Tool::new("count", "Counts", count))
        .tool(Tool::new("say", "Says", say))
        .tool(Tool::new("large", "Returns a lot", large))
        .tool(Tool::new("wait", "Waits", wait))
        .with_state(Gate(Arc::clone(gate)))
        .with_seal(SealConfig::default().with_keys(KeyRing::new(1, [1; 32])))
}

impl Fleet {
    pub(crate) async fn start(open: &Opener) -> Result<Self> {
        Self::start_with(open, HttpConfig::default(), |builder| builder).await
    }

    pub(crate) async fn start_with(
        open: &Opener,
        config: HttpConfig,
        with: impl Fn(ServerBuilder) -> ServerBuilder,
    ) -> Result<Self> {
        let mut fleet = Self::empty();
        for _ in 0..3 {
            let server = with(builder(&fleet.gate)).with_backend(open.open().await).build()?;
            fleet.add(server, config.clone()).await?;
        }
        Ok(fleet)
    }

    pub(crate) fn empty() -> Self {
        Self { servers: Vec::new(), addresses: Vec::new(), gate: Arc::new(Semaphore::new(0)) }
    }

    pub(crate) async fn add(&mut self, server: Server, config: HttpConfig) -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        self.addresses.push(listener.local_addr()?);
        self.servers.push(server.clone());
        tokio::spawn(async move { server.serve_listener(listener, config, std::future::pending()).await });
        Ok(())
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        self.client_called(None, 0).await
    }

    /// A client that begins its session at a replica.
    pub(crate) async fn client_called(&self, caller: Option<&'static str>, replica: usize) -> Result<Client> {
        let mut client = Client {
            addresses: self.addresses.clone(),
            session: String::new(),
            caller,
            turn: AtomicUsize::new(replica),
            ids: AtomicUsize::new(1),
        };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {"form": {}, "url": {}}, "sampling": {}},
            "clientInfo": {"name": "t", "version": "1"},
        });
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
        let mut response = client.post(client.next(), &hello).await?;
        assert_eq!(response.status(), 200);
        let welcome = response.message().await?;
        check_message("initialize", &welcome);
        client.session = response.header("mcp-session-id").expect("a session").to_owned();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(client.post(client.next(), &initialized).await?.status(), 202);
        Ok(client)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.servers.iter().for_each(Server::shut_down);
    }
}

/// A 2025-11-25 client.
pub(crate) struct Client {
    addresses: Vec<SocketAddr>,
    pub(crate) session: String,
    pub(crate) caller: Option<&'static str>,
    turn: AtomicUsize,
    ids: AtomicUsize,
}

impl Client {
    /// The replica whose turn it is.
    pub(crate) fn next(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) % self.addresses.len()
    }

    pub(crate) async fn post(&self, replica: usize, message: &Value) -> Result<Response> {
        self.send(replica, "POST", &[("content-type", "application/json")], Some(message)).await
    }

    pub(crate) async fn get(&self, replica: usize, last: Option<&str>) -> Result<Response> {
        let last = last.map(|last| ("last-event-id", last));
        self.send(replica, "GET", &last.into_iter().collect::<Vec<_>>(), None).await
    }

    pub(crate) async fn delete(&self, replica: usize) -> Result<u16> {
        Ok(self.send(replica, "DELETE", &[], None).await?.status())
    }

    async fn send(
        &self,
        replica: usize,
        method: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Response> {
        let mut all =
            vec![("accept", "application/json, text/event-stream"), ("mcp-protocol-version", "2025-11-25")];
        if !self.session.is_empty() {
            all.push(("mcp-session-id", &self.session));
        }
        if let Some(caller) = self.caller {
            all.push(("x-caller", caller));
        }
        all.extend_from_slice(headers);
        wire::send(self.addresses[replica], method, &all, body).await
    }

    /// Sends a request and returns its id and stream.
    pub(crate) async fn request(
        &self,
        replica: usize,
        method: &str,
        params: Value,
    ) -> Result<(usize, Response)> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        Ok((id, self.post(replica, &request).await?))
    }

    pub(crate) async fn call(
        &self,
        replica: usize,
        tool: &str,
        arguments: Value,
    ) -> Result<(usize, Response)> {
        let params =
            json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": format!("p-{tool}")}});
        self.request(replica, "tools/call", params).await
    }

    /// Answers a question at a replica.
    pub(crate) async fn answer(&self, replica: usize, question: &Event, result: Value) -> Result<u16> {
        let answer = json!({"jsonrpc": "2.0", "id": question.message["id"], "result": result});
        Ok(self.post(replica, &answer).await?.status())
    }
}

/// Holds a message from the server against the schema. `method` is what it answers, if it answers.
pub(crate) fn check_message(method: &str, event: &Event) {
    let message = event.message.clone();
    let answers = message.get("method").is_none().then(|| method.to_owned());
    check(Revision::V2025_11_25, &Frame { method: answers, message });
}

/// The text a tool returned.
pub(crate) fn text(event: &Event) -> &str {
    event.message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{event:?}"))
}
