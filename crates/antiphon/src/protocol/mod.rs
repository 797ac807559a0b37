//! MCP as data: what is sent, without anybody who sends it.

mod question;
pub(crate) mod reply;

use rmcp::model::{CustomNotification, Extensions, ServerNotification};
use serde_json::{Value, json};

pub(crate) use self::question::{declares, drop_structured_values, fits, guard, is_about_tools};
use crate::url_elicitation::ELICITATION_COMPLETE;
pub(crate) use antiphon_transport::revision::{self, Revision};

/// The extension, as clients and servers declare it.
pub(crate) const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";

/// Where a tool and a resource say what they have to do with apps, in `_meta`.
pub(crate) const UI_META: &str = "ui";

/// What an app is read as.
#[cfg(feature = "results")]
pub(crate) const APP_MEDIA_TYPE: &str = "text/html;profile=mcp-app";

/// Something to tell the client beside the answer.
#[derive(Debug)]
pub(crate) enum Note {
    Log { level: Level, logger: Option<String>, data: Value },
    Progress { progress: f64, total: Option<f64>, message: Option<String> },
    ElicitationComplete { id: String },
}

/// How much a log message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// For whoever looks for a fault.
    Debug,
    /// For whoever likes to know.
    Info,
    /// Normal, but worth a look.
    Notice,
    /// Something may be wrong.
    Warning,
    /// Something is wrong.
    Error,
    /// A part of the system is failing.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// The system is unusable.
    Emergency,
}

/// The notification that the user is done with a web page.
pub(crate) fn elicitation_complete(id: &str, extensions: Extensions) -> ServerNotification {
    let params = Some(json!({"elicitationId": id}));
    let method = ELICITATION_COMPLETE.to_owned();
    ServerNotification::CustomNotification(CustomNotification { method, params, extensions })
}
