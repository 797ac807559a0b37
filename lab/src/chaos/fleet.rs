//! The replicas, and how they die.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::server::{self, Server};

/// Server processes on fixed addresses, each killed and restarted on its own.
#[derive(Debug)]
pub(crate) struct Fleet {
    binary: PathBuf,
    log: PathBuf,
    keys: RwLock<String>,
    /// What else every replica is told.
    extra: Vec<String>,
    replicas: Vec<Mutex<Option<Server>>>,
    /// Where each replica listens whenever it is up.
    pub addresses: Vec<SocketAddr>,
    /// How many processes were killed by chance.
    pub kills: AtomicU64,
}

impl Fleet {
    /// Starts `count` replicas that all hold `keys`.
    pub(crate) fn start(
        binary: PathBuf,
        log: PathBuf,
        count: usize,
        keys: String,
        extra: Vec<String>,
    ) -> Result<Self> {
        let addresses = (0..count).map(|_| server::free_address()).collect::<Result<Vec<_>>>()?;
        let replicas = addresses.iter().map(|_| Mutex::new(None)).collect();
        let (keys, kills) = (RwLock::new(keys), AtomicU64::new(0));
        let fleet = Self { binary, log, keys, extra, replicas, addresses, kills };
        for number in 0..count {
            fleet.restart(number, Duration::ZERO)?;
        }
        Ok(fleet)
    }

    /// Kills replica `number` and starts it again after `pause`.
    pub(crate) fn kill(&self, number: usize, pause: Duration) -> Result<()> {
        self.restart(number, pause)?;
        self.kills.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Gives every replica another key ring, one replica after the other.
    pub(crate) fn roll_out(&self, keys: &str) -> Result<()> {
        keys.clone_into(&mut self.keys.write().unwrap_or_else(PoisonError::into_inner));
        (0..self.replicas.len()).try_for_each(|number| self.restart(number, Duration::ZERO))
    }

    fn restart(&self, number: usize, pause: Duration) -> Result<()> {
        let mut replica = self.replicas[number].lock().unwrap_or_else(PoisonError::into_inner);
        // Dropping the server kills its process with no chance to say goodbye.
        *replica = None;
        thread::sleep(pause);
        // Read after the kill, so that a restart in the middle of a roll-out has the new keys.
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        let arguments = [&["--keys".into(), keys], &self.extra[..]].concat();
        // A replica that starts while its store fails over waits for the store.
        let server = Server::start(&self.binary, self.addresses[number], &arguments, &self.log);
        *replica = Some(server.with_context(|| format!("replica {number} did not come back"))?);
        Ok(())
    }
}
