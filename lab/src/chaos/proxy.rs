//! A round-robin proxy that asks the next replica when one does not answer.

use std::io::{self, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::http::Message;
use crate::mcp::Connection;

/// How long a request may look for a replica that answers.
const PATIENCE: Duration = Duration::from_secs(20);

/// The proxy; its threads end with the process.
#[derive(Debug)]
pub(crate) struct Proxy {
    /// Where clients connect.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    replicas: Vec<SocketAddr>,
    next: AtomicUsize,
    retries: AtomicU64,
}

impl Proxy {
    /// Listens on a free port and forwards to `replicas` in turn.
    pub(crate) fn start(replicas: Vec<SocketAddr>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the proxy")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { replicas, next: AtomicUsize::new(0), retries: AtomicU64::new(0) });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                // A client that hangs up ends its thread; nobody waits for the outcome.
                thread::spawn(move || shared.serve(client));
            }
        });
        Ok(Self { address, shared })
    }

    /// How often a request had to go to another replica.
    pub(crate) fn retries(&self) -> u64 {
        self.shared.retries.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn serve(&self, client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut replicas: Vec<Connection> = self.replicas.iter().map(|it| Connection::new(*it)).collect();
        let mut client = BufReader::new(client);
        while let Some(request) = Message::read(&mut client)? {
            self.forward(request, &mut replicas).write(client.get_mut())?;
        }
        Ok(())
    }

    fn forward(&self, mut request: Message, replicas: &mut [Connection]) -> Message {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let number = self.next.fetch_add(1, Ordering::Relaxed) % replicas.len();
            for (name, value) in &mut request.headers {
                if name == "host" {
                    *value = self.replicas[number].to_string();
                }
            }
            if let Ok(response) = replicas[number].exchange(&request.to_bytes()) {
                return response;
            }
            self.retries.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(1));
        }
        Message { start: "HTTP/1.1 502 Bad Gateway".into(), ..Message::default() }
    }
}
