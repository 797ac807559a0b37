//! NATS with `JetStream`, 2.9 or later.
//!
//! # What is where
//!
//! All spaces share seven streams, named `<prefix>_v1_<stream>`, with subjects `<prefix>.v1.<stream>.<space>.…`,
//! in which the `/` of our names is a `.`.
//!
//! | stream | subject after the space | what a message is |
//! |---|---|---|
//! | `records` | the key | a record: its revision is the message's number |
//! | `logs` | the log | one append |
//! | `timers` | the key's first segment, and a span of eight seconds | a record to look at then |
//! | `claims` | the key | who claimed an expired record, and until when |
//! | `jobs` | the queue, the id | a job, from when it is pushed until it is done |
//! | `fences` | the queue, the id, the number of the job's message | what the job has come to |
//! | `dead` | the queue, the id | the name of a dead job |
//!
//! Everything that must have one winner is a publish on condition of the last message on its subject, which is
//! one round trip. What stands for something that is gone is removed at once. Each queue has one durable pull
//! consumer, which offers jobs and times leases and delays; the fence decides who gets them, because `JetStream`
//! takes an acknowledgement from whoever had a job before. Events are plain messages on
//! `<prefix>.v1.bus.<space>.…`, and no stream knows of them.
//!
//! # What it costs
//!
//! - `get`, `create`, `update`, `delete`, `append`, `push`, `ack`, `nack` and `extend` are one round trip, as a rule.
//!   A record that expires, and a log read from its middle, are sometimes one or two more. `lease` is two: the
//!   offer, and the fence, which is written before the job is given out.
//! - **Listings cost what there is.** NATS 2.9 has no index of subjects by prefix. A page of `list` makes the server go
//!   through the names of all records, in all spaces, and tell all that match, before the records of the page are
//!   read one by one, so that a listing of *n* records costs *n* names for each page. `dead` reads through its stream,
//!   which has only small messages. `depth` reads what up to 4,000 leased and dead jobs have come to, and estimates beyond.
//! - **Deleting a log**, and reading one from its beginning, looks at every block of the stream of logs.
//! - **Delayed jobs** are kept in the memory of the consumer, which goes through all of them whenever one is due.
//!   Ten thousand are fine; for a million take another backend.
//!
//! # When a node dies
//!
//! What was acknowledged is in the server's files, or in those of a majority with more than one
//! [replica](NatsConfig::replicas). NATS writes files without waiting for the disk (`sync_interval`, two minutes by
//! default): a process that is killed loses nothing, a machine that loses power may lose what one replica was
//! given last. A consumer writes down what it has offered ten times a second; what it forgets it offers again, and
//! the fence keeps the job with its holder.
//!
//! - More than one replica needs NATS 2.11. Before that, a replicated stream checks a condition before its members have
//!   agreed on what comes first, and two writers may win. [`Nats::connect`] refuses it.
//! - With one replica, reads are answered directly; with more, by the leader. One that was cut off from the others
//!   and does not know it yet may answer with what was true some seconds ago. Writes are safe from that.
//! - With replicas, NATS 2.11 and later refuse the loser of a race in two ways; both are [`Conflict`](crate::Error::Conflict).
//! - A connection that is lost is made again; until then operations wait for
//!   [`connect_timeout`](NatsConfig::connect_timeout) and then fail as [`Busy`](crate::Error::Busy).
//! - In a cluster it takes a moment until other servers know of a new subscription.
//!
//! # Time
//!
//! A record expires by the server's clock, which is asked for the time when connecting, then every minute, and
//! followed in between. An update that was under way when its record expired may still win.
//!
//! # What an operator sets
//!
//! `jetstream` with a `store_dir` on a disk that lasts, `max_payload` at its default of 1 MiB, and three replicas where
//! there are three servers. The streams have no limits on age or size, and must have none: what a limit drops is
//! lost. A user needs to publish and subscribe `<prefix>.v1.>`, `$JS.API.>`, `$JS.ACK.>` and `_INBOX.>`.
//! A durable consumer must not be deleted while workers run: jobs would be offered again, and wait for their leases
//! to run out.

mod bus;
mod claim;
mod clock;
mod config;
mod dead;
mod fence;
mod lease;
mod link;
mod list;
mod log;
mod open;
mod queue;
mod recent;
mod scan;
mod store;
mod timer;

use std::sync::Arc;

use self::link::Link;
pub use self::{bus::NatsBus, config::NatsConfig, queue::NatsQueue, store::NatsStore};
use crate::{backend::Backend, error::Result, queue::QueueConfig};

/// A connection to NATS, from which a store, a queue and a bus are had.
#[derive(Clone, Debug)]
pub struct Nats {
    link: Arc<Link>,
}

impl Nats {
    /// Connects, and makes the streams where they are not there yet.
    pub async fn connect(config: NatsConfig) -> Result<Self> {
        Ok(Self { link: Link::connect(config).await? })
    }

    /// The store.
    pub fn store(&self) -> NatsStore {
        NatsStore::new(Arc::clone(&self.link))
    }

    /// The queue.
    pub fn queue(&self, config: QueueConfig) -> NatsQueue {
        NatsQueue::new(Arc::clone(&self.link), config)
    }

    /// The bus.
    pub fn bus(&self) -> NatsBus {
        NatsBus::new(Arc::clone(&self.link))
    }

    /// All three.
    pub fn backend(&self, config: QueueConfig) -> Backend {
        Backend::new(self.store(), self.queue(config), self.bus())
    }
}
