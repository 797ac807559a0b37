use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{Client, Field, Fleet, key_ring};

/// How long a replica may take to find out that it cannot read what it shares.
const NOTICE: Duration = Duration::from_secs(15);
/// How late an effect may be: a job that the odd replica took first comes back after a while.
const LATE: Duration = Duration::from_secs(20);
/// How long a replica may take to end, or to be ready: others are shown as alive for 20 s after they were killed.
const READY: Duration = Duration::from_secs(40);
/// How long a replica takes to compare its key ring with the others' after its start.
const COMPARED: Duration = Duration::from_secs(1);
/// How long a `requestState` is valid here. The guide's rotation waits for it, and tasks outlive it.
const SEAL_LIFE: u64 = 2;
/// How often all task records are checked here, in seconds. The guide waits for two full intervals.
const AUDIT: u64 = 6;

/// One of three replicas has another key ring, then an older one, then a newer one, while runs sleep and are due. Then the
/// keys are rotated as the guide describes, with runs that sleep longer than `SealConfig::ttl`.
///
/// Pass: every effect happens exactly once. A replica that cannot open the shared records answers `/readyz` with 503, and
/// no effect is its work.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let seal_life = SEAL_LIFE.to_string();
    let audit = AUDIT.to_string();
    let settings = [("SEAL_LIFE", seal_life.as_str()), ("LEASE", "6"), ("AUDIT_INTERVAL", audit.as_str())];
    let mut fleet = field.fleet(3, &settings)?;
    fleet.start_all()?;
    let shared = key_ring(&[(1, 'a')]);
    // The same id with another secret, a ring that was retired, and one whose active key the others do not have yet.
    let rings = [
        ("another", key_ring(&[(1, 'b')])),
        ("older", key_ring(&[(0, 'c')])),
        ("newer", key_ring(&[(2, 'd')])),
    ];
    for (what, ring) in &rings {
        odd_replica(field, &mut fleet, what, ring)?;
    }
    fleet.set(2, "SEAL_KEYS", &shared);
    // It takes back what it showed of its key ring; a killed one would keep others waiting for 20 s.
    fleet.end(2, READY)?;
    fleet.start(2)?;
    thread::sleep(COMPARED);
    (0..3).try_for_each(|number| fleet.wait_for(number, "/readyz", 200, READY))?;
    rotate(field, &mut fleet)?;
    Ok("no run was lost, and each odd replica reported itself".into())
}

/// Lets replica 2 have this ring while runs come due.
fn odd_replica(field: &Field, fleet: &mut Fleet, what: &str, ring: &str) -> Result<()> {
    let runs = field.pick(6, 20);
    let client = Client::new(fleet.address(0));
    let names: Vec<String> = (0..runs).map(|number| format!("{what}-{number}")).collect();
    for name in &names {
        client.start(name, &json!([{ "sleep": 4000 }, { "effect": "woke" }]))?;
    }
    let due = Instant::now() + Duration::from_secs(4);
    fleet.kill(2);
    fleet.set(2, "SEAL_KEYS", ring);
    fleet.start(2)?;
    thread::sleep(due.saturating_duration_since(Instant::now()));
    for name in &names {
        let woke = field.ledger.wait(name, "woke", due + LATE);
        let woke = woke.with_context(|| format!("`{name}` was lost while a replica had {what} key ring"))?;
        ensure!(woke.replica != "replica-2", "`{name}` was run by the replica with {what} key ring");
    }
    let unhealthy = fleet.wait_for(2, "/readyz", 503, NOTICE);
    unhealthy.with_context(|| format!("a replica with {what} key ring reports itself as ready"))?;
    for number in [0, 1] {
        let (status, said) = fleet.probe(number, "/readyz")?;
        ensure!(status == 200, "replica {number} has the shared keys and is not ready: {said}");
    }
    for name in &names {
        let times = field.ledger.count(name, "woke");
        ensure!(times == 1, "the effect of `{name}` happened {times} times");
    }
    Ok(())
}

/// Rotates the keys step by step. The guide is in `docs/guides/deploying.md`.
fn rotate(field: &Field, fleet: &mut Fleet) -> Result<()> {
    let (old, new) = ((1, 'a'), (2, 'e'));
    let sleep = Duration::from_mins(1);
    let start = |fleet: &Fleet, name: &str| {
        let client = Client::new(fleet.address(0));
        client.start(name, &json!([{ "sleep": sleep.as_millis() }, { "effect": "woke" }]))
    };
    start(fleet, "before-rotation")?;
    let before = Instant::now() + sleep;
    thread::sleep(Duration::from_millis(500));
    roll(fleet, &key_ring(&[old, new]))?;
    roll(fleet, &key_ring(&[new, old]))?;
    start(fleet, "during-rotation")?;
    let during = Instant::now() + sleep;
    // The guide: the longest of the time for a `requestState` and two full intervals of the audit.
    thread::sleep(Duration::from_secs(SEAL_LIFE.max(2 * AUDIT) + 1));
    ensure!(Instant::now() < before, "the rotation took longer than the runs sleep");
    roll(fleet, &key_ring(&[new]))?;
    for (name, due) in [("before-rotation", before), ("during-rotation", during)] {
        let woke = field.ledger.wait(name, "woke", due.max(Instant::now()) + LATE);
        woke.with_context(|| format!("`{name}` was lost by the rotation of keys"))?;
        let times = field.ledger.count(name, "woke");
        ensure!(times == 1, "the effect of `{name}` happened {times} times");
    }
    Ok(())
}

/// Gives every replica this ring, one replica after the other and each when the one before is ready, as a deployment is
/// rolled.
fn roll(fleet: &mut Fleet, ring: &str) -> Result<()> {
    for number in 0..fleet.replicas.len() {
        fleet.set(number, "SEAL_KEYS", ring);
        fleet.end(number, READY)?;
        fleet.start(number)?;
        thread::sleep(COMPARED);
        fleet.wait_for(number, "/readyz", 200, READY)?;
    }
    Ok(())
}
