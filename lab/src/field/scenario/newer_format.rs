use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Break, Client, Field};

/// A format that no version of today knows.
const NEWER: u8 = 9;
/// How long the replicas see records that they cannot read: longer than a lease, and than several searches for lost jobs.
const UNREADABLE: Duration = Duration::from_secs(12);
/// Within which time runs go on once their records can be read.
const LATE: Duration = Duration::from_secs(45);

/// Runs sleep and ask, and their records get the format of a newer version, as in a rolling upgrade. They come due. All
/// replicas restart. Then the records can be read again, as after the upgrade, and the replicas restart once more.
///
/// Pass: meanwhile a request about such a run is answered with an error that does not say that there is no such task, and a
/// metric counts the records. Afterwards every effect happens exactly once.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let runs: usize = field.pick(3, 10);
    let mut fleet = field.fleet(2, &[("LEASE", "4"), ("REPAIR_INTERVAL", "2")])?;
    fleet.start_all()?;
    let client = Client::new(fleet.address(0));
    let acts = json!([{ "effect": "begun" }, { "ask": "Go on?" }, { "effect": "done" }]);
    let asked = (0..runs).map(|n| client.start(&format!("asked-{n}"), &acts)).collect::<Result<Vec<_>>>()?;
    let acts = json!([{ "effect": "begun" }, { "sleep": 4000 }, { "effect": "done" }]);
    let asleep =
        (0..runs).map(|n| client.start(&format!("asleep-{n}"), &acts)).collect::<Result<Vec<_>>>()?;
    for task in &asked {
        client.wait_for(task, "input_required", Duration::from_secs(20))?;
    }
    for number in 0..runs {
        let limit = Instant::now() + Duration::from_secs(20);
        field.ledger.wait(&format!("asleep-{number}"), "begun", limit).context("a run did not begin")?;
    }
    // Until the record says that the run sleeps.
    thread::sleep(Duration::from_secs(1));
    let store = field.store();
    let marked = store.set_format(NEWER)?;
    ensure!(marked == 2 * runs as u64, "{marked} records were marked, and there are {}", 2 * runs);
    if field.is_broken(Break::DropRecords) {
        store.drop_tasks()?;
    }
    thread::sleep(UNREADABLE / 2);
    fleet.kill_all();
    fleet.start_all()?;
    thread::sleep(UNREADABLE / 2);
    for task in asked.iter().chain(&asleep) {
        let said = format!("{:#}", client.get(task).err().context("a newer record was read")?);
        ensure!(said.contains("newer_format"), "a request about a newer record was answered with: {said}");
    }
    let mut counted = 0.0;
    for number in 0..fleet.replicas.len() {
        counted += fleet.metric(number, "antiphon_tasks_unreadable_total", "newer_format")?;
    }
    ensure!(counted > 0.0, "no metric counts records of a newer format");
    fleet.kill_all();
    let marked = store.set_format(0)?;
    ensure!(marked == 2 * runs as u64, "{marked} of {} records are left", 2 * runs);
    fleet.start_all()?;
    let began = Instant::now();
    for task in &asked {
        client.answer(task)?;
    }
    for kind in ["asked", "asleep"] {
        for number in 0..runs {
            let name = format!("{kind}-{number}");
            let done = field.ledger.wait(&name, "done", began + LATE);
            done.with_context(|| format!("`{name}` did not go on after its record could be read again"))?;
        }
    }
    let took = began.elapsed();
    thread::sleep(Duration::from_secs(1));
    for kind in ["asked", "asleep"] {
        for number in 0..runs {
            for what in ["begun", "done"] {
                let times = field.ledger.count(&format!("{kind}-{number}"), what);
                ensure!(times == 1, "the effect `{what}` of `{kind}-{number}` happened {times} times");
            }
        }
    }
    Ok(format!("{} runs went on within {:.1} s of the upgrade", 2 * runs, took.as_secs_f64()))
}
