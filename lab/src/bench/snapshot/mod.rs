//! `cargo xtask bench snapshot`: snapshots beside the bare engines and PostgreSQL, and how they grow.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::figures::Figure;
use super::measure::Spread;
use crate::project::{Profile, Project};
use crate::services::{Backend, Host};

mod show;

const PACKAGE: &str = "antiphon-bench-snapshot";

/// What a process of ours may take, whatever it does: with a pool of 256 MiB for sorts and queries.
const MEMORY: u64 = 384 * 1024 * 1024;

/// Sets of more rows take minutes a step.
const LARGE: u64 = 20_000_000;

/// Options of `cargo xtask bench snapshot`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Rows of the sets, one after the other.
    #[arg(long, value_delimiter = ',', default_value = "10000000")]
    rows: Vec<u64>,
    /// How often each side ingests, sorts and exports; the middle counts. Sets past twenty million rows do it once.
    #[arg(long, default_value_t = 3)]
    times: usize,
    /// The most rows for PostgreSQL; larger sets are measured without it.
    #[arg(long, default_value_t = 10_000_000)]
    database_rows: u64,
    /// Draw how the figures grow, into `docs/images`, and keep them in `docs/reference`.
    #[arg(long)]
    plot: bool,
    /// Fail when a figure is not reached.
    #[arg(long)]
    pub(in crate::bench) strict: bool,
}

/// What a process said.
#[derive(Clone, Debug, Default, Deserialize)]
struct Said {
    seconds: Vec<f64>,
    check: Value,
    rss: u64,
}

/// One measurement: ours, the bare engine's, and the database's where it can do the same.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    what: &'static str,
    rows: u64,
    ours: f64,
    bare: Option<f64>,
    postgres: Option<f64>,
    /// The most memory that ours took, in bytes, and that the bare engine took.
    rss: u64,
    bare_rss: u64,
}

/// Measures, prints, and draws if that is asked for.
pub(in crate::bench) fn main(project: &Project, options: &Options) -> Result<Vec<Figure>> {
    let binary = project.build(PACKAGE, PACKAGE, Profile::Named("bench-snapshot"))?;
    let folder = project.target.join("bench").join("snapshot");
    fs::create_dir_all(&folder)?;
    let database = Host::start(Backend::Postgres.engine(), &folder, &["-c", "shared_buffers=512MB"])?;
    let mut all = Vec::new();
    let mut figures = Vec::new();
    for rows in &options.rows {
        let url = (*rows <= options.database_rows).then(|| database.url());
        let bench = Bench { binary: &binary, folder: folder.join(rows.to_string()), rows: *rows, url };
        let times = if *rows > LARGE { 1 } else { options.times };
        let measured = bench.all(times)?;
        show::print(&measured, *rows);
        figures.extend(show::figures(&measured, *rows));
        all.extend(measured);
        // Fifty million rows and their sorted copies are gigabytes.
        fs::remove_dir_all(&bench.folder)?;
    }
    database.end()?;
    if options.plot {
        show::draw(project, &all)?;
    }
    Ok(figures)
}

struct Bench<'a> {
    binary: &'a Path,
    folder: PathBuf,
    rows: u64,
    url: Option<String>,
}

impl Bench<'_> {
    fn all(&self, times: usize) -> Result<Vec<Measured>> {
        fs::create_dir_all(&self.folder)?;
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?;
        let bar = ProgressBar::new(12).with_style(style);
        let step = |what: &'static str| {
            bar.set_message(format!("{} rows: {what}", self.rows));
            bar.inc(1);
        };
        let (deep, deep_sorted) = (self.rows / 100 * 99, self.rows / 10 * 9);
        let mut measured = Vec::new();
        step("ingest");
        measured.push(self.pair("ingest", "ingest", times, &[])?);
        if self.url.is_some() {
            step("loading PostgreSQL");
            self.run("load", "postgres", &[])?;
        }
        step("pages");
        for (what, offset) in [("page, first", 0), ("page, deep", deep)] {
            let offset = offset.to_string();
            measured.push(self.pair(what, "page", 1, &["--repeat", "50", "--offset", &offset])?);
        }
        step("sort");
        measured.push(self.sorted(times)?);
        step("sorted pages");
        for (what, offset) in [("sorted page, first", 0), ("sorted page, deep", deep_sorted)] {
            let offset = offset.to_string();
            measured.push(self.pair(what, "sorted-page", 1, &["--repeat", "50", "--offset", &offset])?);
        }
        for (what, measure) in [("filter", "filter"), ("group by", "group")] {
            step(what);
            measured.push(self.pair(what, measure, 1, &["--repeat", "5"])?);
        }
        for (what, measure) in [("all as NDJSON", "ndjson"), ("all as Arrow IPC", "arrow")] {
            step(what);
            measured.push(self.pair(what, measure, times, &[])?);
        }
        bar.finish_and_clear();
        Ok(measured)
    }

    /// The same on each side, in turn, and the middle of each.
    fn pair(&self, what: &'static str, measure: &str, times: usize, more: &[&str]) -> Result<Measured> {
        let (mut ours, mut bare, mut rss, mut bare_rss) = (Vec::new(), Vec::new(), 0, 0);
        for _ in 0..times {
            let theirs = self.run(measure, "bare", more)?;
            let said = self.run(measure, "ours", more)?;
            ensure!(
                theirs.check == said.check,
                "{what}: the bare engine says {}, ours {}",
                theirs.check,
                said.check
            );
            (rss, bare_rss) = (rss.max(said.rss), bare_rss.max(theirs.rss));
            // Of an ingest the second figure is how long the preview took.
            let of = |said: Said| if measure == "ingest" { said.seconds[..1].to_vec() } else { said.seconds };
            bare.extend(of(theirs));
            ours.extend(of(said));
        }
        let postgres = match measure {
            "ingest" | "ndjson" | "arrow" => None,
            _ => self.postgres(measure, more)?,
        };
        let (ours, bare) = (middle(ours)?, Some(middle(bare)?));
        Ok(Measured { what, rows: self.rows, ours, bare, postgres, rss, bare_rss })
    }

    fn postgres(&self, measure: &str, more: &[&str]) -> Result<Option<f64>> {
        if self.url.is_none() {
            return Ok(None);
        }
        // A deep page takes it seconds: five times are enough.
        let more: Vec<&str> = more.iter().map(|word| if *word == "50" { "5" } else { word }).collect();
        Ok(Some(middle(self.run(measure, "postgres", &more)?.seconds)?))
    }

    /// A sort is made once: for the next time it is taken away again.
    fn sorted(&self, times: usize) -> Result<Measured> {
        let (mut ours, mut bare, mut rss, mut bare_rss) = (Vec::new(), Vec::new(), 0, 0);
        for time in 0..times {
            let theirs = self.run("sort", "bare", &[])?;
            bare_rss = bare_rss.max(theirs.rss);
            bare.extend(theirs.seconds);
            if time > 0 {
                remove_views(&self.folder)?;
            }
            let said = self.run("sort", "ours", &[])?;
            rss = rss.max(said.rss);
            ours.extend(said.seconds);
        }
        Ok(Measured {
            what: "sort, once",
            rows: self.rows,
            ours: middle(ours)?,
            bare: Some(middle(bare)?),
            postgres: None,
            rss,
            bare_rss,
        })
    }

    fn run(&self, measure: &str, side: &str, more: &[&str]) -> Result<Said> {
        let mut command = Command::new(self.binary);
        command.args([measure, side, "--rows", &self.rows.to_string(), "--folder"]).arg(&self.folder);
        command.args(more);
        // Both sides: what is freed goes back to the system. Otherwise glibc keeps it, for each thread, and the memory
        // that is measured is its own.
        command.env("MALLOC_TRIM_THRESHOLD_", "131072").env("MALLOC_MMAP_THRESHOLD_", "131072");
        if let Some(url) = &self.url {
            command.args(["--database", url]);
        }
        let output = command.output().context("could not start the benchmark")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{measure} of {side} failed: {errors}");
        serde_json::from_slice(&output.stdout).with_context(|| format!("{measure} of {side} said no figure"))
    }
}

fn remove_views(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        if path.file_name().is_some_and(|name| name == "views") {
            fs::remove_dir_all(path)?;
        } else {
            remove_views(&path)?;
        }
    }
    Ok(())
}

fn middle(values: Vec<f64>) -> Result<f64> {
    Ok(Spread::of(values).context("nothing was measured")?.median)
}
