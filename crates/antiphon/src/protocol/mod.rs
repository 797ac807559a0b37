//! MCP messages as data types that do not depend on a connection.

pub(crate) mod reply;

use rmcp::model::{CustomNotification, Extensions, ServerNotification};
use serde_json::{Value, json};

use crate::url_elicitation::ELICITATION_COMPLETE;
pub(crate) use antiphon_transport::revision::{self, Revision};

/// The identifier of the MCP Apps extension, as clients and servers declare it.
pub(crate) const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";

/// The `_meta` key under which tools and resources describe their MCP App.
pub(crate) const UI_META: &str = "ui";

/// The media type of an MCP App.
pub(crate) const APP_MEDIA_TYPE: &str = "text/html;profile=mcp-app";

/// A notification to the client during a run.
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
    /// Detailed information for debugging.
    Debug,
    /// General information.
    Info,
    /// A normal but significant event.
    Notice,
    /// A possible problem.
    Warning,
    /// An error.
    Error,
    /// A component of the system is failing.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The system is unusable.
    Emergency,
}

/// Creates the notification for a client whose user has finished on a web page.
pub(crate) fn elicitation_complete(id: &str, extensions: Extensions) -> ServerNotification {
    let params = Some(json!({"elicitationId": id}));
    let method = ELICITATION_COMPLETE.to_owned();
    ServerNotification::CustomNotification(CustomNotification { method, params, extensions })
}
