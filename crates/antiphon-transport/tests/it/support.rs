//! A server and a client with a little of everything.
#![expect(deprecated, reason = "sampling is deprecated, and still to be carried")]

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use antiphon_transport::{
    Reconnect,
    sse::{self, SseClient, SseClientConfig, SseConfig, SseTransport},
    websocket::{self, WebSocketClient, WebSocketClientConfig, WebSocketConfig, WebSocketTransport},
    weight::MemoryBudget,
};
use axum::serve::ListenerExt as _;
use rmcp::{
    ClientHandler, ErrorData, RoleClient, RoleServer, ServerHandler, ServiceError,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
        ContentBlock, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
        ElicitationAction, ElicitationSchema, Implementation, JsonObject, ListToolsResult,
        PaginatedRequestParams, ProgressNotificationParam, SamplingMessage, ServerCapabilities, ServerConfig,
        Tool,
    },
    service::{NotificationContext, RequestContext, RunningService},
};
use tokio::{net::TcpListener, sync::Notify};

/// Which transport a test is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    WebSocket,
    Sse,
}

/// What has happened in a server.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) calls: AtomicUsize,
    pub(crate) cancelled: AtomicUsize,
    pub(crate) unanswered: AtomicUsize,
    pub(crate) served: AtomicUsize,
    pub(crate) ended: AtomicUsize,
}

/// Waits for something that happens elsewhere.
pub(crate) async fn until(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within ten seconds: {what}");
}

/// The memory this process has, in KiB.
pub(crate) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// Says whether this process runs nothing but `test`; where it does not, one that does is started and
/// must succeed. Only then is memory its own.
pub(crate) fn alone(test: &str) -> bool {
    const ALONE: &str = "ANTIPHON_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let output = again.args(["--exact", test, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Everything(pub(crate) Arc<Stats>);

impl ServerHandler for Everything {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("everything", "1"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let names = ["echo", "ask", "sample", "progress", "hang", "large", "header"];
        let tools = names.map(|name| Tool::new(name, name, JsonObject::new())).to_vec();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let text = |name: &str| {
            let arguments = request.arguments.as_ref();
            arguments.and_then(|arguments| arguments.get(name)?.as_str()).unwrap_or_default().to_owned()
        };
        let said = match &*request.name {
            "ask" => {
                let schema = ElicitationSchema::builder().required_string("size").build().unwrap();
                let ask = ElicitRequestParams::FormElicitationParams {
                    meta: None,
                    message: text("text"),
                    requested_schema: schema,
                };
                match context.peer.create_elicitation(ask).await {
                    Ok(answer) => answer.content.unwrap_or_default().to_string(),
                    Err(error) => {
                        self.0.unanswered.fetch_add(1, Ordering::SeqCst);
                        return Err(ErrorData::internal_error(error.to_string(), None));
                    }
                }
            }
            "sample" => {
                let ask = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(text("text"))], 10);
                let reply = context.peer.create_message(ask).await;
                reply.map_err(|error| ErrorData::internal_error(error.to_string(), None))?.model
            }
            "progress" => {
                for step in 1..=3 {
                    let token = context.meta.get_progress_token().expect("the client asks for progress");
                    let progress = ProgressNotificationParam::new(token, f64::from(step));
                    let _ = context.peer.notify_progress(progress).await;
                }
                "done".into()
            }
            "hang" => {
                context.ct.cancelled().await;
                self.0.cancelled.fetch_add(1, Ordering::SeqCst);
                "cancelled".into()
            }
            "large" => "x".repeat(text("text").parse().unwrap()),
            "header" => {
                let parts = context.extensions.get::<http::request::Parts>().expect("the request's parts");
                parts.headers.get("x-test").map_or("none", |value| value.to_str().unwrap()).to_owned()
            }
            _ => text("text"),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(said)]).into())
    }
}

/// A client that answers whatever it is asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Obliging {
    pub(crate) progress: Arc<AtomicUsize>,
    /// How many questions it has heard, and how many of them were withdrawn.
    pub(crate) asked: Arc<AtomicUsize>,
    pub(crate) withdrawn: Arc<AtomicUsize>,
    /// Lets it answer the questions `late` and `later`.
    pub(crate) late: Arc<Notify>,
    pub(crate) later: Arc<Notify>,
    /// It never answers.
    pub(crate) silent: bool,
}

impl ClientHandler for Obliging {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().enable_sampling().build();
        ClientConfig::new(capabilities, Implementation::new("obliging", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let (withdrawn, ct) = (Arc::clone(&self.withdrawn), context.ct.clone());
        tokio::spawn(async move {
            ct.cancelled().await;
            withdrawn.fetch_add(1, Ordering::SeqCst);
        });
        if self.silent {
            std::future::pending::<()>().await;
        }
        let ElicitRequestParams::FormElicitationParams { message, .. } = request else {
            return Err(ErrorData::invalid_params("a form was expected", None));
        };
        match message.as_str() {
            "late" => self.late.notified().await,
            "later" => self.later.notified().await,
            _ => {}
        }
        let content = serde_json::json!({ "size": message });
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("sampled"), "a model".into()))
    }

    async fn on_progress(&self, _: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.fetch_add(1, Ordering::SeqCst);
    }
}

/// A server on a port of its own.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) stats: Arc<Stats>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a test may want otherwise than by default.
#[derive(Clone, Debug)]
pub(crate) struct Tweaks {
    pub(crate) max_message_bytes: usize,
    pub(crate) max_open_requests: usize,
    pub(crate) max_connections: usize,
    pub(crate) queue: usize,
    pub(crate) ping: Option<Duration>,
    pub(crate) idle: Option<Duration>,
    pub(crate) send_timeout: Duration,
    pub(crate) bodies: MemoryBudget,
}

impl Default for Tweaks {
    fn default() -> Self {
        Self {
            max_message_bytes: 1024 * 1024,
            max_open_requests: 1024,
            max_connections: 1024,
            queue: 32,
            ping: Some(Duration::from_secs(15)),
            idle: Some(Duration::from_secs(45)),
            send_timeout: Duration::from_secs(30),
            bodies: MemoryBudget::default(),
        }
    }
}

pub(crate) async fn serve(kind: Kind, tweaks: Tweaks) -> Served {
    let stats = Arc::new(Stats::default());
    let handler = Everything(Arc::clone(&stats));
    let app = match kind {
        Kind::WebSocket => {
            let config = WebSocketConfig::default()
                .with_max_message_bytes(tweaks.max_message_bytes)
                .with_max_open_requests(tweaks.max_open_requests)
                .with_max_connections(tweaks.max_connections)
                .with_body_budget(tweaks.bodies)
                .with_queue(tweaks.queue)
                .with_ping(tweaks.ping, tweaks.idle)
                .with_send_timeout(tweaks.send_timeout);
            websocket::router(config, move |connection: WebSocketTransport| run(handler.clone(), connection))
        }
        Kind::Sse => {
            let config = SseConfig::default()
                .with_max_message_bytes(tweaks.max_message_bytes)
                .with_max_open_requests(tweaks.max_open_requests)
                .with_max_sessions(tweaks.max_connections)
                .with_body_budget(tweaks.bodies)
                .with_queue(tweaks.queue)
                .with_keep_alive(tweaks.ping)
                .with_send_timeout(tweaks.send_timeout)
                .with_owner(|parts| Some(parts.headers.get("x-owner")?.to_str().ok()?.to_owned()));
            sse::router(config, move |session: SseTransport| run(handler.clone(), session))
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    Served { address, stats, task }
}

async fn run(handler: Everything, transport: impl rmcp::transport::Transport<RoleServer> + 'static) {
    let stats = Arc::clone(&handler.0);
    stats.served.fetch_add(1, Ordering::SeqCst);
    if let Ok(running) = rmcp::serve_server(handler, transport).await {
        let _ = running.waiting().await;
    }
    stats.ended.fetch_add(1, Ordering::SeqCst);
}

pub(crate) fn address_of(kind: Kind, address: SocketAddr) -> String {
    match kind {
        Kind::WebSocket => format!("ws://{address}/ws"),
        Kind::Sse => format!("http://{address}/sse"),
    }
}

pub(crate) type Connected = RunningService<RoleClient, Obliging>;

/// A client over `kind`, that does not look for a lost server.
pub(crate) async fn connect(kind: Kind, address: SocketAddr, handler: Obliging) -> Connected {
    connect_with(kind, address, handler, None).await
}

pub(crate) async fn connect_with(
    kind: Kind,
    address: SocketAddr,
    handler: Obliging,
    reconnect: Option<Reconnect>,
) -> Connected {
    let url = address_of(kind, address);
    let mut headers = http::HeaderMap::new();
    headers.insert("x-test", "hello".parse().unwrap());
    match kind {
        Kind::WebSocket => {
            let config = WebSocketClientConfig::default().with_headers(headers).with_reconnect(reconnect);
            let connection = WebSocketClient::connect(&url, config).await.unwrap();
            rmcp::serve_client(handler, connection).await.unwrap()
        }
        Kind::Sse => {
            let config = SseClientConfig::default().with_headers(headers).with_reconnect(reconnect);
            let session = SseClient::connect(&url, config).await.unwrap();
            rmcp::serve_client(handler, session).await.unwrap()
        }
    }
}

pub(crate) fn call(name: &'static str, text: impl std::fmt::Display) -> CallToolRequestParams {
    let arguments = JsonObject::from_iter([("text".to_owned(), format!("{text}").into())]);
    CallToolRequestParams::new(name).with_arguments(arguments)
}

pub(crate) fn text_of(result: &CallToolResult) -> &str {
    &result.content[0].as_text().expect("text").text
}

/// Whether a call failed in a way that tells its caller to think before it asks again. Over HTTP+SSE the server
/// has a call before it has said so: cut in that moment, it fails as one that is still on its way.
pub(crate) fn may_have_been_carried_out(error: &ServiceError) -> bool {
    let known = match error {
        ServiceError::McpError(error) => error.code.0 == antiphon_transport::TRANSPORT_ERROR,
        ServiceError::TransportSend(_) => true,
        _ => false,
    };
    known && error.to_string().contains("may have executed")
}

/// Makes two tests of each law, one a transport, so that a failure names both.
macro_rules! laws {
    ($($law:ident,)*) => {
        mod websocket {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                super::$law(super::Kind::WebSocket).await;
            })*
        }
        mod sse {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $law() {
                super::$law(super::Kind::Sse).await;
            })*
        }
    };
}
pub(crate) use laws;
