//! A session: the connection of the web page to one MCP server.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use antiphon_host::{Connection, Direction, Event, HostLimits, model::Tool};
use antiphon_llm::Model;
use antiphon_transport::revision::Revision;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{asks::Asks, call, feed::Feed, questions::PendingQuestions, refusal::Refusal, viewer::Viewer};
use crate::{global::App, person::hand, print::clean, secrets, target::Target};

/// The maximum number of rounds of one call. The maximum number of rounds is high, because the user can cancel an
/// endless call.
const ROUNDS: u32 = 1_000;

/// A connection of the web page to a server, with its calls and questions.
pub(super) struct Session {
    pub(super) id: String,
    /// The name, the URL or the command with which the user selected the server.
    pub(super) server: String,
    pub(super) connection: Connection,
    pub(super) feed: Arc<Feed>,
    /// The messages of the connection, and the standard error of the program. Messages and lines have a separate feed,
    /// so that they do not displace the events of runs.
    pub(super) traffic: Arc<Feed>,
    pub(super) asks: Arc<Asks>,
    pub(super) questions: PendingQuestions,
    pub(super) viewer: Viewer,
    model: Option<String>,
    by_hand: bool,
    running: Mutex<Option<Running>>,
    calls: AtomicU64,
}

/// The source of replies to sampling requests.
pub(super) enum Sampler {
    /// The host does not declare sampling.
    None,
    Model(Arc<dyn Model>),
    /// The user replies on the web page.
    Hand,
}

impl Sampler {
    /// Returns the name of the model, if sampling is declared.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Model(model) => Some(model.name()),
            Self::Hand => Some(hand::NAME),
        }
    }
}

struct Running {
    call: String,
    cancel: Arc<Notify>,
}

/// A call that the web page requests.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    pub(super) tool: String,
    #[serde(default)]
    pub(super) arguments: Value,
    /// Whether to run the call as a task on MCP 2025-11-25. On MCP 2026-07-28, the server decides whether the call
    /// becomes a task.
    #[serde(default)]
    pub(super) task: bool,
}

impl Session {
    pub(super) async fn connect(
        app: &App,
        sampler: &Sampler,
        id: String,
        target: &Target,
    ) -> anyhow::Result<Self> {
        let (feed, traffic) = (Arc::new(Feed::new()), Arc::new(Feed::new()));
        let asks = Arc::new(Asks::new(&id, Arc::clone(&feed)));
        let questions = PendingQuestions::new(Arc::clone(&feed), Arc::clone(&asks));
        let (strays, frames, errors) = (Arc::clone(&feed), Arc::clone(&traffic), Arc::clone(&traffic));
        let verbose = app.verbose;
        let mut host = App::host()
            .with_forms(questions.clone())
            .with_pages(questions.clone())
            .with_events(listener(Arc::clone(&feed)))
            .with_stray_output(move |stray| {
                let line = json!({"level": "warning", "logger": null, "data": App::describe(stray)});
                strays.tell("log", line);
            })
            .with_frames(move |frame| {
                let sent = frame.direction == Direction::Sent;
                frames.tell("frame", json!({"sent": sent, "message": frame.message}));
            })
            .with_standard_error(move |line| {
                if verbose {
                    eprintln!("{}", clean(line));
                }
                errors.tell("stderr", json!({"line": secrets::in_output(line)}));
            })
            .with_limits(HostLimits::default().with_rounds(ROUNDS));
        let model = match sampler {
            Sampler::None => None,
            Sampler::Model(model) => Some(Arc::clone(model)),
            Sampler::Hand => Some(questions.by_hand()),
        };
        let by_hand = matches!(sampler, Sampler::Hand);
        let name = model.as_ref().map(|model| model.name().to_owned());
        if let Some(model) = model {
            host = host.with_model(questions.watched(model)).with_approval(questions.clone());
        }
        // The standard error must be piped for the web page, even if it is also shown in the terminal.
        let connection = app.connect_piped(target, host).await?;
        let info = connection.server().await;
        if is_legacy(&info.revision) && info.capabilities.get("logging").is_some() {
            // If this request fails, only log messages are missing.
            let _ = connection.set_log_level("debug").await;
        }
        let (server, viewer) = (target.server.clone(), Viewer::new(target, &app.config)?);
        let (running, calls) = (Mutex::default(), AtomicU64::new(0));
        Ok(Self {
            id,
            server,
            connection,
            feed,
            traffic,
            asks,
            questions,
            viewer,
            model: name,
            by_hand,
            running,
            calls,
        })
    }

    /// Describes the server and its tools.
    pub(super) async fn describe(&self) -> anyhow::Result<Value> {
        let info = self.connection.server().await;
        let tools: Vec<Tool> = match info.capabilities.get("tools") {
            Some(_) => self.connection.tools().await?,
            None => Vec::new(),
        };
        // Read these values together and last, because a web page that lost events continues from this state.
        let running = self.lock().as_ref().map(|running| running.call.clone());
        let asks = self.asks.open();
        Ok(json!({
            "session": self.id,
            "server": self.server,
            "name": info.name,
            "version": info.version,
            "instructions": info.instructions,
            "revision": info.revision,
            "legacy": is_legacy(&info.revision),
            "capabilities": info.capabilities,
            "model": self.model,
            "byHand": self.by_hand,
            "tools": tools,
            "running": running,
            "asks": asks,
        }))
    }

    pub(super) async fn prompts(&self) -> anyhow::Result<Value> {
        let info = self.connection.server().await;
        Ok(match info.capabilities.get("prompts") {
            Some(_) => json!(self.connection.prompts().await?),
            None => json!([]),
        })
    }

    /// Returns the resources and the resource templates of the server.
    pub(super) async fn resources(&self) -> anyhow::Result<Value> {
        let info = self.connection.server().await;
        if info.capabilities.get("resources").is_none() {
            return Ok(json!({"resources": [], "templates": []}));
        }
        let resources = self.connection.resources().await?;
        // A server can have resources without supporting templates.
        let templates = self.connection.resource_templates().await.unwrap_or_default();
        Ok(json!({"resources": resources, "templates": templates}))
    }

    /// Starts a call. Only one call can run at a time, because a question in a session does not contain the ID of its
    /// call.
    pub(super) fn begin(self: &Arc<Self>, wanted: Wanted) -> Result<String, Refusal> {
        let mut running = self.lock();
        if running.is_some() {
            return Err(Refusal::busy("a call is already running; wait for it, or cancel it"));
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let call = format!("{}-{number}", self.id);
        let cancel = Arc::new(Notify::new());
        *running = Some(Running { call: call.clone(), cancel: Arc::clone(&cancel) });
        drop(running);
        self.questions.begin(number);
        let (this, id) = (Arc::clone(self), call.clone());
        tokio::spawn(async move { Box::pin(call::run(&this, &id, wanted, &cancel)).await });
        Ok(call)
    }

    /// Ends the call, so that another call can start.
    pub(super) fn end(&self) {
        *self.lock() = None;
    }

    /// Cancels a call. Returns `false` if the call has already ended.
    pub(super) fn cancel(&self, call: &str) -> bool {
        let running = self.lock();
        let Some(running) = running.as_ref().filter(|running| running.call == call) else { return false };
        running.cancel.notify_one();
        true
    }

    /// Returns whether a call is running.
    pub(super) fn is_busy(&self) -> bool {
        self.lock().is_some()
    }

    pub(super) async fn close(&self) {
        if let Some(running) = self.lock().as_ref() {
            running.cancel.notify_one();
        }
        self.feed.tell("closed", json!({}));
        self.feed.close();
        self.traffic.tell("closed", json!({}));
        self.traffic.close();
        self.connection.clone().close().await;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the server sends its questions during a call. On later protocol revisions, the response contains the
/// questions.
pub(super) fn is_legacy(revision: &str) -> bool {
    match Revision::of(Some(revision)) {
        Revision::Session => true,
        Revision::Rounds => false,
    }
}

/// Returns a listener that sends the server's events to the web page.
fn listener(feed: Arc<Feed>) -> impl Fn(Event) + Send + Sync + 'static {
    move |event| match event {
        Event::Log { level, logger, data } => {
            feed.tell("log", json!({"level": level, "logger": logger, "data": data}));
        }
        Event::ToolsChanged => feed.tell("tools-changed", json!({})),
        Event::PromptsChanged => feed.tell("prompts-changed", json!({})),
        Event::ResourcesChanged => feed.tell("resources-changed", json!({})),
        Event::Reconnected => feed.tell("reconnected", json!({})),
        Event::PageComplete { .. } => feed.tell("visited", json!({})),
        _ => {}
    }
}
