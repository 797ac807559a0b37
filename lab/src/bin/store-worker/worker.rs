//! Workers that take jobs and do them; some take long, some give theirs back.

use std::{sync::Arc, time::Duration};

use antiphon_store::{Error, Job, Queue};
use anyhow::Result;
use fastrand::Rng;
use tokio::task::JoinSet;

use crate::{
    Plan, complain,
    note::{Journal, Note, now},
    pause,
};

/// How many jobs one process has in hand.
const IN_HAND: usize = 16;
const BATCH: usize = 8;
/// Of a thousand jobs, so many outlast their lease, and so many are given back.
const SLOW: u32 = 3;
const GIVEN_BACK: u32 = 30;

/// Works until killed.
pub(crate) async fn run(plan: &Plan) -> Result<()> {
    let journal = Arc::new(Journal::create("worker", plan)?);
    let queue = plan.open().await.queue;
    let mut rng = plan.rng(0);
    let mut in_hand = JoinSet::new();
    loop {
        while in_hand.len() > IN_HAND - BATCH {
            if let Some(ended) = in_hand.join_next().await {
                ended??;
            }
        }
        for job in lease(&*queue, &journal, Duration::from_millis(500)).await? {
            let work = Work { queue: Arc::clone(&queue), journal: Arc::clone(&journal), rng: rng.fork() };
            in_hand.spawn(work.run(job));
        }
    }
}

/// Takes jobs and notes them; none if the server is away.
pub(crate) async fn lease(queue: &dyn Queue, journal: &Journal, wait: Duration) -> Result<Vec<Job>> {
    let sent = now();
    match queue.lease(Plan::QUEUE, BATCH, wait).await {
        Ok(jobs) => {
            let got = now();
            let leased = |job: &Job| Note::Leased { id: job.id().into(), attempt: job.attempt, sent, got };
            let mut notes: Vec<Note> = jobs.iter().map(leased).collect();
            for job in jobs.iter().filter(|job| job.payload != job.id().as_bytes()) {
                let payload = String::from_utf8_lossy(&job.payload).into_owned();
                notes.push(Note::Mixed { id: job.id().into(), payload });
            }
            journal.note_all(&notes)?;
            Ok(jobs)
        }
        Err(error) if error.is_transient() => {
            complain(&error);
            pause().await;
            Ok(Vec::new())
        }
        Err(error) => Err(error.into()),
    }
}

/// Says that the job is done, first outside of the queue, then in it.
pub(crate) async fn finish(queue: &dyn Queue, journal: &Journal, job: &Job) -> Result<()> {
    let (id, attempt) = (job.id().to_owned(), job.attempt);
    journal.note(&Note::Done { id: id.clone(), attempt })?;
    match queue.ack(&job.lease).await {
        Ok(()) => journal.note(&Note::Acked { id, attempt }),
        Err(Error::LeaseLost { .. }) => journal.note(&Note::LeaseLost { id, attempt }),
        // Whatever became of it: at worst the job comes again.
        Err(error) if error.is_transient() => {
            complain(&error);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

struct Work {
    queue: Arc<dyn Queue>,
    journal: Arc<Journal>,
    rng: Rng,
}

impl Work {
    async fn run(mut self, job: Job) -> Result<()> {
        let (id, attempt) = (job.id().to_owned(), job.attempt);
        let chance = self.rng.u32(..1000);
        if chance < SLOW {
            for _ in 0..3 {
                tokio::time::sleep(Plan::LEASE / 2).await;
                let sent = now();
                match self.queue.extend(&job.lease).await {
                    Ok(()) => self.journal.note(&Note::Extended { id: id.clone(), attempt, sent })?,
                    Err(Error::LeaseLost { .. }) => {
                        return self.journal.note(&Note::LeaseLost { id, attempt });
                    }
                    Err(error) if error.is_transient() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        } else if chance < SLOW + GIVEN_BACK {
            // Noted first: it may be given to another before we hear of it.
            self.journal.note(&Note::Nacked { id, attempt })?;
            return match self.queue.nack(&job.lease, Duration::from_millis(self.rng.u64(..50))).await {
                Err(error) if !error.is_transient() && !matches!(error, Error::LeaseLost { .. }) => {
                    Err(error.into())
                }
                _ => Ok(()),
            };
        }
        finish(&*self.queue, &self.journal, &job).await
    }
}
