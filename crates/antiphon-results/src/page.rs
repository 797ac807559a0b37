//! Request and response bodies that server and client share.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::column::ColumnDefinition;

/// The default number of rows in a page. To change the default on a server, call
/// `DualResponseServerOptions::with_default_page_size`. The client always requests a number of rows, because some
/// servers return all rows if a request sets no limit.
pub const DEFAULT_PAGE_SIZE: u64 = 100;

/// A sort column and its direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sort {
    /// Name of the sort column. The result set must have a column with this name.
    pub field: String,
    /// Sort direction. Default: ascending.
    #[serde(default)]
    pub order: Order,
}

impl Sort {
    /// Creates an ascending sort by `field`.
    pub fn ascending(field: impl Into<String>) -> Self {
        Self { field: field.into(), order: Order::Asc }
    }

    /// Creates a descending sort by `field`.
    pub fn descending(field: impl Into<String>) -> Self {
        Self { field: field.into(), order: Order::Desc }
    }
}

/// The direction of a sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Ascending: the smallest value first.
    #[default]
    Asc,
    /// Descending: the greatest value first.
    Desc,
}

/// The response body of `GET /{id}`: the metadata of a result set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetadataBody {
    /// State of the rows: `ready` if all rows are available. The state of a snapshot can also be `writing`, or
    /// `failed` if the rows could not be saved.
    pub status: String,
    /// Number of rows in the result set.
    pub total_count: u64,
    /// Columns of the result set.
    pub columns: Vec<ColumnDefinition>,
    /// Time at which the result set was created.
    pub created_at: DateTime<Utc>,
    /// Time at which the result set expires. The value is `None` if the result set is pinned.
    pub expires_at: Option<DateTime<Utc>>,
    /// Number of times that clients have read the rows.
    pub access_count: u64,
}

/// The response body of `PUT /{id}`, which pins, unpins or extends a result set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LifeBody {
    /// State of the result set: `pinned`, or `ready` if the result set is not pinned.
    pub status: String,
    /// Time at which the result set expires. The value is `None` if the result set is pinned.
    pub expires_at: Option<DateTime<Utc>>,
}

/// The response body of every error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Kind of error, such as `not_found` or `invalid_request`.
    pub error: String,
    /// Message for users: the reason, and how to avoid the error.
    pub message: String,
    /// Error code for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Name of the rule that a rejected SQL query violates, such as `one_statement` or `unknown_table`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Formats times for request and response bodies: UTC with `Z`, and fractional seconds only if they are not zero.
#[cfg(feature = "server")]
pub(crate) mod moment {
    use chrono::{DateTime, SecondsFormat, Utc};

    pub(crate) fn text(moment: DateTime<Utc>) -> String {
        moment.to_rfc3339_opts(SecondsFormat::AutoSi, true)
    }
}
