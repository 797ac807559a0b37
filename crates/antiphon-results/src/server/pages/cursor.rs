use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    error::{DualResponseError, Result},
    page::Sort,
    rows::{Row, Rows},
    source::PageRequest,
    store::Resource,
};

/// Maximum length of an accepted cursor.
const MAX_CURSOR: usize = 16 * 1024;

/// Maximum length of a generated cursor. The server sends the cursor in a header, and proxies limit the size of
/// headers.
const LONGEST: usize = 4 * 1024;

/// The end of a page: the values after which the next page starts. The values in a cursor come from rows that the
/// client has received. The server uses the values only as bound query parameters, so a cursor needs no signature.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Cursor {
    #[serde(rename = "o")]
    pub(super) offset: u64,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub(super) sort: Option<Sort>,
    #[serde(rename = "k")]
    pub(super) key: Vec<Value>,
}

impl Cursor {
    /// Creates a cursor for the page that starts after the last of these rows.
    pub(super) fn after(resource: &Resource, request: &PageRequest, rows: &Rows) -> Result<Self> {
        let last = rows.iter().next_back().unwrap_or("{}");
        let row: Row = serde_json::from_str(last).map_err(|error| DualResponseError::Query(error.into()))?;
        let sorted = request.sort.iter().map(|sort| &sort.field);
        let key = sorted.chain(&resource.key).map(|name| row.get(name).cloned().unwrap_or(Value::Null));
        Ok(Self {
            offset: request.offset.saturating_add(rows.len() as u64),
            sort: request.sort.clone(),
            key: key.collect(),
        })
    }

    /// Returns the cursor as text, or `None` if the text is too long for the client to send back. Without a cursor,
    /// the client can request the next page only by its offset.
    pub(super) fn encode(&self) -> Option<String> {
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).ok()?);
        (self.is_plain() && text.len() <= LONGEST).then_some(text)
    }

    /// Returns whether all values of the cursor can be bound as query parameters.
    pub(super) fn is_plain(&self) -> bool {
        self.key.iter().all(|value| !value.is_array() && !value.is_object())
    }

    pub(super) fn decode(text: &str) -> Result<Self> {
        let bytes = (text.len() <= MAX_CURSOR).then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten();
        let cursor: Option<Self> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        cursor.filter(Self::is_plain).ok_or_else(|| {
            DualResponseError::Invalid(
                "the cursor is not valid; send the cursor exactly as the server returned it".into(),
            )
        })
    }
}
