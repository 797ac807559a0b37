//! A store, a queue and a bus that the replicas of a server share, on PostgreSQL, Redis, NATS or in memory.
//!
//! Replicas need a place for shared state, a way to give a job to one worker, and a way to notify all replicas. The
//! traits [`Store`], [`Queue`] and [`Bus`] provide the shared state, the jobs and the notifications. The documentation
//! of each trait contains a *contract*: the rules that every implementation of the trait follows. An *engine* is the
//! software behind an implementation: PostgreSQL, Redis, NATS or the memory of the process.
//!
//! ```
//! use antiphon_store::{Bus, Error, Memory, NewJob, Queue, QueueConfig, Store};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> antiphon_store::Result<()> {
//! let memory = Memory::default();
//!
//! // If two writers write at the same revision, only one of them succeeds.
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
//! - [`Store`] stores logs, and records that have a revision and can expire. Every write to a store is conditional.
//! - [`Queue`] delivers each job to one worker at a time. If the worker does not acknowledge the job in time, the
//!   queue delivers the job again. A job that fails too often becomes a dead job.
//! - [`Bus`] sends events to the current subscribers of a topic.
//! - [`Backend`] combines a store, a queue and a bus in one struct. The store, the queue and the bus can use different
//!   engines.
//! - [`Memory`] contains a store, a queue and a bus for one process. The modules `postgres`, `redis` and `nats` contain
//!   a store, a queue and a bus for many processes.
//! - [`Retrying`] retries failed calls. If the response to a write is lost, `Retrying` finds out whether the write was
//!   applied.
//! - [`Pieces`] stores a value that is too large for one record in several records.
//! - [`name`] describes the rules for names of keys, logs, queues, jobs and topics.
//! - `conformance` contains tests with which you can check your own backend against the contracts. `flaky` contains a
//!   wrapper that injects faults, for tests.
//!
//! Every error except [`Error::Backend`] means that the call had no effect. After [`Error::Backend`], the effect of the
//! call is unknown.
//!
//! # Features
//!
//! No feature is on by default. The traits and [`Memory`] need no feature.
//!
//! | feature | adds |
//! |---|---|
//! | `postgres` | the module `postgres`: a backend on PostgreSQL 13 or later, through `sqlx` |
//! | `redis` | the module `redis`: a backend on Redis 7 or later (a server or a cluster), through the crate `redis` |
//! | `nats` | the module `nats`: a backend on NATS 2.9 or later with `JetStream`, through `async-nats` |
//! | `tls` | TLS connections to PostgreSQL and Redis, with rustls. NATS supports TLS without this feature |
//! | `flaky` | the module `flaky`: a wrapper that fails calls, delays calls, or applies a call and reports a failure |
//! | `conformance` | the module `conformance`: one test for each rule of the contracts, and macros for these tests |
//!
//! # Design decisions
//!
//! - **The crate has no engine-specific interface.** Code that uses only [`Store`], [`Queue`] and [`Bus`] runs on every
//!   engine. Contract tests check that all engines behave in the same way.
//! - **The crate has no transactions over several keys.** Two of the engines do not support transactions across nodes.
//!   Put related data into one record, or into a log that belongs to a record.
//! - **An expired record is not deleted immediately.** If the engine deleted an expired record, the logs that belong to
//!   the record would stay forever. So a process claims the expired record, removes the data that belongs to the
//!   record, and then deletes the record.
//! - **A queue does not deliver jobs exactly once.** A job is delivered again if its worker stops after the work but
//!   before the acknowledgement. Each delivery of a job has an attempt number. A worker whose lease was lost cannot
//!   change the job.
//! - **A backend does not retry calls.** A backend sends each call to its engine once. Only the wrapper [`Retrying`]
//!   repeats calls. `Retrying` marks each write, and can so distinguish its own writes from the writes of other
//!   processes.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod name;

mod backend;
mod bus;
mod connect;
mod error;
mod memory;
#[cfg(any(feature = "nats", feature = "postgres", feature = "redis"))]
mod parameters;
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
