//! Pushes jobs, each until it is acknowledged, and goes on where its predecessor was killed.

use std::collections::HashSet;
use std::time::Duration;

use antiphon_store::{Error, NewJob, Pushed};
use anyhow::Result;

use crate::{
    Plan, complain,
    note::{self, Journal, Note, now},
    pause,
};

/// One in this many waits before it may be leased.
const DELAYED: u64 = 20;

/// Pushes its share of the jobs, then ends.
pub(crate) async fn run(plan: &Plan) -> Result<()> {
    let journal = Journal::create("pusher", plan)?;
    let before = note::read(&plan.folder, &format!("pusher-{}-", plan.number))?;
    let pushed: HashSet<String> = before.into_values().flatten().filter_map(acknowledged).collect();
    let ours = (0..plan.jobs).filter(|number| number % Plan::PUSHERS == u64::from(plan.number));
    let mut ids = ours.map(|number| format!("job-{number}")).filter(|id| !pushed.contains(id)).peekable();
    if let Some(id) = ids.peek().filter(|_| plan.start > 0) {
        journal.note(&Note::Resumed { id: id.clone() })?;
    }
    let queue = plan.open().await.queue;
    let mut rng = plan.rng(0);
    for id in ids {
        let delay = if rng.u64(..DELAYED) == 0 { rng.u64(..500) } else { 0 };
        loop {
            let sent = now();
            let job = NewJob::new(&id, id.clone()).with_delay(Duration::from_millis(delay));
            match queue.push(Plan::QUEUE, job).await {
                Ok(pushed) => {
                    let added = pushed == Pushed::Added;
                    journal.note(&Note::Pushed { id: id.clone(), sent, delay, added })?;
                    break;
                }
                Err(error) if error.is_transient() => {
                    complain(&error);
                    if matches!(error, Error::Backend { .. }) {
                        journal.note(&Note::MayHavePushed { id: id.clone() })?;
                    }
                }
                Err(error) => return Err(error.into()),
            }
            pause().await;
        }
    }
    Ok(())
}

fn acknowledged(note: Note) -> Option<String> {
    match note {
        Note::Pushed { id, .. } => Some(id),
        _ => None,
    }
}
