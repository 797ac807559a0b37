//! Where replicas send their spans: taken, counted, forgotten.

use std::io::BufReader;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context as _, Result};

use crate::http::Message;

/// A collector of spans; its threads end with the process.
#[derive(Debug)]
pub(super) struct Collector {
    pub(super) address: SocketAddr,
    batches: Arc<AtomicU64>,
}

impl Collector {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the collector")?;
        let address = listener.local_addr()?;
        let batches = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&batches);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let counted = Arc::clone(&counted);
                thread::spawn(move || take(client, &counted));
            }
        });
        Ok(Self { address, batches })
    }

    /// How many batches of spans have come.
    pub(super) fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }
}

fn take(client: TcpStream, counted: &AtomicU64) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    while let Some(batch) = Message::read(&mut client)? {
        if batch.start.starts_with("POST /v1/traces ") && !batch.body.is_empty() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        Message { start: "HTTP/1.1 200 OK".into(), ..Message::default() }.write(client.get_mut())?;
    }
    Ok(())
}
