//! `cargo xtask bench`: what Antiphon costs beside the bare engine, and what replay costs.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::mcp::{self, Connection};
use crate::project::{self, Profile, Project};
use crate::server::{self, Server};
use crate::table::Table;

const PACKAGE: &str = "antiphon-bench";
const BARE: &str = "bare-echo";
const OURS: &str = "antiphon-echo";
const SLICE: Duration = Duration::from_millis(100);

/// What to measure.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Kind {
    /// A tool call over HTTP, ours beside bare rmcp, both revisions.
    Call(Options),
    /// Replaying a journal and sealing it.
    Replay,
}

/// Options of `cargo xtask bench call`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds of load on each server and revision.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Connections that call back to back.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// Fail when CPU per request exceeds the bare engine's by more than this factor.
    #[arg(long)]
    limit: Option<f64>,
}

/// Runs one benchmark.
pub(crate) fn main(kind: &Kind) -> Result<()> {
    let project = Project::open()?;
    match kind {
        Kind::Call(options) => call(&project, options),
        Kind::Replay => {
            let binary = project.build(PACKAGE, "replay-bench", Profile::Release)?;
            project::run(&mut Command::new(binary))
        }
    }
}

fn call(project: &Project, options: &Options) -> Result<()> {
    // Short slices in turn, so that whatever else the machine does falls on both servers alike.
    let slices = usize::try_from(options.seconds.max(1) * 10)?;
    let log = project.target.join("bench").join("servers.log");
    let mut servers = Vec::new();
    for bin in [BARE, OURS] {
        let binary = project.build(PACKAGE, bin, Profile::Release)?;
        servers.push((bin, binary));
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} slices, {msg}")?;
    let bar = ProgressBar::new(4 * slices as u64).with_style(style);
    let mut table = Table::new([
        "server",
        "revision",
        "requests",
        "req/s",
        "p50 µs",
        "p99 µs",
        "CPU µs/req",
        "peak RSS MiB",
    ]);
    let mut ratios = Vec::new();
    for revision in [mcp::LEGACY, mcp::MODERN] {
        let mut sides = Vec::new();
        for (bin, binary) in &servers {
            let server = pinned(0, || Server::start(binary, server::free_address()?, &[], &log))?;
            check_echo(server.address(), revision)
                .with_context(|| format!("{bin} does not echo at {revision}"))?;
            let address = server.address();
            let mut connections: Vec<_> =
                (0..options.connections.max(1)).map(|_| Connection::new(address)).collect();
            // The first slice warms up and is not counted.
            load(&server, revision, &mut connections, SLICE)?;
            sides.push(Side { bin, server, connections, slices: Vec::new() });
        }
        for slice in 0..slices {
            // Each server goes first as often as second.
            for turn in 0..sides.len() {
                let side = &mut sides[(turn + slice) % 2];
                bar.set_message(format!("{} at {revision}", side.bin));
                side.slices.push(load(&side.server, revision, &mut side.connections, SLICE)?);
                bar.inc(1);
            }
        }
        for side in &sides {
            table.row(side.row(revision)?);
        }
        let [bare, ours] = &sides[..] else { anyhow::bail!("two servers are compared") };
        let pairs = bare.slices.iter().zip(&ours.slices);
        let paired = pairs.map(|(bare, ours)| ours.cpu_per_request() / bare.cpu_per_request()).collect();
        ratios.push((revision, Spread::of(paired).context("no slice was measured")?));
    }
    bar.finish_and_clear();
    println!(
        "{} connections, {slices} slices of {} ms each, in turn\n{table}",
        options.connections,
        SLICE.as_millis()
    );
    println!(
        "A slow moment of the machine falls on both slices of a pair: the ratio is the median of the pairs."
    );
    for (revision, Spread { low, median, high }) in ratios {
        println!(
            "{revision}: CPU per request {median:.3} times the bare engine's (half of the pairs {low:.3} to {high:.3})"
        );
        if let Some(limit) = options.limit {
            ensure!(median <= limit, "at {revision} {median:.3} is over the limit of {limit}");
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Side<'a> {
    bin: &'a str,
    server: Server,
    /// Kept from slice to slice, so that connecting is no part of the measure.
    connections: Vec<Connection>,
    slices: Vec<Slice>,
}

impl Side<'_> {
    fn cpu(&self) -> Result<Spread> {
        Spread::of(self.slices.iter().map(Slice::cpu_per_request).collect()).context("no slice was measured")
    }

    fn row(&self, revision: &str) -> Result<[String; 8]> {
        let mut latencies: Vec<u32> = self.slices.iter().flat_map(|slice| slice.latencies.clone()).collect();
        latencies.sort_unstable();
        let seconds: f64 = self.slices.iter().map(|slice| slice.time.as_secs_f64()).sum();
        let cpu = self.cpu()?;
        Ok([
            self.bin.into(),
            revision.into(),
            latencies.len().to_string(),
            format!("{:.0}", as_f64(latencies.len()) / seconds),
            percentile(&latencies, 50).to_string(),
            percentile(&latencies, 99).to_string(),
            format!("{:.1}", cpu.median),
            format!("{:.1}", peak_rss_mib(self.server.pid())?),
        ])
    }
}

/// What one stretch of load did.
#[derive(Debug)]
struct Slice {
    /// Microseconds of each request.
    latencies: Vec<u32>,
    time: Duration,
    /// CPU time the server took meanwhile.
    cpu: Duration,
}

impl Slice {
    /// Microseconds of server CPU per request.
    fn cpu_per_request(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / as_f64(self.latencies.len().max(1))
    }
}

/// Does `work` on one processor and comes back to another, so that servers and load keep out of each other's way.
///
/// What is started inside inherits the processor. Without `taskset` the figures are the same, with more noise.
fn pinned<T>(processor: u8, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let move_to = |processor: u8| {
        let us = std::process::id().to_string();
        let mut command = Command::new("taskset");
        // It fails on a machine with one processor, where there is nothing to choose.
        let _ = command
            .args(["-c", "-p", &processor.to_string(), &us])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    };
    move_to(processor);
    let done = work();
    move_to(processor + 1);
    done
}

/// Calls on all connections, back to back, for `time`.
fn load(server: &Server, revision: &str, connections: &mut [Connection], time: Duration) -> Result<Slice> {
    let request = echo(server.address(), revision).to_bytes();
    let before = cpu_time(server.pid())?;
    let start = Instant::now();
    let latencies = thread::scope(|scope| {
        let request = &request;
        let work = move |connection: &mut Connection| -> Result<Vec<u32>> {
            let mut latencies = Vec::with_capacity(20_000);
            while start.elapsed() < time {
                let sent = Instant::now();
                let response = connection.exchange(request)?;
                latencies.push(u32::try_from(sent.elapsed().as_micros())?);
                ensure!(response.status() == 200, "status {}", response.status());
            }
            Ok(latencies)
        };
        let threads: Vec<_> = connections.iter_mut().map(|it| scope.spawn(move || work(it))).collect();
        let each = threads.into_iter().map(|thread| match thread.join() {
            Ok(latencies) => latencies,
            Err(_) => Err(anyhow::anyhow!("a connection panicked")),
        });
        each.collect::<Result<Vec<_>>>()
    })?;
    let cpu = cpu_time(server.pid())?.saturating_sub(before);
    Ok(Slice { latencies: latencies.concat(), time: start.elapsed(), cpu })
}

fn echo(address: SocketAddr, revision: &str) -> crate::http::Message {
    let params = json!({ "name": "echo", "arguments": { "text": "the quick brown fox" } });
    mcp::tool_call(revision, &address.to_string(), 1, params.as_object().cloned().unwrap_or_default())
}

/// A server that answers errors quickly must not win.
fn check_echo(address: SocketAddr, revision: &str) -> Result<()> {
    let response = Connection::new(address).exchange(&echo(address, revision).to_bytes())?;
    let result = mcp::result(&response)?;
    let text = result["content"][0]["text"].as_str();
    ensure!(
        text == Some("the quick brown fox") && result["isError"] != Value::Bool(true),
        "answered {result}"
    );
    Ok(())
}

/// CPU time of the process so far.
///
/// `/proc/PID/stat` counts in ticks of 10 ms, coarse for slices of a second; `schedstat` counts nanoseconds
/// but forgets threads that have ended, so the larger of the two is the truer one.
fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
        .context("bench needs a live server and Linux's /proc")?;
    let ticks = parse_stat(&stat).context("/proc/PID/stat has another form")?;
    let mut threads = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        if let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) {
            threads += parse_schedstat(&text).unwrap_or_default();
        }
    }
    Ok(threads.max(ticks))
}

/// The first number is the time on a processor.
fn parse_schedstat(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Fields 14 and 15, user and system time; the name in field 2 may hold spaces.
fn parse_stat(text: &str) -> Option<Duration> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks(14)? + ticks(15)?)))
}

fn peak_rss_mib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kib.context("/proc/PID/status has no VmHWM")? / 1024.0)
}

fn percentile(sorted: &[u32], percent: usize) -> u32 {
    let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or_default()
}

/// Where the middle of a set of values lies, and its middle half.
#[derive(Debug, PartialEq)]
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let median =
            if values.len().is_multiple_of(2) { f64::midpoint(values[middle - 1], upper) } else { upper };
        Some(Self { low: values[values.len() / 4], median, high: values[values.len() * 3 / 4] })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests stay far below 2^52")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_past_a_name_with_spaces() {
        let stat = "7 (a ) b) S 1 1 1 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 1 1 1";
        assert_eq!(parse_stat(stat), Some(Duration::from_secs(3)));
        assert_eq!(parse_schedstat("1500 20 3\n"), Some(Duration::from_nanos(1500)));
    }

    #[test]
    fn the_median_of_an_even_count_is_between_the_middle_two() {
        let spread = Spread::of(vec![4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(spread, Spread { low: 2.0, median: 2.5, high: 4.0 });
        assert_eq!(Spread::of(vec![]), None);
    }

    #[test]
    fn percentiles_stay_inside() {
        assert_eq!(percentile(&[1, 2, 3, 4], 50), 3);
        assert_eq!(percentile(&[1], 99), 1);
        assert_eq!(percentile(&[], 99), 0);
    }
}
