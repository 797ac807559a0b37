//! Reads all that is in the store at the end.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use antiphon_store::{Depth, Queue, Store};
use anyhow::{Context as _, Result};

use crate::{
    Plan,
    check::{Entry, Evidence},
    note::{self, Journal, Note, Op, parse_history},
    worker, writer,
};

const PAGE: usize = 100;
/// How long what killed workers held may take to come back.
const PATIENCE: Duration = Duration::from_mins(1);

/// Does the jobs that are left, then gathers everything.
pub(crate) async fn evidence(plan: &Plan) -> Result<Evidence> {
    let backend = plan.open().await;
    let journal = Journal::create("check", plan)?;
    let depth = drain(&*backend.queue, &journal).await?;
    let notes: Vec<Note> = note::read(&plan.folder, "")?.into_values().flatten().collect();
    let mut evidence = Evidence {
        notes,
        depth,
        jobs: plan.jobs,
        lease: u64::try_from(Plan::LEASE.as_millis())?,
        ..Evidence::default()
    };
    for is_retrying in [false, true] {
        let store = writer::wrap(Arc::clone(&backend.store), is_retrying);
        evidence.records.append(&mut records(&*store, &format!("{}/", writer::prefix(is_retrying))).await?);
        for log in writer::logs(is_retrying) {
            let entries = entries(&*store, &log).await?;
            evidence.logs.insert(log, entries);
        }
    }
    Ok(evidence)
}

/// Finishes what killed workers left behind.
async fn drain(queue: &dyn Queue, journal: &Journal) -> Result<Depth> {
    let start = Instant::now();
    loop {
        let depth = queue.depth(Plan::QUEUE).await?;
        if depth.waiting + depth.leased == 0 || start.elapsed() > PATIENCE {
            return Ok(depth);
        }
        for job in worker::lease(queue, journal, Plan::LEASE / 2).await? {
            worker::finish(queue, journal, &job).await?;
        }
    }
}

async fn records(store: &dyn Store, prefix: &str) -> Result<BTreeMap<String, Vec<Op>>> {
    let mut records = BTreeMap::new();
    let mut after = None;
    loop {
        let page = store.list(prefix, after.as_ref(), PAGE).await?;
        for record in page.items {
            let history = parse_history(&record.value).with_context(|| format!("`{}`", record.key))?;
            records.insert(record.key, history);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(records),
        }
    }
}

async fn entries(store: &dyn Store, log: &str) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    loop {
        let page = store.read(log, entries.len() as u64, PAGE).await?;
        if page.is_empty() {
            return Ok(entries);
        }
        for entry in page {
            entries.push(parse_entry(&entry).with_context(|| format!("`{log}` has {entry:?}"))?);
        }
    }
}

fn parse_entry(entry: &[u8]) -> Result<Entry> {
    let text = std::str::from_utf8(entry)?;
    let (op, parts) = text.split_once(' ').context("an entry has two words")?;
    let (part, count) = parts.split_once('/').context("an entry has a part and a count")?;
    Ok(Entry { op: op.parse()?, part: part.parse()?, count: count.parse()? })
}
