//! A balancer that knows connections and readiness, and nothing of MCP: each connection goes to the next replica that is ready.
//!
//! Clients of the soak make a connection for each request, so that no two requests of a run are on one replica but by
//! chance. What has begun at a replica that dies is not asked of another: that is the client's to decide.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

const NOBODY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// The balancer; its threads end with the process.
#[derive(Debug)]
pub(super) struct Balancer {
    /// Where clients connect.
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    replicas: Vec<Replica>,
    next: AtomicUsize,
    is_cut: AtomicBool,
    /// Both ends of what is open, to be cut.
    open: Mutex<HashMap<u64, [TcpStream; 2]>>,
    number: AtomicU64,
}

#[derive(Debug)]
struct Replica {
    address: SocketAddr,
    is_ready: AtomicBool,
    /// Whether it says that it is not; one that says nothing may only be slow.
    says_no: AtomicBool,
    /// Whether an operator has taken it out.
    is_out: AtomicBool,
}

impl Balancer {
    /// Listens on a free port and leads to `replicas`, none of which is ready yet.
    pub(super) fn start(replicas: &[SocketAddr]) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the balancer")?;
        let address = listener.local_addr()?;
        let no = || AtomicBool::new(false);
        let replica =
            |address: &SocketAddr| Replica { address: *address, is_ready: no(), says_no: no(), is_out: no() };
        let shared = Arc::new(Shared {
            replicas: replicas.iter().map(replica).collect(),
            next: AtomicUsize::new(0),
            is_cut: false.into(),
            open: Mutex::default(),
            number: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                // A connection that breaks ends its thread; nobody waits for the outcome.
                thread::spawn(move || shared.lead(client));
            }
        });
        Ok(Self { address, shared })
    }

    /// What the last probe of a replica said, if it said anything.
    pub(super) fn set_ready(&self, replica: usize, said: Option<bool>) {
        let replica = &self.shared.replicas[replica];
        replica.is_ready.store(said == Some(true), Ordering::Relaxed);
        replica.says_no.store(said == Some(false), Ordering::Relaxed);
    }

    pub(super) fn is_ready(&self, replica: usize) -> bool {
        self.shared.replicas[replica].is_ready.load(Ordering::Relaxed)
    }

    /// Takes a replica out, or in again: what it has in hand goes on.
    pub(super) fn set_out(&self, replica: usize, is_out: bool) {
        self.shared.replicas[replica].is_out.store(is_out, Ordering::Relaxed);
    }

    /// Breaks all connections, and every new one at once, until it is mended.
    pub(super) fn cut(&self) {
        self.shared.is_cut.store(true, Ordering::Relaxed);
        for stream in self.shared.lock().values().flatten() {
            // What has ended already cannot be cut.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub(super) fn mend(&self) {
        self.shared.is_cut.store(false, Ordering::Relaxed);
    }
}

impl Shared {
    fn lead(&self, client: TcpStream) -> io::Result<()> {
        if self.is_cut.load(Ordering::Relaxed) {
            return Ok(());
        }
        client.set_nodelay(true)?;
        let Some(replica) = self.connect() else { return turn_away(client) };
        replica.set_nodelay(true)?;
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, [client.try_clone()?, replica.try_clone()?]);
        let (from, to) = (client.try_clone()?, replica.try_clone()?);
        let there = thread::spawn(move || pass_on(from, to));
        pass_on(replica, client);
        // The other direction ends with this one, because both ends are shut.
        let _ = there.join();
        self.lock().remove(&number);
        Ok(())
    }

    /// The next one that is ready and can be reached. If nobody says yes, those who say nothing are asked: when all fall
    /// silent at once, the machine is busy and nobody has died.
    fn connect(&self) -> Option<TcpStream> {
        let count = self.replicas.len();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let turn = || {
            let turn = (0..count).map(|step| &self.replicas[(first + step) % count]);
            turn.filter(|it| !it.is_out.load(Ordering::Relaxed))
        };
        let ready = turn().filter(|it| it.is_ready.load(Ordering::Relaxed));
        let silent =
            turn().filter(|it| !it.is_ready.load(Ordering::Relaxed) && !it.says_no.load(Ordering::Relaxed));
        { ready.chain(silent) }
            .find_map(|it| TcpStream::connect_timeout(&it.address, Duration::from_secs(1)).ok())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, [TcpStream; 2]>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes on what comes, as it comes, and shuts both when it ends.
fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

/// A request is read before it is refused: closing on unread bytes would take the answer along.
fn turn_away(mut client: TcpStream) -> io::Result<()> {
    client.set_read_timeout(Some(Duration::from_millis(100)))?;
    let _ = client.read(&mut [0; 16 * 1024]);
    client.write_all(NOBODY)?;
    client.shutdown(Shutdown::Write)?;
    let _ = client.read(&mut [0; 16 * 1024]);
    Ok(())
}
