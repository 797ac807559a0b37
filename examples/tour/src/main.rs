//! Serves the tour.
//!
//! `tour --stdio`, or `tour --http 127.0.0.1:8000`. Replicas share a key ring: `--keys 2=<64 hex
//! digits>,1=<64 hex digits>`; the first seals, all of them open.

use antiphon::{HttpConfig, KeyRing, SealConfig};
use anyhow::{Context as _, bail, ensure};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut seal = SealConfig::default();
    if let Some(keys) = value_of(&arguments, "--keys") {
        seal = seal.with_keys(key_ring(keys)?);
    }
    let server = tour::server(seal).build()?;
    let served = match value_of(&arguments, "--http") {
        Some(address) => {
            let listener =
                TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
            server.serve_listener(listener, HttpConfig::default(), std::future::pending()).await
        }
        None => server.serve_stdio().await,
    };
    Ok(served?)
}

fn value_of<'a>(arguments: &'a [String], flag: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| argument == flag)?;
    arguments.get(at + 1).map(String::as_str)
}

/// `2=<hex>,1=<hex>`: the first key seals.
fn key_ring(keys: &str) -> anyhow::Result<KeyRing> {
    let mut ring: Option<KeyRing> = None;
    for key in keys.split(',') {
        let Some((id, secret)) = key.split_once('=') else {
            bail!("`{key}` is no key; write 1=<64 hex digits>")
        };
        let id = id.parse().with_context(|| format!("`{id}` is no key number from 0 to 255"))?;
        ensure!(secret.len() == 64, "key {id} must have 64 hex digits");
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(secret.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits)?, 16)?;
        }
        ring = Some(match ring {
            None => KeyRing::new(id, bytes),
            Some(ring) => ring.with_spare(id, bytes),
        });
    }
    ring.context("the key ring is empty")
}
