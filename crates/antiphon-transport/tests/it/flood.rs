//! Ten thousand bad messages a transport, from a seed.

use std::{sync::atomic::Ordering, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::{io::AsyncWriteExt as _, time::timeout};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::{
    sse::Raw,
    support::{Kind, Obliging, Tweaks, alone, call, connect, resident, serve, text_of},
    websocket::{INITIALIZE, INITIALIZED, raw, ready},
};

const MOMENT: Duration = Duration::from_secs(10);
const LIMIT: usize = 64 * 1024;
const COUNT: usize = 10_000;
/// What an allocator may keep for itself, in KiB. It keeps one or two thousand; a leak of a KiB a message
/// would be ten.
const TOLERANCE: usize = 8 * 1024;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % sides
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.roll(most)).map(|_| u8::try_from(self.roll(256)).unwrap()).collect()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }

    /// A text that is wrong in one way or another, or right at the wrong time.
    fn text(&mut self) -> String {
        let good = [
            INITIALIZE,
            INITIALIZED,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"}}}"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":4,"result":{"action":"accept","content":{}}}"#,
            r#"{"jsonrpc":"2.0","id":5,"error":{"code":-1,"message":"no"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#,
        ];
        match self.roll(9) {
            // Malformed: one byte is another.
            0 => {
                let mut text: Vec<char> = self.pick(&good).chars().collect();
                let at = self.roll(text.len());
                text[at] = char::from(u8::try_from(32 + self.roll(95)).unwrap());
                text.into_iter().collect()
            }
            // Truncated.
            1 => {
                let text = self.pick(&good);
                text[..self.roll(text.len())].to_owned()
            }
            // Deeply nested.
            2 => {
                let depth = 1 + if self.roll(16) == 0 { self.roll(20_000) } else { self.roll(400) };
                match self.roll(3) {
                    0 => "[".repeat(depth),
                    1 => format!("{}{}", "[".repeat(depth), "]".repeat(depth)),
                    _ => format!(
                        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}"#,
                        r#"{"a":"#.repeat(depth / 5)
                    ),
                }
            }
            // Out of order, or nobody's.
            3 | 4 => self.pick(&good).to_owned(),
            // The wrong kinds of things.
            5 => {
                let odd = [
                    "null",
                    "1e400",
                    "-0",
                    "1.5",
                    "[]",
                    "{}",
                    "\"\"",
                    "true",
                    "99999999999999999999",
                    "\"\\ud800\"",
                ];
                let (version, id, method) =
                    (self.pick(&["\"2.0\"", "\"1.0\"", "2"]), self.pick(&odd), self.pick(&odd));
                format!(r#"{{"jsonrpc":{version},"id":{id},"method":{method},"params":{}}}"#, self.pick(&odd))
            }
            // Keys twice.
            6 => r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"tools/list"}"#
                .into(),
            // Long, but not too long.
            7 => {
                let most = self.roll(16) == 0;
                format!(
                    r#"{{"jsonrpc":"2.0","id":6,"method":"{}"}}"#,
                    "x".repeat(self.roll(if most { LIMIT / 2 } else { 500 }))
                )
            }
            _ => String::from_utf8_lossy(&self.bytes(64)).into_owned(),
        }
    }

    /// Bytes that are no frame, or half of one.
    fn frames(&mut self) -> Vec<u8> {
        let masked = |head: &[u8], payload: &[u8]| [head, &[1, 2, 3, 4], payload].concat();
        match self.roll(8) {
            0 => self.bytes(200),
            // Not masked.
            1 => b"\x81\x02{}".to_vec(),
            // Reserved bits; an opcode that does not exist.
            2 => masked(&[0xf1, 0x80], b""),
            3 => masked(&[0x83, 0x80], b""),
            // A ping that is too long, a ping in fragments, a continuation of nothing.
            4 => masked(&[0x89, 0xfe, 0, 200], &[0; 200]),
            5 => masked(&[0x09, 0x81], b"a"),
            6 => masked(&[0x80, 0x82], b"{}"),
            // The head of a frame of 2^63 bytes.
            _ => masked(&[0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], b"{"),
        }
    }
}

/// Sends `count` bad frames; wherever the connection still stands, it must still answer.
async fn flood_websocket(address: std::net::SocketAddr, seed: u64, count: usize) {
    let mut dice = Dice(seed);
    let mut done = 0;
    while done < count {
        let begun = dice.roll(4) > 0;
        let mut socket = if begun { ready(address).await } else { raw(address).await };
        let burst = 1 + dice.roll(60);
        let mut broken = !begun;
        for _ in 0..burst {
            done += 1;
            let sent = match dice.roll(60) {
                0 => {
                    broken = true;
                    socket.send(Message::text("x".repeat(LIMIT + 1 + dice.roll(LIMIT)))).await.is_ok()
                }
                1 => {
                    broken = true;
                    socket.send(Message::binary(dice.bytes(100))).await.is_ok()
                }
                2 => {
                    broken = true;
                    let _ = socket.flush().await;
                    socket.get_mut().write_all(&dice.frames()).await.is_ok()
                }
                3..6 => socket.send(Message::Ping(Bytes::from(dice.bytes(125)))).await.is_ok(),
                6..8 => socket.send(Message::Pong(Bytes::from(dice.bytes(125)))).await.is_ok(),
                _ => {
                    let text = Message::text(dice.text());
                    let twice = dice.roll(4) == 0;
                    (!twice || socket.send(text.clone()).await.is_ok()) && socket.send(text).await.is_ok()
                }
            };
            // What comes after the end would not be read.
            if !sent || (broken && begun) {
                break;
            }
        }
        match dice.roll(8) {
            // Gone without a word, perhaps with half a frame.
            0 => {
                let _ = socket.get_mut().write_all(&[0x81]).await;
            }
            _ if broken => {
                let ends = async { while let Some(Ok(_)) = socket.next().await {} };
                // Half a frame may still be waited for; that is no hang of the server's.
                let _ = timeout(Duration::from_millis(20), ends).await;
            }
            _ => {
                let ping = r#"{"jsonrpc":"2.0","id":"last","method":"ping"}"#;
                socket.send(Message::text(ping)).await.unwrap();
                loop {
                    match timeout(MOMENT, socket.next()).await.expect("an answer in time") {
                        Some(Ok(Message::Text(text))) if text.contains(r#""id":"last""#) => break,
                        Some(Ok(Message::Close(_))) | None => panic!("the connection ended for a text"),
                        Some(Ok(_)) => {}
                        Some(Err(error)) => panic!("{error}"),
                    }
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_bad_frames_harm_no_websocket_server() {
    if !alone("flood::ten_thousand_bad_frames_harm_no_websocket_server") {
        return;
    }
    let tweaks = Tweaks { max_message_bytes: LIMIT, ..Tweaks::default() };
    let served = serve(Kind::WebSocket, tweaks).await;
    let bystander = connect(Kind::WebSocket, served.address, Obliging::default()).await;
    flood_websocket(served.address, 7, COUNT / 5).await;
    let before = resident();
    flood_websocket(served.address, 4_711, COUNT).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < TOLERANCE, "{grown} KiB more than before");
    let result = timeout(MOMENT, bystander.call_tool(call("echo", "unharmed"))).await.unwrap().unwrap();
    assert_eq!(text_of(&result), "unharmed");
    assert!(served.stats.served.load(Ordering::SeqCst) > 100);
}

/// Posts `count` bad messages; each has a status, and the session still answers.
async fn flood_sse(served: &crate::support::Served, seed: u64, count: usize) {
    let mut dice = Dice(seed);
    let mut done = 0;
    while done < count {
        let begun = dice.roll(4) > 0;
        let mut raw = if begun { Raw::ready(served).await } else { Raw::open(served).await };
        let wrong = raw.endpoint.replace("sessionId=", "sessionId=0");
        for _ in 0..=dice.roll(200) {
            done += 1;
            // A server that refuses before it has read all may be seen to hang up instead: its answer is
            // lost to the reset.
            let seen = |sent: reqwest::Result<reqwest::Response>, refused: u16| {
                sent.map_or(refused, |response| response.status().as_u16())
            };
            let (status, may): (u16, &[u16]) = match dice.roll(40) {
                0 => {
                    let long = "x".repeat(LIMIT + 1 + dice.roll(LIMIT));
                    (raw.try_post(long).await.unwrap_or(413), &[413])
                }
                1 => (raw.post(dice.bytes(2_000)).await, &[400]),
                2 => {
                    let post =
                        raw.http.post(&wrong).header("content-type", "application/json").body(dice.text());
                    (seen(post.send().await, 404), &[404])
                }
                3 => {
                    let post = raw.http.post(&raw.endpoint).body(dice.text());
                    (seen(post.send().await, 415), &[415, 404])
                }
                4 => (seen(raw.http.put(&raw.endpoint).send().await, 405), &[405]),
                // Before the handshake a wrong message ends the session: then it is not found.
                _ if begun => (raw.post(dice.text()).await, &[202, 400, 404]),
                _ => (raw.try_post(dice.text()).await.unwrap_or(404), &[202, 400, 404]),
            };
            assert!(may.contains(&status) || (!begun && status == 404), "{status}");
            if begun {
                assert!(status != 404 || may == [404], "the session ended for a message");
            } else if status == 404 && may != [404] {
                break;
            }
        }
        if begun {
            assert_eq!(raw.post(r#"{"jsonrpc":"2.0","id":"last","method":"ping"}"#).await, 202);
            while !raw.event().await.contains(r#""id":"last""#) {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_bad_posts_harm_no_sse_server() {
    if !alone("flood::ten_thousand_bad_posts_harm_no_sse_server") {
        return;
    }
    let tweaks = Tweaks { max_message_bytes: LIMIT, ..Tweaks::default() };
    let served = serve(Kind::Sse, tweaks).await;
    let bystander = connect(Kind::Sse, served.address, Obliging::default()).await;
    flood_sse(&served, 7, COUNT / 10).await;
    let before = resident();
    let floods = (1..=4).map(|seed| flood_sse(&served, seed, COUNT / 4));
    futures_util::future::join_all(floods).await;
    let grown = resident().saturating_sub(before);
    assert!(grown < TOLERANCE, "{grown} KiB more than before");
    let result = timeout(MOMENT, bystander.call_tool(call("echo", "unharmed"))).await.unwrap().unwrap();
    assert_eq!(text_of(&result), "unharmed");
}
