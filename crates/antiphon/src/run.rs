//! One invocation, as its context and its driver share it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::Waker,
    time::{SystemTime, UNIX_EPOCH},
};

use antiphon_replay::{Drift, Journal, Key, Machine};

use crate::{
    server::Shared,
    wire::{Link, Note, fits},
};

/// A run in progress.
pub(crate) struct Run {
    pub(crate) link: Link,
    pub(crate) shared: Arc<Shared>,
    pub(crate) principal: Option<String>,
    /// The keys the tool says it asks under; nothing else may be asked if it says so.
    pub(crate) declared: Option<Arc<BTreeSet<String>>>,
    state: Mutex<State>,
    /// The waker the driver polls with. See [`Run::park`].
    root: OnceLock<Waker>,
}

pub(crate) struct State {
    /// Made when it is needed: many tools neither ask nor take a step.
    machine: Option<Box<Machine>>,
    /// Wakers of futures that are polled by something other than the driver itself.
    wakers: BTreeMap<Key, Waker>,
    outbox: Vec<Note>,
    dropped_notes: u64,
    last_progress: Option<f64>,
    /// When which branch runs out of time, in milliseconds since 1970.
    pub(crate) deadlines: BTreeMap<Key, u64>,
}

/// A tool that never yields could fill memory with log lines nobody has been sent yet.
const OUTBOX: usize = 4096;

impl Run {
    /// A run that goes on from `machine`, or begins.
    pub(crate) fn new(link: Link, shared: Arc<Shared>, machine: Option<Machine>) -> Self {
        let state = State {
            machine: machine.map(Box::new),
            wakers: BTreeMap::new(),
            outbox: Vec::new(),
            dropped_notes: 0,
            last_progress: None,
            deadlines: BTreeMap::new(),
        };
        Self {
            link,
            shared,
            principal: None,
            declared: None,
            state: Mutex::new(state),
            root: OnceLock::new(),
        }
    }

    /// The lock is never held while the tool's code runs, so it cannot be poisoned half-way.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the machine out of the run.
    pub(crate) fn take_machine(&self) -> Machine {
        *self.state().machine.take().unwrap_or_else(begin)
    }

    /// Whether the tool, having returned, has seen all that its journal holds.
    pub(crate) fn check_complete(&self) -> Result<(), Drift> {
        self.state().machine.as_ref().map_or(Ok(()), |machine| machine.check_complete())
    }

    /// The run's id. Most runs end without anybody asking for it, so it is drawn when somebody does.
    pub(crate) fn id(&self) -> String {
        self.state().id().to_owned()
    }

    pub(crate) fn set_root(&self, waker: Waker) {
        let _ = self.root.set(waker);
    }

    /// Remembers whom to wake when `key` is handed over.
    ///
    /// The root waker is never kept: the driver polls the root anyway, and so whoever else holds a
    /// clone of it is real I/O. A combinator's own waker (`FuturesUnordered` has one a child) must
    /// be kept, or it will not poll us again.
    pub(crate) fn park(&self, state: &mut State, key: &Key, waker: &Waker) {
        if self.root.get().is_some_and(|root| root.will_wake(waker)) {
            return;
        }
        match state.wakers.get_mut(key) {
            Some(kept) => kept.clone_from(waker),
            None => {
                state.wakers.insert(key.clone(), waker.clone());
            }
        }
    }

    /// Tells the client something, unless it was told before.
    pub(crate) fn note(&self, note: Note) {
        let mut state = self.state();
        if state.machine().is_replaying() {
            return;
        }
        if let Note::Progress { progress, .. } = &note {
            // Progress must increase; what does not is not news.
            if state.last_progress.is_some_and(|last| *progress <= last) {
                return;
            }
            state.last_progress = Some(*progress);
        }
        if state.outbox.len() < OUTBOX {
            state.outbox.push(note);
        } else {
            state.dropped_notes += 1;
        }
    }

    pub(crate) fn take_notes(&self) -> Vec<Note> {
        let mut state = self.state();
        if state.dropped_notes > 0 {
            tracing::warn!(
                dropped = state.dropped_notes,
                "a tool logs faster than it yields; notifications were dropped"
            );
            state.dropped_notes = 0;
        }
        std::mem::take(&mut state.outbox)
    }
}

fn begin() -> Box<Machine> {
    Box::new(Machine::new(Journal::new(String::new())).with_fits(fits))
}

impl State {
    pub(crate) fn machine(&mut self) -> &mut Machine {
        self.machine.get_or_insert_with(begin)
    }

    pub(crate) fn id(&mut self) -> &str {
        let machine = self.machine();
        if machine.run().is_empty() {
            machine.set_run(random_id());
        }
        machine.run()
    }

    pub(crate) fn take_waker(&mut self, key: &Key) -> Option<Waker> {
        self.wakers.remove(key)
    }

    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakers).into_values().collect()
    }

    /// A future was dropped.
    pub(crate) fn leave(&mut self, key: &Key) {
        self.machine().leave(key);
        self.wakers.remove(key);
        self.deadlines.remove(key);
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.state().machine().run()).finish_non_exhaustive()
    }
}

/// 128 random bits: a run's id, or who holds a claim.
pub(crate) fn random_id() -> String {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).expect("the operating system has random numbers");
    format!("{:032x}", u128::from_le_bytes(bits))
}

pub(crate) fn now_millis() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis().try_into().unwrap_or(u64::MAX))
}
