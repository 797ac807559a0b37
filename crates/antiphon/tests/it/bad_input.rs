//! Ten thousand bad messages a transport, from a seed: over a pipe, as stdio is, and over streamable
//! HTTP. Nothing panics, hangs or leaks, and whoever speaks MCP is still answered.

use std::time::Duration;

use antiphon::prelude::*;

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf},
    time::timeout,
};

const COUNT: usize = 10_000;
const MOMENT: Duration = Duration::from_secs(20);
/// What an allocator may keep for itself, in KiB. A leak of a KiB a message would be ten thousand.
const TOLERANCE: usize = 8 * 1024;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bad","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

fn server() -> Server {
    let echo = async |_: &Ctx, Text { text }: Text| -> Result<String> { Ok(text) };
    Server::builder("bad", "1.0.0").tool(Tool::new("echo", "Echoes", echo)).build().unwrap()
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }

    /// A message that is wrong in one way or another, or right at the wrong time. Never two lines.
    fn message(&mut self) -> Vec<u8> {
        let good = [
            INITIALIZE,
            INITIALIZED,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"}}}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
            r#"{"jsonrpc":"2.0","id":4,"result":{"action":"accept","content":{}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#,
            r#"[{"jsonrpc":"2.0","id":5,"method":"ping"}]"#,
        ];
        let odd = ["null", "1e400", "1.5", "[]", "{}", "\"\"", "true", "99999999999999999999", "\"\\ud800\""];
        let bytes = match self.roll(8) {
            // Malformed: one byte is another.
            0 => {
                let mut text = self.pick(&good).as_bytes().to_vec();
                let at = self.roll(text.len());
                text[at] = u8::try_from(self.roll(256)).unwrap();
                text
            }
            // Truncated.
            1 => {
                let text = self.pick(&good);
                text.as_bytes()[..self.roll(text.len())].to_vec()
            }
            // Deeply nested.
            2 => {
                let depth = 1 + if self.roll(16) == 0 { self.roll(20_000) } else { self.roll(400) };
                let arguments = "[".repeat(depth) + &"]".repeat(depth);
                format!(r#"{{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":{arguments}}}}}}}"#)
                    .into_bytes()
            }
            // Out of order, or twice.
            3 => self.pick(&good).as_bytes().to_vec(),
            // The wrong kinds of things.
            4 | 5 => {
                let (id, method, params) = (self.pick(&odd), self.pick(&odd), self.pick(&odd));
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#).into_bytes()
            }
            // Oversized.
            6 => {
                let most = if self.roll(40) == 0 { 1 << 20 } else { 2000 };
                format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{}"}}"#, "x".repeat(self.roll(most)))
                    .into_bytes()
            }
            _ => (0..self.roll(64)).map(|_| u8::try_from(self.roll(256)).unwrap()).collect(),
        };
        bytes.into_iter().filter(|byte| *byte != b'\n').collect()
    }
}

/// What this process holds in memory, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

type Pipe = (BufReader<ReadHalf<DuplexStream>>, WriteHalf<DuplexStream>);

fn pipe(server: &Server) -> Pipe {
    let (near, far) = tokio::io::duplex(1 << 16);
    let server = server.clone();
    tokio::spawn(async move { server.serve_stream(far).await });
    let (reader, writer) = tokio::io::split(near);
    (BufReader::new(reader), writer)
}

/// Sends `count` bad lines, over as many connections as it takes. Wherever a connection still stands,
/// it must still answer.
async fn flood_pipe(server: &Server, seed: u64, count: usize) {
    let mut dice = Dice(seed);
    let mut done = 0;
    while done < count {
        let (mut reader, mut writer) = pipe(server);
        let begun = dice.roll(4) > 0;
        let reading = tokio::spawn(async move {
            let mut line = String::new();
            loop {
                line.clear();
                match reader.read_line(&mut line).await {
                    Ok(0) | Err(_) => return false,
                    Ok(_) if line.contains("\"last\"") => return true,
                    Ok(_) => {}
                }
            }
        });
        if begun {
            let hello = format!("{INITIALIZE}\n{INITIALIZED}\n");
            writer.write_all(hello.as_bytes()).await.unwrap();
        }
        let mut stands = true;
        for _ in 0..=dice.roll(200) {
            let line = [dice.message(), b"\n".to_vec()].concat();
            done += 1;
            if timeout(MOMENT, writer.write_all(&line)).await.expect("a bad line is read").is_err() {
                stands = false;
                break;
            }
        }
        let ping = b"{\"jsonrpc\":\"2.0\",\"id\":\"last\",\"method\":\"ping\"}\n";
        stands = stands && writer.write_all(ping).await.is_ok();
        let answered = timeout(MOMENT, async {
            if !stands {
                drop(writer);
            }
            reading.await.unwrap()
        });
        let answered = answered.await.expect("the server answers, or closes");
        // Before the handshake a server may well hang up on nonsense; after it, it may not.
        assert!(answered || !begun || !stands, "a connection that stood did not answer");
    }
}

#[tokio::test]
async fn bad_lines_neither_break_nor_leak() {
    let server = server();
    flood_pipe(&server, 1, COUNT / 4).await;
    let before = resident();
    flood_pipe(&server, 2, COUNT).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < TOLERANCE, "memory grew by {grown} KiB");
}

#[cfg(feature = "http")]
mod http {
    use antiphon::http::HttpConfig;
    use axum::body::Body;
    use tower::ServiceExt as _;

    use super::*;

    async fn flood(app: &axum::Router, seed: u64, count: usize) {
        let mut dice = Dice(seed);
        for i in 0..count {
            let mut request = ::http::Request::post("/mcp").header("host", "localhost");
            let media = [
                "application/json",
                "application/json",
                "text/plain",
                "application/json; charset=utf-16",
                "",
            ];
            request = request.header("content-type", dice.pick(&media));
            request = request
                .header("accept", dice.pick(&["application/json, text/event-stream", "*/*", "image/png"]));
            let versions = ["2025-11-25", "2026-07-28", "1999-01-01", "\u{7f}x"];
            if let Ok(version) = dice.pick(&versions).parse::<::http::HeaderValue>() {
                request = request.header("mcp-protocol-version", version);
            }
            if dice.roll(3) == 0 {
                request = request.header("mcp-session-id", dice.pick(&["", "nobody", "../../etc"]));
            }
            let request = request.body(Body::from(dice.message())).unwrap();
            let response =
                timeout(MOMENT, app.clone().oneshot(request)).await.expect("it is answered").unwrap();
            let status = response.status().as_u16();
            assert!(status < 500, "message {i} of seed {seed} was answered with {status}");
        }
        let hello = ::http::Request::post("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(Body::from(INITIALIZE))
            .unwrap();
        assert_eq!(
            app.clone().oneshot(hello).await.unwrap().status().as_u16(),
            200,
            "others are still served"
        );
    }

    #[tokio::test]
    async fn bad_requests_neither_break_nor_leak() {
        // Sessions that nobody comes back to go after their idle limit; a short one shows it.
        let config = HttpConfig::default().with_session_idle(Duration::from_millis(200));
        let app = server().router(config);
        flood(&app, 1, COUNT / 4).await;
        tokio::time::sleep(Duration::from_millis(600)).await;
        let before = resident();
        flood(&app, 2, COUNT).await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        let grown = resident().saturating_sub(before);
        assert!(grown < TOLERANCE, "memory grew by {grown} KiB");
    }
}

#[test]
fn the_dice_fall_alike_every_time() {
    let (mut one, mut other) = (Dice(7), Dice(7));
    assert!((0..100).all(|_| one.message() == other.message()));
}
