//! Elicitation on the wire: the `_meta` keys that Antiphon adds, and the URL elicitation error.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The `_meta` key of a question's key. A client can register a custom form for the question key.
pub const KEY_META: &str = "antiphon/key";

/// The `_meta` key of a form's context: data that a client's custom form shows next to its fields.
pub const CONTEXT_META: &str = "antiphon/elicit-context";

/// `URLElicitationRequiredError` of 2025-11-25: the user must visit web pages first.
pub const URL_ELICITATION_REQUIRED: i32 = -32042;

/// The notification that a server sends when the user has completed a web page.
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

/// The longest elicitation ID whose completion is sent to a client, in bytes.
pub(crate) const MAX_ELICITATION_ID: usize = 1024;

/// A web page that the user must visit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UrlElicitation {
    mode: UrlMode,
    /// The elicitation ID, by which server and client identify this visit.
    pub elicitation_id: String,
    /// The URL of the web page.
    pub url: String,
    /// The reason for the visit, as text for the user.
    pub message: String,
}

/// The only mode of a [`UrlElicitation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum UrlMode {
    Url,
}

impl UrlElicitation {
    /// Creates a visit to `url` with the elicitation ID `id` and the reason `message`.
    pub fn new(id: impl Into<String>, url: impl Into<String>, message: impl Into<String>) -> Self {
        Self { mode: UrlMode::Url, elicitation_id: id.into(), url: url.into(), message: message.into() }
    }
}

/// The `data` of a [`URL_ELICITATION_REQUIRED`] error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlElicitationRequired {
    /// The web pages to visit before the next call.
    pub elicitations: Vec<UrlElicitation>,
}

impl UrlElicitationRequired {
    /// Reads the data of an error with code [`URL_ELICITATION_REQUIRED`]. Returns `None` if an entry is not a URL
    /// elicitation.
    pub fn from_error_data(code: i32, data: &Value) -> Option<Self> {
        (code == URL_ELICITATION_REQUIRED).then(|| Self::deserialize(data).ok()).flatten()
    }

    pub(crate) fn to_error_data(&self) -> Value {
        json!(self)
    }
}

/// `notifications/elicitation/complete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ElicitationComplete {
    /// The ID of the completed elicitation.
    pub elicitation_id: String,
}
