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

/// The longest cursor that is read.
const MAX_CURSOR: usize = 16 * 1024;

/// The longest that is given: it stands in a header, and proxies take few bytes of those.
const LONGEST: usize = 4 * 1024;

/// Where a page ended: the values that the next one begins after. They are the reader's own data and are only
/// ever bound, so a cursor need not be signed.
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
    /// After the last of these rows.
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

    /// As text, unless nobody could come back with it: the page then has only its offset.
    pub(super) fn encode(&self) -> Option<String> {
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).ok()?);
        (self.is_plain() && text.len() <= LONGEST).then_some(text)
    }

    /// Whether all values can be bound.
    pub(super) fn is_plain(&self) -> bool {
        self.key.iter().all(|value| !value.is_array() && !value.is_object())
    }

    pub(super) fn decode(text: &str) -> Result<Self> {
        let bytes = (text.len() <= MAX_CURSOR).then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten();
        let cursor: Option<Self> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        cursor.filter(Self::is_plain).ok_or_else(|| {
            DualResponseError::Invalid("the cursor is none; take it from a page as it is".into())
        })
    }
}
