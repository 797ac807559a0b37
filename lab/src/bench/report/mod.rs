//! `cargo xtask bench report`: every kind, one after the other, on one page.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use self::part::{Length, Part};
use super::bars::bars;
use super::figures::{Figure, missed};
use crate::place::{Machine, Source};
use crate::project::Project;

mod page;
mod part;
mod sizing;

const FIGURES: &str = "docs/reference/bench-figures.json";
const PAGE: &str = "docs/benchmarks.md";
const GUIDE: &str = "docs/guides/deploying.md";

/// Options of `cargo xtask bench report`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure only these, and keep what the page has of the others.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Measure for a shorter time; the page then says so.
    #[arg(long)]
    quick: bool,
    /// Have tasks run on Restate, too; needs npm, and some minutes the first time.
    #[arg(long)]
    restate: bool,
    /// Fail when a figure is not reached.
    #[arg(long)]
    strict: bool,
    /// Measure nothing: write the page anew from the figures that are there.
    #[arg(long, conflicts_with_all = ["only", "quick", "restate", "strict"])]
    pub(super) render: bool,
}

/// All that the page says.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Report {
    sections: Vec<Section>,
}

/// One part, and where it was measured: parts may be repeated one by one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Section {
    part: Part,
    source: Source,
    machine: Machine,
    quick: bool,
    commands: Vec<String>,
    figures: Vec<Figure>,
}

/// Measures, and writes the page anew after each part.
pub(super) fn main(project: &Project, options: &Options) -> Result<()> {
    let mut report = Report::load(&project.root)?;
    if options.render {
        return report.write(&project.root);
    }
    let (source, machine) = (Source::read(project)?, Machine::read()?);
    let length = Length { quick: options.quick, restate: options.restate };
    let mut parts = if options.only.is_empty() { Part::ALL.to_vec() } else { options.only.clone() };
    parts.sort();
    parts.dedup();
    let (mut failed, mut short) = (Vec::new(), Vec::new());
    for (done, part) in parts.iter().enumerate() {
        let left = parts.len() - done;
        eprintln!("\n[{}{}] {done}/{} {}", "##".repeat(done), "..".repeat(left), parts.len(), part.name());
        let figures = match part.measure(project, length) {
            Ok(figures) => figures,
            // The others are worth having all the same.
            Err(error) => {
                eprintln!("{} was not measured: {error:#}", part.name());
                failed.push(format!("{}: {error:#}", part.name()));
                continue;
            }
        };
        short.extend(missed(&figures));
        let commands = part.commands(length).iter().map(|words| words.join(" ")).collect();
        report.put(Section {
            part: *part,
            source: source.clone(),
            machine: machine.clone(),
            quick: options.quick,
            commands,
            figures,
        });
        // Now, and not in the end: what follows may fail, and this took minutes.
        report.write(&project.root)?;
    }
    println!("\n{PAGE} is written; {} limits were not met", short.len());
    for figure in &short {
        println!("  {figure}");
    }
    ensure!(failed.is_empty(), "not measured: {}", failed.join("; "));
    ensure!(!options.strict || short.is_empty(), "{} limits were not met", short.len());
    Ok(())
}

impl Report {
    /// What was measured before; nothing at first.
    fn load(root: &Path) -> Result<Self> {
        let path = root.join(FIGURES);
        if !path.exists() {
            return Ok(Self::default());
        }
        serde_json::from_str(&fs::read_to_string(&path)?)
            .with_context(|| format!("{} has another form; remove it and measure everything", path.display()))
    }

    /// Takes a part in, in place of what was known of it.
    fn put(&mut self, section: Section) {
        self.sections.retain(|it| it.part != section.part);
        self.sections.push(section);
        self.sections.sort_by_key(|it| it.part);
    }

    fn of(&self, part: Part) -> Option<&Section> {
        self.sections.iter().find(|section| section.part == part)
    }

    /// Everything that follows from the figures, by its place in the tree.
    fn files(&self, guide: &str) -> Result<Vec<(PathBuf, String)>> {
        let mut files = vec![
            (FIGURES.into(), serde_json::to_string_pretty(self)? + "\n"),
            (PAGE.into(), page::page(self)),
            (GUIDE.into(), sizing::fill(guide, &sizing::table(self))?),
        ];
        for section in &self.sections {
            if let Some(picture) = bars(section.part.title(), &section.figures)? {
                files.push((Path::new("docs").join(picture_of(section.part)), picture));
            }
        }
        Ok(files)
    }

    fn write(&self, root: &Path) -> Result<()> {
        let guide = fs::read_to_string(root.join(GUIDE))?;
        for (path, text) in self.files(&guide)? {
            fs::write(root.join(&path), text)
                .with_context(|| format!("could not write {}", path.display()))?;
        }
        Ok(())
    }
}

/// From `docs`.
fn picture_of(part: Part) -> String {
    format!("images/bench-{}.svg", part.name())
}

#[cfg(test)]
mod tests;
