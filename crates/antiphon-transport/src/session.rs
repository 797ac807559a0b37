//! The settings of an MCP 2025-11-25 session, and the interface between a server and a transport that shares sessions.
#![expect(deprecated, reason = "logging is deprecated in 2026-07-28 and served until it is removed")]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::model::LoggingLevel;

/// The part of a shared MCP 2025-11-25 session that is on one replica.
pub trait SharedSession: Send + Sync + fmt::Debug {
    /// Returns the settings of the session on this replica.
    fn settings(&self) -> &Arc<Settings>;

    /// Changes a setting of the shared session on all replicas.
    fn set<'a>(&'a self, setting: &'a Setting) -> Set<'a>;

    /// Returns the name of the session, which is the same on all replicas. The name of a session does not grant access
    /// to the session.
    fn name(&self) -> &str;

    /// Reads the groups of tools that are enabled in the session. The returned groups include every change that
    /// another replica has acknowledged.
    fn groups(&self) -> Groups<'_>;

    /// Returns whether this replica must notify the client of changes, for example changes of resources.
    fn tells_of_changes(&self) -> bool;
}

/// The future that [`SharedSession::set`] returns.
pub type Set<'a> =
    Pin<Box<dyn Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send + 'a>>;

/// The future that [`SharedSession::groups`] returns.
pub type Groups<'a> = Pin<
    Box<dyn Future<Output = Result<BTreeSet<String>, Box<dyn std::error::Error + Send + Sync>>> + Send + 'a>,
>;

/// The session that a request belongs to. A transport adds the session of a request to the extensions of the MCP
/// message.
#[derive(Clone, Debug)]
pub struct OfSession(pub Arc<dyn SharedSession>);

/// An ID that identifies a change across all replicas. A server adds the ID of the change to the extensions of a
/// notification. If several replicas report the same change, the transport sends only one notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeId(pub Arc<str>);

/// A change to the settings of a session.
#[derive(Clone, Debug)]
pub enum Setting {
    /// The client set the minimum level of the log messages that the client receives.
    Level(LoggingLevel),
    /// The client subscribed to changes of the resource with this URI.
    Subscribed {
        /// The URI of the resource.
        uri: String,
        /// Whether the resource is visible to the client. If the resource is hidden from the client, the client
        /// receives no updates.
        is_visible: bool,
    },
    /// The client unsubscribed from changes of the resource with this URI.
    Unsubscribed(String),
    /// The server sent a URL elicitation with this ID in the session.
    Elicitation(String),
    /// A tool enabled this group of tools in the session.
    GroupEnabled(String),
    /// A tool disabled this group of tools in the session.
    GroupDisabled(String),
}

/// The IDs of the URL elicitations that were sent in a session, oldest first. The server notifies the session when the
/// user has completed a URL elicitation in this list.
pub type Elicitations = VecDeque<String>;

/// The maximum number of stored elicitation IDs per session. If a session exceeds this number, the oldest elicitation
/// ID is removed.
const MAX_ELICITATIONS: usize = 64;

/// The minimum level of log messages for a client that has not set a level.
pub const DEFAULT_LEVEL: LoggingLevel = LoggingLevel::Info;

/// Adds the ID of a URL elicitation to the list of a session.
pub fn add_elicitation(elicitations: &mut Elicitations, id: &str) {
    elicitations.retain(|known| known != id);
    if elicitations.len() >= MAX_ELICITATIONS {
        elicitations.pop_front();
    }
    elicitations.push_back(id.to_owned());
}

/// The URIs of the resources that a client has subscribed to. The value for a URI is true if the resource was visible
/// to the client when the client subscribed. The server also stores a subscription to a hidden resource or to an
/// unknown URI. The client receives no updates for a hidden resource.
pub type Subscriptions = BTreeMap<String, bool>;

/// The settings that an MCP 2025-11-25 client has chosen for its session. The settings also contain the URL
/// elicitations that the session has received, and the groups of tools that tools have enabled in the session.
#[derive(Debug)]
pub struct Settings {
    level: Mutex<LoggingLevel>,
    subscriptions: Mutex<Subscriptions>,
    elicitations: Mutex<Elicitations>,
    groups: Mutex<BTreeSet<String>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            level: Mutex::new(DEFAULT_LEVEL),
            subscriptions: Mutex::default(),
            elicitations: Mutex::default(),
            groups: Mutex::default(),
        }
    }
}

impl Settings {
    /// Changes a setting of the session only on this replica.
    pub fn set(&self, setting: Setting) {
        match setting {
            Setting::Level(level) => *lock(&self.level) = level,
            Setting::Subscribed { uri, is_visible } => {
                lock(&self.subscriptions).insert(uri, is_visible);
            }
            Setting::Unsubscribed(uri) => {
                lock(&self.subscriptions).remove(&uri);
            }
            Setting::Elicitation(id) => add_elicitation(&mut lock(&self.elicitations), &id),
            Setting::GroupEnabled(group) => drop(lock(&self.groups).replace(group)),
            Setting::GroupDisabled(group) => drop(lock(&self.groups).take(&group)),
        }
    }

    /// Replaces the settings of the session with the settings that another replica has stored. `replace` does not
    /// change the groups of tools, because a shared session reads the groups with [`SharedSession::groups`].
    pub fn replace(
        &self,
        level: Option<LoggingLevel>,
        subscriptions: Subscriptions,
        elicitations: Elicitations,
    ) {
        *lock(&self.level) = level.unwrap_or(DEFAULT_LEVEL);
        *lock(&self.subscriptions) = subscriptions;
        *lock(&self.elicitations) = elicitations;
    }

    /// Returns the minimum level of the log messages that the client receives.
    pub fn level(&self) -> LoggingLevel {
        *lock(&self.level)
    }

    /// Returns the resources that the client has subscribed to.
    pub fn subscriptions(&self) -> MutexGuard<'_, Subscriptions> {
        lock(&self.subscriptions)
    }

    /// Returns the groups of tools that are enabled in the session. Use `groups` only if no other process serves the
    /// session.
    pub fn groups(&self) -> MutexGuard<'_, BTreeSet<String>> {
        lock(&self.groups)
    }

    /// Returns whether the URL elicitation with this ID was sent to the session.
    pub fn has_elicitation(&self, id: &str) -> bool {
        lock(&self.elicitations).iter().any(|known| known == id)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
