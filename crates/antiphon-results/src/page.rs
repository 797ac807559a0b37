//! Request and response bodies that server and client share.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::column::ColumnDefinition;

/// The default number of rows in a page.
pub const DEFAULT_LIMIT: u64 = 100;

/// A sort column and its direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sort {
    /// Name of the column. It must be a column of the set.
    pub field: String,
    /// Direction. Default: ascending.
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

/// The response body of `GET /{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetadataBody {
    /// `ready`. For saved rows also `writing` while they are being written, and `failed` if the write failed.
    pub status: String,
    /// Number of rows in the set.
    pub total_count: u64,
    /// Columns of the set.
    pub columns: Vec<ColumnDefinition>,
    /// Creation time.
    pub created_at: DateTime<Utc>,
    /// Expiry time. `None` if the set is pinned.
    pub expires_at: Option<DateTime<Utc>>,
    /// Number of accesses to the rows.
    pub access_count: u64,
}

/// The response body of `PUT /{id}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LifeBody {
    /// `pinned`, or `ready` if the set is not pinned.
    pub status: String,
    /// Expiry time. `None` if the set is pinned.
    pub expires_at: Option<DateTime<Utc>>,
}

/// The response body of every error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Kind of error in one word: `not_found`, `invalid_request`.
    pub error: String,
    /// Message for people, with advice.
    pub message: String,
    /// Error code for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Rule that the rejected query violates, for programs: `one_statement`, `unknown_table`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Formats times as the bodies do: UTC with `Z`, and a fraction only if it is not zero.
#[cfg(feature = "server")]
pub(crate) mod moment {
    use chrono::{DateTime, SecondsFormat, Utc};

    pub(crate) fn text(moment: DateTime<Utc>) -> String {
        moment.to_rfc3339_opts(SecondsFormat::AutoSi, true)
    }
}
