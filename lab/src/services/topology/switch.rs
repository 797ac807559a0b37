use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
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
}

impl Switch {
    pub(super) fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the proxy")?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State { target, open: Vec::new() }));
        let accepting = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A connection that cannot be forwarded is closed.
                let _ = forward(client, &accepting);
            }
        });
        Ok(Self { address, state })
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
        thread::spawn(move || {
            // Whatever ends one direction ends the connection.
            let _ = io::copy(&mut from, &mut to);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    state.open.retain(|stream| stream.peer_addr().is_ok());
    state.open.extend([client, server]);
    Ok(())
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
