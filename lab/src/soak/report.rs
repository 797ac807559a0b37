//! Says what came of it: on the terminal, as a page, as figures.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use super::chart;
use super::fault::Fault;
use super::figures::Figures;
use super::memory::FLAT;
use super::replicas::{COUNT, ELDEST};
use super::tally::{Never, Slip};
use crate::table::Table;

/// The tables, each with what it is about.
fn tables(figures: &Figures) -> Vec<(&'static str, Table)> {
    vec![
        ("Load", whole(figures)),
        ("Latency in milliseconds, from the scheduled time, with retries", latency(figures)),
        ("Failed first attempts, by fault", slips(figures)),
        ("Forbidden outcomes", broken_laws(figures)),
        ("Expected rejections", refused(figures)),
        ("Memory in MiB", memory(figures)),
    ]
}

pub(super) fn print(figures: &Figures) {
    for (about, table) in tables(figures) {
        println!("{about}\n{table}");
    }
    figures.complaints.iter().take(20).for_each(|complaint| println!("{complaint}"));
}

/// Fails on anything that must never happen, and on a check that checked nothing.
pub(super) fn judge(figures: &Figures) -> Result<()> {
    let failures: u64 = figures.broken_laws.values().sum();
    ensure!(failures == 0, "{failures} things happened that must not");
    if let Some(memory) = &figures.memory {
        ensure!(memory.is_flat() != Some(false), "memory grew by more than {FLAT} %");
    }
    let idle: Vec<_> =
        super::visit::Kind::ALL.iter().filter(|kind| !figures.visits.contains_key(kind)).collect();
    ensure!(idle.is_empty(), "nobody came for: {idle:?}");
    let spared: Vec<_> = Fault::ALL.iter().filter(|fault| !figures.faults.contains_key(fault)).collect();
    if !spared.is_empty() {
        bail!("there was no time for: {}", spared.iter().map(|it| it.name()).collect::<Vec<_>>().join(", "));
    }
    ensure!(figures.spans > 0, "no replica sent a span");
    Ok(())
}

/// Writes `report.md`, `soak.svg` and `figures.json` into `folder`.
pub(super) fn write(folder: &Path, figures: &Figures) -> Result<()> {
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))
    };
    fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
    put("soak.svg", chart::draw(figures)?)?;
    put("figures.json", serde_json::to_string(figures)? + "\n")?;
    put("report.md", page(figures))
}

fn page(figures: &Figures) -> String {
    let about = &figures.about;
    let mut page = String::from("# Soak test report\n\n");
    // Writing to a string does not fail.
    let _ = writeln!(
        page,
        "`cargo xtask soak` wrote this page. [The guide](../guides/soak.md) describes the test and how to read the figures.\n"
    );
    let _ = writeln!(
        page,
        "{:.0} minutes, {} visits per second, {COUNT} replicas ({} build) on {}, seed {}, commit {}, on {}.\n",
        about.seconds / 60.0,
        about.rate,
        about.build,
        about.store,
        about.seed,
        about.commit,
        about.machine
    );
    let _ = writeln!(page, "![latency, requests and memory over time](soak.svg)\n");
    for (about, table) in tables(figures) {
        let _ = writeln!(page, "## {about}\n\n{}", table.to_markdown());
    }
    if !figures.complaints.is_empty() {
        let _ = writeln!(page, "## Failures\n");
        for complaint in &figures.complaints {
            let _ = writeln!(page, "- `{}`", complaint.replace('`', "'"));
        }
    }
    page
}

fn whole(figures: &Figures) -> Table {
    let mut table = Table::new(["item", "count"]);
    let mut row = |name: &str, value: u64| table.row([name.into(), value.to_string()]);
    for (kind, count) in &figures.visits {
        row(kind.name(), *count);
    }
    row("requests answered", figures.requests);
    row("requests that needed a retry", figures.retried);
    row("visits that started late", figures.late);
    row("rows of result sets compared", figures.rows);
    row("effects in the ledger", figures.effects.all);
    row("effects with an unknown outcome, reported as such", figures.effects.unknown);
    row("batches of spans sent", figures.spans);
    for (fault, count) in &figures.faults {
        row(fault.name(), *count);
    }
    table
}

fn latency(figures: &Figures) -> Table {
    let mut table = Table::new(["requests of", "count", "p50", "p99", "p99.9"]);
    let ms = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
    for row in &figures.latency {
        table.row([row.of.into(), row.requests.to_string(), ms(row.p50), ms(row.p99), ms(row.p999)]);
    }
    table
}

fn slips(figures: &Figures) -> Table {
    let header: Vec<&str> = std::iter::once("fault").chain(Slip::ALL.map(Slip::name)).collect();
    let mut table = Table::of(&header);
    for during in Fault::ALL.map(Some).into_iter().chain([None]) {
        let count = |slip: Slip| {
            let found = figures.slips.iter().find(|it| it.slip == slip && it.during == during);
            found.map_or(0, |it| it.count).to_string()
        };
        let name = during.map_or("no fault", Fault::name).to_owned();
        table.push(std::iter::once(name).chain(Slip::ALL.map(count)).collect());
    }
    table
}

fn broken_laws(figures: &Figures) -> Table {
    let mut table = Table::new(["outcome", "count"]);
    for never in Never::ALL {
        let count = figures.broken_laws.get(&never).copied().unwrap_or_default();
        table.row([never.name().into(), count.to_string()]);
    }
    table
}

fn refused(figures: &Figures) -> Table {
    let mut table = Table::new(["request", "count"]);
    for (what, count) in &figures.refused {
        table.row([(*what).into(), count.to_string()]);
    }
    table
}

fn memory(figures: &Figures) -> Table {
    let mut table = Table::new(["process", "from s", "to s", "first", "last", "growth %"]);
    let Some(memory) = &figures.memory else { return table };
    let lives = memory.eldest.iter().chain(&memory.lives);
    for (number, life) in lives.enumerate() {
        let is_eldest = number == 0 && memory.eldest.is_some();
        let name = if is_eldest {
            "replica that was never killed, last three quarters".into()
        } else {
            format!("replica {}", life.replica)
        };
        table.row([
            name,
            format!("{:.0}", life.from),
            format!("{:.0}", life.to),
            format!("{:.1}", life.first_mib),
            format!("{:.1}", life.last_mib),
            format!("{:+.1}", life.percent),
        ]);
    }
    if let Some((first, last)) = memory.fleet {
        let growth = (last / first - 1.0) * 100.0;
        let [first, last] = [first, last].map(|mib| format!("{mib:.1}"));
        table.row(["all replicas".into(), "-".into(), "-".into(), first, last, format!("{growth:+.1}")]);
    }
    let eldest = || figures.samples.iter().filter_map(|sample| sample.replicas[ELDEST]);
    if let (Some(first), Some(last)) = (eldest().next(), eldest().next_back()) {
        table.row([
            "replica that was never killed, first and last sample".into(),
            format!("{:.0}", first.at),
            format!("{:.0}", last.at),
            format!("{:.1}", first.rss_mib),
            format!("{:.1}", last.rss_mib),
            format!("{:+.1}", (last.rss_mib / first.rss_mib - 1.0) * 100.0),
        ]);
    }
    table
}
