use std::collections::BTreeMap;

use rmcp::model::ErrorData;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Owner;
use crate::{
    error::Result,
    model::ContentBlock,
    output::ToolOutput,
    protocol::{Revision, reply::error_output},
    run::Channels,
};

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// The task is running, or the task waits for a worker or a point in time.
    Working,
    /// The task waits until the user or the client answers a question.
    InputRequired,
    /// The task has a result. If the tool failed, the result contains the error.
    Completed,
    /// The task ended with a JSON-RPC error.
    Failed,
    /// The task was cancelled.
    Cancelled,
}

impl TaskStatus {
    /// Returns `true` if the task has ended. The status of a task that has ended does not change.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns the name of the status in MCP.
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

/// The data of a task that the owner of the task can read.
#[derive(Clone, Debug)]
pub(crate) struct TaskView {
    pub(crate) id: String,
    /// The owner of the task, for links to the task's questions.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only web pages need links"))]
    pub(crate) owner: Owner,
    /// The name of the tool.
    pub(crate) tool: String,
    pub(crate) status: TaskStatus,
    /// The last progress message, or the error message if the task failed.
    pub(crate) message: Option<String>,
    /// The time of creation, in milliseconds since 1970.
    pub(crate) created: u64,
    /// The time of the last status change, in milliseconds since 1970.
    pub(crate) updated: u64,
    /// The time from the creation of the task until the server removes the task, in milliseconds. `None` means that the
    /// task does not expire, or that the time is not known yet.
    pub(crate) ttl: Option<u64>,
    /// The poll interval that the server recommends to clients, in milliseconds.
    pub(crate) poll: u64,
    /// The open questions, by wire key.
    pub(crate) asks: BTreeMap<String, Value>,
    pub(crate) ended: Option<Ended>,
    /// The channels, other than the client, through which the user can answer.
    pub(crate) channels: Channels,
    /// Whether the model reads the result with the tool `task_result`.
    pub(crate) is_read_with_a_tool: bool,
    /// The time at which the first open question expires, in milliseconds since 1970.
    pub(crate) questions_end: Option<u64>,
    /// The version of the task. Each change of the task also changes the version.
    pub(crate) version: u64,
}

/// The result or the error with which a task has ended.
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
    /// Converts the `result` of a tool's function into the stored end of the task.
    pub(crate) fn of(result: Result<ToolOutput>, revision: Revision) -> Self {
        match result.or_else(|error| error_output(&error, revision)) {
            Ok(output) => Self::Output(output.into()),
            Err(ErrorData { code, message, data }) => {
                Self::Error { code: code.0, message: message.into_owned(), data }
            }
        }
    }
}

/// A tool's output in the stored form, which does not depend on the protocol revision.
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
