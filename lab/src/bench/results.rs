//! `cargo xtask bench results`: pages beside bare sqlx and axum, streams beside `curl`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::PACKAGE;
use super::figures::{Asked, CPU, Figure};
use super::measure::{SLICE, Spread, as_f64, pinned};
use crate::http::Message;
use crate::mcp::Connection;
use crate::proc::cpu_time;
use crate::project::{self, Profile, Project};
use crate::server::{self, Server};
use crate::services::{Backend, Host};
use crate::table::Table;

/// What a page may cost, as a multiple of the bare one, and what a stream must reach of `curl`'s speed.
const PAGE_TARGET: f64 = 1.15;
const STREAM_TARGET: f64 = 0.8;

/// Rows of a page.
const LIMIT: u64 = 100;

/// Options of `cargo xtask bench results`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds of load on each server.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Connections that ask for pages back to back.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// How often each side streams the set.
    #[arg(long, default_value_t = 7)]
    streams: usize,
    /// Fail when a figure is not reached.
    #[arg(long)]
    pub(super) strict: bool,
}

/// Measures streams, then pages.
pub(super) fn main(project: &Project, options: &Options) -> Result<Vec<Figure>> {
    let bare = project.build(PACKAGE, "bare-results", Profile::Release)?;
    let ours = project.build(PACKAGE, "antiphon-results", Profile::Release)?;
    let fetch = project.build(PACKAGE, "fetch-results", Profile::Release)?;
    let folder = project.target.join("bench").join("results");
    let log = project.target.join("bench").join("results.log");
    // A stream is work for three: the database, the server and the reader share all processors, as they like.
    let database = Host::start(Backend::Postgres.engine(), &folder, &[])?;
    let streamed = streams(options, &database.url(), &ours, &fetch, &log);
    database.end()?;
    let database = pinned(1, || Host::start(Backend::Postgres.engine(), &folder, &[]))?;
    let paged = pages(options, &database.url(), &bare, &ours, &log);
    database.end()?;
    Ok([streamed?, paged?].concat())
}

fn database_argument(database: &str) -> Vec<String> {
    vec!["--database".to_owned(), database.to_owned()]
}

/// The same page from each side.
fn pages(options: &Options, database: &str, bare: &Path, ours: &Path, log: &Path) -> Result<Vec<Figure>> {
    let plain = database_argument(database);
    let shared = [&plain[..], &["--store".to_owned(), database.to_owned()]].concat();
    let start = |binary: &Path, arguments: &[String]| {
        pinned(0, || Server::start(binary, server::free_address()?, arguments, log))
    };
    let bare = Side::new("bare sqlx and axum", start(bare, &plain)?, "/page".into(), options);
    let memory = start(ours, &plain)?;
    let path = format!("/resources/{}", made(memory.address(), "/new")?);
    let memory = Side::new("result set, kept in memory", memory, path, options);
    let kept = start(ours, &shared)?;
    let path = format!("/resources/{}", made(kept.address(), "/new")?);
    let kept = Side::new("result set, kept in PostgreSQL", kept, path, options);
    let mut sides = [bare, memory, kept];
    let bytes = check(&sides)?;

    let slices = usize::try_from(options.seconds.max(1) * 10)?;
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} slices, {msg}")?;
    let bar = ProgressBar::new((sides.len() * slices) as u64).with_style(style);
    for side in &mut sides {
        side.load(SLICE)?;
        side.slices.clear();
    }
    for slice in 0..slices {
        for turn in 0..sides.len() {
            let side = &mut sides[(turn + slice) % 3];
            bar.set_message(side.name);
            side.load(SLICE)?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();

    let mut table = Table::new(["pages of", "requests", "req/s", "CPU µs/page", "ratio", "middle half"]);
    let mut figures = Vec::new();
    let mut bare = None;
    for side in &sides {
        let pairs = sides[0].slices.iter().zip(&side.slices);
        let ratio = Spread::of(pairs.map(|(bare, ours)| ours.cpu() / bare.cpu()).collect());
        let ratio = ratio.context("no slice was measured")?;
        let cpu =
            Spread::of(side.slices.iter().map(Slice::cpu).collect()).context("no slice was measured")?;
        let requests: usize = side.slices.iter().map(|slice| slice.requests).sum();
        let seconds: f64 = side.slices.iter().map(|slice| slice.time.as_secs_f64()).sum();
        table.row([
            side.name.into(),
            requests.to_string(),
            format!("{:.0}", as_f64(requests) / seconds),
            format!("{:.1}", cpu.median),
            format!("{:.3}", ratio.median),
            format!("{:.3} to {:.3}", ratio.low, ratio.high),
        ]);
        // The first is what the others are measured beside.
        let Some(bare) = bare else {
            bare = Some(cpu.median);
            continue;
        };
        let page = format!("a page of a {}", side.name);
        let asked = side.name.ends_with("memory").then_some(Asked::RatioAtMost(PAGE_TARGET));
        let figure = Figure::new(&page, CPU, cpu.median).beside("bare sqlx and axum", bare);
        figures.push(figure.paired(&ratio).asked(asked).sizing(format!("{page}, {LIMIT} rows")));
    }
    println!(
        "{} connections, {slices} slices of {} ms each, in turn; pages of {LIMIT} rows, {bytes} bytes\n{table}",
        options.connections,
        SLICE.as_millis()
    );
    println!(
        "CPU is the server process's; the ratio is the median of pairs of slices. The database is on another processor."
    );
    Ok(figures)
}

/// The same bytes with `curl` and with `fetch_stream`, in turn: from a query, and from rows in memory.
fn streams(options: &Options, database: &str, ours: &Path, fetch: &Path, log: &Path) -> Result<Vec<Figure>> {
    ensure!(project::installed("curl"), "the stream is compared with curl, which is not installed");
    let server = Server::start(ours, server::free_address()?, &database_argument(database), log)?;
    let mut table = Table::new(["rows from", "read with", "MB/s", "of curl's", "middle half"]);
    let mut figures = Vec::new();
    for (source, path) in [("a query on PostgreSQL", "/new"), ("memory", "/new-rows")] {
        let url = format!("http://{}/resources/{}", server.address(), made(server.address(), path)?);
        let readers = [
            ("curl", None),
            ("fetch_stream", Some("--maps")),
            ("fetch_stream_as::<Box<RawValue>>", Some("--raw")),
            ("fetch_stream_text", Some("--text")),
        ];
        let read = |how: Option<&str>| match how {
            None => curl(&url),
            Some(how) => Ok((0.0, stream(fetch, &url, how)?)),
        };
        let (bytes, _) = curl(&url)?;
        let mut speeds = vec![Vec::new(); readers.len()];
        for _ in 0..options.streams.max(1) {
            for ((_, how), speeds) in readers.iter().zip(&mut speeds) {
                speeds.push(bytes / read(*how)?.1 / 1e6);
            }
        }
        for ((name, _), these) in readers.iter().zip(&speeds) {
            let ratio = Spread::of(these.iter().zip(&speeds[0]).map(|(ours, bare)| ours / bare).collect());
            let ratio = ratio.context("nothing was streamed")?;
            let speed = Spread::of(these.clone()).context("nothing was streamed")?;
            table.row([
                source.into(),
                (*name).into(),
                format!("{:.0}", speed.median),
                format!("{:.2}", ratio.median),
                format!("{:.2} to {:.2}", ratio.low, ratio.high),
            ]);
            if *name == "curl" {
                continue;
            }
            let asked = path == "/new" && *name == "fetch_stream";
            let curl = Spread::of(speeds[0].clone()).context("nothing was streamed")?;
            let figure = Figure::new(format!("`{name}`, from {source}"), "MB a second", speed.median);
            let figure = figure.beside("curl", curl.median).paired(&ratio);
            figures.push(figure.asked(asked.then_some(Asked::RatioAtLeast(STREAM_TARGET))));
        }
    }
    println!("whole sets as NDJSON, 14 MB and 85 MB, each reader in turn\n{table}");
    println!(
        "curl throws the bytes away. fetch_stream makes a map of every row; the others leave rows as text."
    );
    Ok(figures)
}

/// Bytes and seconds.
fn curl(url: &str) -> Result<(f64, f64)> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--fail", "--output", "/dev/null", "--request", "POST"]);
    command.args([
        "--header",
        "accept: application/x-ndjson",
        "--write-out",
        "%{size_download} %{time_total}",
    ]);
    let output = command.arg(url).output()?;
    ensure!(output.status.success(), "curl failed");
    pair(&output.stdout)
}

/// Seconds.
fn stream(fetch: &Path, url: &str, how: &str) -> Result<f64> {
    let output = Command::new(fetch).args(["--url", url, how]).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "fetch-results failed");
    Ok(pair(&output.stdout)?.1)
}

fn pair(output: &[u8]) -> Result<(f64, f64)> {
    let text = String::from_utf8_lossy(output);
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(first)), Some(Ok(second))) => Ok((first, second)),
        _ => anyhow::bail!("printed {text}"),
    }
}

#[derive(Debug)]
struct Side {
    name: &'static str,
    server: Server,
    path: String,
    connections: Vec<Connection>,
    slices: Vec<Slice>,
}

#[derive(Debug)]
struct Slice {
    requests: usize,
    time: Duration,
    cpu: Duration,
}

impl Slice {
    fn cpu(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / as_f64(self.requests.max(1))
    }
}

impl Side {
    fn new(name: &'static str, server: Server, path: String, options: &Options) -> Self {
        let connections =
            (0..options.connections.max(1)).map(|_| Connection::new(server.address())).collect();
        Self { name, server, path, connections, slices: Vec::new() }
    }

    fn request(&self, offset: u64) -> Vec<u8> {
        post(self.server.address(), &self.path, &json!({"offset": offset, "limit": LIMIT}))
    }

    /// Asks on all connections, back to back, for `time`.
    fn load(&mut self, time: Duration) -> Result<()> {
        // The same few places for everybody: deep ones would measure the database.
        let requests: Vec<Vec<u8>> = (0..10).map(|page| self.request(page * LIMIT)).collect();
        let before = cpu_time(self.server.pid())?;
        let start = Instant::now();
        let counts = thread::scope(|scope| {
            let requests = &requests;
            let work = move |connection: &mut Connection| -> Result<usize> {
                let mut count = 0;
                while start.elapsed() < time {
                    let response = connection.exchange(&requests[count % requests.len()])?;
                    ensure!(response.status() == 200, "status {}", response.status());
                    count += 1;
                }
                Ok(count)
            };
            let threads: Vec<_> =
                self.connections.iter_mut().map(|it| scope.spawn(move || work(it))).collect();
            let each = threads.into_iter().map(|thread| match thread.join() {
                Ok(count) => count,
                Err(_) => Err(anyhow::anyhow!("a connection panicked")),
            });
            each.collect::<Result<Vec<_>>>()
        })?;
        let cpu = cpu_time(self.server.pid())?.saturating_sub(before);
        self.slices.push(Slice { requests: counts.iter().sum(), time: start.elapsed(), cpu });
        Ok(())
    }
}

fn post(address: SocketAddr, path: &str, body: &Value) -> Vec<u8> {
    let mut message = Message::post(&address.to_string(), &[], body.to_string().into_bytes());
    message.start = format!("POST {path} HTTP/1.1");
    message.to_bytes()
}

/// Has a set made, and returns its id.
fn made(address: SocketAddr, path: &str) -> Result<String> {
    let response = Connection::new(address).exchange(&post(address, path, &json!({})))?;
    let id = String::from_utf8_lossy(&response.body).into_owned();
    ensure!(response.status() == 200 && id.starts_with("rs_"), "no set was made: {id}");
    Ok(id)
}

/// All sides must give the same rows, or nothing is compared. Returns how many bytes a page has.
fn check(sides: &[Side]) -> Result<usize> {
    let mut pages = Vec::new();
    for side in sides {
        let response = Connection::new(side.server.address()).exchange(&side.request(300))?;
        let page: Value = serde_json::from_slice(&response.body)
            .with_context(|| format!("{} answered {}", side.name, String::from_utf8_lossy(&response.body)))?;
        pages.push((as_floats(page), response.body.len()));
    }
    for (side, (page, _)) in sides.iter().zip(&pages) {
        ensure!(
            *page == pages[0].0,
            "{} answers otherwise than {}: {:.400} and not {:.400}",
            side.name,
            sides[0].name,
            page.to_string(),
            pages[0].0.to_string()
        );
        ensure!(
            page["data"].as_array().is_some_and(|it| it.len() as u64 == LIMIT),
            "{} answered {page}",
            side.name
        );
    }
    Ok(pages[0].1)
}

/// With `100.0` and `100` written alike: they are the same number.
fn as_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.into_iter().map(as_floats).collect(),
        Value::Object(members) => members.into_iter().map(|(name, it)| (name, as_floats(it))).collect(),
        other => other,
    }
}
