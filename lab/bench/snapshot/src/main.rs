//! Snapshots beside the engines they are made of: one measurement a process, so that the memory it took is its own.
//!
//! `cargo xtask bench snapshot` runs them in turn and prints the ratios.
#![expect(clippy::print_stdout, reason = "the figure is what it prints")]

mod data;
mod export;
mod ingest;
mod pages;
mod postgres;
mod queries;
mod sort;

use std::{path::PathBuf, time::Duration};

use antiphon_results::{Owner, snapshot::SnapshotId};
use antiphon_snapshot::{SnapshotConfig, Snapshots};
use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

/// Rows in a chunk, on every side. This is the default of `SnapshotConfig`, as are the three constants below.
const CHUNK_ROWS: usize = 65_536;

/// Rows in a Parquet page.
const PAGE_ROWS: usize = 4_096;

/// The compression level of zstd.
const COMPRESSION: i32 = 1;

/// Memory for sorts and queries, in bytes.
const POOL_BYTES: usize = 256 * 1024 * 1024;

/// One measurement.
#[derive(Debug, Parser)]
struct Options {
    /// What is measured.
    measure: Measure,
    /// Whose.
    side: Side,
    /// Rows of the set.
    #[arg(long)]
    rows: u64,
    /// Where the set lies, and what is made of it.
    #[arg(long)]
    folder: PathBuf,
    /// Where to begin.
    #[arg(long, default_value_t = 0)]
    offset: u64,
    /// How often.
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// The database, for its side.
    #[arg(long, default_value = "")]
    database: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Measure {
    Ingest,
    Page,
    Sort,
    SortedPage,
    Filter,
    Group,
    Ndjson,
    Arrow,
    Load,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Ours,
    Bare,
    Postgres,
}

/// What was measured: how long each time took, and something that must be the same on all sides.
#[derive(Debug, Default)]
struct Figure {
    times: Vec<Duration>,
    check: Value,
    bytes: u64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let figure = runtime.block_on(measure(&options))?;
    let seconds: Vec<f64> = figure.times.iter().map(Duration::as_secs_f64).collect();
    println!(
        "{}",
        json!({"seconds": seconds, "check": figure.check, "bytes": figure.bytes, "rss": peak_memory()?})
    );
    Ok(())
}

async fn measure(options: &Options) -> Result<Figure> {
    use Measure as M;
    match (options.measure, options.side) {
        (M::Ingest, Side::Ours) => ingest::ours(options).await,
        (M::Ingest, _) => ingest::bare(options),
        (M::Page | M::SortedPage, Side::Ours) => pages::ours(options).await,
        (M::Page | M::SortedPage, Side::Bare) => pages::bare(options),
        (M::Sort, Side::Ours) => sort::ours(options).await,
        (M::Sort, Side::Bare) => sort::bare(options).await,
        (M::Filter | M::Group, Side::Ours) => queries::ours(options).await,
        (M::Filter | M::Group, Side::Bare) => queries::bare(options).await,
        (M::Ndjson | M::Arrow, Side::Ours) => export::ours(options).await,
        (M::Ndjson | M::Arrow, _) => export::bare(options).await,
        (M::Load, _) => postgres::load(options).await,
        (_, Side::Postgres) => postgres::measure(options).await,
    }
}

impl Options {
    fn snapshots(&self) -> Result<Snapshots> {
        let folder = self.folder.join("snapshots");
        std::fs::create_dir_all(&folder)?;
        let address = format!("file://{}", folder.canonicalize()?.display());
        let config = SnapshotConfig::default()
            .with_chunk_rows(CHUNK_ROWS)
            .with_page_rows(PAGE_ROWS)
            .with_compression(COMPRESSION)
            .with_pool_bytes(POOL_BYTES)
            // The time is measured, so its limit must not end the query.
            .with_query_time(Duration::from_hours(1));
        Ok(Snapshots::open_with(&address, [], config)?)
    }

    fn id(&self) -> SnapshotId {
        SnapshotId::new(&Owner::nobody(), format!("rs_bench{}", self.rows))
    }

    /// The stored file, for the bare engines.
    fn data(&self) -> PathBuf {
        let id = self.id();
        let folder = self.folder.join("snapshots").join(id.place).join(id.set);
        let is_data =
            |name: &PathBuf| name.file_name().is_some_and(|name| name.to_string_lossy().starts_with("data-"));
        let mut files = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|file| file.path());
        files.find(is_data).unwrap_or(folder)
    }

    /// The bare engine's sorted copy.
    fn sorted(&self) -> PathBuf {
        self.folder.join(format!("sorted-{}.parquet", self.rows))
    }
}

/// The most memory this process ever had, in bytes.
fn peak_memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("needs Linux's /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kib * 1024)
}
