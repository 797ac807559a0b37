//! Our side: the contracts, as anybody calls them.

use std::time::{Duration, Instant};

use antiphon_store::{Backend, Error, Event, NewJob, Revision, Subscription};
use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;

use crate::side::{FULL, HUNDRED, Operation, Side, VALUE};

/// Everything that ours writes is below, or called, this.
const NAME: &str = "ours";

pub(crate) struct Ours {
    backend: Backend,
    subscription: Subscription,
    created: u64,
    revision: Revision,
    length: u64,
    pushed: u64,
}

impl Ours {
    /// Prepares what both sides read.
    pub(crate) async fn new(backend: Backend) -> Result<Self> {
        for number in 0..FULL {
            let created = backend.store.create(&format!("{HUNDRED}/{number}"), value(), None).await;
            ensure!(matches!(created, Ok(_) | Err(Error::Conflict { .. })), "{created:?}");
        }
        for at in 0..FULL as u64 {
            backend.store.append(HUNDRED, at, vec![value()]).await?;
        }
        let revision = backend.store.create("ours/updated", value(), None).await?;
        let subscription = backend.bus.subscribe(NAME).await?;
        Ok(Self { backend, subscription, created: 0, revision, length: 0, pushed: 0 })
    }
}

fn value() -> Bytes {
    Bytes::from_static(VALUE)
}

#[async_trait]
impl Side for Ours {
    async fn run(&mut self, operation: Operation) -> Result<Duration> {
        let Backend { store, queue, bus, .. } = &self.backend;
        let start;
        match operation {
            Operation::Get => {
                start = Instant::now();
                store.get("hundred/0").await?.context("the record is gone")?;
            }
            Operation::Create => {
                self.created += 1;
                let key = format!("ours/created/{}", self.created);
                start = Instant::now();
                store.create(&key, value(), None).await?;
            }
            Operation::Update => {
                start = Instant::now();
                self.revision = store.update("ours/updated", value(), None, self.revision).await?;
            }
            Operation::Append => {
                start = Instant::now();
                self.length = store.append(NAME, self.length, vec![value()]).await?;
            }
            Operation::Read => {
                start = Instant::now();
                let entries = store.read(HUNDRED, 0, FULL).await?;
                ensure!(entries.len() == FULL, "only {} entries were read", entries.len());
            }
            Operation::List => {
                start = Instant::now();
                let page = store.list("hundred/", None, FULL).await?;
                ensure!(page.items.len() == FULL, "only {} records were listed", page.items.len());
            }
            Operation::Push => {
                self.pushed += 1;
                let job = NewJob::new(format!("ours-{}", self.pushed), value());
                start = Instant::now();
                queue.push("ours-pushed", job).await?;
            }
            Operation::LeaseAndAck => {
                self.pushed += 1;
                queue.push(NAME, NewJob::new(format!("ours-{}", self.pushed), value())).await?;
                start = Instant::now();
                let jobs = queue.lease(NAME, 1, Duration::ZERO).await?;
                queue.ack(&jobs.first().context("no job was leased")?.lease).await?;
            }
            Operation::Publish => {
                start = Instant::now();
                bus.publish(NAME, value()).await?;
                let event = self.subscription.next().await;
                ensure!(matches!(event, Some(Event::Message(_))), "{event:?}");
            }
        }
        Ok(start.elapsed())
    }
}
