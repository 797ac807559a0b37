//! The rows a model sees, within bounds.

use serde::{Deserialize, Serialize};

use super::clean;
use crate::{
    column::ColumnDefinition,
    exact,
    rows::{Row, Rows},
};

/// What bounds a preview.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// How many bytes of JSON.
    pub(crate) bytes: usize,
    /// How many characters of one cell.
    pub(crate) cell: usize,
    /// How many columns.
    pub(crate) columns: usize,
}

/// Rows for a model, and what was left out of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Preview {
    pub(crate) rows: Vec<Row>,
    pub(crate) cut: Omitted,
}

/// What a preview leaves out of the rows it could have shown.
///
/// These are counts. No mark says which cell is shortened, beside the `…` at its end: a program that needs whole values
/// fetches the rows. Where all counts are 0, each value is whole but for blanks and invisible characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Omitted {
    /// Rows that did not fit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_rows: u64,
    /// Columns that did not fit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_columns: u64,
    /// Cells that are not shown whole.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shortened_cells: u64,
}

impl Omitted {
    /// Whether nothing was left out.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A cell is never made shorter than this to let a row fit.
const LEAST_CELL: usize = 8;

/// Nor is a column's name: columns with the same beginning would become one.
const LEAST_NAME: usize = 64;

impl Preview {
    /// As many of `rows` as fit.
    pub(crate) fn new(
        rows: &Rows,
        columns: &[ColumnDefinition],
        bounds: Bounds,
    ) -> Result<Self, serde_json::Error> {
        let rows: Vec<Row> = rows.iter().map(exact::values).collect::<Result<_, _>>()?;
        // A row too wide for the whole preview is shown with shorter cells, then with fewer columns: a little of
        // every column says more than nothing.
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

/// A row with its first columns and bounded cells, in the order the columns are declared in; and how many cells
/// are shortened and how many members left out.
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

/// The columns as a model may see them: clean, and as many as fit. Says how many do not.
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
