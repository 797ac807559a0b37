use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};

/// A TCP proxy that leads to one server at a time, such as a load balancer in front of a database.
#[derive(Debug)]
pub(super) struct Switch {
    pub(super) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    target: SocketAddr,
    open: Vec<TcpStream>,
    /// Whether the open connections lose every byte.
    is_cut: Arc<AtomicBool>,
}

impl Switch {
    pub(super) fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the proxy")?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State { target, open: Vec::new(), is_cut: Arc::default() }));
        let accepting = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A connection that cannot be forwarded is closed.
                let _ = forward(client, &accepting);
            }
        });
        Ok(Self { address, state })
    }

    /// Until [`aim`](Self::aim), all connections lose every byte, and nobody learns that. Open connections stay so.
    pub(super) fn cut(&self) {
        lock(&self.state).is_cut.store(true, Ordering::Release);
    }

    /// Leads new connections to another server from now on.
    pub(super) fn aim(&self, target: SocketAddr) {
        let mut state = lock(&self.state);
        state.target = target;
        state.is_cut = Arc::default();
    }

    /// Leads to another server from now on, and closes all open connections.
    pub(super) fn lead_to(&self, target: SocketAddr) {
        let mut state = lock(&self.state);
        state.target = target;
        for stream in state.open.drain(..) {
            // It fails if the connection is closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn forward(client: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut state = lock(state);
    let server = TcpStream::connect(state.target)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    for (from, to) in [(&client, &server), (&server, &client)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        let is_cut = Arc::clone(&state.is_cut);
        thread::spawn(move || {
            // Whatever ends one direction ends the connection.
            let _ = copy(&mut from, &mut to, &is_cut);
            // Nobody learns of the end of a connection that was cut.
            while is_cut.load(Ordering::Acquire) {
                thread::park();
            }
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    state.open.retain(|stream| stream.peer_addr().is_ok());
    state.open.extend([client, server]);
    Ok(())
}

/// Copies until the end of one side. Bytes of a connection that is cut are lost.
fn copy(from: &mut TcpStream, to: &mut TcpStream, is_cut: &AtomicBool) -> io::Result<()> {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        if !is_cut.load(Ordering::Acquire) {
            to.write_all(&bytes[..count])?;
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
