//! The ledger: a server in this process that takes reports of effects. It answers with a receipt and nothing else.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::Break;

/// One effect, as a program under test reported it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Entry {
    /// The name of the errand.
    pub(super) name: String,
    /// The name of the effect.
    pub(super) what: String,
    pub(super) replica: String,
    /// When the report arrived.
    #[serde(skip, default = "Instant::now")]
    pub(super) at: Instant,
}

#[derive(Debug, Default)]
struct Book {
    entries: Vec<Entry>,
    /// Effects that are written down without a receipt, by name: their process never learns that they happened.
    held: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
    written: Condvar,
    breaks: Option<Break>,
}

/// The server. Its threads end with this process.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Ledger {
    pub(super) fn start(breaks: Option<Break>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the ledger")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { breaks, ..Shared::default() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                // A process that dies while it reports ends this thread; nobody waits for the outcome.
                thread::spawn(move || shared.take(client));
            }
        });
        Ok(Self { address, shared })
    }

    /// How often the effect `what` of the errand `name` happened.
    pub(super) fn count(&self, name: &str, what: &str) -> usize {
        self.shared.book().entries.iter().filter(|it| it.name == name && it.what == what).count()
    }

    /// Writes effects of this name down from now on, but sends no receipt.
    pub(super) fn hold(&self, what: &str) {
        self.shared.book().held.insert(what.to_owned());
    }

    /// Sends receipts for effects of this name again.
    pub(super) fn release(&self, what: &str) {
        self.shared.book().held.remove(what);
    }

    /// Waits until the effect has happened, at most until `limit`.
    pub(super) fn wait(&self, name: &str, what: &str, limit: Instant) -> Option<Entry> {
        let mut book = self.shared.book();
        loop {
            if let Some(found) = book.entries.iter().find(|it| it.name == name && it.what == what) {
                return Some(found.clone());
            }
            let left = limit.checked_duration_since(Instant::now())?;
            let waited = self.shared.written.wait_timeout(book, left.max(Duration::from_millis(1)));
            book = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, client: TcpStream) -> Result<()> {
        let mut client = BufReader::new(client);
        let mut line = String::new();
        client.read_line(&mut line)?;
        let entry: Entry = serde_json::from_str(&line)?;
        let is_held = {
            let mut book = self.book();
            let times = match self.breaks {
                Some(Break::DropEffect) => 0,
                Some(Break::DoubleEffect) => 2,
                _ => 1,
            };
            let is_held = book.held.contains(&entry.what);
            book.entries.extend(std::iter::repeat_n(entry, times));
            is_held
        };
        self.written.notify_all();
        if is_held {
            // Until the process is gone, or gives up.
            client.read_line(&mut line)?;
        } else {
            client.get_mut().write_all(b"ok\n")?;
        }
        Ok(())
    }
}
