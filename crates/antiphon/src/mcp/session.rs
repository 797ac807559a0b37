//! What a 2025-11-25 session keeps, and what it hears of.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
#[cfg(feature = "http")]
use std::{fmt, sync::Weak};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        Extensions, LoggingLevel, PromptListChangedNotification, ResourceListChangedNotification,
        ResourceUpdatedNotification, ResourceUpdatedNotificationParam, ServerNotification,
        ToolListChangedNotification,
    },
    service::{Peer, SubscriptionContext},
};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::tasks_2025::Followed;
use crate::{
    base::lock,
    changes::{Change, Changes, Told},
    elicitation::MAX_ELICITATION_ID,
    protocol::elicitation_complete,
    run::{Pending, client},
};

/// What a 2025-11-25 client has set for its session.
#[derive(Debug)]
pub(super) struct Session {
    shared: SharedSettings,
    forwards: AtomicBool,
    followed: Followed,
    closed: CancellationToken,
    _close: DropGuard,
}

/// The settings of a session, at all replicas that have a part of it.
#[derive(Clone, Debug)]
pub(crate) struct SharedSettings {
    local: Arc<Settings>,
    /// Where replicas share their sessions, this one's part. It owns this, not the other way round.
    #[cfg(feature = "http")]
    part: Option<Weak<dyn SharedSession>>,
}

/// A session that replicas share, as this one has it.
#[cfg(feature = "http")]
pub(crate) trait SharedSession: Send + Sync + fmt::Debug {
    fn settings(&self) -> &Arc<Settings>;

    /// Sets something, at all replicas.
    fn set<'a>(&'a self, setting: &'a Setting) -> Pending<'a, antiphon_store::Result<()>>;

    /// Whether it is this replica that tells the client of changes.
    fn tells_of_changes(&self) -> bool;
}

/// The session that a request belongs to, in the request's extensions.
#[cfg(feature = "http")]
#[derive(Clone, Debug)]
pub(crate) struct OfSession(pub(crate) Arc<dyn SharedSession>);

/// What a 2025-11-25 client may set, and the elicitations that it was sent.
#[derive(Debug)]
pub(crate) struct Settings {
    level: Mutex<LoggingLevel>,
    subscribed: Mutex<BTreeSet<String>>,
    elicitations: Mutex<Elicitations>,
}

/// The IDs of the URL elicitations that a session was sent, oldest first: it is told of their completion.
pub(crate) type Elicitations = VecDeque<String>;

/// How many elicitation IDs a session keeps. The oldest is dropped.
const MAX_ELICITATIONS: usize = 64;

/// Adds an elicitation to those of a session.
pub(crate) fn add_elicitation(elicitations: &mut Elicitations, id: &str) {
    elicitations.retain(|known| known != id);
    if elicitations.len() >= MAX_ELICITATIONS {
        elicitations.pop_front();
    }
    elicitations.push_back(id.to_owned());
}

/// One of the things that are set for a session.
#[derive(Debug)]
pub(crate) enum Setting {
    Level(LoggingLevel),
    Subscribed(String),
    Unsubscribed(String),
    /// The session is sent a URL elicitation with this ID.
    Elicitation(String),
}

/// A client that has not said otherwise hears of what is worth knowing.
const DEFAULT_LEVEL: LoggingLevel = LoggingLevel::Info;

impl Default for Settings {
    fn default() -> Self {
        Self {
            level: Mutex::new(DEFAULT_LEVEL),
            subscribed: Mutex::default(),
            elicitations: Mutex::default(),
        }
    }
}

impl Settings {
    fn set(&self, setting: Setting) {
        match setting {
            Setting::Level(level) => *lock(&self.level) = level,
            Setting::Subscribed(uri) => drop(lock(&self.subscribed).replace(uri)),
            Setting::Unsubscribed(uri) => drop(lock(&self.subscribed).take(&uri)),
            Setting::Elicitation(id) => add_elicitation(&mut lock(&self.elicitations), &id),
        }
    }

    /// Takes over what was set at another replica.
    #[cfg(feature = "http")]
    pub(crate) fn replace(
        &self,
        level: Option<LoggingLevel>,
        subscribed: BTreeSet<String>,
        elicitations: Elicitations,
    ) {
        *lock(&self.level) = level.unwrap_or(DEFAULT_LEVEL);
        *lock(&self.subscribed) = subscribed;
        *lock(&self.elicitations) = elicitations;
    }
}

/// The level of a session of which no more is known than came with a request.
#[cfg(feature = "http")]
pub(super) fn level(extensions: &Extensions) -> LoggingLevel {
    extensions.get::<OfSession>().map_or(DEFAULT_LEVEL, |of| *lock(&of.0.settings().level))
}

#[cfg(not(feature = "http"))]
pub(super) fn level(_: &Extensions) -> LoggingLevel {
    DEFAULT_LEVEL
}

impl Session {
    /// The session that a request belongs to.
    pub(super) fn of(extensions: &Extensions) -> Self {
        let closed = CancellationToken::new();
        #[cfg(feature = "http")]
        let part = extensions.get::<OfSession>().map(|of| &of.0);
        #[cfg(feature = "http")]
        let local = part.map_or_else(Arc::default, |part| Arc::clone(part.settings()));
        #[cfg(not(feature = "http"))]
        let (local, _) = (Arc::default(), extensions);
        Self {
            shared: SharedSettings {
                local,
                #[cfg(feature = "http")]
                part: part.map(Arc::downgrade),
            },
            forwards: AtomicBool::new(false),
            followed: Followed::default(),
            _close: closed.clone().drop_guard(),
            closed,
        }
    }

    pub(super) fn level(&self) -> LoggingLevel {
        *lock(&self.shared.local.level)
    }

    /// How many resources it has subscribed to.
    pub(super) fn subscriptions(&self) -> usize {
        lock(&self.shared.local.subscribed).len()
    }

    /// The tasks it hears of.
    pub(super) fn followed(&self) -> &Followed {
        &self.followed
    }

    /// Is cancelled when the session ends.
    pub(super) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// The session's settings, for whoever sends it elicitations.
    pub(super) fn shared(&self) -> &SharedSettings {
        &self.shared
    }

    /// Sets something, at all replicas.
    pub(super) async fn set(&self, setting: Setting) -> Result<(), ErrorData> {
        self.shared.set(setting).await
    }

    /// Tells the client what changes, until the session ends.
    pub(super) fn forward(&self, changes: &Changes, peer: Peer<RoleServer>) {
        // A client may say twice that it is initialized.
        if self.forwards.swap(true, Ordering::AcqRel) {
            return;
        }
        #[cfg(feature = "http")]
        let part = self.shared.part.clone();
        let tells = move || {
            // With replicas, the one that the client listens at tells it.
            #[cfg(feature = "http")]
            if let Some(part) = &part {
                return part.upgrade().is_some_and(|part| part.tells_of_changes());
            }
            true
        };
        let settings = Arc::clone(&self.shared.local);
        tokio::spawn(forward(changes.subscribe(), settings, peer, tells, self.closed.clone()));
    }
}

impl SharedSettings {
    #[cfg_attr(
        not(feature = "http"),
        expect(clippy::unused_async, reason = "the same signature with and without the feature")
    )]
    async fn set(&self, setting: Setting) -> Result<(), ErrorData> {
        #[cfg(feature = "http")]
        if let Some(part) = self.part.as_ref().and_then(Weak::upgrade) {
            return part.set(&setting).await.map_err(|error| {
                tracing::error!(%error, "what a client has set could not be kept");
                ErrorData::internal_error("what is set for a session cannot be kept; try again later", None)
            });
        }
        self.local.set(setting);
        Ok(())
    }

    /// Remembers that the session is sent the URL elicitation `id`. Call it before the elicitation is sent.
    ///
    /// A failure is logged and not returned: the user can visit the page without the notification.
    async fn remember(&self, id: &str) {
        if id.len() > MAX_ELICITATION_ID {
            tracing::warn!(
                length = id.len(),
                "an elicitation ID is longer than {MAX_ELICITATION_ID} bytes: its client will not be notified of the completion"
            );
            return;
        }
        // `set` logs the reason.
        let _ = self.set(Setting::Elicitation(id.to_owned())).await;
    }
}

impl client::SessionMemory for SharedSettings {
    fn elicited<'a>(&'a self, id: &'a str) -> Pending<'a, ()> {
        Box::pin(self.remember(id))
    }
}

/// The next change, however many were missed. `None` when there will be no more.
pub(super) async fn next_change(changes: &mut Receiver<Told>) -> Option<Told> {
    loop {
        match changes.recv().await {
            Ok(told) => return Some(told),
            Err(RecvError::Lagged(missed)) => tracing::debug!(missed, "a client is slower than what changes"),
            Err(RecvError::Closed) => return None,
        }
    }
}

/// Tells a 2025-11-25 session what changes, until it ends.
async fn forward(
    mut changes: Receiver<Told>,
    settings: Arc<Settings>,
    peer: Peer<RoleServer>,
    tells: impl Fn() -> bool,
    closed: CancellationToken,
) {
    loop {
        let told = tokio::select! {
            () = closed.cancelled() => return,
            told = next_change(&mut changes) => told,
        };
        let Some(told) = told else { return };
        if !tells() {
            continue;
        }
        for notification in notifications(&told, &settings) {
            if peer.send_notification(notification).await.is_err() {
                return;
            }
        }
    }
}

/// Tells a 2026-07-28 client of a change. What it has not asked to hear of, the sink refuses.
pub(super) async fn tell(context: &SubscriptionContext, change: Change) {
    let sink = context.sink();
    let _ = match change {
        Change::Tools => sink.notify_tool_list_changed().await,
        Change::Prompts => sink.notify_prompt_list_changed().await,
        Change::Resources => sink.notify_resource_list_changed().await,
        Change::Resource(uri) => sink.notify_resource_updated(uri).await,
        // 2026-07-28 has no such notification.
        Change::ElicitationComplete(_) => return,
        Change::Any => {
            let _ = sink.notify_tool_list_changed().await;
            let _ = sink.notify_prompt_list_changed().await;
            for uri in context.accepted().resource_subscriptions.iter().flatten() {
                let _ = sink.notify_resource_updated(uri.clone()).await;
            }
            sink.notify_resource_list_changed().await
        }
    };
}

/// What a session is told of a change.
fn notifications(told: &Told, settings: &Settings) -> Vec<ServerNotification> {
    // Where several replicas may tell the client, this says that they mean the same.
    let mut extensions = Extensions::new();
    if let Some(id) = &told.id {
        extensions.insert(id.clone());
    }
    let list = |change: &Change, extensions: Extensions| match change {
        Change::Tools => {
            ToolListChangedNotification { extensions, ..ToolListChangedNotification::default() }.into()
        }
        Change::Prompts => {
            PromptListChangedNotification { extensions, ..PromptListChangedNotification::default() }.into()
        }
        _ => ResourceListChangedNotification { extensions, ..ResourceListChangedNotification::default() }
            .into(),
    };
    let resource = |uri: String, extensions: Extensions| {
        let mut updated = ResourceUpdatedNotification::new(ResourceUpdatedNotificationParam::new(uri));
        updated.extensions = extensions;
        ServerNotification::ResourceUpdatedNotification(updated)
    };
    let subscribed = lock(&settings.subscribed);
    match &told.change {
        Change::Resource(uri) if subscribed.contains(uri) => vec![resource(uri.clone(), extensions)],
        Change::ElicitationComplete(id) if lock(&settings.elicitations).contains(id) => {
            vec![elicitation_complete(id, extensions)]
        }
        Change::Resource(_) | Change::ElicitationComplete(_) => Vec::new(),
        Change::Any => {
            let lists = [Change::Tools, Change::Prompts, Change::Resources];
            let lists = lists.iter().map(|change| list(change, Extensions::new()));
            lists.chain(subscribed.iter().map(|uri| resource(uri.clone(), Extensions::new()))).collect()
        }
        change => vec![list(change, extensions)],
    }
}
