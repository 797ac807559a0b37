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

/// A session that replicas share, as one replica has it.
pub trait SharedSession: Send + Sync + fmt::Debug {
    /// The session's settings at this replica.
    fn settings(&self) -> &Arc<Settings>;

    /// Sets something at all replicas.
    fn set<'a>(&'a self, setting: &'a Setting) -> Set<'a>;

    /// Whether this replica is the one that tells the client of changes.
    fn tells_of_changes(&self) -> bool;
}

/// The future of [`SharedSession::set`].
pub type Set<'a> =
    Pin<Box<dyn Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send + 'a>>;

/// The session that a request belongs to. A transport puts it into the extensions of the message.
#[derive(Clone, Debug)]
pub struct OfSession(pub Arc<dyn SharedSession>);

/// Identifies the announcement of a change among those of all replicas. A server puts it into the extensions of the
/// notification, so that a transport sends a change once that several replicas tell of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeId(pub Arc<str>);

/// One setting of a session.
#[derive(Clone, Debug)]
pub enum Setting {
    /// The least level of log messages that the client wants.
    Level(LoggingLevel),
    /// The client subscribes to the resource with this URI.
    Subscribed(String),
    /// The client no longer subscribes to the resource with this URI.
    Unsubscribed(String),
    /// The session is sent a URL elicitation with this ID.
    Elicitation(String),
}

/// The IDs of the URL elicitations that a session was sent, oldest first. The session is told of their completion.
pub type Elicitations = VecDeque<String>;

/// How many elicitation IDs a session keeps. The oldest is dropped.
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

/// What a 2025-11-25 client can set, and the elicitations that it was sent.
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
    /// Sets something at this replica.
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

    /// The least level of log messages that the client wants.
    pub fn level(&self) -> LoggingLevel {
        *lock(&self.level)
    }

    /// The URIs of the resources that the client has subscribed to.
    pub fn subscribed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        lock(&self.subscribed)
    }

    /// Whether the session was sent the URL elicitation with this ID.
    pub fn has_elicitation(&self, id: &str) -> bool {
        lock(&self.elicitations).iter().any(|known| known == id)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
