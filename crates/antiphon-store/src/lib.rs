//! Store, queue and bus: the three things that replicas share, as small contracts, and who keeps them.
//!
//! Servers that are to share work need a place for what one of them knows, a way to hand a job to one of
//! them, and a way to tell all of them. A [`Store`], a [`Queue`] and a [`Bus`] are that, and no more: each
//! is small enough that PostgreSQL, Redis and NATS can all keep it, on their own machinery.
//!
//! ```
//! use antiphon_store::{Bus, Error, Memory, NewJob, Queue, QueueConfig, Store};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> antiphon_store::Result<()> {
//! let memory = Memory::default();
//!
//! // Of two who write at one revision, one wins.
//! let store = memory.store();
//! let first = store.create("runs/42", "asked".into(), Some(Duration::from_secs(3600))).await?;
//! store.update("runs/42", "answered".into(), None, first).await?;
//! let late = store.update("runs/42", "too late".into(), None, first).await;
//! assert!(matches!(late, Err(Error::Conflict { .. })));
//!
//! // A job is one worker's until it is done, or the worker has been silent for too long.
//! let queue = memory.queue(QueueConfig::default());
//! queue.push("mail", NewJob::new("welcome-42", "runs/42")).await?;
//! for job in queue.lease("mail", 10, Duration::from_secs(5)).await? {
//!     queue.ack(&job.lease).await?;
//! }
//!
//! // Whoever listens is told.
//! let bus = memory.bus();
//! let mut news = bus.subscribe("runs/42").await?;
//! bus.publish("runs/42", "answered".into()).await?;
//! assert!(news.next().await.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # The parts
//!
//! - [`Store`]: records with revisions and expiry, and logs; every write is conditional.
//! - [`Queue`]: jobs, leases, redelivery, dead letters.
//! - [`Bus`]: events to whoever listens now.
//! - [`Backend`]: one of each, which need not be of one kind.
//! - [`Memory`]: all three in one process; `postgres`, `redis` and `nats`: all three for many.
//! - [`Retrying`]: makes calls again that failed, and finds out what became of a write whose answer was lost.
//! - [`Pieces`]: a value that is larger than one record can be.
//! - [`name`]: what may name a key, a log, a queue, a job or a topic.
//! - `conformance`: the contracts as tests, for a backend of your own. `flaky`: faults from a seed.
//!
//! Every error but [`Error::Backend`] means that nothing was done; that one means that nobody knows.
//!
//! # Features
//!
//! None is on by default: the contracts and [`Memory`] need no engine.
//!
//! | feature | what it gives |
//! |---|---|
//! | `postgres` | `postgres`: PostgreSQL 13 or later, through `sqlx` |
//! | `redis` | `redis`: Redis 7 or later, a server or a cluster, through `redis` |
//! | `nats` | `nats`: NATS 2.9 or later with `JetStream`, through `async-nats` |
//! | `tls` | TLS to PostgreSQL and Redis, with rustls; NATS has it without |
//! | `flaky` | `flaky`: a backend that fails, delays, or does it and says it failed |
//! | `conformance` | `conformance`: one test a law, and the macros that make them |
//!
//! # Why not otherwise
//!
//! - **Not a database's own interface.** What is written on these contracts runs on whichever engine is
//!   there already, and laws, not hopes, say that it runs the same.
//! - **No transactions over several keys.** Two of the engines have none over their nodes. What belongs
//!   together is one record, or a log that hangs on one.
//! - **Expired is not gone.** An engine's own time to live would remove a record before anybody could remove
//!   what hangs on it; here it is claimed, cleaned up after, and then deleted.
//! - **No exactly once.** A worker can die after the work and before the acknowledgement, so jobs come
//!   again, and say which attempt it is; a lease that was lost can change nothing.
//! - **Nothing is retried in secret.** A backend makes each call once; [`Retrying`] is where calls are made
//!   again, because only there can a writer tell its own write from another's.
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
