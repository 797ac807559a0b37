//! As much of WebSocket as a client of one connection needs.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::mcp::{self, LEGACY};

/// An open connection on 2025-11-25.
#[derive(Debug)]
pub(super) struct Socket {
    stream: BufReader<TcpStream>,
}

impl Socket {
    /// Connects to `/ws`, upgrades, and initializes.
    pub(super) fn open(address: SocketAddr, token: Option<&str>) -> Result<Self> {
        let mut stream = mcp::connect(address)?;
        let authorization =
            token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
        write!(
            stream,
            "GET /ws HTTP/1.1\r\nhost: {address}\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\
             sec-websocket-protocol: mcp\r\n{authorization}\r\n"
        )?;
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line)?;
        ensure!(line.contains(" 101 "), "the connection was not upgraded: {}", line.trim());
        while !line.trim().is_empty() {
            line.clear();
            stream.read_line(&mut line)?;
        }
        let mut socket = Self { stream };
        let params = json!({
            "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "xtask", "version": "1" },
        });
        socket.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }))?;
        socket.answer(0)?;
        socket.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(socket)
    }

    pub(super) fn set_patience(&self, patience: Duration) -> Result<()> {
        Ok(self.stream.get_ref().set_read_timeout(Some(patience))?)
    }

    pub(super) fn send(&mut self, message: &Value) -> Result<()> {
        Ok(self.frame(0x81, message.to_string().as_bytes())?)
    }

    /// Sends one masked frame. The mask is zero: it protects proxies, and there are none.
    pub(super) fn frame(&mut self, first: u8, payload: &[u8]) -> io::Result<()> {
        let mut bytes = vec![first];
        match payload.len() {
            short @ 0..=125 => bytes.push(0x80 | u8::try_from(short).unwrap_or_default()),
            middle @ 126..=0xffff => {
                bytes.push(0x80 | 0x7e);
                bytes.extend(u16::try_from(middle).unwrap_or_default().to_be_bytes());
            }
            long => {
                bytes.push(0x80 | 0x7f);
                bytes.extend((long as u64).to_be_bytes());
            }
        }
        bytes.extend([0; 4]);
        bytes.extend_from_slice(payload);
        self.stream.get_mut().write_all(&bytes)
    }

    /// The answer to the request of this id; what else arrives is passed over.
    pub(super) fn answer(&mut self, id: u64) -> Result<Value> {
        loop {
            let message = self.message()?;
            if message["id"] == id && (message.get("result").is_some() || message.get("error").is_some()) {
                return Ok(message);
            }
        }
    }

    /// The next message of the server.
    pub(super) fn message(&mut self) -> Result<Value> {
        loop {
            let mut head = [0; 2];
            self.stream.read_exact(&mut head).context("the connection ended")?;
            let length = match head[1] & 0x7f {
                126 => u64::from(u16::from_be_bytes(self.bytes()?)),
                127 => u64::from_be_bytes(self.bytes()?),
                short => u64::from(short),
            };
            let mut payload = vec![0; usize::try_from(length)?];
            self.stream.read_exact(&mut payload)?;
            match head[0] & 0x0f {
                1 => return serde_json::from_slice(&payload).context("a message is no JSON"),
                8 => {
                    let code = payload.first_chunk().map_or(0, |code| u16::from_be_bytes(*code));
                    bail!("the server closed the connection with {code}");
                }
                9 => self.frame(0x8a, &payload)?,
                _ => {}
            }
        }
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
