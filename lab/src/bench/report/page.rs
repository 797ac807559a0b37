//! The page: what was measured, where, and whether it is as good as was asked for.

use std::fmt::Write as _;

use super::part::Part;
use super::{FIGURES, Report, Section, picture_of};
use crate::bench::figures::{Asked, Figure, short};
use crate::place::Machine;

/// Writes the whole page.
pub(super) fn page(report: &Report) -> String {
    let mut text = String::from(
        "# Benchmarks\n\n\
         `cargo xtask bench` writes this page.\n\
         A ratio is the figure of Antiphon divided by the figure of the baseline, measured in one run on one machine. For times, lower is better. For rates (per second), higher is better.\n\
         Absolute times depend on the machine, so compare the ratios. *Middle half* is the range of the middle half of all measured pairs.\n\n",
    );
    summary(&mut text, report);
    machines(&mut text, report);
    for part in Part::ALL {
        // Writing to a string does not fail.
        let _ = write!(text, "## {}\n\n{}\n\n", part.title(), part.about());
        match report.of(part) {
            Some(section) => measured(&mut text, section),
            None => {
                let _ =
                    write!(text, "Not measured yet: `cargo xtask bench report --only {}`.\n\n", part.name());
            }
        }
    }
    let reference = FIGURES.trim_start_matches("docs/");
    let _ = write!(
        text,
        "## Run the benchmarks\n\n\
         ```console\n\
         $ cargo xtask bench                             # all parts; run it on an idle machine\n\
         $ cargo xtask bench report --only call,store    # some parts, each with its own commit\n\
         $ cargo xtask bench report --quick              # a shorter measurement; the page is marked\n\
         $ cargo xtask bench store                       # one part, printed and not written to the page\n\
         ```\n\n\
         You need Linux, the [programs for the tests](https://github.com/antiphon-rs/antiphon/tree/main/CONTRIBUTING.md), and `curl`.\n\
         With `--strict` the command fails if a limit is not met.\n\
         The figures as JSON: [`{reference}`]({reference}).\n"
    );
    text
}

/// A row a part.
fn summary(text: &mut String, report: &Report) {
    if report.sections.iter().any(|section| section.quick) {
        text.push_str(
            "**Parts marked quick were measured for a shorter time than the limits require. They show that the benchmark works, not the cost.**\n\n",
        );
    }
    text.push_str("| part | limits met | commit | date |\n|---|---|---|---|\n");
    for part in Part::ALL {
        let title = part.title();
        let link = format!("[{title}](#{})", title.to_lowercase().replace(' ', "-"));
        let _ = match report.of(part) {
            None => writeln!(text, "| {link} | not measured yet | | |"),
            Some(section) => {
                let asked: Vec<bool> = section.figures.iter().filter_map(Figure::is_met).collect();
                let met = asked.iter().filter(|met| **met).count();
                let met =
                    if asked.is_empty() { "no limits".into() } else { format!("{met} of {}", asked.len()) };
                let quick = if section.quick { ", quick" } else { "" };
                let source = &section.source;
                writeln!(text, "| {link} | {met} | `{}`{quick} | {} |", source.short(), source.date)
            }
        };
    }
    text.push('\n');
}

/// Each machine once, with its parts where there are several.
fn machines(text: &mut String, report: &Report) {
    let mut seen: Vec<(&Machine, Vec<&str>)> = Vec::new();
    for section in &report.sections {
        match seen.iter_mut().find(|(machine, _)| **machine == section.machine) {
            Some((_, parts)) => parts.push(section.part.name()),
            None => seen.push((&section.machine, vec![section.part.name()])),
        }
    }
    let several = seen.len() > 1;
    for (machine, parts) in &seen {
        let of = if several { format!(" for {}", parts.join(", ")) } else { String::new() };
        let Machine { cpu, cores, memory_mib, kernel, rustc } = machine;
        let _ = writeln!(
            text,
            "Machine{of}: {cpu}, {cores} cores, {memory_mib} MiB of memory, Linux {kernel}, {rustc}."
        );
    }
    if !seen.is_empty() {
        text.push('\n');
    }
}

fn measured(text: &mut String, section: &Section) {
    let title = section.part.title();
    if section.quick {
        text.push_str("*Quick.*\n\n");
    }
    if section.figures.iter().any(|figure| figure.ratio.is_some()) {
        let _ = write!(text, "![{title}: ratios and their limits]({})\n\n", picture_of(section.part));
    }
    text.push_str(
        "| figure | unit | Antiphon | baseline | its value | ratio | middle half | limit | result |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for figure in &section.figures {
        let or_nothing = |value: Option<f64>| value.map(short).unwrap_or_default();
        let middle = figure.middle.map(|(low, high)| format!("{} to {}", short(low), short(high)));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            figure.name,
            figure.unit,
            short(figure.ours),
            figure.beside,
            or_nothing(figure.bare),
            or_nothing(figure.ratio),
            middle.unwrap_or_default(),
            figure.asked.map(|asked| in_words(asked, figure)).unwrap_or_default(),
            match figure.is_met() {
                Some(true) => "met",
                Some(false) => "**not met**",
                None => "",
            }
        );
    }
    if let Some(why) = section.part.limited_by()
        && section.figures.iter().any(|figure| figure.is_met() == Some(false))
    {
        let _ = write!(text, "\nReasons for limits that are not met: {why}\n");
    }
    let commands: Vec<String> =
        section.commands.iter().map(|command| format!("`cargo xtask bench {command}`")).collect();
    let _ = write!(text, "\nMeasured by {}.\n\n", commands.join(" and "));
}

fn in_words(asked: Asked, figure: &Figure) -> String {
    match asked {
        Asked::AtMost(_) => format!("{asked} {}", figure.unit),
        Asked::RatioAtMost(_) | Asked::RatioAtLeast(_) => format!("ratio {asked}"),
    }
}
