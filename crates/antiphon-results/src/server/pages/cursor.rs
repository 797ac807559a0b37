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

    pub(super) fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    pub(super) fn decode(text: &str) -> Result<Self> {
        let bytes = (text.len() <= MAX_CURSOR).then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten();
        let cursor: Option<Self> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let scalar = |value: &Value| !value.is_array() && !value.is_object();
        cursor.filter(|cursor| cursor.key.iter().all(scalar)).ok_or_else(|| {
            DualResponseError::Invalid("the cursor is none; take it from a page as it is".into())
        })
    }
}
