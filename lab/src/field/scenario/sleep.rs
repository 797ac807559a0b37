use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Client, Field};

/// How late an effect may be.
const LATE: Duration = Duration::from_secs(5);

/// Runs sleep. All replicas are killed and started again before the time is over, and no client calls afterwards.
///
/// Pass: every effect happens exactly once, not before its time and at most 5 s after it (or after the replicas are back,
/// if that is later). Runs that were due while no replica ran are among them.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let runs = field.pick(4, 40);
    let mut fleet = field.fleet(field.pick(2, 3), &[])?;
    fleet.is_woken = false;
    fleet.start_all()?;
    let (mut names, mut due) = (Vec::new(), Vec::new());
    for number in 0..runs {
        // Half of them are due while no replica runs.
        let sleep = Duration::from_millis(if number % 2 == 0 { 3500 } else { 9000 });
        let client = Client::new(fleet.address(number % fleet.replicas.len()));
        let name = format!("sleeper-{number}");
        let acts = json!([{ "effect": "asleep" }, { "sleep": sleep.as_millis() }, { "effect": "woke" }]);
        client.start(&name, &acts)?;
        names.push((name, sleep));
    }
    for (name, sleep) in names {
        let asleep = field.ledger.wait(&name, "asleep", Instant::now() + Duration::from_secs(20));
        due.push((name, asleep.context("a run did not begin")?.at + sleep));
    }
    // The sleep must be written down: a leg that a kill interrupts waits for the end of its lease.
    thread::sleep(Duration::from_millis(1500));
    fleet.kill_all();
    thread::sleep(Duration::from_secs(3));
    fleet.start_all()?;
    let back = Instant::now();
    let mut latest = Duration::ZERO;
    for (name, at) in &due {
        let from = *at.max(&back);
        let woke = field.ledger.wait(name, "woke", from + LATE);
        let woke =
            woke.with_context(|| format!("`{name}` did not wake within {} s of its time", LATE.as_secs()))?;
        ensure!(woke.at + Duration::from_millis(200) >= *at, "`{name}` woke before its time");
        latest = latest.max(woke.at.saturating_duration_since(from));
    }
    // A second wake-up of one of them would come now.
    thread::sleep(Duration::from_secs(1));
    for (name, _) in &due {
        let times = field.ledger.count(name, "woke");
        ensure!(times == 1, "the effect of `{name}` happened {times} times");
    }
    Ok(format!("{runs} runs woke at most {:.1} s late", latest.as_secs_f64()))
}
