//! What an operator plans with, from the figures into the guide.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::Report;
use crate::bench::figures::{CPU, Figure, RATE, short};

const BEGIN: &str = "<!-- sizing:begin -->\n";
const END: &str = "<!-- sizing:end -->\n";

/// A row for each figure that says what it is good for; a sentence where there is none.
pub(super) fn table(report: &Report) -> String {
    let mut rows = String::new();
    for section in &report.sections {
        for figure in &section.figures {
            if let Some(what) = &figure.sizing {
                let quick = if section.quick { ", quick" } else { "" };
                // Writing to a string does not fail.
                let _ = writeln!(rows, "| {what} | {} | `{}`{quick} |", plan(figure), section.source.short());
            }
        }
    }
    if rows.is_empty() {
        return "Nothing was measured yet: `cargo xtask bench` fills this in.\n".into();
    }
    format!("| what | measured | at commit |\n|---|---|---|\n{rows}")
}

/// A figure as one plans with it.
fn plan(figure: &Figure) -> String {
    let ours = short(figure.ours);
    match figure.unit.as_str() {
        CPU => format!("{ours} µs of CPU: {} operations per second use one core", short(1e6 / figure.ours)),
        RATE => format!("{ours} a second"),
        unit => format!("{ours} {unit}"),
    }
}

/// Puts `table` between the marks of `guide`.
pub(super) fn fill(guide: &str, table: &str) -> Result<String> {
    let (before, rest) = guide.split_once(BEGIN).context("the guide has no `<!-- sizing:begin -->`")?;
    let (_, after) = rest.split_once(END).context("the guide has no `<!-- sizing:end -->`")?;
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let guide = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(fill(&guide, "new\n").unwrap(), format!("a\n{BEGIN}new\n{END}b\n"));
        assert!(fill("a\n", "new\n").is_err());
        assert!(fill(&format!("{BEGIN}b"), "new\n").is_err());
    }

    #[test]
    fn processor_time_is_told_as_what_a_core_does() {
        assert_eq!(
            plan(&Figure::new("", CPU, 50.0)),
            "50.0 µs of CPU: 20,000 operations per second use one core"
        );
        assert_eq!(plan(&Figure::new("", RATE, 1234.0)), "1,234 a second");
        assert_eq!(plan(&Figure::new("", "KiB", 8.0)), "8.00 KiB");
    }
}
