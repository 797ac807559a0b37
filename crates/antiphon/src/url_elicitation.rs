//! Elicitation on the wire: what Antiphon adds to it, and its error.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Where a question's key travels in `_meta`: what a client's own form is registered under.
pub const KEY_META: &str = "antiphon/key";

/// Where a form's context travels in `_meta`: what a client's own form shows beside its fields.
pub const CONTEXT_META: &str = "antiphon/elicit-context";

/// `URLElicitationRequiredError` of 2025-11-25: the caller must visit pages first.
pub const URL_ELICITATION_REQUIRED: i32 = -32042;

/// The notification a server sends when a page is done with its request.
pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

/// The longest elicitation ID whose completion is sent to a client, in bytes.
pub(crate) const MAX_ELICITATION_ID: usize = 1024;

/// A page a person has to visit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UrlElicitation {
    mode: UrlMode,
    /// The id by which server and client speak of this visit.
    pub elicitation_id: String,
    /// The page.
    pub url: String,
    /// What it is for, in words for the person.
    pub message: String,
}

/// The only mode a [`UrlElicitation`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum UrlMode {
    Url,
}

impl UrlElicitation {
    /// A visit to `url`, known as `id`, for the reason in `message`.
    pub fn new(id: impl Into<String>, url: impl Into<String>, message: impl Into<String>) -> Self {
        Self { mode: UrlMode::Url, elicitation_id: id.into(), url: url.into(), message: message.into() }
    }
}

/// The `data` of a [`URL_ELICITATION_REQUIRED`] error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlElicitationRequired {
    /// The pages to visit before calling again.
    pub elicitations: Vec<UrlElicitation>,
}

impl UrlElicitationRequired {
    /// Reads the data of an error with code [`URL_ELICITATION_REQUIRED`]; an entry that is not a URL
    /// elicitation makes it none.
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
    /// The visit that is over.
    pub elicitation_id: String,
}
