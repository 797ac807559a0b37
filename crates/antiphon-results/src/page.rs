//! What a page is asked for with, and what it comes as: the bodies both sides agree on.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::column::ColumnDefinition;

/// How many rows a page has if nobody says.
pub const DEFAULT_LIMIT: u64 = 100;

/// By which column, and which way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sort {
    /// The column's name. It must be one of the set's.
    pub field: String,
    /// Which way. Default: ascending.
    #[serde(default)]
    pub order: Order,
}

impl Sort {
    /// From the least.
    pub fn ascending(field: impl Into<String>) -> Self {
        Self { field: field.into(), order: Order::Asc }
    }

    /// From the greatest.
    pub fn descending(field: impl Into<String>) -> Self {
        Self { field: field.into(), order: Order::Desc }
    }
}

/// Which way rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// From the least.
    #[default]
    Asc,
    /// From the greatest.
    Desc,
}

/// The answer to `GET /:id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetadataBody {
    /// `ready`; of rows that are saved, `writing` before and `failed` if they never will be.
    pub status: String,
    /// How many rows the set has.
    pub total_count: u64,
    /// Its columns.
    pub columns: Vec<ColumnDefinition>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it ends; never, if it is pinned.
    pub expires_at: Option<DateTime<Utc>>,
    /// How often its rows were read.
    pub access_count: u64,
}

/// The answer to `PUT /:id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LifeBody {
    /// `pinned`, or `ready` again.
    pub status: String,
    /// When it ends; never, if it is pinned.
    pub expires_at: Option<DateTime<Utc>>,
}

/// Every answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What kind of error, in one word: `not_found`, `invalid_request`.
    pub error: String,
    /// What to do about it, for people.
    pub message: String,
    /// Which error exactly, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Which rule a query broke that was refused, for programs: `one_statement`, `unknown_table`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Writes moments as the bodies do: UTC, with a `Z`, and no fraction where there is none.
#[cfg(feature = "server")]
pub(crate) mod moment {
    use chrono::{DateTime, SecondsFormat, Utc};

    pub(crate) fn text(moment: DateTime<Utc>) -> String {
        moment.to_rfc3339_opts(SecondsFormat::AutoSi, true)
    }
}
