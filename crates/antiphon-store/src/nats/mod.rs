//! NATS with `JetStream`, 2.9 or later.
//!
//! # Layout
//!
//! All spaces share seven streams, named `<prefix>_v1_<stream>`. Their subjects are
//! `<prefix>.v1.<stream>.<space>.…`, in which a `/` of a name becomes a `.`.
//!
//! | stream | subject after the space | contents of a message |
//! |---|---|---|
//! | `records` | the key | a record; its revision is the sequence number of the message |
//! | `logs` | the log | one append |
//! | `timers` | the first segment of the key, and an interval of eight seconds | a record to check at that time |
//! | `claims` | the key | the claim on an expired record, with its end |
//! | `jobs` | the queue, the ID | a job, from the push until it is done |
//! | `fences` | the queue, the ID, the sequence number of the job's message | the state of the job |
//! | `dead` | the queue, the ID | the name of a dead job |
//!
//! Every operation that must have one winner is a conditional publish: it requires the sequence number of the last
//! message on the subject. This takes one round trip. Markers for deleted data are removed immediately. Each queue
//! has one durable pull consumer, which delivers jobs and controls the timing of leases and delays. The fence
//! decides which worker gets a job, because `JetStream` accepts an acknowledgement from any earlier holder. Events
//! are plain messages on `<prefix>.v1.bus.<space>.…` and are not stored in a stream.
//!
//! # Costs
//!
//! - `get`, `create`, `update`, `delete`, `append`, `push`, `ack`, `nack` and `extend` usually take one round trip.
//!   A record that expires, and a read from the middle of a log, sometimes take one or two more. `lease` takes two:
//!   one for the delivery, and one for the fence, which is written before the job is returned.
//! - **The cost of a listing grows with the number of records.** NATS 2.9 has no index of subjects by prefix. For
//!   each page of `list`, the server goes through the names of all records in all spaces and returns all that
//!   match. Then the records of the page are read one by one. A listing of *n* records therefore costs *n* names
//!   for each page. `dead` reads its stream, which has only small messages. `depth` reads the fences of up to 4,000
//!   jobs, and estimates beyond that.
//! - **Deleting a log**, and reading one from its start, reads every block of the stream of logs.
//! - **Delayed jobs** are kept in the memory of the consumer, which goes through all of them whenever one is due.
//!   Ten thousand are no problem. For a million, use another backend.
//!
//! # Durability and failover
//!
//! An acknowledged write is in the files of the server, or in the files of a majority if there is more than one
//! [replica](NatsConfig::replicas). NATS writes files without waiting for the disk (`sync_interval`, two minutes by
//! default). If a process is killed, no data is lost. If a machine loses power, the last writes of one replica can
//! be lost. A consumer stores its deliveries ten times per second. Deliveries that it loses are made again, and the
//! fence keeps the job with its holder.
//!
//! - More than one replica needs NATS 2.11. An older replicated stream checks a condition before its members have
//!   agreed on the order of writes, so two writers can both succeed. [`Nats::connect`] rejects this configuration.
//! - With one replica, reads use direct get. With more replicas, the leader answers them. A leader that was
//!   disconnected from the others without noticing can return data that is some seconds old. Writes are not
//!   affected.
//! - With replicas, NATS 2.11 and later report a lost race with two different errors. Both become
//!   [`Conflict`](crate::Error::Conflict).
//! - A lost connection is opened again. Until then, operations wait for
//!   [`connect_timeout`](NatsConfig::connect_timeout) and then return [`Busy`](crate::Error::Busy).
//! - In a cluster, other servers receive a new subscription with a short delay.
//!
//! # Time
//!
//! A record expires by the server's clock. Its time is read when connecting and then every minute, and estimated in
//! between. An update that was in flight when its record expired can still succeed.
//!
//! # Server settings
//!
//! Set `jetstream` with a `store_dir` on a persistent disk. Keep `max_payload` at its default of 1 MiB. Use three
//! replicas if there are three servers. The streams have no limits on age or size, and must not have any: data that
//! exceeds a limit is lost. A user needs permission to publish and subscribe to `<prefix>.v1.>`, `$JS.API.>`,
//! `$JS.ACK.>` and `_INBOX.>`. Do not delete a durable consumer while workers run. Leased jobs would be delivered
//! again and then wait until their leases expire.

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

/// A connection to NATS that provides a store, a queue and a bus.
#[derive(Clone, Debug)]
pub struct Nats {
    link: Arc<Link>,
}

impl Nats {
    /// Connects, and creates the streams that do not exist yet.
    pub async fn connect(config: NatsConfig) -> Result<Self> {
        Ok(Self { link: Link::connect(config).await? })
    }

    /// Returns the store for records and logs.
    pub fn store(&self) -> NatsStore {
        NatsStore::new(Arc::clone(&self.link))
    }

    /// Returns the queue for jobs.
    pub fn queue(&self, config: QueueConfig) -> NatsQueue {
        NatsQueue::new(Arc::clone(&self.link), config)
    }

    /// Returns the bus for events.
    pub fn bus(&self) -> NatsBus {
        NatsBus::new(Arc::clone(&self.link))
    }

    /// Returns the store, the queue and the bus as a [`Backend`].
    pub fn backend(&self, config: QueueConfig) -> Backend {
        Backend::new(self.store(), self.queue(config), self.bus())
    }
}
