use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Client, Field};

const OLD: usize = 0;
const NEW: usize = 1;
/// How late an effect may be: twice the lease of `examples/deployed`.
const LATE: Duration = Duration::from_mins(1);

/// A program built from an older commit and today's share one store, as in a rolling upgrade and in a rollback.
///
/// Pass: runs that one of them began and that the other finishes end with each effect exactly once, in both directions: runs
/// that sleep, runs whose question the other side answers, runs with a record above 256 KiB, and runs while both work.
///
/// Each effect exactly once is expected only because no leg loses its lease. So the lease is the usual one: with a short
/// one, a busy machine is late with a heartbeat, and then a step can run twice, or an at-most-once step not at all.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let old = field.old_programs.as_ref().context("name the older programs: `--old-programs DIR`")?;
    let mut fleet = field.fleet(2, &[])?;
    fleet.set_program(OLD, old.path("deployed")?);
    let runs: usize = field.pick(4, 20);
    for (way, from, to) in [("upgrade", OLD, NEW), ("rollback", NEW, OLD)] {
        fleet.kill_all();
        fleet.start(from)?;
        let version = if from == OLD { "older" } else { "new" };
        let client = Client::new(fleet.address(from));
        let acts = json!([{ "effect": "a" }, { "ask": "Go on?" }, { "once": "b" }, { "effect": "c" }]);
        let asked: Vec<_> =
            (0..runs).map(|n| client.start(&format!("{way}-asked-{n}"), &acts)).collect::<Result<_>>()?;
        for number in 0..runs {
            let pad = if number % 4 == 0 { 800 } else { 1 };
            let acts = json!([
                { "effect": "a" }, { "pad": pad }, { "once": "b" }, { "sleep": 5000 }, { "effect": "c" }
            ]);
            client.start(&format!("{way}-asleep-{number}"), &acts)?;
        }
        let due = Instant::now() + Duration::from_secs(5);
        for task in &asked {
            client.wait_for(task, "input_required", LATE)?;
        }
        for number in 0..runs {
            let limit = Instant::now() + LATE;
            field
                .ledger
                .wait(&format!("{way}-asleep-{number}"), "b", limit)
                .with_context(|| format!("{way}: a run did not begin on the {version} version alone"))?;
        }
        // Both for a moment, as in a roll; then only the other one.
        fleet.start(to)?;
        thread::sleep(Duration::from_secs(1));
        fleet.end(from, Duration::from_mins(1))?;
        let client = Client::new(fleet.address(to));
        for task in &asked {
            client.answer(task).with_context(|| format!("{way}: the other version does not know a task"))?;
        }
        for kind in ["asked", "asleep"] {
            for number in 0..runs {
                let name = format!("{way}-{kind}-{number}");
                let done = field.ledger.wait(&name, "c", due.max(Instant::now()) + LATE);
                done.with_context(|| {
                    format!("`{name}` was begun by one version and not finished by the other")
                })?;
                for what in ["a", "b", "c"] {
                    let times = field.ledger.count(&name, what);
                    ensure!(times == 1, "the effect `{what}` of `{name}` happened {times} times");
                }
            }
        }
    }
    both(field, &mut fleet, runs)?;
    Ok(format!("{} runs crossed versions", 4 * runs))
}

/// Both versions work on the same runs.
fn both(field: &Field, fleet: &mut super::Fleet, runs: usize) -> Result<()> {
    fleet.kill_all();
    fleet.start_all()?;
    let acts =
        json!([{ "effect": "a" }, { "sleep": 300 }, { "once": "b" }, { "sleep": 300 }, { "effect": "c" }]);
    let mut tasks = Vec::new();
    for number in 0..runs * 2 {
        let name = format!("both-{number}");
        tasks.push((name.clone(), Client::new(fleet.address(number % 2)).start(&name, &acts)?));
    }
    for (number, (name, task)) in tasks.iter().enumerate() {
        // Asked at the version that did not create it.
        let client = Client::new(fleet.address((number + 1) % 2));
        client.wait_for(task, "completed", LATE).with_context(|| format!("`{name}` did not end"))?;
        for what in ["a", "b", "c"] {
            let times = field.ledger.count(name, what);
            ensure!(times == 1, "the effect `{what}` of `{name}` happened {times} times");
        }
    }
    Ok(())
}
