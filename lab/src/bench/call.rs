//! `cargo xtask bench call`: a tool call over HTTP, ours beside bare rmcp.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::PACKAGE;
use super::figures::{Asked, CPU, Figure, MIB};
use super::measure::{SLICE, Spread, as_f64, pinned};
use crate::mcp::{self, Connection};
use crate::proc::{cpu_time, peak_mib};
use crate::project::{Profile, Project};
use crate::server::{self, Server};
use crate::table::Table;

const BARE: &str = "bare-echo";
const OURS: &str = "antiphon-echo";

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
    pub(super) limit: Option<f64>,
}

/// Measures both servers on both revisions.
pub(super) fn main(project: &Project, options: &Options) -> Result<Vec<Figure>> {
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
    let mut table = Table::new(COLUMNS);
    let mut figures = Vec::new();
    let mut ratios = Vec::new();
    for revision in [mcp::LEGACY, mcp::MODERN] {
        let mut sides = Vec::new();
        for (bin, binary) in &servers {
            sides.push(Side::start(bin, binary, &[], revision, options.connections, &log)?);
        }
        in_turn(&mut sides, revision, slices, &bar)?;
        for side in &sides {
            table.row(side.row(revision)?);
        }
        let [bare, ours] = &sides[..] else { anyhow::bail!("two servers are compared") };
        let call = format!("a tool call at {revision}");
        let cpu = ours.figure(&call, "bare rmcp", bare)?.asked(options.limit.map(Asked::RatioAtMost));
        figures.push(cpu.sizing(call));
        let memory = format!("most memory of the server at {revision}");
        let peak = Figure::new(&memory, MIB, ours.peak()?).beside("bare rmcp", bare.peak()?);
        figures.push(peak.sizing(format!("{memory}, under {} connections", options.connections)));
        ratios.push((revision, ours.beside(bare)?));
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
    }
    Ok(figures)
}

pub(super) const COLUMNS: [&str; 8] =
    ["server", "revision", "requests", "req/s", "p50 µs", "p99 µs", "CPU µs/req", "peak RSS MiB"];

/// Loads all sides in short slices: each goes first as often as any other.
pub(super) fn in_turn(
    sides: &mut [Side<'_>],
    revision: &str,
    slices: usize,
    bar: &ProgressBar,
) -> Result<()> {
    let count = sides.len();
    for slice in 0..slices {
        for turn in 0..count {
            let side = &mut sides[(turn + slice) % count];
            bar.set_message(format!("{} at {revision}", side.bin));
            side.slices.push(load(&side.server, revision, &mut side.connections, SLICE)?);
            bar.inc(1);
        }
    }
    Ok(())
}

/// One of the servers that are compared.
#[derive(Debug)]
pub(super) struct Side<'a> {
    bin: &'a str,
    server: Server,
    /// Kept from slice to slice, so that connecting is no part of the measure.
    connections: Vec<Connection>,
    slices: Vec<Slice>,
}

impl<'a> Side<'a> {
    /// Starts `binary`, which echoes, and warms it up.
    pub(super) fn start(
        bin: &'a str,
        binary: &Path,
        extra: &[String],
        revision: &str,
        connections: usize,
        log: &Path,
    ) -> Result<Self> {
        let server = pinned(0, || Server::start(binary, server::free_address()?, extra, log))?;
        let address = server.address();
        check_echo(address, revision).with_context(|| format!("{bin} does not echo at {revision}"))?;
        let mut connections: Vec<_> = (0..connections.max(1)).map(|_| Connection::new(address)).collect();
        // The first slice is not counted.
        load(&server, revision, &mut connections, SLICE)?;
        Ok(Self { bin, server, connections, slices: Vec::new() })
    }

    /// Its CPU per request beside another's: the median of the pairs.
    pub(super) fn beside(&self, other: &Self) -> Result<Spread> {
        let pairs = other.slices.iter().zip(&self.slices);
        let paired = pairs.map(|(other, ours)| ours.cpu_per_request() / other.cpu_per_request()).collect();
        Spread::of(paired).context("no slice was measured")
    }

    /// The same as data.
    pub(super) fn figure(&self, name: &str, who: &str, other: &Self) -> Result<Figure> {
        let figure = Figure::new(name, CPU, self.cpu()?.median).beside(who, other.cpu()?.median);
        Ok(figure.paired(&self.beside(other)?))
    }

    /// The most memory that the server has had, in MiB.
    fn peak(&self) -> Result<f64> {
        peak_mib(self.server.pid())
    }

    fn cpu(&self) -> Result<Spread> {
        Spread::of(self.slices.iter().map(Slice::cpu_per_request).collect()).context("no slice was measured")
    }

    pub(super) fn row(&self, revision: &str) -> Result<[String; 8]> {
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
            format!("{:.1}", self.peak()?),
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

fn percentile(sorted: &[u32], percent: usize) -> u32 {
    let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_stay_inside() {
        assert_eq!(percentile(&[1, 2, 3, 4], 50), 3);
        assert_eq!(percentile(&[1], 99), 1);
        assert_eq!(percentile(&[], 99), 0);
    }
}
