//! How much memory a message takes of a server, on every entry point: measured in a process of its own.
//!
//! This program starts itself again with `DOOR` set; that process serves, and the system counts its memory.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use antiphon::{
    http::{HttpConfig, MemoryBudget},
    prelude::*,
    task::TaskConfig,
};
use antiphon_transport::{
    legacy_tasks::Lines,
    sse::{self, SseConfig},
    websocket::{self, WebSocketConfig},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Which entry point the other process serves.
const DOOR: &str = "ANTIPHON_MEMORY_DOOR";
/// Set to measure without limits, for comparison: `ANTIPHON_MEMORY_UNLIMITED=1`.
const UNLIMITED: &str = "ANTIPHON_MEMORY_UNLIMITED";
const MOMENT: Duration = Duration::from_secs(30);

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// What an allocator and the runtime take by themselves.
const SLACK: usize = 3 * MIB;

const DOORS: [&str; 6] =
    ["http 2026-07-28", "http 2025-11-25", "http initialize", "websocket", "sse", "stream"];

fn server() -> Server {
    let count = async |_: &Ctx, arguments: serde_json::Map<String, Value>| -> Result<String> {
        Ok(arguments.len().to_string())
    };
    let tool = Tool::raw("count", "Counts its arguments", json!({"type": "object"}), count);
    Server::builder("memory", "1.0.0").with_tasks(TaskConfig::default()).tool(tool).build().unwrap()
}

/// Prints a line that is read by the other process, or by whoever measures.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// The other process. Without its variable there is nothing to do.
#[test]
fn door_is_served_where_another_test_asks_for_it() {
    let Ok(door) = std::env::var(DOOR) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(serve(&door, std::env::var(UNLIMITED).is_ok()));
}

async fn serve(door: &str, unlimited: bool) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    say(&format!("port {}", listener.local_addr().unwrap().port()));
    let (parsed, budget) = if unlimited {
        (usize::MAX, MemoryBudget::new(usize::MAX))
    } else {
        (antiphon_transport::weight::MAX_PARSED_BYTES, MemoryBudget::default())
    };
    let server = server();
    let app = match door {
        "websocket" => {
            let config = WebSocketConfig::default()
                .with_tasks(true)
                .with_max_parsed_bytes(parsed)
                .with_body_budget(budget);
            websocket::router(config, move |transport| over(server.clone(), transport))
        }
        "sse" => {
            let config =
                SseConfig::default().with_tasks(true).with_max_parsed_bytes(parsed).with_body_budget(budget);
            sse::router(config, move |transport| over(server.clone(), transport))
        }
        "stream" => loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(over(server.clone(), Lines::server(stream).with_max_parsed_bytes(parsed)));
        },
        _ => server.router(HttpConfig::default().with_max_parsed_bytes(parsed).with_body_budget(budget)),
    };
    antiphon::http::serve(listener, app, antiphon::http::ServeConfig::default(), std::future::pending())
        .await;
}

async fn over<T, E, A>(server: Server, transport: T)
where
    T: rmcp::transport::IntoTransport<rmcp::RoleServer, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let _ = server.serve_transport(transport).await;
}

/// The process that serves.
struct Other {
    child: Child,
    address: SocketAddr,
}

impl Other {
    fn start(door: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "memory::door_is_served_where_another_test_asks_for_it", "--nocapture"])
            .env(DOOR, door)
            // One heap for all threads: what is counted is what is used, not what each thread keeps.
            .env("MALLOC_ARENA_MAX", "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.by_ref().find_map(|line| line.unwrap().split_once("port ")?.1.trim().parse().ok());
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: ([127, 0, 0, 1], port.unwrap()).into() }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(MOMENT)).unwrap();
        stream
    }

    /// The most memory that was resident since the last `reset`, in bytes.
    fn peak(&self) -> usize {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * KIB
    }

    /// Forgets the peak, and returns what is resident now.
    fn reset(&self) -> usize {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").unwrap();
        self.status("VmRSS:")
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn initialize(pad: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{"experimental":{{"x":{{"pad":{pad}}}}}}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
    )
}

fn call(id: u64, pad: &str, meta: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{meta}"name":"count","arguments":{{"pad":{pad}}}}}}}"#
    )
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}},"#;

/// A connection to one entry point, ready for a message.
enum Line {
    Http { address: SocketAddr, headers: String },
    WebSocket(TcpStream),
    Sse { stream: BufReader<TcpStream>, address: SocketAddr, path: String },
    Stream(BufReader<TcpStream>),
}

impl Line {
    fn open(door: &str, other: &Other) -> Self {
        let address = other.address;
        match door {
            "http 2026-07-28" => Self::Http {
                address,
                headers: "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: count\r\n"
                    .into(),
            },
            "http initialize" => Self::Http { address, headers: String::new() },
            "http 2025-11-25" => {
                let (answer, _) = http(address, "/mcp", "", &initialize("0"));
                let session = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
                let headers = format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n");
                http(address, "/mcp", &headers, INITIALIZED);
                Self::Http { address, headers }
            }
            "websocket" => {
                let mut stream = other.connect();
                stream.write_all(b"GET /ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: mcp\r\n\r\n").unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                let mut line = Self::WebSocket(stream);
                line.ask(&initialize("0"));
                line.tell(INITIALIZED);
                line
            }
            "sse" => {
                let mut stream = other.connect();
                stream.write_all(b"GET /sse HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
                let mut stream = BufReader::new(stream);
                let path = event(&mut stream).strip_prefix("data: ").unwrap().trim().to_owned();
                let mut line = Self::Sse { stream, address, path };
                line.ask(&initialize("0"));
                line.tell(INITIALIZED);
                line
            }
            _ => {
                let mut line = Self::Stream(BufReader::new(other.connect()));
                line.ask(&initialize("0"));
                line.tell(INITIALIZED);
                line
            }
        }
    }

    fn tell(&mut self, message: &str) {
        match self {
            Self::Http { address, headers } => drop(http(*address, "/mcp", headers, message)),
            Self::WebSocket(stream) => {
                let mut frame = vec![0x81, 0x80 | 0x7f];
                frame.extend_from_slice(&(message.len() as u64).to_be_bytes());
                // With a mask of zeros the text is what it was.
                frame.extend_from_slice(&[0; 4]);
                stream.write_all(&frame).unwrap();
                stream.write_all(message.as_bytes()).unwrap();
            }
            Self::Sse { address, path, .. } => drop(http(*address, path, "", message)),
            Self::Stream(stream) => {
                stream.get_mut().write_all(message.as_bytes()).unwrap();
                stream.get_mut().write_all(b"\n").unwrap();
            }
        }
    }

    /// Sends a request, and returns what it is answered with.
    fn ask(&mut self, message: &str) -> String {
        if let Self::Http { address, headers } = self {
            return http(*address, "/mcp", headers, message).1;
        }
        if let Self::Sse { stream, address, path } = self {
            let (head, body) = http(*address, path, "", message);
            return if head.starts_with("HTTP/1.1 202") { event(stream) } else { body };
        }
        self.tell(message);
        match self {
            Self::WebSocket(stream) => loop {
                let mut head = [0; 2];
                stream.read_exact(&mut head).unwrap();
                let mut length = [0; 8];
                let short = match head[1] {
                    126 => &mut length[6..],
                    127 => &mut length[..],
                    _ => &mut [][..],
                };
                stream.read_exact(short).unwrap();
                let length = if head[1] < 126 { head[1].into() } else { u64::from_be_bytes(length) };
                let mut text = vec![0; usize::try_from(length).unwrap()];
                stream.read_exact(&mut text).unwrap();
                if head[0] & 0xf == 1 {
                    return String::from_utf8(text).unwrap();
                }
            },
            Self::Stream(stream) => {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                line
            }
            _ => unreachable!(),
        }
    }
}

/// The data of the next event that has some.
fn event(stream: &mut BufReader<TcpStream>) -> String {
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if line.starts_with("data: ") {
            return line;
        }
    }
}

/// Posts a message. Returns the head and the body of the answer, as far as its first event.
fn http(address: SocketAddr, path: &str, headers: &str, message: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(MOMENT)).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n",
        message.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(message.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// JSON of `bytes`, made of many times `piece`.
fn dense(piece: &str, bytes: usize) -> String {
    format!("[{}0]", piece.repeat((bytes - 3) / piece.len()))
}

fn text(bytes: usize) -> String {
    format!("\"{}\"", "All work, [and] no {play}: ".repeat(bytes / 27))
}

fn message(door: &str, pad: &str) -> String {
    match door {
        "http initialize" => initialize(pad),
        "http 2026-07-28" => call(1, pad, META),
        _ => call(1, pad, ""),
    }
}

/// What one message takes at its peak beyond what was there, and what it is answered with.
fn measure(door: &str, what: &str, pad: &str) -> (usize, String) {
    let other = Other::start(door);
    let mut line = Line::open(door, &other);
    line.ask(&message(door, "0").replace(r#""id":1,"#, r#""id":7,"#));
    let before = other.reset();
    let message = message(door, pad);
    let answer = line.ask(&message);
    let took = other.peak().saturating_sub(before);
    let factor = took * 10 / message.len();
    say(&format!(
        "| {door} | {what} | {} KiB | {} KiB | {}.{} |",
        message.len() / KIB,
        took / KIB,
        factor / 10,
        factor % 10
    ));
    (took, answer)
}

#[test]
fn message_takes_at_most_eight_times_its_length_on_every_entry_point() {
    let mut shapes = Vec::new();
    for bytes in [4 * MIB - 2 * KIB, MIB] {
        for piece in ["0,", "{},", r#"{"a":0},"#, r#""","#, r#"{"a":{"b":[0,"c"]}},"#] {
            shapes.push((format!("`{piece}`…"), dense(piece, bytes)));
        }
        shapes.push(("text".into(), text(bytes)));
    }
    let mut failures = Vec::new();
    for door in DOORS {
        for (what, pad) in &shapes {
            let (took, answer) = measure(door, what, pad);
            let is_text = what == "text";
            if took > 8 * pad.len() + SLACK {
                failures.push(format!("{door}, {what}, {} bytes: {took}", pad.len()));
            }
            if is_text != answer.contains(r#""result""#) || is_text == answer.contains("max_parsed_bytes") {
                failures.push(format!("{door}, {what}: {}", answer.chars().take(500).collect::<String>()));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn messages_of_any_size_take_no_more_than_their_budget_together() {
    for (what, bytes, count) in [("small", 16 * KIB, 256), ("large", 2 * MIB, 32)] {
        let door = "http 2026-07-28";
        let pad = if what == "small" { dense("0,", bytes) } else { text(bytes) };
        let other = Other::start(door);
        let before = other.reset();
        let message = message(door, &pad);
        let headers = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: count\r\n";
        let mut statuses = [0, 0];
        std::thread::scope(|scope| {
            let ask = || http(other.address, "/mcp", headers, &message).0;
            let asked: Vec<_> = (0..count).map(|_| scope.spawn(ask)).collect();
            for head in asked {
                let head = head.join().unwrap();
                statuses[usize::from(!head.starts_with("HTTP/1.1 200"))] += 1;
                assert!(head.starts_with("HTTP/1.1 200") || head.starts_with("HTTP/1.1 503"), "{head}");
            }
        });
        let took = other.peak().saturating_sub(before);
        say(&format!(
            "| {door} | {count} × {} KiB at once | {} KiB | {statuses:?} |",
            bytes / KIB,
            took / KIB
        ));
        assert!(took < 96 * MIB, "{took}");
        assert!(statuses[0] > 0, "{statuses:?}");
    }
}

#[test]
fn arguments_of_ordinary_sizes_pass_on_every_entry_point() {
    let rows =
        json!((0..1_000).map(|n| json!({"id": n, "name": "Ada", "tags": ["a", "b"]})).collect::<Vec<_>>());
    for door in DOORS {
        let (_, answer) = measure(door, "1,000 rows", &rows.to_string());
        assert!(answer.contains(r#""result""#), "{door}: {answer}");
    }
}
