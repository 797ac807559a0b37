use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Client, Field};
use crate::services::Backend;

/// Within which time the servers find and repair what was deleted, in seconds: three times `TaskConfig::repair_interval`.
const REPAIR: u64 = 30;

/// The front end runs no legs, so that jobs wait while the worker is away.
const FRONT: usize = 0;
const WORKER: usize = 1;

/// Jobs of new runs, wake-ups of sleeping runs and jobs of answered questions are deleted in the store: `DELETE` in
/// PostgreSQL, `DEL` and `XDEL` in Redis, a purge in NATS. No client polls afterwards: the front end is killed.
///
/// Pass: every effect happens exactly once, within 30 s of the deletion or of the run's time, whichever is later.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let runs: usize = field.pick(4, 20);
    let mut fleet = field.fleet(2, &[("LEASE", "6")])?;
    fleet.set(FRONT, "WORKERS", "0");
    fleet.start_all()?;
    let client = Client::new(fleet.address(FRONT));
    let acts = json!([{ "ask": "Go on?" }, { "effect": "done" }]);
    let asked: Vec<_> =
        (0..runs).map(|n| client.start(&format!("answered-{n}"), &acts)).collect::<Result<_>>()?;
    let acts = json!([{ "sleep": 6000 }, { "effect": "done" }]);
    for number in 0..runs {
        client.start(&format!("sleeping-{number}"), &acts)?;
    }
    let due = Instant::now() + Duration::from_secs(6);
    for task in &asked {
        client.wait_for(task, "input_required", Duration::from_secs(20))?;
    }
    thread::sleep(Duration::from_secs(1));
    fleet.kill(WORKER);
    for task in &asked {
        client.answer(task)?;
    }
    for number in 0..runs {
        client.start(&format!("new-{number}"), &json!([{ "effect": "done" }]))?;
    }
    let store = field.store();
    let dropped = store.drop_jobs()?;
    ensure!(dropped >= 3 * runs as u64, "only {dropped} jobs were there to be deleted");
    let mut kinds = vec!["answered", "sleeping", "new"];
    if matches!(field.backend, Backend::Redis) {
        for number in 0..runs {
            client.start(&format!("cut-{number}"), &json!([{ "effect": "done" }]))?;
        }
        let cut = store.delete_entries()?;
        ensure!(cut >= runs as u64, "only {cut} entries were there to be deleted");
        kinds.push("cut");
    }
    fleet.kill(FRONT);
    fleet.start(WORKER)?;
    let from = due.max(Instant::now());
    let mut latest = Duration::ZERO;
    for kind in &kinds {
        for number in 0..runs {
            let name = format!("{kind}-{number}");
            let done = field.ledger.wait(&name, "done", from + Duration::from_secs(REPAIR));
            let done =
                done.with_context(|| format!("the job of `{name}` was not repaired within {REPAIR} s"))?;
            latest = latest.max(done.at.saturating_duration_since(from));
        }
    }
    thread::sleep(Duration::from_secs(2));
    for kind in &kinds {
        for number in 0..runs {
            let times = field.ledger.count(&format!("{kind}-{number}"), "done");
            ensure!(times == 1, "the effect of `{kind}-{number}` happened {times} times");
        }
    }
    Ok(format!("{} jobs repaired within {:.1} s", kinds.len() * runs, latest.as_secs_f64()))
}
