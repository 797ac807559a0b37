//! The figures of snapshots: as a table, as data, and as a picture of how they grow.

use std::fs;

use anyhow::Result;

use super::{MEMORY, Measured};
use crate::bench::figures::{Asked, Figure, MIB};
use crate::bench::plot::{Line, plot};
use crate::project::Project;
use crate::table::Table;

/// What one measurement is held to, each time beside something else.
fn held(it: &Measured, all: &[Measured]) -> Vec<Figure> {
    let of = |what: &str| all.iter().find(|measured| measured.what == what).map(|measured| measured.ours);
    let (unit, scale) = if it.ours < 1.0 { ("ms", 1e3) } else { ("s", 1.0) };
    let beside = |who: &str, seconds: Option<f64>, asked: Option<f64>| {
        let figure = Figure::new(format!("{}, {} rows", it.what, it.rows), unit, it.ours * scale);
        Some(figure.beside(who, seconds? * scale).asked(asked.map(Asked::RatioAtMost)))
    };
    let engine = match it.what {
        // A speed of 0.8 of the bare engine's.
        "ingest" | "all as NDJSON" | "all as Arrow IPC" => Some(1.25),
        "sort, once" => Some(1.2),
        _ => None,
    };
    let database = if it.what == "page, deep" { Some(0.05) } else { None };
    let other = match it.what {
        "page, deep" => beside("the first page", of("page, first"), Some(2.0)),
        "sorted page, first" | "sorted page, deep" => beside("an unsorted page", of("page, deep"), Some(1.5)),
        _ => None,
    };
    let figures =
        [beside("the bare engine", it.bare, engine), other, beside("PostgreSQL", it.postgres, database)];
    figures.into_iter().flatten().collect()
}

/// All of one set as data.
pub(super) fn figures(measured: &[Measured], rows: u64) -> Vec<Figure> {
    let most = |of: fn(&Measured) -> u64| measured.iter().map(of).max().map_or(0.0, mib);
    let name = format!("most memory of any step, {rows} rows");
    let memory = Figure::new(&name, MIB, most(|it| it.rss)).beside("the bare engine", most(|it| it.bare_rss));
    let sizing = format!("most memory to save, sort, page and export {rows} rows");
    let memory = memory.asked(Asked::AtMost(mib(MEMORY))).sizing(sizing);
    measured.iter().flat_map(|it| held(it, measured)).chain([memory]).collect()
}

#[expect(clippy::cast_precision_loss, reason = "memory stays far below 2^52 bytes")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

/// Prints one set.
pub(super) fn print(measured: &[Measured], rows: u64) {
    let mut table =
        Table::new(["", "bare", "ours", "ours / bare", "PostgreSQL", "memory", "of bare", "asked for", ""]);
    for it in measured {
        let held = held(it, measured);
        let asked: Vec<String> =
            held.iter().filter_map(|it| Some(format!("{} of {}", it.asked?, it.beside))).collect();
        let reached = it.rss < MEMORY && held.iter().all(|it| it.is_met() != Some(false));
        let bare = it.bare.unwrap_or(f64::NAN);
        table.row([
            it.what.into(),
            time(bare),
            time(it.ours),
            format!("{:.2}", it.ours / bare),
            it.postgres.map_or_else(String::new, time),
            format!("{} MiB", it.rss / 1024 / 1024),
            format!("{} MiB", it.bare_rss / 1024 / 1024),
            asked.join(", "),
            if reached { "reached".into() } else { "NOT reached".into() },
        ]);
    }
    println!("{rows} rows, 8 columns; pages of 100 rows; memory under {} MiB\n{table}", MEMORY / 1024 / 1024);
}

fn time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.2} ms", seconds * 1000.0) } else { format!("{seconds:.2} s") }
}

const TITLE: &str = "Snapshots: time of an operation by number of rows (lower is better)";

/// How the figures grow with the rows.
pub(super) fn draw(project: &Project, all: &[Measured]) -> Result<()> {
    let mut lines: Vec<Line> = Vec::new();
    for it in all {
        #[expect(clippy::cast_precision_loss, reason = "rows stay far below 2^52")]
        let point = (it.rows as f64, it.ours);
        match lines.iter_mut().find(|line| line.name == it.what) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name: it.what.into(), points: vec![point] }),
        }
    }
    let picture = plot(TITLE, "rows, logarithmic", "time, logarithmic", &lines)?;
    fs::write(project.root.join("docs/images/snapshot-scale.svg"), picture)?;
    let figures = serde_json::to_string_pretty(all)?;
    fs::create_dir_all(project.root.join("docs/reference"))?;
    fs::write(project.root.join("docs/reference/snapshot-figures.json"), figures + "\n")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::missed;

    fn measured(what: &'static str, ours: f64, bare: f64, postgres: Option<f64>) -> Measured {
        Measured { what, rows: 10, ours, bare: Some(bare), postgres, rss: 40 << 20, bare_rss: 20 << 20 }
    }

    #[test]
    fn each_step_is_held_to_what_was_asked_of_it() {
        let good = [
            measured("page, first", 0.01, 0.01, Some(0.001)),
            measured("page, deep", 0.015, 0.01, Some(0.4)),
            measured("sort, once", 11.0, 10.0, None),
            measured("sorted page, deep", 0.02, 0.01, None),
        ];
        assert_eq!(missed(&figures(&good, 10)), Vec::<String>::new());
        let bad = [
            measured("page, first", 0.01, 0.01, None),
            measured("page, deep", 0.03, 0.01, Some(0.4)),
            measured("sort, once", 13.0, 10.0, None),
            Measured { rss: 400 << 20, ..measured("ingest", 1.3, 1.0, None) },
        ];
        assert_eq!(
            missed(&figures(&bad, 10)),
            [
                "page, deep, 10 rows: 3.00 times the first page, at most 2",
                "page, deep, 10 rows: 0.075 times PostgreSQL, at most 0.05",
                "sort, once, 10 rows: 1.30 times the bare engine, at most 1.2",
                "ingest, 10 rows: 1.30 times the bare engine, at most 1.25",
                "most memory of any step, 10 rows: 400 MiB, at most 384",
            ]
        );
    }
}
