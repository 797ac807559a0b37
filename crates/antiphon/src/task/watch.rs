//! Notifications about changed tasks, which any replica can send.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use antiphon_store::Event;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::{Tasks, record::TaskRecord};

/// For each task, the handle that notifies the code that waits for a change.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    tasks: HashMap<String, Weak<Notify>>,
    /// The number of entries at which the map removes unused entries.
    sweep_at: usize,
}

/// The map removes unused entries only if it has at least this number of entries.
const SWEEP: usize = 64;

impl Watchers {
    /// Returns a handle that is notified when the task may have changed. The entry of the task exists as long as the
    /// handle is in use.
    pub(super) fn watch(&self, id: &str) -> Arc<Notify> {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notify) = watched.tasks.get(id).and_then(Weak::upgrade) {
            return notify;
        }
        if watched.tasks.len() >= watched.sweep_at.max(SWEEP) {
            watched.tasks.retain(|_, notify| notify.strong_count() > 0);
            watched.sweep_at = 2 * watched.tasks.len();
        }
        let notify = Arc::new(Notify::new());
        watched.tasks.insert(id.to_owned(), Arc::downgrade(&notify));
        notify
    }

    fn tell(&self, id: &str) {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match watched.tasks.get(id).map(Weak::upgrade) {
            Some(Some(notify)) => notify.notify_waiters(),
            Some(None) => drop(watched.tasks.remove(id)),
            None => {}
        }
    }

    fn tell_all(&self) {
        let watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched.tasks.values().filter_map(Weak::upgrade).for_each(|notify| notify.notify_waiters());
    }
}

/// The message with which replicas announce that a task has changed.
#[derive(Debug, Serialize, Deserialize)]
struct News {
    id: String,
    /// Whether the task was cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cancelled: bool,
}

impl Tasks {
    /// Returns a handle that is notified when a replica announces a change of the task. Announcements can be lost, so
    /// callers of this method must also read the task periodically.
    pub(crate) fn news(&self, id: &str) -> Arc<Notify> {
        self.watchers.watch(id)
    }

    fn topic(&self) -> String {
        format!("tasks/{}", self.audience)
    }

    /// Announces that a task has changed. The announcement wakes the code that waits for this task, on every replica.
    /// If the task was cancelled, the running leg is also notified.
    ///
    /// An MCP 2026-07-28 client polls its task, so no replica waits until this task changes. For a task of an MCP
    /// 2026-07-28 client, this method sends only cancellations to other replicas. But if a model reads the result of
    /// the task with a tool, any replica can wait until the task changes. In this case, this method announces every
    /// change.
    pub(super) async fn announce(&self, record: &TaskRecord, cancelled: bool) {
        let id = &record.id;
        self.heard(&News { id: id.to_owned(), cancelled });
        if record.rounds && !cancelled && !record.is_read_with_a_tool {
            return;
        }
        let news = serde_json::to_vec(&News { id: id.to_owned(), cancelled }).unwrap_or_default();
        if let Err(error) = self.backend.bus.publish(&self.topic(), news.into()).await {
            // A lost announcement causes no error, because waiting code also reads the task periodically.
            tracing::debug!(%error, "a changed task could not be announced to the other replicas");
        }
    }

    fn heard(&self, news: &News) {
        self.watchers.tell(&news.id);
        if news.cancelled
            && let Some(writer) = self.writer(&news.id)
        {
            writer.cancel();
        }
    }

    /// Receives announcements of changed tasks from the other replicas, until the server stops.
    pub(super) async fn listen(tasks: Weak<Self>) {
        loop {
            let Some(this) = tasks.upgrade() else { return };
            let stopped = this.stopped.clone();
            let subscribed = this.backend.bus.subscribe(&this.topic()).await;
            drop(this);
            match subscribed {
                Ok(mut subscription) => loop {
                    let event = tokio::select! {
                        biased;
                        () = stopped.cancelled() => return,
                        event = subscription.next() => event,
                    };
                    let Some(this) = tasks.upgrade() else { return };
                    match event {
                        Some(Event::Message(news)) => {
                            if let Ok(news) = serde_json::from_slice(&news) {
                                this.heard(&news);
                            }
                        }
                        Some(Event::Gap) => this.watchers.tell_all(),
                        None => break,
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "the subscription to task changes of the other replicas failed");
                }
            }
            tokio::select! {
                biased;
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(super::WATCH) => {}
            }
        }
    }
}
