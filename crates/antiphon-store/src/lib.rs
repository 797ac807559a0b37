//! Store, queue and bus: the state that replicas of a server share, as three small contracts with several backends.
//!
//! Replicas need a place for shared state, a way to give a job to one worker, and a way to notify all replicas.
//! [`Store`], [`Queue`] and [`Bus`] are these three contracts. Each contract is so small that PostgreSQL, Redis and
//! NATS can all implement it with their native features.
//!
//! ```
//! use antiphon_store::{Bus, Error, Memory, NewJob, Queue, QueueConfig, Store};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> antiphon_store::Result<()> {
//! let memory = Memory::default();
//!
//! // Of two writers at one revision, one succeeds.
//! let store = memory.store();
//! let first = store.create("runs/42", "asked".into(), Some(Duration::from_secs(3600))).await?;
//! store.update("runs/42", "answered".into(), None, first).await?;
//! let late = store.update("runs/42", "too late".into(), None, first).await;
//! assert!(matches!(late, Err(Error::Conflict { .. })));
//!
//! // A worker holds a job until the job is done or the lease expires.
//! let queue = memory.queue(QueueConfig::default());
//! queue.push("mail", NewJob::new("welcome-42", "runs/42")).await?;
//! for job in queue.lease("mail", 10, Duration::from_secs(5)).await? {
//!     queue.ack(&job.lease).await?;
//! }
//!
//! // Every subscriber receives the event.
//! let bus = memory.bus();
//! let mut news = bus.subscribe("runs/42").await?;
//! bus.publish("runs/42", "answered".into()).await?;
//! assert!(news.next().await.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # Parts
//!
//! - [`Store`]: records with revisions and expiry, and logs. Every write is conditional.
//! - [`Queue`]: jobs, leases, redelivery, dead letters.
//! - [`Bus`]: events for the current subscribers.
//! - [`Backend`]: a store, a queue and a bus. They can use different engines.
//! - [`Memory`]: all three in one process. `postgres`, `redis` and `nats`: all three for many processes.
//! - [`Retrying`]: retries failed calls, and finds out whether a write with a lost response was applied.
//! - [`Pieces`]: a value that is larger than the limit of one record.
//! - [`name`]: the rules for names of keys, logs, queues, jobs and topics.
//! - `conformance`: the contracts as tests, for your own backend. `flaky`: faults from a seed.
//!
//! Every error except [`Error::Backend`] means that the call had no effect. After [`Error::Backend`], the effect is
//! unknown.
//!
//! # Features
//!
//! No feature is on by default. The contracts and [`Memory`] need no engine.
//!
//! | feature | contents |
//! |---|---|
//! | `postgres` | `postgres`: PostgreSQL 13 or later, through `sqlx` |
//! | `redis` | `redis`: Redis 7 or later, a server or a cluster, through `redis` |
//! | `nats` | `nats`: NATS 2.9 or later with `JetStream`, through `async-nats` |
//! | `tls` | TLS to PostgreSQL and Redis, with rustls. NATS supports TLS without this feature |
//! | `flaky` | `flaky`: a backend that fails, delays calls, or applies a call and reports a failure |
//! | `conformance` | `conformance`: one test for each rule of the contracts, and the macros that generate the tests |
//!
//! # Design decisions
//!
//! - **No engine-specific interface.** Code that uses these contracts runs on each of the engines. Contract tests
//!   check that all engines behave the same.
//! - **No transactions over several keys.** Two of the engines do not support transactions across nodes. Put
//!   related data into one record, or into a log that belongs to a record.
//! - **An expired record is not deleted immediately.** The time to live of an engine would remove a record before
//!   its dependent data can be removed. Here a process claims the record, removes the dependent data, and then
//!   deletes the record.
//! - **No exactly-once delivery.** A worker can stop after the work and before the acknowledgement, so a job can be
//!   delivered again. Each delivery has an attempt number. A worker whose lease was lost cannot change the job.
//! - **No hidden retries.** A backend makes each call once. Only [`Retrying`] repeats calls, because only there a
//!   writer can distinguish its own write from another writer's.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod name;

mod backend;
mod bus;
mod connect;
mod error;
mod memory;
mod pieces;
mod queue;
mod retrying;
mod store;
#[cfg(any(feature = "nats", feature = "tls"))]
mod tls;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "flaky")]
pub mod flaky;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;

pub use self::{
    backend::Backend,
    bus::{BUFFER, Bus, Event, Feed, MAX_EVENT, Subscription, check_event},
    error::{Error, Result},
    memory::{Memory, MemoryBus, MemoryQueue, MemoryStore},
    pieces::{PIECE, Pieces},
    queue::{
        DeadJob, Depth, EXACT_DEPTH, Job, Lease, MAX_PAYLOAD, NewJob, Pushed, Queue, QueueConfig, check_job,
    },
    retrying::{Retrying, RetryingConfig},
    store::{Cursor, ENTRY_COST, MAX_VALUE, Page, Record, Revision, Store, check_entries, check_value},
};
