//! The settings of a 2025-11-25 session, and the interface between a server and a transport that shares sessions.
#![expect(deprecated, reason = "logging is deprecated in 2026-07-28 and served until it is removed")]

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::model::LoggingLevel;

/// One replica's view of a session that replicas share.
pub trait SharedSession: Send + Sync + fmt::Debug {
    /// Returns the settings of the session at this replica.
    fn settings(&self) -> &Arc<Settings>;

    /// Changes a setting at all replicas.
    fn set<'a>(&'a self, setting: &'a Setting) -> Set<'a>;

    /// Returns whether this replica notifies the client of changes.
    fn tells_of_changes(&self) -> bool;
}

/// The future of [`SharedSession::set`].
pub type Set<'a> =
    Pin<Box<dyn Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send + 'a>>;

/// The session that a request belongs to. A transport puts it into the extensions of the message.
#[derive(Clone, Debug)]
pub struct OfSession(pub Arc<dyn SharedSession>);

/// The ID of a change among the notifications of all replicas. A server puts it into the extensions of the
/// notification, so that a transport sends a change only once if several replicas report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeId(pub Arc<str>);

/// One setting of a session.
#[derive(Clone, Debug)]
pub enum Setting {
    /// The minimum level of log messages for the client.
    Level(LoggingLevel),
    /// The client subscribes to the resource with this URI.
    Subscribed(String),
    /// The client no longer subscribes to the resource with this URI.
    Unsubscribed(String),
    /// The server sent the session a URL elicitation with this ID.
    Elicitation(String),
}

/// The IDs of the URL elicitations that were sent to a session, oldest first. The session is notified of their
/// completion.
pub type Elicitations = VecDeque<String>;

/// The maximum number of stored elicitation IDs per session. The oldest is dropped.
const MAX_ELICITATIONS: usize = 64;

/// The level of a client that has set none.
pub const DEFAULT_LEVEL: LoggingLevel = LoggingLevel::Info;

/// Adds an elicitation to those of a session.
pub fn add_elicitation(elicitations: &mut Elicitations, id: &str) {
    elicitations.retain(|known| known != id);
    if elicitations.len() >= MAX_ELICITATIONS {
        elicitations.pop_front();
    }
    elicitations.push_back(id.to_owned());
}

/// The settings of a 2025-11-25 client, and the elicitations that were sent to it.
#[derive(Debug)]
pub struct Settings {
    level: Mutex<LoggingLevel>,
    subscribed: Mutex<BTreeSet<String>>,
    elicitations: Mutex<Elicitations>,
}

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
    /// Changes a setting at this replica.
    pub fn set(&self, setting: Setting) {
        match setting {
            Setting::Level(level) => *lock(&self.level) = level,
            Setting::Subscribed(uri) => drop(lock(&self.subscribed).replace(uri)),
            Setting::Unsubscribed(uri) => drop(lock(&self.subscribed).take(&uri)),
            Setting::Elicitation(id) => add_elicitation(&mut lock(&self.elicitations), &id),
        }
    }

    /// Replaces all settings by those that another replica stored.
    pub fn replace(
        &self,
        level: Option<LoggingLevel>,
        subscribed: BTreeSet<String>,
        elicitations: Elicitations,
    ) {
        *lock(&self.level) = level.unwrap_or(DEFAULT_LEVEL);
        *lock(&self.subscribed) = subscribed;
        *lock(&self.elicitations) = elicitations;
    }

    /// Returns the minimum level of log messages for the client.
    pub fn level(&self) -> LoggingLevel {
        *lock(&self.level)
    }

    /// Returns the URIs of the resources that the client has subscribed to.
    pub fn subscribed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        lock(&self.subscribed)
    }

    /// Returns whether the URL elicitation with this ID was sent to the session.
    pub fn has_elicitation(&self, id: &str) -> bool {
        lock(&self.elicitations).iter().any(|known| known == id)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
