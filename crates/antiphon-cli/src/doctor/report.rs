//! What is known of a server: facts only. `checks` says what they mean.

use std::time::Duration;

use serde_json::{Value, json};

/// What is known of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// The server, as the person said it.
    pub(crate) server: String,
    /// Whether it is a program that was started, and not something on a network.
    pub(crate) program: bool,
    pub(crate) attempts: Vec<Attempt>,
    /// What it declared on the newest revision it speaks.
    pub(crate) declared: Option<Declared>,
    /// The names of the tools that a host sees which can answer nothing.
    pub(crate) bare_tools: Option<Vec<String>>,
    pub(crate) web: Option<Web>,
}

/// An attempt to connect.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// The revision that was asked for.
    pub(crate) asked: &'static str,
    pub(crate) took: Duration,
    /// The revision that is spoken then.
    pub(crate) ended: Result<String, Failure>,
    /// What the server declares then.
    pub(crate) capabilities: Value,
}

/// Why a connection was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It wants to know who is calling.
    Unauthorized,
    /// It takes too long.
    TimedOut(Duration),
    /// Anything else, in words.
    Other(String),
}

/// What a server declares.
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
    /// What it says it has, and does not list: which, and why.
    pub(crate) unlisted: Vec<(&'static str, String)>,
}

/// What a server does with requests that no host makes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Web {
    pub(crate) tls: bool,
    /// Whether it is on this machine.
    pub(crate) loopback: bool,
    /// The status of its answer to a request from a web page of somebody else's.
    pub(crate) foreign_origin: Option<u16>,
    /// Whether it begins a session for 2025-11-25.
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
