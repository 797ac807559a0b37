//! Dual responses: the results of tools that return rows.

mod clean;
mod preview;
mod text;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::preview::Omitted;
pub(crate) use self::preview::{Bounds, Preview, row_columns, shown_columns};
#[cfg(feature = "rest")]
use crate::snapshot::DerivedBody;
use crate::{
    column::ColumnDefinition,
    page::moment,
    rows::Row,
    snapshot::{Lineage, SetStatus, Truncation},
};

/// The result of a tool that returns rows: a preview for the model, and a link to the whole result set.
///
/// [`DualResponseServer::create_response`](crate::DualResponseServer::create_response) creates a dual response. With
/// the crate `antiphon`, a tool returns the dual response directly. With any other MCP SDK, return the value of
/// [`to_mcp_tool_result`](Self::to_mcp_tool_result).
///
/// A dual response contains the ID of the result set, but no signed link. The server signs a link only when a caller
/// requests a link. The text for the model never contains a signed link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DualResponse {
    /// ID of the result set.
    pub resource_id: String,
    /// URI of the result set: `resource://…`.
    pub resource_uri: String,
    /// URL of the result set.
    pub resource_url: String,
    /// Display name of the result set.
    pub name: String,
    /// Preview: the first rows, shortened for the model.
    ///
    /// By default the preview has at most 50 columns, and 200 characters in each cell. By default, the preview with
    /// its columns and all notes fits in 8 KiB. Shortened text in a preview ends with `…`. Nested values that are too
    /// long for a cell become text. In a preview, line breaks become spaces, and invisible characters are removed. So
    /// the preview can have fewer rows than requested, and values in the preview can differ from the stored rows at
    /// [`resource_url`](Self::resource_url).
    pub sample: Vec<Row>,
    /// Number of rows in the result set. While rows are being written, the value is the number of rows written so far.
    pub total_count: u64,
    /// State of the rows: complete, or still being written.
    #[serde(default)]
    pub status: SetStatus,
    /// Whether [`total_count`](Self::total_count) is final. The field `exact` is `false` while rows are being written.
    /// The field is also `false` for a live query, because the query runs again for every page.
    #[serde(default = "exact")]
    pub exact: bool,
    /// The limit that caused the server to omit the last rows of the result set. The value is `None` if the result set
    /// has all rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
    /// The SQL query that created the result set, and the result sets that the query reads. The value is `None` if no
    /// query over other result sets created the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// Columns of the result set, up to 8 KiB by default. The structured content contains only the columns of the
    /// preview.
    pub columns: Vec<ColumnDefinition>,
    /// Time at which the result set expires. The value is `None` if the result set is pinned.
    pub expires_at: Option<DateTime<Utc>>,
    /// Time at which the result set was created.
    pub created_at: DateTime<Utc>,
    /// Size of all rows in bytes, if it is known.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Number of rows, columns and cells that the preview omits or shortens.
    #[serde(default)]
    pub cut: Omitted,
    /// Maximum size in bytes of the text block, and of the structured content.
    pub(crate) text_bytes: usize,
    /// Limits of the preview.
    #[serde(default = "usual")]
    pub(crate) bounds: Bounds,
}

/// Creates the response body for a new result set that an SQL query created.
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

/// The part of a preview that both the text and the structured content of a tool result contain.
#[derive(Debug)]
struct Shown {
    rows: usize,
    columns: Vec<ColumnDefinition>,
    cut: Omitted,
}

/// Maximum number of characters of an SQL query in the structured content.
const MAX_QUERY: usize = 500;

/// Maximum number of source result sets in the structured content.
const MAX_SOURCES: usize = 16;

impl DualResponse {
    /// Returns the MCP content blocks: a text with the preview, and a `resource_link` to the result set.
    ///
    /// The text alone is enough for a model that does not read the structured content. The text has at most
    /// [`ResultLimits::with_preview_bytes`](crate::ResultLimits::with_preview_bytes) bytes.
    pub fn to_mcp_content(&self) -> Vec<Value> {
        self.content(&self.shown())
    }

    fn content(&self, shown: &Shown) -> Vec<Value> {
        vec![json!({"type": "text", "text": self.text(shown)}), self.link()]
    }

    fn text(&self, shown: &Shown) -> String {
        text::block(self, shown.rows, shown.cut)
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

    /// Returns the `structuredContent` of the MCP tool result.
    ///
    /// The structured content alone is enough for a model that does not read the text. The first member, `about`,
    /// contains the row count, the notes about omitted content, and the ID of the result set. The structured content
    /// has the same rows as the text. As compact JSON, the structured content has at most
    /// [`ResultLimits::with_preview_bytes`](crate::ResultLimits::with_preview_bytes) bytes. A long SQL query in
    /// `metadata.lineage` is shortened.
    ///
    /// The member `results` contains the [preview](Self::sample) and not all rows, because a host can pass `results`
    /// to the model. A program that shows or processes rows must fetch them from `resource.url`. If the preview omits
    /// content, `metadata.preview` contains the numbers of [`Omitted`].
    pub fn to_structured_content(&self) -> Value {
        self.structured(&self.shown())
    }

    fn structured(&self, shown: &Shown) -> Value {
        let cut = shown.cut;
        let mut structured = json!({
            // `about` is the first member both in the order of insertion and in alphabetical order.
            "about": text::about(self, shown.rows, cut),
            "results": self.sample[..shown.rows],
            "resource": {
                "uri": self.resource_uri,
                "url": self.resource_url,
                "name": self.name,
                "mimeType": MIME_TYPE,
            },
            "metadata": {
                "total_count": self.total_count,
                "columns": shown.columns,
                "executed_at": moment::text(self.created_at),
                "expires_at": self.expires_at.map(moment::text),
            },
        });
        let metadata = &mut structured["metadata"];
        if !cut.is_none() {
            metadata["preview"] = json!(cut);
        }
        if self.status != SetStatus::Ready {
            metadata["total_count_exact"] = false.into();
            metadata["status"] = self.status.name().into();
        }
        if let Some(truncated) = self.truncated {
            metadata["truncated"] = json!(truncated);
        }
        if let Some(lineage) = &self.lineage {
            metadata["lineage"] = json!(brief(lineage));
        }
        structured
    }

    /// Returns the part of the preview that fits into the limit of the text and into the limit of the structured
    /// content. The preview was created to fit into both limits, so this part is usually the whole preview.
    fn shown(&self) -> Shown {
        let columns = row_columns(&self.columns, self.bounds);
        let mut shown = Shown { rows: self.sample.len(), columns, cut: self.cut };
        while !self.fits(&shown) {
            if shown.rows > 0 {
                shown.rows -= 1;
                shown.cut.omitted_rows += 1;
            } else if shown.columns.pop().is_some() {
                shown.cut.omitted_columns += 1;
            } else {
                break;
            }
        }
        shown
    }

    fn fits(&self, shown: &Shown) -> bool {
        self.structured(shown).to_string().len() <= self.text_bytes
            && self.text(shown).len() <= self.text_bytes
    }

    /// Returns the whole MCP tool result: `content` and `structuredContent`.
    pub fn to_mcp_tool_result(&self) -> Value {
        let shown = self.shown();
        json!({"content": self.content(&shown), "structuredContent": self.structured(&shown)})
    }
}

/// Returns the maximum size of the structured content of a result set, without rows and columns. The text without rows
/// is smaller than the structured content without rows.
pub(crate) fn overhead(uri: &str, url: &str, name: &str, lineage: Option<&Lineage>) -> usize {
    /// Maximum size of `about`, and of all names, numbers and times in the structured content.
    const NOTES: usize = 1280;
    let lineage = lineage.map_or(0, |lineage| json!(brief(lineage)).to_string().len());
    NOTES + json!([uri, url, name]).to_string().len() + lineage
}

/// Returns a copy of the lineage with a limited size.
fn brief(lineage: &Lineage) -> Lineage {
    let sources = lineage.sources.iter().take(MAX_SOURCES).cloned().collect();
    Lineage::new(sources, clean::text(&lineage.query, MAX_QUERY).0)
}

/// Returns the default of `exact`. Responses from before the field `exact` existed need this default, because their
/// counts are exact.
fn exact() -> bool {
    true
}

/// Returns the default limits of the preview. Responses from before the field `bounds` existed need these default
/// limits.
fn usual() -> Bounds {
    Bounds { bytes: 6 * 1024, cell: 200, columns: 50 }
}

/// The media type of a result set.
pub(crate) const MIME_TYPE: &str = "application/json";
