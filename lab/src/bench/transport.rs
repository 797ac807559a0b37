//! `cargo xtask bench transport`: a tool call over each transport, beside the bare library echoing its bytes.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::PACKAGE;
use super::client::{self, Calls, Http, Pipe, Sse, TEXT, WebSocket, Wire};
use super::figures::{CPU, Figure};
use super::measure::{SLICE, Spread, as_f64, pinned};
use crate::http::Message;
use crate::mcp;
use crate::proc::cpu_time;
use crate::project::{Profile, Project};
use crate::server::{self, Server};
use crate::table::Table;

/// Options of `cargo xtask bench transport`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds of load on each server of each row.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Calls that the one client keeps in flight.
    #[arg(long, default_value_t = 16)]
    in_flight: usize,
}

/// What calls travel over.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Transport {
    Stdio,
    /// Streamable HTTP without a session, answered in JSON.
    Json,
    /// Streamable HTTP in a session, answered by an event.
    Session,
    WebSocket,
    Sse,
}

impl Transport {
    fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Json => "HTTP, JSON",
            Self::Session => "HTTP, session",
            Self::WebSocket => "WebSocket",
            Self::Sse => "HTTP+SSE",
        }
    }

    /// What it is measured beside.
    fn library(self) -> &'static str {
        match self {
            Self::Stdio => "pipe",
            Self::Json | Self::Session | Self::Sse => "axum",
            Self::WebSocket => "tungstenite",
        }
    }
}

const ROWS: [(Transport, &str); 8] = [
    (Transport::Stdio, mcp::LEGACY),
    (Transport::Stdio, mcp::MODERN),
    (Transport::Session, mcp::LEGACY),
    (Transport::Json, mcp::LEGACY),
    (Transport::Json, mcp::MODERN),
    (Transport::WebSocket, mcp::LEGACY),
    (Transport::WebSocket, mcp::MODERN),
    // The one transport that 2026-07-28 does not travel over.
    (Transport::Sse, mcp::LEGACY),
];

/// Measures each transport, ours and bare in turn.
pub(super) fn main(project: &Project, options: &Options) -> Result<Vec<Figure>> {
    let slices = usize::try_from(options.seconds.max(1) * 10)?;
    let log = project.target.join("bench").join("servers.log");
    let bare = project.build(PACKAGE, "bare-transports", Profile::Release)?;
    let ours = project.build(PACKAGE, "antiphon-transports", Profile::Release)?;
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} slices, {msg}")?;
    let bar = ProgressBar::new((2 * slices * ROWS.len()) as u64).with_style(style);
    let mut table = Table::new([
        "transport",
        "revision",
        "beside",
        "calls/s ours",
        "bare",
        "CPU µs/call ours",
        "bare",
        "ratio",
    ]);
    let (mut figures, mut said) = (Vec::new(), Vec::new());
    for (transport, revision) in ROWS {
        let place = Place { transport, revision, in_flight: options.in_flight.max(1), log: &log };
        bar.set_message(format!("{} at {revision}", transport.name()));
        let mut sides = [place.start(&bare, false)?, place.start(&ours, true)?];
        for slice in 0..slices {
            // Each server goes first as often as second.
            for turn in 0..sides.len() {
                let side = &mut sides[(turn + slice) % 2];
                let measured = side.load(place.in_flight, SLICE).with_context(|| place.to_string())?;
                side.slices.push(measured);
                bar.inc(1);
            }
        }
        let [bare, ours] = &sides;
        let pairs = bare.slices.iter().zip(&ours.slices);
        let ratios = pairs.map(|(bare, ours)| ours.cpu_per_call() / bare.cpu_per_call()).collect();
        let ratio = Spread::of(ratios).context("no slice was measured")?;
        let (ours_cpu, bare_cpu) = (ours.median(Slice::cpu_per_call)?, bare.median(Slice::cpu_per_call)?);
        table.row([
            transport.name().into(),
            revision.into(),
            transport.library().into(),
            format!("{:.0}", ours.median(Slice::calls_per_second)?),
            format!("{:.0}", bare.median(Slice::calls_per_second)?),
            format!("{ours_cpu:.1}"),
            format!("{bare_cpu:.1}"),
            format!("{:.2}", ratio.median),
        ]);
        let figure = Figure::new(format!("a call over {place}"), CPU, ours_cpu);
        let figure = figure.beside(transport.library(), bare_cpu).paired(&ratio);
        figures.push(figure.sizing(format!("a tool call over {place}")));
        said.push((place, ours_cpu - bare_cpu, ratio));
    }
    bar.finish_and_clear();
    println!(
        "one client, {} calls in flight, {slices} slices of {} ms each, in turn; medians\n{table}",
        options.in_flight.max(1),
        SLICE.as_millis()
    );
    println!(
        "Servers have one processor, the client another. Bare is no MCP: the bytes of the call come back unread."
    );
    for (place, more, Spread { low, median, high }) in said {
        let library = place.transport.library();
        println!(
            "{place}: {more:.1} µs of CPU a call more than bare {library}, {median:.2} times it (half of the pairs {low:.2} to {high:.2})"
        );
    }
    Ok(figures)
}

/// One row of the table, to be measured.
#[derive(Debug)]
struct Place<'a> {
    transport: Transport,
    revision: &'static str,
    in_flight: usize,
    log: &'a Path,
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.transport.name(), self.revision)
    }
}

impl Place<'_> {
    /// Starts a server, reaches it and warms it up.
    fn start(&self, binary: &Path, speaks_mcp: bool) -> Result<Side> {
        let (process, mut wire) = pinned(0, || self.connect(binary, speaks_mcp))?;
        let is_session = matches!(self.transport, Transport::Stdio | Transport::WebSocket | Transport::Sse);
        if speaks_mcp && is_session && self.revision == mcp::LEGACY {
            client::greet(&mut *wire).with_context(|| self.to_string())?;
        }
        let mut calls = Calls::new(self.revision)?;
        wire.send(calls.next())?;
        let answer = wire.receive()?;
        if speaks_mcp {
            check_echo(answer).with_context(|| self.to_string())?;
        }
        let mut side = Side { process, wire, calls, slices: Vec::new() };
        side.load(self.in_flight, 3 * SLICE).with_context(|| self.to_string())?;
        Ok(side)
    }

    fn connect(&self, binary: &Path, speaks_mcp: bool) -> Result<(Process, Box<dyn Wire>)> {
        if self.transport == Transport::Stdio {
            let mut command = Command::new(binary);
            command.arg("--stdio").stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child =
                command.spawn().with_context(|| format!("could not start {}", binary.display()))?;
            let streams = child.stdin.take().zip(child.stdout.take());
            let process = Process::Piped(child);
            let (input, output) = streams.context("the server has no standard streams")?;
            return Ok((process, Box::new(Pipe::new(input, output))));
        }
        // `tungstenite` listens for itself, so the bare server does either that or the rest.
        let is_bare_websocket = self.transport == Transport::WebSocket && !speaks_mcp;
        let extra: &[String] = if is_bare_websocket { &["--websocket".into()] } else { &[] };
        let server = Server::start(binary, server::free_address()?, extra, self.log)?;
        let address = server.address();
        let wire: Box<dyn Wire> = match self.transport {
            Transport::WebSocket => Box::new(WebSocket::new(address)?),
            Transport::Sse => Box::new(Sse::new(address, self.in_flight)?),
            Transport::Session => Box::new(Http::in_session(address, self.in_flight)?),
            Transport::Json | Transport::Stdio => {
                Box::new(Http::new(address, self.revision, self.in_flight)?)
            }
        };
        Ok((Process::Listening(server), wire))
    }
}

/// A server that answers errors quickly must not win.
fn check_echo(answer: &[u8]) -> Result<()> {
    let kind = if answer.starts_with(b"{") { "application/json" } else { "text/event-stream" };
    let headers = vec![("content-type".into(), kind.into())];
    let result = mcp::result(&Message { start: String::new(), headers, body: answer.to_vec() })?;
    let text = result["content"][0]["text"].as_str();
    ensure!(text == Some(TEXT) && result["isError"] != Value::Bool(true), "answered {result}");
    Ok(())
}

/// A running server, which ends with this.
#[derive(Debug)]
enum Process {
    Listening(Server),
    Piped(Child),
}

impl Process {
    fn id(&self) -> u32 {
        match self {
            Self::Listening(server) => server.pid(),
            Self::Piped(child) => child.id(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Self::Piped(child) = self {
            // Both fail only when it has ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One of two servers that are compared.
struct Side {
    process: Process,
    /// Kept from slice to slice, so that connecting is no part of the measure.
    wire: Box<dyn Wire>,
    calls: Calls,
    slices: Vec<Slice>,
}

impl Side {
    /// Keeps `in_flight` calls under way for `time`, then waits for the last of them.
    fn load(&mut self, in_flight: usize, time: Duration) -> Result<Slice> {
        let before = cpu_time(self.process.id())?;
        let start = Instant::now();
        for _ in 0..in_flight {
            self.wire.send(self.calls.next())?;
        }
        let (mut open, mut calls) = (in_flight, 0);
        while open > 0 {
            let answer = str::from_utf8(self.wire.receive()?)?;
            ensure!(answer.contains(TEXT), "answered {answer}");
            calls += 1;
            if start.elapsed() < time {
                self.wire.send(self.calls.next())?;
            } else {
                open -= 1;
            }
        }
        let time = start.elapsed();
        let cpu = cpu_time(self.process.id())?.saturating_sub(before);
        Ok(Slice { calls, time, cpu })
    }

    fn median(&self, of: impl Fn(&Slice) -> f64) -> Result<f64> {
        let spread = Spread::of(self.slices.iter().map(of).collect());
        Ok(spread.context("no slice was measured")?.median)
    }
}

/// What one stretch of load did.
#[derive(Debug)]
struct Slice {
    calls: usize,
    time: Duration,
    /// CPU time the server took meanwhile.
    cpu: Duration,
}

impl Slice {
    fn calls_per_second(&self) -> f64 {
        as_f64(self.calls) / self.time.as_secs_f64()
    }

    /// Microseconds of server CPU.
    fn cpu_per_call(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / as_f64(self.calls.max(1))
    }
}
