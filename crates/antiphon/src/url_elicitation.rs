//! Constants and types for elicitation in MCP messages. This module includes Antiphon's `_meta` keys, and the error
//! that requires URL elicitation.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The `_meta` key under which a form contains its question key. A client can have a custom form for a question key.
pub const KEY_META: &str = "antiphon/key";

/// The `_meta` key under which a form contains additional data. A client's custom form can show the additional data
/// together with the fields.
pub const CONTEXT_META: &str = "antiphon/elicit-context";

/// The `_meta` key that marks a form. If a form has the key `antiphon/relay`, the model can relay the user's answer.
pub(crate) const RELAY_META: &str = "antiphon/relay";

/// The `_meta` key under which a stored answer contains its [`Channel`]. A client cannot set the channel of an answer.
const CHANNEL_META: &str = "antiphon/channel";

/// The channel through which a user's answer reached a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Channel {
    /// The client itself showed the question (MCP elicitation).
    Client,
    /// The user answered in a form that the server provides as an MCP App.
    App,
    /// The user answered on the answer page, which is a web page of the server.
    Page,
    /// The model relayed the user's answer ([`Elicit::relayed`](crate::elicitation::Elicit::relayed)). The server
    /// cannot verify that the model asked the user.
    Relay,
}

impl Channel {
    /// Returns the channel of an answer. If the answer has no channel mark, the answer came from the client.
    pub(crate) fn of(answer: &Value) -> Self {
        let mark = answer.get("_meta").and_then(|meta| meta.get(CHANNEL_META));
        // A later version of Antiphon may have written a mark that this version does not support. This version must not
        // treat an answer with an unknown mark as an answer from the client's own form. So this version uses the least
        // trusted channel.
        mark.map_or(Self::Client, |mark| Self::deserialize(mark).unwrap_or(Self::Relay))
    }

    /// Marks an answer with the channel. If the answer already has a channel mark, this method replaces the mark.
    pub(crate) fn mark(self, answer: &mut Value) {
        let Some(object) = answer.as_object_mut() else { return };
        match (self, object.get_mut("_meta").and_then(Value::as_object_mut)) {
            (Self::Client, Some(meta)) => {
                meta.remove(CHANNEL_META);
            }
            (Self::Client, None) => {}
            (channel, Some(meta)) => {
                meta.insert(CHANNEL_META.into(), channel.name().into());
            }
            (channel, None) => {
                object.insert("_meta".into(), json!({ CHANNEL_META: channel.name() }));
            }
        }
    }

    /// Returns the name of the channel. Stored answers, traces and metrics contain this name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::App => "app",
            Self::Page => "page",
            Self::Relay => "relay",
        }
    }
}

/// The code of the error `URLElicitationRequiredError` in MCP 2025-11-25. After this error, the user must visit web
/// pages before the client repeats its request.
pub const URL_ELICITATION_REQUIRED: i32 = -32042;

/// The MCP notification that a server sends when the user has finished on a web page.
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

/// The maximum length of an elicitation ID, in bytes. If an elicitation ID is longer, the server cannot notify the
/// client that the user has finished on the web page.
pub(crate) const MAX_ELICITATION_ID: usize = 1024;

/// A web page that the user must visit before the server can answer a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UrlElicitation {
    mode: UrlMode,
    /// The elicitation ID. The server and the client use the elicitation ID to identify the visit to the web page.
    pub elicitation_id: String,
    /// The URL of the web page.
    pub url: String,
    /// The text that tells the user why to visit the web page.
    pub message: String,
}

/// The only mode of a [`UrlElicitation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum UrlMode {
    Url,
}

impl UrlElicitation {
    /// Creates the description of a visit to the web page `url`. `id` is the elicitation ID. `message` tells the user
    /// the reason for the visit.
    pub fn new(id: impl Into<String>, url: impl Into<String>, message: impl Into<String>) -> Self {
        Self { mode: UrlMode::Url, elicitation_id: id.into(), url: url.into(), message: message.into() }
    }
}

/// The `data` of a [`URL_ELICITATION_REQUIRED`] error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlElicitationRequired {
    /// The web pages that the user must visit before the client repeats its request.
    pub elicitations: Vec<UrlElicitation>,
}

impl UrlElicitationRequired {
    /// Parses the `data` of an error with the code [`URL_ELICITATION_REQUIRED`]. Returns `None` if the error has
    /// another code, or if an entry is not a URL elicitation.
    pub fn from_error_data(code: i32, data: &Value) -> Option<Self> {
        (code == URL_ELICITATION_REQUIRED).then(|| Self::deserialize(data).ok()).flatten()
    }

    pub(crate) fn to_error_data(&self) -> Value {
        json!(self)
    }
}

/// The parameters of the notification [`ELICITATION_COMPLETE`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitationComplete {
    /// The ID of the completed elicitation.
    pub elicitation_id: String,
}
