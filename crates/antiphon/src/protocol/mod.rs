//! MCP messages as data types that do not depend on a connection.

pub(crate) mod reply;

use rmcp::model::{CustomNotification, Extensions, ServerNotification};
use serde_json::{Value, json};

use crate::url_elicitation::ELICITATION_COMPLETE;
pub(crate) use antiphon_transport::revision::{self, Revision};

/// The identifier with which clients and servers declare the MCP Apps extension.
pub(crate) const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";

/// The `_meta` key under which a tool or a resource describes its MCP App.
pub(crate) const UI_META: &str = "ui";

/// The media type of an MCP App.
pub(crate) const APP_MEDIA_TYPE: &str = "text/html;profile=mcp-app";

/// A notification that the client receives from a run.
#[derive(Debug)]
pub(crate) enum Note {
    Log { level: Level, logger: Option<String>, data: Value },
    Progress { progress: f64, total: Option<f64>, message: Option<String> },
    ElicitationComplete { id: String },
}

/// The severity of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// A message with detailed information for the search for a problem.
    Debug,
    /// A message with general information, for example about normal progress.
    Info,
    /// A message about a significant event that is not a problem.
    Notice,
    /// A message about a possible problem.
    Warning,
    /// A message about an error.
    Error,
    /// A message that reports that a component of the system has failed.
    Critical,
    /// A message that reports that immediate action is necessary.
    Alert,
    /// A message that reports that the whole system is unusable.
    Emergency,
}

/// Creates the notification that tells a client that its user has finished on a web page.
pub(crate) fn elicitation_complete(id: &str, extensions: Extensions) -> ServerNotification {
    let params = Some(json!({"elicitationId": id}));
    let method = ELICITATION_COMPLETE.to_owned();
    ServerNotification::CustomNotification(CustomNotification { method, params, extensions })
}
