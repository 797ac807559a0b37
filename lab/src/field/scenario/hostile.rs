use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};

use super::{Break, Client, Field, Fleet};
use crate::field::websocket::Socket;
use crate::http::Message;
use crate::mcp::{self, LEGACY, MODERN};
use crate::proc;
use crate::server::{self, Server};

/// The memory limit of the reference deployment, in MiB.
const MEMORY: f64 = 256.0;
/// How long another caller may wait meanwhile.
const OTHERS: Duration = Duration::from_secs(1);
/// The size of a body, in bytes.
const BODY: usize = 4 * 1024 * 1024 - 4096;

const TOKEN: &str = "the-operators-token-of-the-field-test";

/// Hostile inputs on every entry point: bodies of 4 MiB full of `0` and of `{}` to both revisions of HTTP, to WebSocket, to
/// HTTP+SSE, to the routes of result sets and to the operators' routes of `deployed`, one and eight at once, to standard
/// input of `explore`, and to `antiphon studio`; patterns for the SQL engine over 100,000 rows; a flood of made-up tokens.
///
/// Pass: the process lives, its peak resident size stays below 256 MiB, and another caller is always answered within 1 s.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let mut found = Findings::new(if field.is_broken(Break::Memory) { 8.0 } else { MEMORY });
    bodies(field, &mut found)?;
    stdio(field, &mut found)?;
    studio(field, &mut found)?;
    patterns(field, &mut found)?;
    flood(field, &mut found)?;
    let peaks = format!("peak MiB: {}", found.peaks.join(", "));
    ensure!(found.failures.is_empty(), "{}; {peaks}", found.failures.join("; "));
    Ok(peaks)
}

/// What each attack came to.
#[derive(Debug)]
struct Findings {
    limit: f64,
    peaks: Vec<String>,
    failures: Vec<String>,
}

impl Findings {
    fn new(limit: f64) -> Self {
        Self { limit, peaks: Vec::new(), failures: Vec::new() }
    }

    /// Notes the peak of a process and how long another caller waited at most.
    fn note(&mut self, name: &str, pid: u32, slowest: Result<Duration>) {
        match proc::peak_mib(pid) {
            Ok(peak) => {
                self.peaks.push(format!("{name} {peak:.0}"));
                if peak > self.limit {
                    self.failures
                        .push(format!("{name} took {peak:.0} MiB, and {:.0} are allowed", self.limit));
                }
            }
            Err(_) => self.failures.push(format!("{name} ended the process")),
        }
        match slowest {
            Ok(slowest) if slowest < OTHERS => {}
            Ok(slowest) => {
                self.failures.push(format!("{name} made another caller wait {:.1} s", slowest.as_secs_f64()));
            }
            Err(error) => self.failures.push(format!("{name}: {error:#}")),
        }
    }
}

fn bodies(field: &Field, found: &mut Findings) -> Result<()> {
    let snapshots = format!("file://{}", field.folder.join("snapshots").display());
    fs::create_dir_all(field.folder.join("snapshots"))?;
    let settings =
        [("WEBSOCKET", "1"), ("SSE", "1"), ("OPERATORS_TOKEN", TOKEN), ("SNAPSHOTS_URL", snapshots.as_str())];
    let mut fleet = field.fleet(1, &settings)?;
    fleet.start_all()?;
    found.note("idle", fleet.pid(0)?, Ok(Duration::ZERO));
    for (name, attack) in ATTACKS {
        // In a short run, only the first attack comes eight times at once.
        let many = if field.short && *name != ATTACKS[0].0 { 1 } else { 8 };
        for times in [1, many].iter().copied().collect::<BTreeSet<_>>() {
            // A process of its own, so that each peak is that of one attack.
            fleet.kill(0);
            fleet.start(0)?;
            let client = Client::new(fleet.address(0));
            let slowest = meanwhile(|| greet(&client), || attack_at_once(&fleet, *attack, times));
            found.note(&format!("{times} × {name}"), fleet.pid(0)?, slowest);
        }
    }
    Ok(())
}

/// A line of 4 MiB on standard input.
fn stdio(field: &Field, found: &mut Findings) -> Result<()> {
    for item in ["0", "{}"] {
        let mut command = Command::new(field.programs.path("explore")?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("could not start `explore`")?;
        let mut input = child.stdin.take().context("standard input is piped")?;
        let output = child.stdout.take().context("standard output is piped")?;
        let params = json!({
            "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "xtask", "version": "1" },
        });
        writeln!(
            input,
            "{}",
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
        )?;
        writeln!(input, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        // The server can refuse the line by hanging up; only the peak counts.
        let _ = writeln!(input, "{}", call(item, ""));
        let _ = writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let is_answered = { lines }.any(|line| line.contains("\"id\":2"));
        let slowest =
            if is_answered { Ok(Duration::ZERO) } else { Err(anyhow!("the next line got no answer")) };
        found.note(&format!("[{item},…] to stdio"), child.id(), slowest);
        let _ = child.kill();
        child.wait()?;
    }
    Ok(())
}

/// Bodies of 4 MiB to the API of the studio, by somebody who has its token.
fn studio(field: &Field, found: &mut Findings) -> Result<()> {
    let mut command = Command::new(field.programs.path("antiphon")?);
    command.args(["studio", "--no-open"]).env("ANTIPHON_CONFIG_DIR", field.folder.join("config"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().context("could not start `antiphon studio`")?;
    let mut url = String::new();
    BufReader::new(child.stdout.take().context("standard output is piped")?).read_line(&mut url)?;
    let parts = url.trim().strip_prefix("http://").and_then(|url| url.split_once("/?token="));
    let (address, token) = parts.with_context(|| format!("the studio printed `{url}`"))?;
    let address: std::net::SocketAddr = address.parse()?;
    let list = || {
        let began = Instant::now();
        let mut request = Message::post(&address.to_string(), &[], Vec::new());
        request.start = "GET /api/servers HTTP/1.1".into();
        request.headers.push(("authorization".into(), format!("Bearer {token}")));
        request.headers.push(("connection".into(), "close".into()));
        let said = mcp::exchange_once(address, &request.to_bytes(), Duration::from_secs(10))?;
        ensure!(said.status() == 200, "the studio listed no servers: {}", said.start);
        Ok(began.elapsed())
    };
    let slowest = meanwhile(list, || {
        thread::scope(|scope| {
            let posts: Vec<_> =
                (0..8).map(|_| scope.spawn(|| post(address, "/api/connect", Some(token)))).collect();
            posts.into_iter().try_for_each(|it| it.join().expect("an attack does not panic"))
        })
    });
    found.note("8 × zeros to the studio", child.id(), slowest);
    let _ = child.kill();
    child.wait()?;
    Ok(())
}

/// Patterns that are expensive to compile, one for each of 100,000 rows.
fn patterns(field: &Field, found: &mut Findings) -> Result<()> {
    let address = server::free_address()?;
    let mut command = Command::new(field.programs.path("explore")?);
    command
        .args(["--listen", &address.to_string(), "--rows", "100000", "--data"])
        .arg(field.folder.join("rows"));
    let log = field.folder.join("explore.log");
    let mut explore = Server::spawn(&mut command, address, &log)?;
    explore.wait_until_ready()?;
    let id = shown(&log)?;
    found.note("100,000 rows", explore.pid(), Ok(Duration::ZERO));
    let client = Client::new(address).with_patience(Duration::from_secs(15));
    for pattern in [r"'\pL{100}' || CAST(id AS TEXT)", r"'(\pL{50}){50}' || CAST(id AS TEXT)"] {
        let sql = format!("SELECT sum(regexp_count('x', {pattern})) AS n FROM result");
        let arguments = json!({ "sql": sql, "result": id });
        let list = || {
            let began = Instant::now();
            client.ask("tools/list", "", json!({}))?;
            Ok(began.elapsed())
        };
        let slowest = meanwhile(list, || {
            // Refused or answered: it is the others that count.
            let arguments = json!({ "name": "query_result", "arguments": arguments });
            let _ = client.ask("tools/call", "query_result", arguments);
            Ok(())
        });
        found.note(&format!("regexp_count with {pattern}"), explore.pid(), slowest);
    }
    Ok(())
}

/// The id of the set that `explore` prints when its rows are written.
fn shown(log: &Path) -> Result<String> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_mins(2) {
        let text = fs::read_to_string(log).unwrap_or_default();
        let line = text.lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
        if let Some(id) = line.as_ref().and_then(|line| line["id"].as_str()) {
            return Ok(id.to_owned());
        }
        thread::sleep(Duration::from_millis(100));
    }
    anyhow::bail!("`explore` wrote no rows: {}", server::tail(log))
}

/// Attacks while another caller calls, and returns how long that one waited at most.
fn meanwhile(
    call: impl Fn() -> Result<Duration> + Sync,
    attack: impl FnOnce() -> Result<()>,
) -> Result<Duration> {
    call().context("another caller was not answered before the attack")?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                slowest = slowest.max(call()?);
                thread::sleep(Duration::from_millis(20));
            }
            Ok(slowest)
        });
        let attacked = attack();
        over.store(true, Ordering::Relaxed);
        let slowest: Result<Duration> = other.join().expect("a caller does not panic");
        attacked?;
        slowest.context("another caller was not answered")
    })
}

type Attack = fn(&Fleet) -> Result<()>;

const ATTACKS: &[(&str, Attack)] = &[
    ("zeros to 2026-07-28", |fleet| modern(fleet, "0")),
    ("objects to 2026-07-28", |fleet| modern(fleet, "{}")),
    ("zeros to 2025-11-25", |fleet| initialize(fleet, "0")),
    ("objects to 2025-11-25", |fleet| initialize(fleet, "{}")),
    ("zeros to WebSocket", |fleet| socket(fleet, "0")),
    ("objects to WebSocket", |fleet| socket(fleet, "{}")),
    ("zeros to HTTP+SSE", |fleet| events(fleet, "0")),
    ("zeros to result sets", |fleet| post(fleet.address(0), "/resources/rs_anything/query", None)),
    ("zeros to operators", |fleet| post(fleet.replicas[0].health, "/runs/a/b/retry", Some(TOKEN))),
];

/// A JSON array of 4 MiB.
fn array(item: &str) -> String {
    let mut text = String::with_capacity(BODY);
    text.push('[');
    while text.len() + item.len() + 2 < BODY - 1024 {
        text.push_str(item);
        text.push(',');
    }
    text.push_str(item);
    text.push(']');
    text
}

fn call(item: &str, meta: &str) -> String {
    let array = array(item);
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"greet","arguments":{{"name":"x","pad":{array}}}{meta}}}}}"#
    )
}

fn modern(fleet: &Fleet, item: &str) -> Result<()> {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "xtask", "version": "1" },
    });
    let body = call(item, &format!(r#","_meta":{meta}"#));
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "greet")];
    send(fleet.address(0), Message::post(&fleet.address(0).to_string(), &headers, body.into_bytes()))
}

fn initialize(fleet: &Fleet, item: &str) -> Result<()> {
    let array = array(item);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{LEGACY}","capabilities":{{"experimental":{{"x":{{"pad":{array}}}}}}},"clientInfo":{{"name":"xtask","version":"1"}}}}}}"#
    );
    let headers = [("mcp-protocol-version", LEGACY)];
    send(fleet.address(0), Message::post(&fleet.address(0).to_string(), &headers, body.into_bytes()))
}

fn socket(fleet: &Fleet, item: &str) -> Result<()> {
    let mut socket = Socket::open(fleet.address(0), None)?;
    // The server can refuse the message by closing the connection.
    if socket.frame(0x81, call(item, "").as_bytes()).is_ok() {
        let _ = socket.answer(1);
    }
    Ok(())
}

/// A message in a session of HTTP+SSE.
fn events(fleet: &Fleet, item: &str) -> Result<()> {
    let address = fleet.address(0);
    let mut stream = mcp::connect(address)?;
    write!(stream, "GET /sse HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n\r\n")?;
    let lines = BufReader::new(&stream).lines().map_while(Result::ok);
    let path = { lines }.find_map(|line| Some(line.strip_prefix("data: ")?.to_owned()));
    let path = path.context("the stream named no address for messages")?;
    let mut request = Message::post(&address.to_string(), &[], call(item, "").into_bytes());
    request.start = format!("POST {path} HTTP/1.1");
    send(address, request)
}

fn post(address: std::net::SocketAddr, path: &str, token: Option<&str>) -> Result<()> {
    let mut request = Message::post(&address.to_string(), &[], array("0").into_bytes());
    request.start = format!("POST {path} HTTP/1.1");
    request.headers.extend(token.map(|token| ("authorization".into(), format!("Bearer {token}"))));
    send(address, request)
}

/// Sends a request. The server can refuse it at any time, so only a connection is required.
fn send(address: std::net::SocketAddr, mut request: Message) -> Result<()> {
    request.headers.push(("connection".into(), "close".into()));
    let mut stream = mcp::connect(address)?;
    if stream.write_all(&request.to_bytes()).is_ok() {
        let _ = stream.read_to_end(&mut Vec::new());
    }
    Ok(())
}

fn attack_at_once(fleet: &Fleet, attack: Attack, times: usize) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..times).map(|_| scope.spawn(|| attack(fleet))).collect();
        threads.into_iter().try_for_each(|it| it.join().expect("an attack does not panic"))
    })
}

fn greet(client: &Client) -> Result<Duration> {
    let began = Instant::now();
    let said: Value =
        client.ask("tools/call", "greet", json!({ "name": "greet", "arguments": { "name": "you" } }))?;
    ensure!(said["content"][0]["text"] == "Hello, you!", "a call was answered with {said}");
    Ok(began.elapsed())
}

/// Made-up tokens, as fast as eight connections send them, beside a caller with a good one.
fn flood(field: &Field, found: &mut Findings) -> Result<()> {
    const KEY: &str = "a-key-of-the-field-test";
    let hash = {
        use std::fmt::Write as _;

        use sha2::Digest as _;
        sha2::Sha256::digest(KEY).iter().fold(String::new(), |mut hash, byte| {
            let _ = write!(hash, "{byte:02x}");
            hash
        })
    };
    let keys = format!("ada={hash}");
    let mut fleet = field.fleet(1, &[("API_KEYS", keys.as_str())])?;
    fleet.start_all()?;
    let (address, over) = (fleet.address(0), AtomicBool::new(false));
    let good = Client::new(address).with_token(KEY);
    let rounds = field.pick(50, 400);
    let (slowest, sent) = thread::scope(|scope| {
        let floods: Vec<_> = (0..8u64)
            .map(|thread| {
                let over = &over;
                scope.spawn(move || {
                    let mut sent = 0_u64;
                    while !over.load(Ordering::Relaxed) {
                        let client = Client::new(address).with_token(&format!("made-up-{thread}-{sent}"));
                        let _ = client.ask("tools/list", "", json!({}));
                        sent += 1;
                    }
                    sent
                })
            })
            .collect();
        let calls = (0..rounds).map(|_| greet(&good)).collect::<Result<Vec<_>>>();
        over.store(true, Ordering::Relaxed);
        let sent: u64 = floods.into_iter().map(|it| it.join().unwrap_or_default()).sum();
        anyhow::Ok((calls?.into_iter().max().unwrap_or_default(), sent))
    })?;
    found.note(&format!("{sent} made-up tokens"), fleet.pid(0)?, Ok(slowest));
    Ok(())
}
