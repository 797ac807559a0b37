//! The part of a shared session that one replica has.

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
use antiphon_transport::session::{Groups, Set, Setting, Settings, SharedSession, add_elicitation};

use super::super::local::primes;

/// The part of a shared session that this replica has.
pub(crate) struct LocalSession {
    pub(super) id: LocalSessionId,
    pub(super) session: SessionId,
    pub(super) log: Arc<Log>,
    /// The session manager of the SDK for this session part. The manager contains only this session.
    pub(super) local: LocalSessionManager,
    caller: OnceLock<Option<String>>,
    /// Whether the streams of the session begin with an event without data.
    primes: OnceLock<bool>,
    settings: Arc<Settings>,
    initialized: AtomicBool,
    listens: Mutex<Listens>,
}

/// Whether this replica writes change notifications to the session's log. Only one replica needs to write the change
/// notifications of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listens {
    /// The client listens at this replica, or listened at this replica most recently.
    Here,
    /// The client has just started to listen at another replica. Both replicas write change notifications until the
    /// time in this variant. The log stores each notification only once.
    Until(Instant),
    No,
}

/// The time for which a replica continues to write change notifications after the client has started to listen at
/// another replica.
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
            settings.replace(record.level, record.subscriptions.clone(), record.elicitations.clone());
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
            // If the session has just begun, no other replica has a part of it.
            listens: Mutex::new(if record.is_some() { Listens::No } else { Listens::Here }),
        }
    }

    /// Returns a digest of the caller that opened the session. No other caller can use the session.
    pub(super) fn caller(&self) -> Option<&String> {
        self.caller.get()?.as_ref()
    }

    /// Stores the information about a session that has just begun.
    pub(super) fn began(&self, record: SessionRecord) {
        let _ = self.primes.set(primes(&record.params.protocol_version));
        let _ = self.caller.set(record.caller);
    }

    pub(super) fn primes(&self) -> bool {
        self.primes.get().copied().unwrap_or(true)
    }

    /// Returns whether the calling code must initialize the session at this replica. Only the first call of `begins`
    /// returns `true`.
    pub(super) fn begins(&self) -> bool {
        !self.initialized.swap(true, Ordering::AcqRel)
    }

    async fn set_everywhere(&self, setting: &Setting) -> Result<()> {
        let place = &self.log.place;
        let change = |record: &mut SessionRecord| match setting {
            Setting::Level(level) => record.level = Some(*level),
            Setting::Subscribed { uri, is_visible } => {
                record.subscriptions.insert(uri.clone(), *is_visible);
            }
            Setting::Unsubscribed(uri) => {
                record.subscriptions.remove(uri);
            }
            Setting::Elicitation(id) => add_elicitation(&mut record.elicitations, id),
            Setting::GroupEnabled(group) => drop(record.groups.replace(group.clone())),
            Setting::GroupDisabled(group) => drop(record.groups.take(group)),
        };
        if let Some(record) = place.change(change).await? {
            self.settings.replace(record.level, record.subscriptions, record.elicitations);
            // Replicas always read the enabled groups from the store, so they do not need a notification of this
            // change.
            if !matches!(setting, Setting::GroupEnabled(_) | Setting::GroupDisabled(_)) {
                place.replicas.tell(&News::Settings { session: place.name.clone() }).await?;
            }
        }
        Ok(())
    }

    /// Loads the session settings that were changed at another replica.
    pub(super) async fn reload(&self) -> Result<()> {
        if let Some(record) = self.log.place.load().await? {
            self.settings.replace(record.level, record.subscriptions, record.elicitations);
        }
        Ok(())
    }

    fn listens(&self) -> std::sync::MutexGuard<'_, Listens> {
        self.listens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the client listens at another replica.
    pub(super) fn listens_elsewhere(&self) {
        let mut listens = self.listens();
        if *listens == Listens::Here {
            *listens = Listens::Until(Instant::now() + OVERLAP);
        }
    }

    /// Prevents the SDK from closing an idle session on which a client listens.
    pub(super) async fn stay(&self) {
        let handle = self.local.sessions.read().await.get(&self.session).cloned();
        if let Some(handle) = handle {
            // The channel that this call closes does not exist. The call only makes the SDK register activity in the
            // session.
            let _ = handle.close_request_wise_channel(u64::MAX).await;
        }
    }

    pub(super) async fn close(&self) {
        if let Err(error) = self.local.close_session(&self.session).await {
            tracing::debug!(%error, "a session could not be closed");
        }
    }

    /// Opens a stream for the messages of the session that do not belong to a request.
    pub(super) async fn listen(self: &Arc<Self>, retry: Duration) -> Result<Sent> {
        let (listener, begun) = self.take_over().await?;
        let place = &self.log.place;
        let heard = place.load().await?.is_none_or(|record| record.heard);
        // The log also stores messages that are sent before the client opens its first stream, so that the first stream
        // can deliver these messages.
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

    /// Resumes the stream that contains the event `last`. The resumed stream starts directly after this event.
    pub(super) async fn resume(self: &Arc<Self>, last: EventId, lists: &[&str]) -> Result<Option<Sent>> {
        let Some(holder) = last.stream.strip_prefix(COMMON).and_then(|rest| rest.strip_prefix('-')) else {
            let Ok(request) = last.stream.parse() else { return Ok(None) };
            return Ok(Some(EventStream::spawn(self, Followed::Request(request), last.after, Vec::new())));
        };
        let replicas = &self.log.place.replicas;
        let mut first = Vec::new();
        if holder != replicas.id && !replicas.is_replica_alive(holder).await? {
            // The client listened at a replica that has stopped. Since then, no replica has written change
            // notifications to the log.
            first.extend(lists.iter().map(|list| ServerSseMessage::from_message(changed(list).into())));
        }
        let (listener, _) = self.take_over().await?;
        let stream = Followed::Common { listener, begun: false };
        Ok(Some(EventStream::spawn(self, stream, last.after, first)))
    }

    /// Makes a new stream of this replica the listener of the session.
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

    fn name(&self) -> &str {
        &self.log.place.name
    }

    fn groups(&self) -> Groups<'_> {
        // Groups are read from the store, because the notification of a change can arrive after the client's next
        // request.
        Box::pin(
            async move { Ok(self.log.place.load().await?.map(|record| record.groups).unwrap_or_default()) },
        )
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
