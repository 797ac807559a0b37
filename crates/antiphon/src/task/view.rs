use std::collections::BTreeMap;

use rmcp::model::ErrorData;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    error::Result,
    model::ContentBlock,
    output::ToolOutput,
    protocol::{Revision, reply::error_output},
};

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// It is being worked on, or waits for its turn or its time.
    Working,
    /// It waits for answers.
    InputRequired,
    /// It has a result. That the tool failed is in the result.
    Completed,
    /// It ended with a JSON-RPC error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl TaskStatus {
    /// Whether it stays so.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// As it is written in MCP.
    pub fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A task as its owner sees it.
#[derive(Clone, Debug)]
pub(crate) struct TaskView {
    pub(crate) id: String,
    /// The tool that it runs.
    pub(crate) tool: String,
    pub(crate) status: TaskStatus,
    /// How far it has come, or what went wrong, in words.
    pub(crate) message: Option<String>,
    /// Milliseconds since 1970.
    pub(crate) created: u64,
    pub(crate) updated: u64,
    /// Milliseconds from its creation on; `None` is for ever.
    pub(crate) ttl: Option<u64>,
    /// Milliseconds.
    pub(crate) poll: u64,
    /// The requests it waits for answers to, by their key on the wire.
    pub(crate) asks: BTreeMap<String, Value>,
    pub(crate) ended: Option<Ended>,
    /// Another number whenever anything of this is another.
    pub(crate) version: u64,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ended {
    Output(KeptOutput),
    Error {
        code: i32,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    Cancelled,
}

impl Ended {
    /// How a task ends whose tool has returned this.
    pub(crate) fn of(result: Result<ToolOutput>, revision: Revision) -> Self {
        match result.or_else(|error| error_output(&error, revision)) {
            Ok(output) => Self::Output(output.into()),
            Err(ErrorData { code, message, data }) => {
                Self::Error { code: code.0, message: message.into_owned(), data }
            }
        }
    }
}

/// What a tool returned, to be written for whichever revision asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptOutput {
    content: Vec<ContentBlock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    structured: Option<Value>,
    #[serde(default)]
    pub(crate) is_error: bool,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    meta: Map<String, Value>,
}

impl From<ToolOutput> for KeptOutput {
    fn from(output: ToolOutput) -> Self {
        let ToolOutput { content, structured, is_error, meta } = output;
        Self { content, structured, is_error, meta }
    }
}

impl From<KeptOutput> for ToolOutput {
    fn from(kept: KeptOutput) -> Self {
        let KeptOutput { content, structured, is_error, meta } = kept;
        Self { content, structured, is_error, meta }
    }
}
