//! Announces changes to the other replicas over the bus.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use antiphon_store::{Event, MAX_EVENT, Subscription};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::Replicas;
use crate::changes::{Change, ChangeNotice};
use antiphon_transport::session::ChangeId;

/// How long a change waits before the replica announces the change. If equal changes occur while a change waits, the
/// replica announces the change only once.
const WINDOW: Duration = Duration::from_millis(20);

/// The changes that wait to be announced. If a change is added twice, the replica announces the change only once.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pending: Mutex<BTreeSet<Change>>,
    wake: Notify,
}

impl Outbox {
    pub(super) fn put(&self, change: Change) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(change);
        self.wake.notify_one();
    }

    fn take(&self) -> BTreeSet<Change> {
        std::mem::take(&mut self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Announcement {
    from: String,
    number: u64,
    change: Change,
}

impl Announcement {
    fn told(self) -> ChangeNotice {
        let id = format!("{}-{}", self.from, self.number);
        ChangeNotice { change: self.change, id: Some(ChangeId(id.into())) }
    }
}

impl Replicas {
    pub(super) async fn subscribe_changes(&self) -> antiphon_store::Result<Subscription> {
        self.bus.subscribe(&self.topic).await
    }

    pub(super) fn begin_changes(self: &Arc<Self>, changes: Subscription) {
        tokio::spawn(hear(Arc::clone(self), changes));
        tokio::spawn(announce(Arc::clone(self)));
    }
}

/// Announces changes to the clients of this replica, and to the other replicas over the bus.
async fn announce(replicas: Arc<Replicas>) {
    let mut number = 0;
    loop {
        // Before a server stops, the server announces the changes that still wait.
        let is_last = tokio::select! {
            () = replicas.stopped.cancelled() => true,
            () = replicas.outbox.wake.notified() => false,
        };
        if !is_last {
            tokio::time::sleep(WINDOW).await;
        }
        for change in replicas.outbox.take() {
            number += 1;
            let event = encode(&replicas.id, number, &change);
            let own = Announcement { from: replicas.id.clone(), number, change };
            // A send fails if no client listens, which is not an error.
            let _ = replicas.told.send(own.told());
            if let Err(error) = replicas.bus.publish(&replicas.topic, event.into()).await {
                tracing::warn!(%error, "a change could not be announced to the other replicas");
            }
        }
        if is_last {
            return;
        }
    }
}

fn encode(from: &str, number: u64, change: &Change) -> Vec<u8> {
    let encode = |change: &Change| {
        let announcement = Announcement { from: from.to_owned(), number, change: change.clone() };
        serde_json::to_vec(&announcement).expect("names and numbers are JSON")
    };
    let event = encode(change);
    // If a long URI makes the event too long, this code announces instead that any list or resource may have changed.
    // The ID of an elicitation always fits into an event.
    if event.len() > MAX_EVENT { encode(&Change::Any) } else { event }
}

/// The number of the last announcement that each replica has sent. The announcements of a replica arrive in order, but
/// an announcement can arrive twice.
#[derive(Debug, Default)]
struct Heard(HashMap<String, (u64, Instant)>);

/// How long this process stores the last announcement number of a replica. A duplicate announcement arrives much sooner
/// than this time.
const FORGOTTEN: Duration = Duration::from_secs(10 * 60);

impl Heard {
    fn is_new(&mut self, from: &str, number: u64, now: Instant) -> bool {
        if let Some((last, at)) = self.0.get_mut(from) {
            if number <= *last {
                return false;
            }
            (*last, *at) = (number, now);
            return true;
        }
        // Every process has its own ID, and most processes in this map have already ended.
        self.0.retain(|_, (_, at)| now.duration_since(*at) < FORGOTTEN);
        self.0.insert(from.to_owned(), (number, now));
        true
    }
}

async fn hear(replicas: Arc<Replicas>, mut changes: Subscription) {
    let mut heard = Heard::default();
    loop {
        let event = tokio::select! {
            () = replicas.stopped.cancelled() => return,
            event = changes.next() => event,
        };
        let told = match event {
            None => return,
            Some(Event::Gap) => ChangeNotice { change: Change::Any, id: None },
            Some(Event::Message(message)) => match serde_json::from_slice::<Announcement>(&message) {
                Ok(announcement) if announcement.from == replicas.id => continue,
                Ok(announcement) => {
                    if !heard.is_new(&announcement.from, announcement.number, Instant::now()) {
                        continue;
                    }
                    announcement.told()
                }
                Err(error) => {
                    tracing::debug!(%error, "a change announcement of another replica cannot be parsed; a newer version may have sent it");
                    ChangeNotice { change: Change::Any, id: None }
                }
            },
        };
        let _ = replicas.told.send(told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcement_that_comes_twice_is_heard_once_and_ended_replicas_are_forgotten() {
        let (mut heard, begun) = (Heard::default(), Instant::now());
        assert!(heard.is_new("a", 1, begun));
        assert!(!heard.is_new("a", 1, begun));
        assert!(heard.is_new("a", 2, begun));
        for process in 0..1000_u32 {
            let now = begun + Duration::from_secs(60) * process;
            assert!(heard.is_new(&format!("process {process}"), 1, now));
            assert!(heard.is_new("lives", u64::from(process) + 1, now));
        }
        assert!(heard.0.len() <= 12, "{} replicas are remembered", heard.0.len());
        assert!(!heard.is_new("lives", 1000, begun + Duration::from_secs(60_000)));
    }
}
