//! The state of a task, in the format of either protocol revision.

use std::time::Duration;

use serde_json::Value;

use crate::event::trace_in;

/// The status of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TaskStatus {
    /// The task has not ended, and does not wait for input.
    Working,
    /// The task waits for answers to its questions. [`TaskHandle::wait`](crate::TaskHandle::wait) answers the questions
    /// of the task.
    InputRequired,
    /// The task has ended with a result. If the tool failed, the result contains the tool's error.
    Completed,
    /// The task ended with a JSON-RPC error.
    Failed,
    /// The task was cancelled.
    Cancelled,
}

impl TaskStatus {
    /// Returns `true` if the task has ended. The status of an ended task no longer changes.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    fn read(name: &str) -> Option<Self> {
        Some(match name {
            "working" => Self::Working,
            "input_required" => Self::InputRequired,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            _ => return None,
        })
    }
}

/// The state of a task, as received from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The ID of the task. The ID is empty if the server returned the result without creating a task.
    pub id: String,
    /// The status of the task.
    pub status: TaskStatus,
    /// The text that describes the status to the user, if the server sends this text.
    pub message: Option<String>,
    /// The time of creation in ISO 8601, if the server sends this time.
    pub created: Option<String>,
    /// The time of the last change in ISO 8601, if the server sends this time.
    pub last_updated: Option<String>,
    /// How long the server keeps the task, counted from the creation of the task. The value is `None` if the task never
    /// expires, or if the server does not send a lifetime.
    pub ttl: Option<Duration>,
    /// The interval between polls that the server recommends.
    pub poll_interval: Option<Duration>,
    /// The actions of the run so far, as JSON, if the server sends these actions. [`Round::trace`](crate::Round::trace)
    /// describes the format of these actions.
    pub trace: Option<Value>,
}

impl TaskInfo {
    /// Parses a task from an object with the fields of the task, or from `{"task": {…}}`. The lifetime of the task
    /// can be in the field `ttl`, in the field `ttlMs`, or missing.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let task = unwrapped(value);
        let text = |field: &str| task[field].as_str().map(str::to_owned);
        let millis = |of_2026: &str, of_2025: &str| {
            let said = task.get(of_2026).or_else(|| task.get(of_2025))?;
            // JavaScript writes some whole numbers with a decimal point.
            let whole = said.as_u64().or_else(|| {
                Duration::try_from_secs_f64(said.as_f64()? / 1e3).ok()?.as_millis().try_into().ok()
            })?;
            Some(Duration::from_millis(whole))
        };
        Some(Self {
            id: text("taskId")?,
            status: TaskStatus::read(task["status"].as_str()?)?,
            message: text("statusMessage"),
            created: text("createdAt"),
            last_updated: text("lastUpdatedAt"),
            ttl: millis("ttlMs", "ttl"),
            poll_interval: millis("pollIntervalMs", "pollInterval"),
            trace: trace_in(value).or_else(|| trace_in(task)),
        })
    }

    /// Returns the state of a call that needed no task.
    pub(super) fn finished() -> Self {
        Self {
            id: String::new(),
            status: TaskStatus::Completed,
            message: None,
            created: None,
            last_updated: None,
            ttl: None,
            poll_interval: None,
            trace: None,
        }
    }

    /// Returns whether two states have the same status, the same message and the same time of the last change.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.status, &self.message, &self.last_updated)
            == (other.status, &other.message, &other.last_updated)
    }
}

/// Returns the task in a response. Some servers wrap the task in an object.
pub(super) fn unwrapped(value: &Value) -> &Value {
    match value.get("task") {
        Some(task) if task.is_object() && value.get("taskId").is_none() => task,
        _ => value,
    }
}

/// Returns the result of a tool in the response to `tasks/result`. Some servers wrap the result in an object.
pub(super) fn unwrapped_result(mut value: Value) -> Value {
    match value.get_mut("result") {
        Some(result) if result.is_object() => result.take(),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_is_read_in_either_revisions_words() {
        let of_2026 = TaskInfo::read(&json!({"resultType": "task", "taskId": "1", "status": "working",
            "createdAt": "a", "lastUpdatedAt": "b", "ttlMs": 1000, "pollIntervalMs": 50}));
        let of_2025 = TaskInfo::read(&json!({"taskId": "1", "status": "working",
            "createdAt": "a", "lastUpdatedAt": "b", "ttl": 1000, "pollInterval": 50.0}));
        assert_eq!(of_2026, of_2025);
        let task = of_2026.unwrap();
        assert_eq!(
            (task.ttl, task.poll_interval),
            (Some(Duration::from_secs(1)), Some(Duration::from_millis(50)))
        );
    }

    #[test]
    fn a_wrapped_task_is_the_same_task() {
        let task = json!({"taskId": "1", "status": "input_required", "statusMessage": "which?", "ttl": null});
        assert_eq!(TaskInfo::read(&json!({"task": task, "_meta": {}})), TaskInfo::read(&task));
        assert!(TaskInfo::read(&task).is_some());
    }

    #[test]
    fn nonsense_is_no_task_and_no_panic() {
        for nonsense in [
            json!(null),
            json!([]),
            json!({"taskId": 1, "status": "working"}),
            json!({"taskId": "1", "status": "asleep"}),
            json!({"task": "1"}),
            json!({"content": []}),
        ] {
            assert_eq!(TaskInfo::read(&nonsense), None, "{nonsense}");
        }
        for ttl in [json!(-1), json!(1e300), json!("soon")] {
            let task = TaskInfo::read(&json!({"taskId": "1", "status": "working", "ttl": ttl})).unwrap();
            assert_eq!(task.ttl, None, "{ttl}");
        }
    }
}
