//! Formats rows as a table that fits the terminal.

use antiphon_results::{ColumnDefinition, ColumnType};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Row, Table, presets::NOTHING};
use serde_json::Value;

use crate::print;

/// The columns of a table, in order: their names, and whether they contain numbers.
pub(crate) struct Columns(Vec<(String, bool)>);

/// The minimum useful width of a column.
const NARROWEST: u16 = 8;

impl Columns {
    /// Returns the declared columns, or the columns of the rows if none are declared.
    pub(crate) fn of(declared: &[ColumnDefinition], rows: &[Value]) -> Self {
        let numbers = |name: &str| {
            let mut cells = rows.iter().map(|row| &row[name]).filter(|cell| !cell.is_null()).peekable();
            cells.peek().is_some() && cells.all(Value::is_number)
        };
        if !declared.is_empty() {
            let known =
                |column: &ColumnDefinition| matches!(column.kind, ColumnType::Number | ColumnType::Integer);
            return Self(
                declared.iter().map(|it| (it.name.clone(), known(it) || numbers(&it.name))).collect(),
            );
        }
        let mut names: Vec<&String> = Vec::new();
        for name in rows.iter().filter_map(Value::as_object).flat_map(|row| row.keys()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Self(names.into_iter().map(|name| (name.clone(), numbers(name))).collect())
    }

    /// Keeps only the columns `names`, in the given order. The error lists the existing columns.
    pub(crate) fn choose(&mut self, names: &[String]) -> Result<(), String> {
        let find = |name: &String| {
            let known: Vec<String> = self.0.iter().map(|(name, _)| print::clean(name)).collect();
            let missing = || format!("column `{name}` does not exist; the columns are {}", known.join(", "));
            self.0.iter().find(|(known, _)| known == name).cloned().ok_or_else(missing)
        };
        self.0 = names.iter().map(find).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Removes the columns that do not fit, and returns their names.
    pub(crate) fn fit(&mut self, width: Option<u16>) -> Vec<String> {
        let most = width.map_or(usize::MAX, |width| usize::from((width / NARROWEST).max(1)));
        if self.0.len() <= most {
            return Vec::new();
        }
        self.0.split_off(most).into_iter().map(|(name, _)| name).collect()
    }

    /// Formats the table. If `width` is set, no line is longer than `width`, and wide cells are shortened.
    pub(crate) fn table(&self, rows: &[Value], width: Option<u16>) -> String {
        let mut table = Table::new();
        table.load_preset(NOTHING);
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        table.set_header(line(self.0.iter().map(|(name, _)| print::clean(name)), width));
        for row in rows {
            table.add_row(line(self.0.iter().map(|(name, _)| cell(row.get(name))), width));
        }
        for (column, (_, numbers)) in table.column_iter_mut().zip(&self.0) {
            if *numbers {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        print::trimmed(&table)
    }
}

fn line(cells: impl Iterator<Item = String>, width: Option<u16>) -> Row {
    let mut row = Row::from(cells.map(Cell::new).collect::<Vec<_>>());
    if width.is_some() {
        row.max_height(1);
    }
    row
}

/// Formats a cell in one line.
fn cell(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) => print::clean(text).replace(['\n', '\t'], " "),
        Some(value) => value.to_string(),
    }
}

/// Formats the position of the shown rows, for example as `rows 1 to 20 of 11,234`.
pub(crate) fn footer(offset: u64, shown: u64, total: u64) -> String {
    match shown {
        0 if total == 0 => "no rows".to_owned(),
        0 => format!("no rows from {} on; there are {}", grouped(offset), grouped(total)),
        _ => format!("rows {} to {} of {}", grouped(offset + 1), grouped(offset + shown), grouped(total)),
    }
}

/// Formats a number with commas between the thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_stand_right_nulls_are_shown_and_wide_cells_are_clipped() {
        let rows = [
            json!({"name": "Aurora Ridge University of the Northern Plains", "size": 11234, "head": null}),
            json!({"name": "Elm\u{1b}[31m\nCollege", "size": 7, "head": {"name": "Ada"}}),
        ];
        let columns = Columns::of(&[], &rows);
        assert_snapshot!(columns.table(&rows, None), @r#"
        name                                             size  head
        Aurora Ridge University of the Northern Plains  11234  null
        Elm�[31m College                                    7  {"name":"Ada"}
        "#);
        let narrow = columns.table(&rows, Some(40));
        assert!(
            narrow.lines().count() == 3 && narrow.lines().all(|line| line.chars().count() <= 40),
            "{narrow}"
        );
        assert!(narrow.contains("..."), "{narrow}");
    }

    #[test]
    fn columns_that_do_not_fit_are_left_off_and_named() {
        let mut columns = Columns::of(&["a", "b", "c"].map(ColumnDefinition::string), &[]);
        assert_eq!(columns.fit(Some(80)), Vec::<String>::new());
        assert_eq!(columns.fit(Some(16)), ["c"]);
        let error = columns.choose(&["z".into()]).unwrap_err();
        assert_eq!(error, "column `z` does not exist; the columns are a, b");
    }

    #[test]
    fn page_says_which_rows_it_has() {
        assert_eq!(footer(0, 20, 11_234), "rows 1 to 20 of 11,234");
        assert_eq!(footer(99, 0, 5), "no rows from 99 on; there are 5");
        assert_eq!(footer(0, 0, 0), "no rows");
        assert_eq!(grouped(1_000_000), "1,000,000");
    }
}
