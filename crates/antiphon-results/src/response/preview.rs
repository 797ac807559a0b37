//! Selects and shortens the rows of a preview, within limits.

use serde::{Deserialize, Serialize};

use super::{clean, text};
use crate::{
    column::{ColumnDefinition, ColumnType},
    exact,
    rows::{Row, Rows},
};

/// The limits of a preview.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bounds {
    /// Maximum size of the preview as JSON, in bytes.
    pub(crate) bytes: usize,
    /// Maximum number of characters in one cell.
    pub(crate) cell: usize,
    /// Maximum number of columns.
    pub(crate) columns: usize,
}

/// The preview rows for a model, and the numbers of rows, columns and cells that the preview omits or shortens.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Preview {
    pub(crate) rows: Vec<Row>,
    pub(crate) cut: Omitted,
    /// The limits that were applied so that the rows and their columns fit in the preview.
    pub(crate) bounds: Bounds,
}

/// The number of rows, columns and cells that a preview omits or shortens.
///
/// A shortened cell in a preview ends with `…`, and has no other mark. A program that needs whole values must fetch
/// the rows. If all numbers of an `Omitted` are 0, all values in the preview are complete. Only spaces, line breaks
/// and invisible characters in the preview can differ from the stored values.
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
    /// Returns `true` if the preview omits no rows and no columns, and shortens no cells.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The minimum length of a cell. Cells are not shortened below this length to make a row fit.
const LEAST_CELL: usize = 8;

/// The minimum length of a shortened column name. With a shorter minimum, columns with the same prefix could get the
/// same name.
const LEAST_NAME: usize = 64;

impl Preview {
    /// Creates a preview with as many of `rows` as fit in the limits.
    pub(crate) fn new(
        rows: &Rows,
        columns: &[ColumnDefinition],
        bounds: Bounds,
    ) -> Result<Self, serde_json::Error> {
        let rows = parsed(rows)?;
        let columns = Columns { all: columns, shown: columns.len() };
        Ok(Self::tightened(&rows, bounds, |tight| Self::fill(&rows, columns, tight, bounds.bytes)))
    }

    /// Creates a preview with the columns that [`row_columns`] returns. The rows and the column definitions of the
    /// preview together stay within the size limit.
    pub(crate) fn with_columns(
        rows: &Rows,
        columns: &[ColumnDefinition],
        bounds: Bounds,
    ) -> Result<Self, serde_json::Error> {
        let rows = parsed(rows)?;
        Ok(Self::tightened(&rows, bounds, |tight| {
            let (shown, bytes) = definitions(columns, tight, tight.bytes / 2);
            // Without any column, a row would be empty.
            let shown = shown.len().max(1).min(columns.len());
            Self::fill(&rows, Columns { all: columns, shown }, tight, bounds.bytes.saturating_sub(bytes))
        }))
    }

    /// Returns a preview with at least one row, if possible. A row that is too wide for the whole preview is shown
    /// with shorter cells, then with fewer columns. A part of a row is more useful than an empty preview.
    fn tightened(rows: &[Row], bounds: Bounds, fill: impl Fn(Bounds) -> Self) -> Self {
        let mut tight = bounds;
        loop {
            let mut preview = fill(tight);
            preview.bounds = tight;
            if !preview.rows.is_empty() || rows.is_empty() {
                return preview;
            }
            if tight.cell > LEAST_CELL {
                tight.cell = (tight.cell / 2).max(LEAST_CELL);
            } else if tight.columns > 1 {
                tight.columns /= 2;
            } else {
                return preview;
            }
        }
    }

    fn fill(rows: &[Row], columns: Columns<'_>, bounds: Bounds, mut left: usize) -> Self {
        let mut preview = Self::default();
        for row in rows {
            let (row, shortened, omitted) = fit(row, columns, bounds);
            // The row must fit as JSON and as a line of text.
            let bytes = json_bytes(&row).max(text::line_bytes(&row));
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

/// The declared columns of a result set, and the number of columns that a preview shows. A preview shows the first
/// columns.
#[derive(Clone, Copy)]
struct Columns<'a> {
    all: &'a [ColumnDefinition],
    shown: usize,
}

/// Returns a copy of a row that fits in the limits: only the first columns, and shortened cells. The columns are in the
/// declared order. The function also returns the number of shortened cells and the number of omitted members.
fn fit(row: &Row, columns: Columns<'_>, bounds: Bounds) -> (Row, u64, u64) {
    let mut shortened = 0;
    let mut fitting = Row::new();
    let Columns { all, shown } = columns;
    let declared = all[..shown].iter().filter_map(|column| row.get_key_value(&column.name));
    // Undeclared members come last, so they are shown only after all declared columns.
    let undeclared =
        row.iter().filter(|(name, _)| shown == all.len() && all.iter().all(|column| column.name != **name));
    for (name, value) in declared.chain(undeclared).take(bounds.columns) {
        let (value, cut) = clean::value(value, bounds.cell);
        shortened += u64::from(cut);
        fitting.insert(clean::text(name, bounds.cell.max(LEAST_NAME)).0, value);
    }
    let omitted = row.len().saturating_sub(fitting.len()) as u64;
    (fitting, shortened, omitted)
}

/// Returns the cleaned columns that fit in the limit, and the number of columns that do not fit.
pub(crate) fn shown_columns(columns: &[ColumnDefinition], bounds: Bounds) -> (Vec<ColumnDefinition>, u64) {
    let (shown, _) = definitions(columns, Bounds { columns: usize::MAX, ..bounds }, bounds.bytes);
    let omitted = (columns.len() - shown.len()) as u64;
    (shown, omitted)
}

/// Returns the columns of the rows in a preview. The definitions of the returned columns use at most half of the size
/// limit of the preview.
pub(crate) fn row_columns(columns: &[ColumnDefinition], bounds: Bounds) -> Vec<ColumnDefinition> {
    definitions(columns, bounds, bounds.bytes / 2).0
}

/// Returns the first columns with cleaned text, and the size of these columns in bytes. If the columns do not fit in
/// `bytes`, the descriptions are omitted, because names and types are more useful. If the columns still do not fit, the
/// last columns are omitted.
fn definitions(columns: &[ColumnDefinition], bounds: Bounds, bytes: usize) -> (Vec<ColumnDefinition>, usize) {
    let size = |columns: &[ColumnDefinition]| columns.iter().map(definition_bytes).sum::<usize>();
    let first = columns.iter().take(bounds.columns);
    let mut shown: Vec<_> = first.map(|column| cleaned(column, bounds)).collect();
    if size(&shown) > bytes {
        for column in &mut shown {
            column.format = None;
            column.description = None;
        }
    }
    let mut used = size(&shown);
    while used > bytes
        && let Some(last) = shown.pop()
    {
        used -= definition_bytes(&last);
    }
    (shown, used)
}

/// Returns the size of a column in a preview: the size as JSON or the size in the header of the text, whichever is
/// larger.
fn definition_bytes(column: &ColumnDefinition) -> usize {
    json_bytes(column).max(text::cell_bytes(&column.name))
}

fn cleaned(column: &ColumnDefinition, bounds: Bounds) -> ColumnDefinition {
    let limit = bounds.cell.max(LEAST_NAME);
    let clean = |text: &String| clean::text(text, limit).0;
    let mut column = column.clone();
    column.name = clean(&column.name);
    column.format = column.format.as_ref().map(clean);
    column.description = column.description.as_ref().map(clean);
    if let ColumnType::Other(name) = &column.kind {
        column.kind = ColumnType::Other(clean(name));
    }
    column
}

/// Returns the size of a value as JSON, with the comma after it.
fn json_bytes<T: Serialize>(value: &T) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |json| json.len() + 1)
}

fn parsed(rows: &Rows) -> Result<Vec<Row>, serde_json::Error> {
    rows.iter().map(exact::values).collect()
}
