//! What a data tool answers with.

mod clean;
mod preview;
mod text;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::preview::Omitted;
pub(crate) use self::preview::{Bounds, Preview, shown_columns};
#[cfg(feature = "rest")]
use crate::snapshot::DerivedBody;
use crate::{
    column::ColumnDefinition,
    page::moment,
    rows::Row,
    snapshot::{Lineage, SetStatus, Truncation},
};

/// What a data tool answers with: a preview for the model, and a link to the whole result set.
///
/// [`DualResponseServer::create_response`](crate::DualResponseServer::create_response) makes it. A tool of
/// the crate `antiphon` returns it as it is; with any other SDK, return
/// [`to_mcp_tool_result`](Self::to_mcp_tool_result).
///
/// Nothing in it grants anything that the id does not: signed links are made on demand and are never in what
/// the model reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DualResponse {
    /// The result set's id.
    pub resource_id: String,
    /// Its URI: `resource://…`.
    pub resource_uri: String,
    /// Where it is fetched.
    pub resource_url: String,
    /// What people call it.
    pub name: String,
    /// The preview: the first rows as a model reads them.
    ///
    /// By default they have at most 8 KiB, 50 columns and 200 characters a cell. Shortened text ends with `…`, nested
    /// values that are too long are text, line breaks are blanks, and invisible characters are left out. So there may be
    /// fewer rows than were asked for, and values that differ from those at [`resource_url`](Self::resource_url).
    pub sample: Vec<Row>,
    /// How many rows there are; of a set that is still being written, how many came so far.
    pub total_count: u64,
    /// Whether all rows are there, or are still being written.
    #[serde(default)]
    pub status: SetStatus,
    /// Whether [`total_count`](Self::total_count) is the last word: not while rows are being written, and not of rows
    /// that are read anew for every page.
    #[serde(default = "exact")]
    pub exact: bool,
    /// Why rows are missing at the end, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
    /// What it was made from, if from other sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// The columns.
    pub columns: Vec<ColumnDefinition>,
    /// When it ends; never, if it is pinned.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// How many bytes all rows are, where that is known.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// What the preview leaves out of the rows it could have shown.
    #[serde(default)]
    pub cut: Omitted,
    /// The most bytes of the text block.
    pub(crate) text_bytes: usize,
}

/// What is said of a set that was just made.
#[cfg(feature = "rest")]
impl From<DualResponse> for DerivedBody {
    fn from(response: DualResponse) -> Self {
        Self {
            id: response.resource_id,
            uri: response.resource_uri,
            url: response.resource_url,
            name: response.name,
            status: response.status,
            total_count: response.total_count,
            exact: response.exact,
            columns: response.columns,
            data: response.sample,
            truncated: response.truncated,
            lineage: response.lineage,
            expires_at: response.expires_at,
        }
    }
}

impl DualResponse {
    /// The content blocks: a text with the preview, and a `resource_link`.
    pub fn to_mcp_content(&self) -> Vec<Value> {
        vec![json!({"type": "text", "text": text::block(self, self.text_bytes)}), self.link()]
    }

    fn link(&self) -> Value {
        let mut link = json!({
            "type": "resource_link",
            "uri": self.resource_uri,
            "name": self.name,
            "mimeType": MIME_TYPE,
            "annotations": {"audience": ["user"], "lastModified": moment::text(self.created_at)},
        });
        if let Some(bytes) = self.bytes {
            link["size"] = bytes.into();
        }
        link
    }

    /// The structured content.
    ///
    /// `results` is the [preview](Self::sample), not the data: a host may pass it on to the model. A program that shows or
    /// computes with rows fetches them at `resource.url`. If `metadata.preview` is there, it says how much the preview
    /// leaves out; see [`Omitted`].
    pub fn to_structured_content(&self) -> Value {
        let mut structured = json!({
            "results": self.sample,
            "resource": {
                "uri": self.resource_uri,
                "url": self.resource_url,
                "name": self.name,
                "mimeType": MIME_TYPE,
            },
            "metadata": {
                "total_count": self.total_count,
                "columns": self.columns,
                "executed_at": moment::text(self.created_at),
                "expires_at": self.expires_at.map(moment::text),
            },
        });
        let metadata = &mut structured["metadata"];
        if !self.cut.is_none() {
            metadata["preview"] = json!(self.cut);
        }
        if self.status != SetStatus::Ready {
            metadata["total_count_exact"] = false.into();
            metadata["status"] = self.status.name().into();
        }
        if let Some(truncated) = self.truncated {
            metadata["truncated"] = json!(truncated);
        }
        if let Some(lineage) = &self.lineage {
            metadata["lineage"] = json!(lineage);
        }
        structured
    }

    /// The whole tool result: `content` and `structuredContent`.
    pub fn to_mcp_tool_result(&self) -> Value {
        json!({"content": self.to_mcp_content(), "structuredContent": self.to_structured_content()})
    }
}

/// What was written down before there was a word for it was exact.
fn exact() -> bool {
    true
}

/// What a result set is read as.
pub(crate) const MIME_TYPE: &str = "application/json";
