//! The replicas, as processes of one program on fixed addresses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::http::Message;
use crate::mcp;
use crate::server::{self, Server};
use crate::services::signal;

/// How many there are.
pub(super) const COUNT: usize = 3;

/// The one that is never killed nor replaced, so that one process has seen all of it.
pub(super) const ELDEST: usize = 0;

/// Longer than a server gives to what it has in hand, and to the legs of tasks after that.
const END: Duration = Duration::from_mins(1);

/// Where the replicas of a fleet are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) address: SocketAddr,
    /// Probes and figures.
    pub(super) health: SocketAddr,
}

impl Place {
    pub(super) fn find() -> Result<Self> {
        Ok(Self { address: server::free_address()?, health: server::free_address()? })
    }

    /// What a probe says, or the figures.
    pub(super) fn get(&self, path: &str, patience: Duration) -> std::io::Result<Message> {
        let head = Message {
            start: format!("GET {path} HTTP/1.1"),
            headers: vec![("host".into(), self.health.to_string()), ("connection".into(), "close".into())],
            body: Vec::new(),
        };
        mcp::exchange_once(self.health, &head.to_bytes(), patience)
    }
}

/// A process, and which start of its replica it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) pid: u32,
    pub(super) start: u64,
}

/// All of them; they are killed when this goes out of scope.
#[derive(Debug)]
pub(super) struct Replicas {
    binary: PathBuf,
    log: PathBuf,
    variables: Vec<(&'static str, String)>,
    pub(super) places: Vec<Place>,
    processes: Vec<Mutex<Option<Server>>>,
    /// Read while a process is being replaced.
    lives: Vec<Mutex<Option<Life>>>,
    starts: AtomicU64,
}

impl Replicas {
    /// Starts all of them with the same variables, but for those that say which is which.
    pub(super) fn start(
        binary: PathBuf,
        log: PathBuf,
        places: Vec<Place>,
        variables: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let processes = places.iter().map(|_| Mutex::new(None)).collect();
        let lives = places.iter().map(|_| Mutex::new(None)).collect();
        let replicas = Self { binary, log, variables, places, processes, lives, starts: AtomicU64::new(0) };
        for number in 0..replicas.places.len() {
            replicas.begin(number)?;
        }
        Ok(replicas)
    }

    /// The process that is replica `number` now, if there is one.
    pub(super) fn life(&self, number: usize) -> Option<Life> {
        *self.lives[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it, and waits until it is ready.
    pub(super) fn begin(&self, number: usize) -> Result<()> {
        let Place { address, health } = self.places[number];
        let mut command = Command::new(&self.binary);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("LISTEN", address.to_string()).env("HEALTH_LISTEN", health.to_string());
        command.env("REPLICA", format!("replica-{number}"));
        let server = Server::spawn(&mut command, address, &self.log)?;
        let start = self.starts.fetch_add(1, Ordering::Relaxed);
        self.set_life(number, Some(Life { pid: server.pid(), start }));
        let mut process = self.process(number);
        let server = process.insert(server);
        let began = Instant::now();
        while !self.is_ready(number) {
            ensure!(
                !server.has_ended(Duration::from_millis(50))? && began.elapsed() < END,
                "replica {number} does not become ready; they wrote:\n{}",
                server::tail(&self.log)
            );
        }
        Ok(())
    }

    /// Whether it says that it is ready; nothing, if it says nothing.
    pub(super) fn probe(&self, number: usize) -> Option<bool> {
        let said = self.places[number].get("/readyz", Duration::from_secs(1));
        said.ok().map(|said| said.status() == 200)
    }

    pub(super) fn is_ready(&self, number: usize) -> bool {
        self.probe(number) == Some(true)
    }

    /// Ends it with no chance to say goodbye.
    pub(super) fn kill(&self, number: usize) {
        self.set_life(number, None);
        // Dropping the server kills its process.
        *self.process(number) = None;
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn ask_to_end(&self, number: usize) -> Result<()> {
        self.signal(number, "TERM")?;
        let mut process = self.process(number);
        let server = process.as_mut().context("a replica that is asked to end runs")?;
        ensure!(server.has_ended(END)?, "replica {number} did not end within {} s", END.as_secs());
        self.set_life(number, None);
        *process = None;
        Ok(())
    }

    pub(super) fn signal(&self, number: usize, name: &str) -> Result<()> {
        let life = self.life(number).context("a replica that is sent a signal runs")?;
        ensure!(signal(life.pid, name)?, "replica {number} cannot be sent {name}");
        Ok(())
    }

    fn process(&self, number: usize) -> std::sync::MutexGuard<'_, Option<Server>> {
        self.processes[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_life(&self, number: usize, life: Option<Life>) {
        *self.lives[number].lock().unwrap_or_else(PoisonError::into_inner) = life;
    }
}
