use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Client, Field, Fleet};
use crate::http::Message;
use crate::mcp;

const TOKEN: &str = "the-operators-token-of-the-field-test";

/// The life of a task, in seconds.
const LIFE: u64 = 5;

/// Runs outlive the configured life of a task; an outage outlives every claim of an `.at_most_once()` step; an operator
/// retries a failed run after that. `SEAL_LIFE`, `SEAL_SKEW`, `LEASE` and `TASK_LIFE` compress days to seconds.
///
/// Pass: no effect of an `.at_most_once()` step happens twice. A run that sleeps longer than its life either goes on, or
/// fails where people see it: its status is `failed` for operators, and a metric that an alert watches has counted it.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let once = at_most_once(field)?;
    let outlived = outlive(field)?;
    Ok(format!("{once}; {outlived}"))
}

/// A worker performs the effect and dies before it has written that down. Nobody is there for longer than the claim lives.
fn at_most_once(field: &Field) -> Result<String> {
    let settings = [("SEAL_LIFE", "1"), ("SEAL_SKEW", "1"), ("LEASE", "3"), ("OPERATORS_TOKEN", TOKEN)];
    let mut fleet = field.fleet(1, &settings)?;
    fleet.start_all()?;
    let client = Client::new(fleet.address(0));
    // The question gives the run a name before its effect; the effect is written down and never confirmed.
    field.ledger.hold("charge");
    client.start("outage", &json!([{ "effect": "begun" }, { "once": "charge" }]))?;
    let limit = Instant::now() + Duration::from_secs(20);
    field.ledger.wait("outage", "charge", limit).context("the effect never happened")?;
    fleet.kill_all();
    field.ledger.release("charge");
    // Longer than a claim of SEAL_LIFE and twice SEAL_SKEW, and than the lease of the job.
    thread::sleep(Duration::from_secs(field.pick(8, 30)));
    fleet.start_all()?;
    let ended = ended(&fleet, "errand")?;
    ensure!(
        field.ledger.count("outage", "charge") == 1,
        "after an outage, an at-most-once effect happened again"
    );
    let message = ended["message"].as_str().unwrap_or_default();
    ensure!(message.contains("unknown outcome"), "nobody can know of the effect, and the run is {ended}");
    // The next day.
    thread::sleep(Duration::from_secs(field.pick(5, 20)));
    operate(&fleet, "POST", &format!("/runs/{}/retry", name_of(&ended)?))?;
    thread::sleep(Duration::from_secs(6));
    let times = field.ledger.count("outage", "charge");
    ensure!(times == 1, "after an operator's retry, an at-most-once effect happened {times} times");
    Ok("one charge in spite of an outage and a retry".into())
}

/// Runs sleep for longer than a task lives.
fn outlive(field: &Field) -> Result<String> {
    let life = LIFE.to_string();
    let mut fleet = field.fleet(2, &[("TASK_LIFE", &life), ("LEASE", "3"), ("OPERATORS_TOKEN", TOKEN)])?;
    fleet.start_all()?;
    let client = Client::new(fleet.address(0));
    let sleep = Duration::from_secs(LIFE * 2);
    let acts = json!([{ "effect": "begun" }, { "sleep": sleep.as_millis() }, { "effect": "welcome" }]);
    let created = client.start("outlives", &acts);
    // A server that refuses a sleep it cannot keep does so in the run, not at its start.
    created.context("the run could not be started")?;
    // Expired records are swept every 11 to 19 s.
    let limit = Instant::now() + sleep + Duration::from_secs(25);
    while Instant::now() < limit {
        if field.ledger.count("outlives", "welcome") > 0 {
            ensure!(field.ledger.count("outlives", "welcome") == 1, "the welcome was sent twice");
            return Ok("a run that slept twice its life went on".into());
        }
        if let Some(failed) = failed_loudly(&fleet)? {
            return Ok(failed);
        }
        thread::sleep(Duration::from_millis(500));
    }
    anyhow::bail!(
        "a run that slept longer than its life of {LIFE} s disappeared without an event or a metric"
    )
}

/// What people see of a run that failed because its life was over: a status, and a metric with an alert.
fn failed_loudly(fleet: &Fleet) -> Result<Option<String>> {
    let failed = operate(fleet, "GET", "/runs?status=failed")?;
    let Some(run) =
        failed["runs"].as_array().into_iter().flatten().find(|run| run["legs"].as_u64() > Some(0))
    else {
        return Ok(None);
    };
    let alerts = include_str!("../../../../deploy/prometheus/alerts.yml");
    let mut counted = 0.0;
    for number in 0..fleet.replicas.len() {
        counted += fleet.metric(number, "antiphon_runs_ended_total", "expired")?;
    }
    ensure!(counted > 0.0, "a run failed as {run}, and no metric counts it");
    ensure!(alerts.contains("antiphon_runs_ended_total"), "no alert watches runs that end as {run}");
    Ok(Some(format!("a run that slept longer than its life failed, and was counted: {}", run["message"])))
}

/// The run of this tool, when it has ended.
fn ended(fleet: &Fleet, tool: &str) -> Result<Value> {
    let began = Instant::now();
    loop {
        let listed = operate(fleet, "GET", "/runs")?;
        let runs = listed["runs"].as_array().cloned().unwrap_or_default();
        let ended = |run: &Value| {
            run["tool"] == tool && matches!(run["status"].as_str(), Some("failed" | "completed"))
        };
        if let Some(run) = runs.iter().find(|run| ended(run)) {
            return Ok(run.clone());
        }
        ensure!(began.elapsed() < Duration::from_secs(45), "the run did not end: {listed}");
        thread::sleep(Duration::from_millis(250));
    }
}

fn name_of(run: &Value) -> Result<&str> {
    run["run"].as_str().with_context(|| format!("a run has no name: {run}"))
}

/// A request to the operators' routes of the first replica.
fn operate(fleet: &Fleet, verb: &str, path: &str) -> Result<Value> {
    let health = fleet.replicas[0].health;
    let mut request = Message::post(&health.to_string(), &[], Vec::new());
    request.start = format!("{verb} {path} HTTP/1.1");
    request.headers.push(("authorization".into(), format!("Bearer {TOKEN}")));
    request.headers.push(("connection".into(), "close".into()));
    let said = mcp::exchange_once(health, &request.to_bytes(), Duration::from_secs(10))?;
    let text = String::from_utf8_lossy(&said.body).into_owned();
    ensure!(said.status() == 200, "{verb} {path} was answered with {}: {text}", said.status());
    serde_json::from_str(&text).with_context(|| format!("{path} is no JSON: {text}"))
}
