//! The facts about a server. The module `checks` evaluates the facts.

use std::time::Duration;

use antiphon::testing::{HostProfile, Revision};
use serde_json::{Value, json};

/// The facts about a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// The name, the URL or the command with which the user selected the server.
    pub(crate) server: String,
    pub(crate) attempts: Vec<Attempt>,
    /// The name, capabilities and items that the server sends on its newest supported revision.
    pub(crate) declared: Option<Declared>,
    /// The names of the tools that the server lists for a host without capabilities.
    pub(crate) bare_tools: Option<Vec<String>>,
    pub(crate) web: Option<Web>,
    /// A line that the program has written to its standard output and that is not an MCP message.
    pub(crate) stray: Option<String>,
    /// The host for which the report was requested. If a host is set, `declared` contains the items that the host
    /// receives.
    pub(crate) host: Option<SeenBy>,
}

/// A host for which the report about a server was requested.
#[derive(Clone, Debug)]
pub(crate) struct SeenBy {
    pub(crate) profile: HostProfile,
    pub(crate) revision: Revision,
    /// The tools that the server lists for a client with all capabilities.
    pub(crate) all_tools: Vec<Value>,
}

/// An attempt to connect.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// The requested protocol revision.
    pub(crate) asked: &'static str,
    pub(crate) took: Duration,
    /// The negotiated protocol revision.
    pub(crate) ended: Result<String, Failure>,
    /// The capabilities that the server declares on the negotiated revision.
    pub(crate) capabilities: Value,
}

/// The reason why a connection failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server requires authentication.
    Unauthorized,
    /// The server did not respond within the time limit. The value is the time limit.
    TimedOut(Duration),
    /// The connection failed for another reason. The fields contain the reason and a hint for the user.
    Other { cause: String, hint: Option<&'static str> },
}

/// The name, capabilities and items of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    pub(crate) title: String,
    pub(crate) revision: String,
    pub(crate) instructions: Option<String>,
    pub(crate) capabilities: Value,
    pub(crate) tools: Vec<Value>,
    pub(crate) prompts: usize,
    pub(crate) resources: usize,
    pub(crate) templates: usize,
    /// Capabilities that the server declares but whose items could not be listed, each with the error.
    pub(crate) unlisted: Vec<(&'static str, String)>,
}

/// The server's responses to HTTP requests that a host does not send.
#[derive(Clone, Debug, Default)]
pub(crate) struct Web {
    pub(crate) tls: bool,
    /// Whether the server is on this machine.
    pub(crate) loopback: bool,
    /// The HTTP status of the response to a request from another origin.
    pub(crate) foreign_origin: Option<u16>,
    /// Whether the server starts a session for MCP 2025-11-25.
    pub(crate) session: Option<bool>,
}

impl Report {
    pub(crate) fn json(&self) -> Value {
        let attempts: Vec<Value> = self
            .attempts
            .iter()
            .map(|attempt| {
                let millis = u64::try_from(attempt.took.as_millis()).unwrap_or(u64::MAX);
                json!({"asked": attempt.asked, "spoken": attempt.ended.as_ref().ok(), "millis": millis})
            })
            .collect();
        let declared = self.declared.as_ref().map(|it| {
            json!({
                "title": it.title, "revision": it.revision, "instructions": it.instructions,
                "capabilities": it.capabilities, "prompts": it.prompts, "resources": it.resources,
                "resourceTemplates": it.templates,
                "tools": it.tools.iter().map(|tool| tool["name"].clone()).collect::<Vec<_>>(),
            })
        });
        json!({"server": self.server, "attempts": attempts, "declared": declared})
    }
}
