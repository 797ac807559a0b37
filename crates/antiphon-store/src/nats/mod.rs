//! NATS with `JetStream`, 2.9 or later.
//!
//! # Layout
//!
//! A *space* is the namespace of one application ([`NatsConfig::with_space`]). All spaces share seven streams, named
//! `<prefix>_v1_<stream>`. The subjects of the streams are `<prefix>.v1.<stream>.<space>.…`. A `/` in a name becomes a
//! `.` in the subject.
//!
//! | stream | subject after the space | contents of a message |
//! |---|---|---|
//! | `records` | the key of the record | a record, whose revision is the sequence number of the message |
//! | `logs` | the name of the log | the entries of one append |
//! | `timers` | the first key segment, and an 8-second interval | the key of a record to check in this interval |
//! | `claims` | the key of the record | the claim on an expired record, with the time at which the claim ends |
//! | `jobs` | the queue, and the ID of the job | a job that is not done yet |
//! | `fences` | the queue, the job's ID, the sequence number of its message | the *fence*: the job's state and holder |
//! | `dead` | the queue, and the ID of the job | the name of a dead job |
//!
//! If only one of several competing writers can succeed, each writer uses a conditional publish. A conditional publish
//! succeeds only if the last message on the subject has the expected sequence number. A conditional publish takes one
//! round trip. The deletion of a record writes a marker message, which is removed immediately. Each queue has one
//! durable pull consumer, which delivers jobs and controls the timing of leases and delays. The fence of a job
//! determines which worker holds the job. The fence is needed because `JetStream` accepts an acknowledgement from any
//! earlier holder. Events of a bus are plain messages on `<prefix>.v1.bus.<space>.…` and are not stored in a stream.
//!
//! # Costs
//!
//! - `get`, `create`, `update`, `delete`, `append`, `push`, `ack`, `nack` and `extend` usually take one round trip.
//!   Operations on a record that expires, and a read from the middle of a log, sometimes take one or two more round
//!   trips. `lease` takes two round trips: one for the delivery, and one to write the fence before the job is
//!   returned.
//! - **The cost of a listing grows with the number of records.** NATS 2.9 has no index of subjects by prefix. For each
//!   page of `list`, the server compares the names of all records in all spaces, and returns all matching names. After
//!   that, this crate reads each record of the page separately. If *n* records match a listing, each page of the
//!   listing transfers *n* names. For each page, `dead` reads names from the stream `dead`, which has only small
//!   messages, and then reads the jobs with these names. `depth` reads the fences of up to 4,000 jobs, and estimates
//!   larger numbers.
//! - **To delete a log**, or to read a log from its start, the server must read every block of the stream `logs`.
//! - **Delayed jobs use schedules.** Since NATS 2.12, a delay of ten seconds or more is a message schedule in the
//!   stream `jobs`. Two seconds before the job is due, the schedule writes a reminder, and the consumer delivers the
//!   reminder. Before NATS 2.12, and for short delays, the consumer keeps delayed jobs in memory, and checks all
//!   delayed jobs whenever one job is due. A consumer can keep ten thousand delayed jobs in memory without problems.
//!
//! # Durability and failover
//!
//! The server acknowledges a write after the write is in the files of the server. With more than one
//! [replica](NatsConfig::with_replicas), an acknowledged write is in the files of a majority of servers. NATS writes
//! files without waiting for the disk (`sync_interval`, two minutes by default). If a process is killed, no data is
//! lost. If a machine loses power, the last writes of one replica can be lost. A consumer saves the list of its
//! deliveries ten times per second. After a crash, the consumer repeats the deliveries that it had not saved. If a
//! delivery is repeated, the fence prevents a second worker from receiving the leased job.
//!
//! - Streams with more than one replica require NATS 2.11 or later. Before NATS 2.11, a replicated stream checks a
//!   condition before its members have agreed on the order of writes. Two competing writers can then both succeed.
//!   [`Nats::connect`] rejects more than one replica on NATS before 2.11.
//! - With one replica, reads use NATS direct get. With more replicas, the leader of the stream answers reads. If a
//!   leader is disconnected from the other servers and has not yet detected the disconnection, reads can return data
//!   that is some seconds old. A disconnected leader does not affect writes.
//! - If two writers compete, NATS 2.11 and later with replicas report the failed write with one of two errors. This
//!   crate converts both errors to [`Conflict`](crate::Error::Conflict).
//! - If the connection is lost, the client opens a new connection. Without a connection, operations wait up to
//!   [`connect_timeout`](NatsConfig::with_connect_timeout), and then return [`Busy`](crate::Error::Busy).
//! - In a cluster, a call of `subscribe` waits 100 ms, because NATS does not confirm that the other servers have
//!   received the subscription.
//!
//! # Time
//!
//! A record expires by the server's clock. This crate reads the server's time when the connection is opened, and then
//! every minute. Between two reads, the crate estimates the server's time. An update that was in flight when its record
//! expired can still succeed.
//!
//! # Server settings
//!
//! Set `jetstream` with a `store_dir` on a persistent disk. Keep `max_payload` at its default of 1 MiB. Use three
//! replicas if there are three servers. The streams have no limits on age or size. Do not set limits on age or size,
//! because data that exceeds a limit is lost. A user needs permission to publish and subscribe to `<prefix>.v1.>`,
//! `$JS.API.>`, `$JS.ACK.>` and `_INBOX.>`. Do not delete a durable consumer while workers run. If a consumer is
//! deleted, leased jobs are delivered again, and these jobs then wait until their leases expire.

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

/// A connection to NATS, from which you create a store, a queue and a bus.
#[derive(Clone, Debug)]
pub struct Nats {
    link: Arc<Link>,
}

impl Nats {
    /// Connects to NATS, and creates the streams that do not exist yet.
    pub async fn connect(config: NatsConfig) -> Result<Self> {
        // The future contains the client's connection attempt, which is large.
        Ok(Self { link: Box::pin(Link::connect(config)).await? })
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
