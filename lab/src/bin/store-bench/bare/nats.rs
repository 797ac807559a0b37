//! `async-nats`, with what ours is known to send: NATS cannot be asked for it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use async_nats::{
    Client, ConnectOptions, Request, ServerAddr, Subscriber,
    jetstream::{
        self, Context, Message,
        consumer::{AckPolicy, Consumer, pull},
        message::PublishMessage,
        stream::Stream,
    },
};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, future::try_join_all};
use tokio::time::timeout;

use super::{Bare, Tool};
use crate::{
    LEASE, SPACE,
    side::{FULL, HUNDRED, Operation, Side, VALUE},
};

/// What ours writes before an entry: the number of the first, and a length.
const FRAME: usize = 12;
const PAGE_BYTES: usize = 4 * 1024 * 1024;
const VAIN: Duration = Duration::from_millis(200);

pub(super) struct Nats {
    client: Client,
    context: Context,
    records: Stream<()>,
    logs: Stream<()>,
    subscriber: Subscriber,
    queue: Consumer<pull::Config>,
    created: u64,
    /// Where the updated record, and the log, were last written.
    revision: u64,
    end: u64,
    pushed: u64,
}

/// The subject of something in our space.
fn subject(kind: &str, path: &str) -> String {
    format!("antiphon.v1.{kind}.{SPACE}.{}", path.replace('/', "."))
}

impl Nats {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let server: ServerAddr = url.parse()?;
        let mut options = ConnectOptions::new();
        if let (Some(user), Some(password)) = (server.username(), server.password()) {
            options = options.user_and_password(user.into(), password.into());
        }
        let client = options.connect(server).await?;
        let context = jetstream::new(client.clone());
        let records = context.get_stream_no_info("antiphon_v1_records").await?;
        let logs = context.get_stream_no_info("antiphon_v1_logs").await?;
        let subscriber = client.subscribe(subject("bus", "bare")).await?;
        let queue = dispatcher(&context, "bare").await?;
        let (created, end, pushed) = (0, 0, 0);
        let mut nats =
            Self { client, context, records, logs, subscriber, queue, created, revision: 0, end, pushed };
        nats.revision = nats.put("records", "bare/updated", VALUE.into(), 0).await?;
        Ok(nats)
    }

    /// Writes over message `at`; 0 is none.
    async fn put(&self, kind: &str, path: &str, payload: Bytes, at: u64) -> Result<u64> {
        put(&self.context, kind, path, payload, at).await
    }

    async fn push(&mut self, queue: &str) -> Result<()> {
        self.pushed += 1;
        self.put("jobs", &format!("{queue}/bare-{}", self.pushed), VALUE.into(), 0).await?;
        Ok(())
    }

    /// Reads a hundred messages with a consumer made for it.
    async fn scan(&self, stream: &Stream<()>, kind: &str, filter: String) -> Result<()> {
        let config = pull::Config {
            ack_policy: AckPolicy::None,
            filter_subject: filter,
            memory_storage: true,
            inactive_threshold: Duration::from_secs(30),
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(config).await?;
        let fetch = consumer.fetch().max_messages(FULL).max_bytes(PAGE_BYTES).expires(VAIN);
        let mut messages = fetch.messages().await?;
        let mut count = 0;
        while let Some(message) = messages.next().await {
            message.map_err(anyhow::Error::from_boxed)?;
            count += 1;
        }
        ensure!(count == FULL, "only {count} messages were read");
        let name = &consumer.cached_info().name;
        self.context
            .send_request(format!("CONSUMER.DELETE.antiphon_v1_{kind}.{name}"), Request::new())
            .await?;
        Ok(())
    }
}

async fn put(context: &Context, kind: &str, path: &str, payload: Bytes, at: u64) -> Result<u64> {
    let message = PublishMessage::build().payload(payload).expected_last_subject_sequence(at);
    Ok(context.send_publish(subject(kind, path), message).await?.await?.sequence)
}

/// Who hands out the jobs of a queue.
async fn dispatcher(context: &Context, queue: &str) -> Result<Consumer<pull::Config>> {
    let config = pull::Config {
        durable_name: Some(format!("{SPACE},{queue}")),
        ack_policy: AckPolicy::Explicit,
        ack_wait: LEASE + Duration::from_millis(20),
        filter_subject: subject("jobs", queue) + ".*",
        max_ack_pending: -1,
        max_waiting: 4096,
        ..pull::Config::default()
    };
    Ok(context.get_stream_no_info("antiphon_v1_jobs").await?.create_consumer(config).await?)
}

/// Takes a job, and notes who has it where only one can.
async fn lease(context: &Context, consumer: &Consumer<pull::Config>) -> Result<(Message, String, u64)> {
    let message = loop {
        let mut messages = consumer.fetch().max_messages(1).messages().await?;
        // The server may offer nothing, or not answer at all, though there are jobs: ours asks again then, too.
        if let Ok(Some(message)) = timeout(VAIN, messages.next()).await {
            break message.map_err(anyhow::Error::from_boxed)?;
        }
    };
    let number = message.info().map_err(anyhow::Error::from_boxed)?.stream_sequence;
    let prefix = subject("jobs", "");
    let job = message.subject.strip_prefix(&prefix).context("another's job was offered")?;
    let fence = format!("{job}.{number}");
    let at = put(context, "fences", &fence, "leased 1 0123456789abcdef 1234567890123".into(), 0).await?;
    Ok((message, fence, at))
}

/// Removes a job that is done, behind its worker's back, as ours does.
async fn clean(client: Client, message: Message) -> Result<()> {
    message.ack().await.map_err(anyhow::Error::from_boxed)?;
    let number = message.info().map_err(anyhow::Error::from_boxed)?.stream_sequence;
    let removal = format!("{{\"seq\":{number},\"no_erase\":true}}");
    client.request("$JS.API.STREAM.MSG.DELETE.antiphon_v1_jobs", removal.into()).await?;
    Ok(())
}

#[async_trait]
impl Side for Nats {
    async fn run(&mut self, operation: Operation) -> Result<Duration> {
        let start;
        match operation {
            Operation::Get => {
                start = Instant::now();
                self.records.direct_get_last_for_subject(subject("records", "hundred/0")).await?;
            }
            Operation::Create => {
                self.created += 1;
                let key = format!("bare/created/{}", self.created);
                start = Instant::now();
                self.put("records", &key, VALUE.into(), 0).await?;
            }
            Operation::Update => {
                start = Instant::now();
                self.revision = self.put("records", "bare/updated", VALUE.into(), self.revision).await?;
            }
            Operation::Append => {
                let frame = Bytes::from(vec![b'x'; FRAME + VALUE.len()]);
                start = Instant::now();
                self.end = self.put("logs", "bare", frame, self.end).await?;
            }
            Operation::Read => {
                start = Instant::now();
                self.logs.direct_get_last_for_subject(subject("logs", HUNDRED)).await?;
                self.scan(&self.logs, "logs", subject("logs", HUNDRED)).await?;
            }
            Operation::List => {
                start = Instant::now();
                self.scan(&self.records, "records", subject("records", "hundred/>")).await?;
            }
            Operation::Push => {
                start = Instant::now();
                self.push("bare-pushed").await?;
            }
            Operation::LeaseAndAck => {
                self.push("bare").await?;
                start = Instant::now();
                let (message, fence, at) = lease(&self.context, &self.queue).await?;
                self.put("fences", &fence, "done 1 0123456789abcdef 0".into(), at).await?;
                let took = start.elapsed();
                tokio::spawn(clean(self.client.clone(), message));
                return Ok(took);
            }
            Operation::Publish => {
                start = Instant::now();
                self.client.publish(subject("bus", "bare"), VALUE.into()).await?;
                self.subscriber.next().await.context("the connection is gone")?;
            }
        }
        Ok(start.elapsed())
    }
}

#[async_trait]
impl Bare for Nats {
    async fn lease(&mut self, queue: &str, count: usize, hands: usize) -> Result<()> {
        let consumer = dispatcher(&self.context, queue).await?;
        let work = (0..hands).map(|_| async {
            for _ in 0..count / hands {
                lease(&self.context, &consumer).await?;
            }
            anyhow::Ok(())
        });
        try_join_all(work).await?;
        Ok(())
    }

    fn tool(&self, _queue: &str, _count: usize, _hands: usize) -> Result<Option<Tool>> {
        Ok(None)
    }
}
