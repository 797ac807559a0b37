//! The rows of a preview, within limits.

use serde::{Deserialize, Serialize};

use super::clean;
use crate::{
    column::ColumnDefinition,
    exact,
    rows::{Row, Rows},
};

/// The limits of a preview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Maximum size in bytes of JSON.
    pub(crate) bytes: usize,
    /// Maximum number of characters in one cell.
    pub(crate) cell: usize,
    /// Maximum number of columns.
    pub(crate) columns: usize,
}

/// The rows for a model, and the counts of omitted content.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Preview {
    pub(crate) rows: Vec<Row>,
    pub(crate) cut: Omitted,
}

/// The number of rows, columns and cells that a preview omits or shortens.
///
/// A shortened cell ends with `…`, and has no other mark. A program that needs whole values must fetch the rows. If
/// all numbers are 0, each value is complete, except for spaces, line breaks and invisible characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Omitted {
    /// Number of rows that did not fit into the preview.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_rows: u64,
    /// Number of columns that did not fit into the preview.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_columns: u64,
    /// Number of cells whose text was shortened.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shortened_cells: u64,
}

impl Omitted {
    /// Returns whether the preview contains all content, so that all numbers are 0.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The minimum length of a cell that is shortened to make a row fit.
const LEAST_CELL: usize = 8;

/// The minimum length of a shortened column name. With less, columns with the same prefix could get the same name.
const LEAST_NAME: usize = 64;

impl Preview {
    /// Creates a preview with as many of `rows` as fit.
    pub(crate) fn new(
        rows: &Rows,
        columns: &[ColumnDefinition],
        bounds: Bounds,
    ) -> Result<Self, serde_json::Error> {
        let rows: Vec<Row> = rows.iter().map(exact::values).collect::<Result<_, _>>()?;
        // A row that is too wide for the whole preview is shown with shorter cells, then with fewer columns. A part of
        // a row is more useful than an empty preview.
        let mut tight = bounds;
        loop {
            let preview = Self::fill(&rows, columns, tight, bounds.bytes);
            if !preview.rows.is_empty() || rows.is_empty() {
                return Ok(preview);
            }
            if tight.cell > LEAST_CELL {
                tight.cell = (tight.cell / 2).max(LEAST_CELL);
            } else if tight.columns > 1 {
                tight.columns /= 2;
            } else {
                return Ok(preview);
            }
        }
    }

    fn fill(rows: &[Row], columns: &[ColumnDefinition], bounds: Bounds, mut left: usize) -> Self {
        let mut preview = Self::default();
        for row in rows {
            let (row, shortened, omitted) = fit(row, columns, bounds);
            let bytes = serde_json::to_string(&row).map_or(usize::MAX, |json| json.len() + 1);
            if bytes > left {
                break;
            }
            left -= bytes;
            preview.cut.shortened_cells += shortened;
            preview.cut.omitted_columns = preview.cut.omitted_columns.max(omitted);
            preview.rows.push(row);
        }
        preview.cut.omitted_rows = (rows.len() - preview.rows.len()) as u64;
        preview
    }
}

/// Returns a row with its first columns and limited cells, in the order of the declared columns. Also returns the
/// number of shortened cells and the number of omitted members.
fn fit(row: &Row, columns: &[ColumnDefinition], bounds: Bounds) -> (Row, u64, u64) {
    let mut shortened = 0;
    let mut fitting = Row::new();
    let declared = columns.iter().filter_map(|column| row.get_key_value(&column.name));
    let undeclared = row.iter().filter(|(name, _)| columns.iter().all(|column| column.name != **name));
    for (name, value) in declared.chain(undeclared).take(bounds.columns) {
        let (value, cut) = clean::value(value, bounds.cell);
        shortened += u64::from(cut);
        fitting.insert(clean::text(name, bounds.cell.max(LEAST_NAME)).0, value);
    }
    let omitted = row.len().saturating_sub(fitting.len()) as u64;
    (fitting, shortened, omitted)
}

/// Returns the cleaned columns that fit in the limit, and the number of those that do not.
pub(crate) fn shown_columns(columns: &[ColumnDefinition], bounds: Bounds) -> (Vec<ColumnDefinition>, u64) {
    let mut left = bounds.bytes;
    let limit = bounds.cell.max(LEAST_NAME);
    let clean = |text: &String| clean::text(text, limit).0;
    let mut shown = Vec::new();
    for column in columns {
        let mut column = column.clone();
        column.name = clean(&column.name);
        column.format = column.format.as_ref().map(clean);
        column.description = column.description.as_ref().map(clean);
        let bytes = serde_json::to_string(&column).map_or(usize::MAX, |json| json.len() + 1);
        if bytes > left {
            break;
        }
        left -= bytes;
        shown.push(column);
    }
    let omitted = (columns.len() - shown.len()) as u64;
    (shown, omitted)
}
