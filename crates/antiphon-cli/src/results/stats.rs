//! `antiphon results stats`: shows statistics of the columns of a result set.

use antiphon_results::snapshot::{ColumnStats, StatsBody};
use anyhow::{Context as _, Result};
use axum::http::Method;
use comfy_table::{Cell, CellAlignment, Color};
use serde_json::Value;

use super::{set::Set, table};
use crate::{exit::Outcome, global::App, print};

/// The maximum width of a column's sparkline.
const WIDTH: usize = 24;
/// The maximum number of shown characters of a value.
const LETTERS: usize = 24;
/// The number of most frequent values to show.
const NAMED: usize = 3;

pub(crate) async fn run(app: &App, set: &Set) -> Result<Outcome> {
    let text = set.reach().await?.text(Method::GET, "stats", None, "being counted…").await?;
    if app.json {
        print::json(&text);
        return Ok(Outcome::Done);
    }
    let stats: StatsBody = serde_json::from_str(&text).context("the response is not the expected JSON")?;
    print::line(&shown(&stats.columns, std::env::var_os("NO_COLOR").is_none()));
    Ok(Outcome::Done)
}

/// Formats the statistics as a table. The table library prints colours only on a terminal.
fn shown(columns: &[ColumnStats], coloured: bool) -> String {
    let mut table = print::table(["COLUMN", "MISSING", "DISTINCT", "LEAST", "GREATEST", "MEAN", "SPREAD"]);
    for column in columns {
        let mut spread = Cell::new(spread(column));
        if coloured && !column.histogram.is_empty() {
            spread = spread.fg(Color::Cyan);
        }
        table.add_row([
            Cell::new(print::first_line(&column.name)),
            number(table::grouped(column.nulls)),
            number(column.distinct.map(table::grouped).unwrap_or_default()),
            value(&column.min),
            value(&column.max),
            number(column.mean.map(mean).unwrap_or_default()),
            spread,
        ]);
    }
    print::trimmed(&table)
}

/// Returns the distribution of a column: a sparkline, or the most frequent values if the column has no histogram.
fn spread(column: &ColumnStats) -> String {
    if !column.histogram.is_empty() {
        return sparkline(&column.histogram.iter().map(|bin| bin.count).collect::<Vec<_>>());
    }
    let named = column.frequent.iter().take(NAMED);
    let mut named: Vec<String> =
        named.map(|it| format!("{} ×{}", short(&it.value), table::grouped(it.count))).collect();
    if column.frequent.len() > NAMED {
        named.push("…".to_owned());
    }
    named.join(", ")
}

/// Formats counts as bars of five heights. Every count above 0 has a visible bar.
fn sparkline(counts: &[u64]) -> String {
    const BARS: [char; 5] = ['▁', '▂', '▃', '▅', '▇'];
    let per = counts.len().div_ceil(WIDTH).max(1);
    // The last chunk can have fewer bins, so its sum is scaled to the size of a full chunk.
    let mean = |chunk: &[u64]| {
        let sum: u128 = chunk.iter().copied().map(u128::from).sum();
        sum * per as u128 / chunk.len() as u128
    };
    let counts: Vec<u128> = counts.chunks(per).map(mean).collect();
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let bar = |count: u128| match count {
        0 => ' ',
        // Round up, so that the smallest count has a bar.
        count => {
            let height = (count * 5).div_ceil(most);
            BARS[usize::try_from(height).unwrap_or(5).clamp(1, 5) - 1]
        }
    };
    counts.into_iter().map(bar).collect()
}

fn number(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn value(value: &Value) -> Cell {
    let cell = Cell::new(short(value));
    if value.is_number() { cell.set_alignment(CellAlignment::Right) } else { cell }
}

/// Formats a mean with a limited number of significant digits.
fn mean(mean: f64) -> String {
    if mean.abs() >= 1e6 { format!("{mean:.4e}") } else { format!("{mean:.2}") }
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => print::clean(text).replace(['\n', '\t'], " "),
        value => value.to_string(),
    };
    if text.chars().count() <= LETTERS {
        return text;
    }
    text.chars().take(LETTERS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_column_is_a_line_with_its_picture() {
        let bins = |counts: &[u64]| {
            counts.iter().map(|count| json!({"from": 0, "to": 1, "count": count})).collect::<Vec<_>>()
        };
        let stats: StatsBody = serde_json::from_value(json!({"columns": [
            {"name": "amount", "nulls": 12, "distinct": 4321, "min": -3, "max": 1999.5, "mean": 512.126,
             "histogram": bins(&[1, 0, 20, 40, 100, 60])},
            {"name": "state", "nulls": 0, "distinct": 2, "min": "New Jersey, the Garden State", "max": "NY",
             "frequent": [{"value": "NY", "count": 3000}, {"value": "NJ", "count": 2000}]},
            {"name": "made", "nulls": 0, "min": "2025-01-01", "max": "2025-12-31", "histogram": bins(&[5; 50])},
        ]}))
        .unwrap();
        assert_snapshot!(shown(&stats.columns, false), @"
        COLUMN  MISSING  DISTINCT  LEAST                     GREATEST    MEAN    SPREAD
        amount       12     4,321                        -3      1999.5  512.13  ▁ ▁▂▇▃
        state         0         2  New Jersey, the Garden …  NY                  NY ×3,000, NJ ×2,000
        made          0            2025-01-01                2025-12-31          ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇
        ");
    }

    #[test]
    fn least_bar_is_seen_and_none_is_not() {
        assert_eq!(sparkline(&[0, 1, 1_000_000, u64::MAX]), " ▁▁▇");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[0, 0]), "  ");
        assert!(sparkline(&[1; 1000]).chars().count() <= WIDTH);
    }
}
