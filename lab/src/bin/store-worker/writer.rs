//! Writers that race each other: on a few records and logs that all want, and on many that hardly anybody wants.

use std::{collections::HashMap, sync::Arc, time::Duration};

use antiphon_store::{Error, Retrying, Store};
use anyhow::Result;
use bytes::Bytes;
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::{
    Plan, complain,
    note::{Journal, Note, Op, parse_history},
    pause,
};

/// How many writes one process has under way.
const TASKS: u32 = 3;
const LOGS: u64 = 4;

/// Whether writer `number` writes through `Retrying`, which finds out what became of lost answers.
fn is_retrying(number: u32) -> bool {
    number % 2 == 1
}

/// What begins the names of all that is written with or without `Retrying`: the two do not mix.
pub(crate) fn prefix(is_retrying: bool) -> &'static str {
    if is_retrying { "retrying" } else { "raw" }
}

/// Logs that are written with or without `Retrying`.
pub(crate) fn logs(is_retrying: bool) -> impl Iterator<Item = String> {
    (0..LOGS).map(move |number| format!("{}/log/{number}", prefix(is_retrying)))
}

/// `store`, through `Retrying` or not.
pub(crate) fn wrap(store: Arc<dyn Store>, is_retrying: bool) -> Arc<dyn Store> {
    if is_retrying { Arc::new(Retrying::new(store)) } else { store }
}

/// Writes until killed.
pub(crate) async fn run(plan: &Plan) -> Result<()> {
    let journal = Arc::new(Journal::create("writer", plan)?);
    let is_retrying = is_retrying(plan.number);
    let store = wrap(plan.open().await.store, is_retrying);
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let mut writer = Writer {
            store: Arc::clone(&store),
            journal: Arc::clone(&journal),
            rng: plan.rng(task),
            prefix: prefix(is_retrying),
            // A value is the whole history of its key, so hot keys grow in number, not in length.
            hot: (plan.writes / 2500).max(4),
            cold: (plan.writes / 20).max(4),
            last: Op(plan.number, plan.start, task, 0),
            seen: HashMap::new(),
        };
        tasks.spawn(async move {
            loop {
                writer.write().await?;
            }
        });
    }
    match tasks.join_next().await {
        Some(ended) => ended?,
        None => Ok(()),
    }
}

struct Writer {
    store: Arc<dyn Store>,
    journal: Arc<Journal>,
    rng: Rng,
    prefix: &'static str,
    hot: u64,
    cold: u64,
    last: Op,
    /// The greatest length at which each record and log was seen.
    seen: HashMap<String, u64>,
}

impl Writer {
    async fn write(&mut self) -> Result<()> {
        match self.rng.u32(..100) {
            0..45 => {
                let number = self.rng.u64(..self.hot);
                self.update(format!("{}/hot/{number}", self.prefix)).await
            }
            45..70 => {
                let number = self.rng.u64(..self.cold);
                self.update(format!("{}/cold/{number}", self.prefix)).await
            }
            _ => {
                let number = self.rng.u64(..LOGS);
                self.append(format!("{}/log/{number}", self.prefix)).await
            }
        }
    }

    /// Adds a write to the history that is the value of `key`.
    async fn update(&mut self, key: String) -> Result<()> {
        let found = match self.store.get(&key).await {
            Ok(found) => found,
            Err(error) => return failed(error).await,
        };
        let (mut history, expected) = match found {
            Some(record) => (parse_history(&record.value)?, Some(record.revision)),
            None => (Vec::new(), None),
        };
        self.saw(&key, history.len() as u64)?;
        let op = self.next();
        history.push(op);
        let value = history.iter().map(Op::to_string).collect::<Vec<_>>().join(" ");
        // Far away: it must change nothing.
        let ttl = self.rng.bool().then_some(Duration::from_hours(1));
        let written = match expected {
            Some(revision) => self.store.update(&key, value.into(), ttl, revision).await,
            None => self.store.create(&key, value.into(), ttl).await,
        };
        match written {
            Ok(revision) => {
                self.seen.insert(key.clone(), history.len() as u64);
                let (place, expected) = (history.len() - 1, expected.map(|it| it.0));
                self.journal.note(&Note::Wrote { key, op, place, expected, revision: revision.0 })
            }
            Err(Error::Conflict { .. }) => Ok(()),
            Err(error @ Error::Backend { .. }) => {
                self.journal.note(&Note::MayHaveWritten { key, op })?;
                failed(error).await
            }
            Err(error) => failed(error).await,
        }
    }

    /// Adds one to three entries where the log was last seen to end.
    async fn append(&mut self, log: String) -> Result<()> {
        let at = self.seen.get(&log).copied().unwrap_or(0);
        let op = self.next();
        let count = self.rng.u64(1..=3);
        let entries = (1..=count).map(|part| Bytes::from(format!("{op} {part}/{count}"))).collect();
        match self.store.append(&log, at, entries).await {
            Ok(length) => {
                self.seen.insert(log.clone(), length);
                self.journal.note(&Note::Appended { log, op, at, count })
            }
            Err(Error::LogConflict { found, .. }) => self.saw(&log, found),
            Err(error @ Error::Backend { .. }) => {
                self.journal.note(&Note::MayHaveAppended { log, op, count })?;
                failed(error).await
            }
            Err(error) => failed(error).await,
        }
    }

    fn next(&mut self) -> Op {
        self.last.3 += 1;
        self.last
    }

    /// Notes if a record or log has become shorter.
    fn saw(&mut self, name: &str, saw: u64) -> Result<()> {
        let had = self.seen.insert(name.to_owned(), saw).unwrap_or(0);
        if saw < had {
            self.journal.note(&Note::WentBack { name: name.to_owned(), had, saw })?;
        }
        Ok(())
    }
}

/// A server that is away is part of the game; all else is not.
async fn failed(error: Error) -> Result<()> {
    if !error.is_transient() {
        return Err(error.into());
    }
    complain(&error);
    pause().await;
    Ok(())
}
