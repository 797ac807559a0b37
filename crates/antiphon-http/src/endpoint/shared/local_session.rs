//! What one replica has of a session.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use antiphon_store::Result;
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager as _,
    local::{LocalSessionManager, SessionConfig},
};

use super::{
    ids::LocalSessionId,
    log::{COMMON, EventId, Head, Log, Position},
    message::changed,
    news::News,
    record::{SessionRecord, SessionStorage},
    recorder::{Recorder, StreamLimits},
    stream::{EventStream, Followed, Sent},
};
use antiphon_transport::session::{Set, Setting, Settings, SharedSession, add_elicitation};

use super::super::local::primes;

/// A session, as far as this replica has to do with it.
pub(crate) struct LocalSession {
    pub(super) id: LocalSessionId,
    pub(super) session: SessionId,
    pub(super) log: Arc<Log>,
    /// The SDK's session, alone in its manager.
    pub(super) local: LocalSessionManager,
    caller: OnceLock<Option<String>>,
    /// Whether streams begin with an event that has no data.
    primes: OnceLock<bool>,
    settings: Arc<Settings>,
    initialized: AtomicBool,
    listens: Mutex<Listens>,
}

/// Whether this replica writes to the session's log what changes. Only one has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listens {
    /// The client listens here, or did last.
    Here,
    /// The client listens elsewhere, since a moment ago: both write until then, and it is there once.
    Until(Instant),
    No,
}

/// How long a replica goes on writing changes after the client listens elsewhere.
const OVERLAP: Duration = Duration::from_secs(2);

impl LocalSession {
    pub(super) fn new(
        id: LocalSessionId,
        session: SessionId,
        place: SessionStorage,
        record: Option<&SessionRecord>,
        config: SessionConfig,
        limits: StreamLimits,
    ) -> Self {
        let log = Arc::new(Log::new(Arc::new(place), record.map_or(0, |record| record.segment)));
        let recorder = Recorder::new(Arc::clone(&log), id.clone(), limits);
        let mut local = LocalSessionManager::default().with_event_store(Arc::new(recorder));
        local.session_config = config;
        let settings = Arc::new(Settings::default());
        if let Some(record) = record {
            settings.replace(record.level, record.subscribed.clone(), record.elicitations.clone());
        }
        Self {
            id,
            session,
            log,
            local,
            caller: record.map_or_else(OnceLock::new, |record| record.caller.clone().into()),
            primes: record
                .map_or_else(OnceLock::new, |record| primes(&record.params.protocol_version).into()),
            settings,
            initialized: AtomicBool::new(false),
            // Nobody else has a session that has just begun.
            listens: Mutex::new(if record.is_some() { Listens::No } else { Listens::Here }),
        }
    }

    /// A digest of who may use the session.
    pub(super) fn caller(&self) -> Option<&String> {
        self.caller.get()?.as_ref()
    }

    /// The session has begun.
    pub(super) fn began(&self, record: SessionRecord) {
        let _ = self.primes.set(primes(&record.params.protocol_version));
        let _ = self.caller.set(record.caller);
    }

    pub(super) fn primes(&self) -> bool {
        self.primes.get().copied().unwrap_or(true)
    }

    /// Whether the client is yet to be told that it is in a session. Only once.
    pub(super) fn begins(&self) -> bool {
        !self.initialized.swap(true, Ordering::AcqRel)
    }

    async fn set_everywhere(&self, setting: &Setting) -> Result<()> {
        let place = &self.log.place;
        let change = |record: &mut SessionRecord| match setting {
            Setting::Level(level) => record.level = Some(*level),
            Setting::Subscribed(uri) => drop(record.subscribed.replace(uri.clone())),
            Setting::Unsubscribed(uri) => drop(record.subscribed.take(uri)),
            Setting::Elicitation(id) => add_elicitation(&mut record.elicitations, id),
        };
        if let Some(record) = place.change(change).await? {
            self.settings.replace(record.level, record.subscribed, record.elicitations);
            place.replicas.tell(&News::Settings { session: place.name.clone() }).await?;
        }
        Ok(())
    }

    /// Takes over what was set at another replica.
    pub(super) async fn reload(&self) -> Result<()> {
        if let Some(record) = self.log.place.load().await? {
            self.settings.replace(record.level, record.subscribed, record.elicitations);
        }
        Ok(())
    }

    fn listens(&self) -> std::sync::MutexGuard<'_, Listens> {
        self.listens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client listens at another replica.
    pub(super) fn listens_elsewhere(&self) {
        let mut listens = self.listens();
        if *listens == Listens::Here {
            *listens = Listens::Until(Instant::now() + OVERLAP);
        }
    }

    /// Keeps the SDK from closing a session in which nothing is said but somebody listens.
    pub(super) async fn stay(&self) {
        let handle = self.local.sessions.read().await.get(&self.session).cloned();
        if let Some(handle) = handle {
            // Asks for something that is not there; being asked is what counts.
            let _ = handle.close_request_wise_channel(u64::MAX).await;
        }
    }

    pub(super) async fn close(&self) {
        if let Err(error) = self.local.close_session(&self.session).await {
            tracing::debug!(%error, "a session did not close");
        }
    }

    /// A stream of what belongs to no request.
    pub(super) async fn listen(self: &Arc<Self>, retry: Duration) -> Result<Sent> {
        let (listener, begun) = self.take_over().await?;
        let place = &self.log.place;
        let heard = place.load().await?.is_none_or(|record| record.heard);
        // What was said before the client listened for the first time waits for it.
        let at = if heard { begun } else { Position::default() };
        if !heard {
            place.change(|record| record.heard = true).await?;
        }
        let id = EventId { stream: format!("{COMMON}-{}", place.replicas.id), after: at };
        let primed = self.primes().then(|| ServerSseMessage::priming(id.to_string(), retry));
        let first = Vec::from_iter(primed);
        let stream = Followed::Common { listener, begun: heard };
        Ok(EventStream::spawn(self, stream, at, first))
    }

    /// The stream that the event belongs to, from after it on.
    pub(super) async fn resume(self: &Arc<Self>, last: EventId, lists: &[&str]) -> Result<Option<Sent>> {
        let Some(holder) = last.stream.strip_prefix(COMMON).and_then(|rest| rest.strip_prefix('-')) else {
            let Ok(request) = last.stream.parse() else { return Ok(None) };
            return Ok(Some(EventStream::spawn(self, Followed::Request(request), last.after, Vec::new())));
        };
        let replicas = &self.log.place.replicas;
        let mut first = Vec::new();
        if holder != replicas.id && !replicas.is_replica_alive(holder).await? {
            // Nobody has written what changed since.
            first.extend(lists.iter().map(|list| ServerSseMessage::from_message(changed(list).into())));
        }
        let (listener, _) = self.take_over().await?;
        let stream = Followed::Common { listener, begun: false };
        Ok(Some(EventStream::spawn(self, stream, last.after, first)))
    }

    /// Makes a new stream of this replica's the one that listens.
    async fn take_over(&self) -> Result<(String, Position)> {
        *self.listens() = Listens::Here;
        let place = &self.log.place;
        let listener = super::random_name();
        let mut head = Head::of(COMMON);
        head.listener = Some(listener.clone());
        let begun = self.log.append(head, bytes::Bytes::new()).await?;
        place.replicas.tell(&News::Listens { session: place.name.clone() }).await?;
        place.touch();
        Ok((listener, begun))
    }
}

impl SharedSession for LocalSession {
    fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    fn set<'a>(&'a self, setting: &'a Setting) -> Set<'a> {
        Box::pin(async move { Ok(self.set_everywhere(setting).await?) })
    }

    fn tells_of_changes(&self) -> bool {
        match *self.listens() {
            Listens::Here => true,
            Listens::Until(end) => Instant::now() < end,
            Listens::No => false,
        }
    }
}

impl fmt::Debug for LocalSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSession").field("id", &self.id).finish_non_exhaustive()
    }
}
