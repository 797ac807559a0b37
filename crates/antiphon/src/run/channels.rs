//! The channels through which users answer questions that their client cannot show.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A way in which a user's answer reaches a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Channel {
    /// The client showed the question itself (MCP elicitation).
    Client,
    /// The user answered in a form that the server provides as an MCP App.
    App,
    /// The user answered on a web page of the server.
    Page,
}

/// The `_meta` key under which a stored answer names its [`Channel`]. Clients cannot set it.
const CHANNEL_META: &str = "antiphon/channel";

impl Channel {
    /// Returns the channel of an answer. An answer without a mark came from the client.
    pub(crate) fn of(answer: &Value) -> Self {
        let mark = answer.get("_meta").and_then(|meta| meta.get(CHANNEL_META));
        mark.and_then(|mark| serde_json::from_value(mark.clone()).ok()).unwrap_or(Self::Client)
    }

    /// Marks an answer with the channel, and replaces a mark that it already has.
    pub(crate) fn mark(self, answer: &mut Value) {
        let Some(object) = answer.as_object_mut() else { return };
        match (self, object.get_mut("_meta").and_then(Value::as_object_mut)) {
            (Self::Client, Some(meta)) => {
                meta.remove(CHANNEL_META);
            }
            (Self::Client, None) => {}
            (channel, Some(meta)) => {
                meta.insert(CHANNEL_META.into(), serde_json::to_value(channel).unwrap_or_default());
            }
            (channel, None) => {
                object.insert("_meta".into(), serde_json::json!({ CHANNEL_META: channel }));
            }
        }
    }
}

/// The channels, other than the client's own forms during a call, through which questions of a run can be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Channels {
    /// The client shows MCP Apps, and the server has a form.
    #[serde(default)]
    pub(crate) app: bool,
    /// The server has a web page for answers.
    #[serde(default)]
    pub(crate) page: bool,
    /// The client shows the question itself when it calls `task_result`.
    #[serde(default)]
    pub(crate) client: bool,
}

impl Channels {
    /// Returns whether there is any channel.
    pub(crate) fn any(self) -> bool {
        self.app || self.page || self.client
    }

    /// Returns the channels that do not need the client.
    pub(crate) fn without_client(self) -> Self {
        Self { client: false, ..self }
    }

    /// Returns whether `request` can be answered through one of the channels. Only forms can.
    pub(crate) fn carry(self, request: &Value) -> bool {
        self.any() && is_form(request)
    }
}

/// Returns whether `request` asks a user to fill in a form.
pub(crate) fn is_form(request: &Value) -> bool {
    request["method"] == "elicitation/create" && request["params"]["mode"] != "url"
}

/// Returns whether `answer` says only that no user has answered: a refusal, or an acceptance without the content that
/// the form asks for. A client that gives such an answer faster than a user could has not shown the question.
pub(crate) fn is_empty_answer(request: &Value, answer: &Value) -> bool {
    match answer["action"].as_str() {
        Some("decline" | "cancel") => true,
        Some("accept") => {
            let fields = request["params"]["requestedSchema"]["properties"].as_object();
            let asks = fields.is_none_or(|fields| !fields.is_empty());
            asks && answer["content"].as_object().is_none_or(serde_json::Map::is_empty)
        }
        _ => false,
    }
}

/// How the run of a call reaches users and clients that do not follow it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AskOptions {
    /// The channels besides the client itself.
    pub(crate) channels: Channels,
    /// The time in which no user can answer. An empty answer that arrives earlier is the client's own.
    pub(crate) quick: Duration,
    /// How long a question that waits for another channel stays open.
    pub(crate) expiry: Duration,
    /// How long a call can take before its run continues without the client.
    pub(crate) hand_over_after: Option<Duration>,
    /// How long a request can be silent before the client receives a heartbeat.
    pub(crate) heartbeat: Option<Duration>,
}

impl AskOptions {
    /// Returns whether a question can be answered in another way than by the client.
    pub(crate) fn reaches_past_the_client(&self) -> bool {
        self.channels.without_client().any()
    }
}

/// Moments by name. They are forgotten after a while.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<HashMap<String, Instant>>);

/// The number of entries at which old ones are removed. If all are new, all are removed, so that the memory is bounded.
const RECENT: usize = 4096;

impl Recent {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that `name` happened now. `life` is how long entries are needed.
    pub(crate) fn put(&self, name: String, life: Duration) {
        let mut entries = self.lock();
        if entries.len() >= RECENT {
            entries.retain(|_, at| at.elapsed() < life);
            if entries.len() >= RECENT {
                entries.clear();
            }
        }
        entries.insert(name, Instant::now());
    }

    /// Returns whether `name` happened within `life`.
    pub(crate) fn has(&self, name: &str, life: Duration) -> bool {
        self.lock().get(name).is_some_and(|at| at.elapsed() < life)
    }
}

/// How long a client counts as unresponsive after it has answered without asking its user.
pub(crate) const UNRESPONSIVE: Duration = Duration::from_secs(600);

/// Returns whether `answer` accepts a form with required fields and has no content. Some clients accept a form that they
/// cannot show.
pub(crate) fn lacks_content(request: &Value, answer: &Value) -> bool {
    let required = request["params"]["requestedSchema"]["required"].as_array();
    answer["action"] == "accept"
        && required.is_some_and(|required| !required.is_empty())
        && answer["content"].as_object().is_none_or(serde_json::Map::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mark_of_a_client_is_removed() {
        let mut answer = json!({"action": "accept", "_meta": {"antiphon/channel": "app", "other": 1}});
        Channel::Client.mark(&mut answer);
        assert_eq!(answer, json!({"action": "accept", "_meta": {"other": 1}}));
        assert_eq!(Channel::of(&answer), Channel::Client);
        Channel::Page.mark(&mut answer);
        assert_eq!(Channel::of(&answer), Channel::Page);
        let mut bare = json!({"action": "decline"});
        Channel::App.mark(&mut bare);
        assert_eq!(bare, json!({"action": "decline", "_meta": {"antiphon/channel": "app"}}));
        assert_eq!(Channel::of(&bare), Channel::App);
    }

    #[test]
    fn only_forms_can_be_answered_elsewhere() {
        let channels = Channels { app: true, ..Channels::default() };
        let form = json!({"method": "elicitation/create", "params": {"message": "?"}});
        let url = json!({"method": "elicitation/create", "params": {"mode": "url"}});
        let sampling = json!({"method": "sampling/createMessage", "params": {}});
        assert!(channels.carry(&form));
        assert!(!channels.carry(&url) && !channels.carry(&sampling) && !Channels::default().carry(&form));
    }

    #[test]
    fn acceptance_without_content_is_empty_only_if_the_form_has_fields() {
        let form = |properties: Value| json!({"method": "elicitation/create", "params": {"requestedSchema": {"properties": properties}}});
        let (fields, none) = (form(json!({"desk": {"type": "string"}})), form(json!({})));
        assert!(is_empty_answer(&fields, &json!({"action": "accept"})));
        assert!(is_empty_answer(&fields, &json!({"action": "accept", "content": {}})));
        assert!(!is_empty_answer(&fields, &json!({"action": "accept", "content": {"desk": "4"}})));
        assert!(!is_empty_answer(&none, &json!({"action": "accept", "content": {}})));
        assert!(is_empty_answer(&none, &json!({"action": "cancel"})));
    }
}
