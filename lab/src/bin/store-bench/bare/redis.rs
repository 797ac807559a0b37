//! `redis`, with the commands that ours was seen to send.

use std::time::{Duration, Instant};

use antiphon_store::{Backend, NewJob};
use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, future::try_join_all};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion, PushInfo,
    PushKind, Value,
    aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection},
    from_redis_value,
};
use tokio::sync::mpsc;

use super::{Bare, Tool};
use crate::side::{FULL, HUNDRED, Operation, Side, VALUE};

/// What is in a learnt command where another thing is put each time.
const LEARNT: &str = "learnt";

pub(super) struct Redis {
    connection: ConnectionManager,
    server: ConnectionInfo,
    commands: Commands,
    events: mpsc::UnboundedReceiver<PushInfo>,
    /// Listens as long as it is kept.
    _ear: MultiplexedConnection,
    created: u64,
    revision: i64,
    length: i64,
    pushed: u64,
}

/// A command as the server saw it.
#[derive(Debug, Clone)]
struct Seen(Vec<String>);

impl Seen {
    /// The same, with some words in the place of others.
    fn with(&self, words: &[(&str, &str)]) -> Cmd {
        let mut cmd = Cmd::new();
        for word in &self.0 {
            match words.iter().find(|(old, _)| old == word) {
                Some((_, new)) => cmd.arg(new),
                // Queues and logs are named in keys.
                None => {
                    match words.iter().find(|(old, _)| word.starts_with("antiphon:") && word.contains(*old)) {
                        Some((old, new)) => cmd.arg(word.replace(old, new)),
                        None => cmd.arg(word),
                    }
                }
            };
        }
        cmd
    }
}

/// What ours sends.
struct Commands {
    get: Seen,
    create: Seen,
    /// With the revision that it was learnt with.
    update: (Seen, String),
    append: Seen,
    read: Seen,
    list: Seen,
    push: Seen,
    lease: Seen,
    /// With the token that it was learnt with.
    ack: (Seen, String),
    publish: Seen,
}

impl Commands {
    async fn learn(client: &Client, Backend { store, queue, bus, .. }: &Backend) -> Result<Self> {
        let mut lines = client.get_async_monitor().await?.into_on_message::<String>();
        let value = Bytes::from_static(VALUE);
        let mut next = async || loop {
            let line = lines.next().await.context("the server does not say what it is told")?;
            if let Some(seen) = parse(&line).filter(is_work) {
                return anyhow::Ok(seen);
            }
        };
        let revision = store.create(LEARNT, value.clone(), None).await?;
        let create = next().await?;
        store.update(LEARNT, value.clone(), None, revision).await?;
        let update = (next().await?, revision.0.to_string());
        store.get("hundred/0").await?;
        let get = next().await?;
        store.append(LEARNT, 0, vec![value.clone()]).await?;
        let append = next().await?;
        store.read(HUNDRED, 0, FULL).await?;
        let read = next().await?;
        store.list("hundred/", None, FULL).await?;
        let list = next().await?;
        queue.push(LEARNT, NewJob::new("learnt-job", value.clone())).await?;
        let push = next().await?;
        let jobs = queue.lease(LEARNT, 1, Duration::ZERO).await?;
        let lease = next().await?;
        let token = &jobs.first().context("no job was leased")?.lease;
        queue.ack(token).await?;
        let ack = (next().await?, token.token.clone());
        bus.publish(LEARNT, value).await?;
        let publish = next().await?;
        Ok(Self { get, create, update, append, read, list, push, lease, ack, publish })
    }
}

/// Not what the server's scripts do, and not the first time that it learns a script.
fn is_work(Seen(words): &Seen) -> bool {
    words.first().is_some_and(|word| ["evalsha", "spublish"].contains(&word.to_lowercase().as_str()))
}

/// The words of `1339518083.1 [0 127.0.0.1:60866] "get" "key"`; none of what a script says.
fn parse(line: &str) -> Option<Seen> {
    let (head, words) = line.split_once("] ")?;
    if head.ends_with("lua") {
        return None;
    }
    let words = words.trim().strip_prefix('"')?.strip_suffix('"')?.split("\" \"");
    Some(Seen(words.map(String::from).collect()))
}

impl Redis {
    pub(super) async fn connect(url: &str, ours: &Backend) -> Result<Self> {
        let server = url.into_connection_info()?;
        let client = Client::open(server.clone())?;
        let commands = Commands::learn(&client, ours).await?;
        // As ours does it.
        let settings = server.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let tcp = server.tcp_settings().clone().set_nodelay(true);
        let client = Client::open(server.clone().set_redis_settings(settings).set_tcp_settings(tcp))?;
        let config = ConnectionManagerConfig::new().set_number_of_retries(0).set_response_timeout(None);
        let connection = ConnectionManager::new_with_config(client.clone(), config).await?;
        let (sender, events) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new().set_push_sender(sender);
        let mut ear = client.get_multiplexed_async_connection_with_config(&config).await?;
        let channel = commands.publish.0[1].replace(LEARNT, "bare");
        redis::cmd("SSUBSCRIBE").arg(channel).exec_async(&mut ear).await?;
        let mut bare = Self {
            connection,
            server,
            commands,
            events,
            _ear: ear,
            created: 0,
            revision: 0,
            length: 0,
            pushed: 0,
        };
        bare.revision = bare.create("bare/updated").await?;
        Ok(bare)
    }

    async fn create(&mut self, key: &str) -> Result<i64> {
        let cmd = self.commands.create.with(&[(LEARNT, key)]);
        Ok(cmd.query_async(&mut self.connection).await?)
    }

    async fn push(&mut self, queue: &str) -> Result<()> {
        self.pushed += 1;
        let id = format!("bare-{}", self.pushed);
        let cmd = self.commands.push.with(&[("learnt-job", &id), (LEARNT, queue)]);
        let added: i64 = cmd.query_async(&mut self.connection).await?;
        ensure!(added == 1, "nothing was pushed");
        Ok(())
    }
}

/// The id and the token of a job.
async fn lease(connection: &mut ConnectionManager, cmd: &Cmd) -> Result<(String, String)> {
    let answer: Vec<Value> = cmd.query_async(connection).await?;
    let [_, id, _payload, _attempt, token, ..] = &answer[..] else {
        anyhow::bail!("no job was leased: {answer:?}");
    };
    Ok((from_redis_value(id.clone())?, from_redis_value(token.clone())?))
}

#[async_trait]
impl Side for Redis {
    async fn run(&mut self, operation: Operation) -> Result<Duration> {
        let start;
        match operation {
            Operation::Get => {
                start = Instant::now();
                let cmd = self.commands.get.with(&[]);
                let _record: (Vec<u8>, i64) = cmd.query_async(&mut self.connection).await?;
            }
            Operation::Create => {
                self.created += 1;
                let key = format!("bare/created/{}", self.created);
                start = Instant::now();
                self.create(&key).await?;
            }
            Operation::Update => {
                start = Instant::now();
                let (update, revision) = &self.commands.update;
                let cmd = update.with(&[(LEARNT, "bare/updated"), (revision, &self.revision.to_string())]);
                self.revision = cmd.query_async(&mut self.connection).await?;
            }
            Operation::Append => {
                start = Instant::now();
                let cmd = self.commands.append.with(&[(LEARNT, "bare"), ("0", &self.length.to_string())]);
                let (done, length): (i64, i64) = cmd.query_async(&mut self.connection).await?;
                ensure!(done == 1, "another has appended");
                self.length = length;
            }
            Operation::Read => {
                start = Instant::now();
                let cmd = self.commands.read.with(&[]);
                let entries: Vec<Vec<u8>> = cmd.query_async(&mut self.connection).await?;
                ensure!(entries.len() == FULL, "only {} entries were read", entries.len());
            }
            Operation::List => {
                start = Instant::now();
                let cmd = self.commands.list.with(&[]);
                let records: Vec<Value> = cmd.query_async(&mut self.connection).await?;
                ensure!(records.len() > FULL, "only {} values were listed", records.len());
            }
            Operation::Push => {
                start = Instant::now();
                self.push("bare-pushed").await?;
            }
            Operation::LeaseAndAck => {
                self.push("bare").await?;
                start = Instant::now();
                let cmd = self.commands.lease.with(&[(LEARNT, "bare")]);
                let (id, token) = lease(&mut self.connection, &cmd).await?;
                let (ack, learnt) = &self.commands.ack;
                let cmd = ack.with(&[("learnt-job", &id), (learnt, &token), (LEARNT, "bare")]);
                let done: i64 = cmd.query_async(&mut self.connection).await?;
                ensure!(done == 1, "nothing was acknowledged");
            }
            Operation::Publish => {
                start = Instant::now();
                let cmd = self.commands.publish.with(&[(LEARNT, "bare")]);
                cmd.exec_async(&mut self.connection).await?;
                while self.events.recv().await.context("the connection is gone")?.kind != PushKind::SMessage {
                }
            }
        }
        Ok(start.elapsed())
    }
}

#[async_trait]
impl Bare for Redis {
    async fn lease(&mut self, queue: &str, count: usize, hands: usize) -> Result<()> {
        let cmd = self.commands.lease.with(&[(LEARNT, queue)]);
        let work = (0..hands).map(|_| {
            let (mut connection, cmd) = (self.connection.clone(), &cmd);
            async move {
                for _ in 0..count / hands {
                    lease(&mut connection, cmd).await?;
                }
                anyhow::Ok(())
            }
        });
        try_join_all(work).await?;
        Ok(())
    }

    fn tool(&self, queue: &str, count: usize, hands: usize) -> Result<Option<Tool>> {
        let redis::ConnectionAddr::Tcp(host, port) = self.server.addr() else { return Ok(None) };
        let password = self.server.redis_settings().password().unwrap_or_default();
        let options = format!("-h {host} -p {port} -a {password} -n {count} -c {hands} --csv");
        let mut arguments: Vec<String> = options.split(' ').map(String::from).collect();
        arguments.extend(self.commands.lease.0.iter().map(|word| word.replace(LEARNT, queue)));
        // The last line holds the name of the test, then the rate.
        let read = |text: &str| text.lines().last()?.rsplit("\",\"").nth(6)?.parse().ok();
        Ok(Some(Tool { arguments, read }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_says_is_not_what_was_sent() {
        assert!(parse(r#"1.5 [0 lua] "get" "a""#).is_none());
        let seen =
            parse(r#"1.5 [0 127.0.0.1:1] "EVALSHA" "ab" "1" "antiphon:v1:{s.q.learnt}" "learnt" "x" """#)
                .unwrap();
        assert_eq!(seen.0.len(), 7);
        let cmd = seen.with(&[("learnt", "bare")]);
        let words: Vec<_> = cmd.args_iter().map(|it| format!("{it:?}")).collect();
        assert_eq!(words.len(), 7);
        assert!(String::from_utf8_lossy(&cmd.get_packed_command()).contains("{s.q.bare}"));
    }
}
