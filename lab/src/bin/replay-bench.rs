//! What replay costs: time to bring a run back, bytes it travels as, memory it leaves behind.
//!
//! Prints JSON, for `cargo xtask bench replay`. Times are microseconds.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use antiphon::{
    Limits,
    prelude::*,
    seal::{KeyRing, SealConfig},
    testing::{Client, Revision},
};
use antiphon_replay::{Advance, Journal, Machine, Op, Turn};
use serde_json::{Value, json};

/// How often a leg is tried; the shortest counts.
const TRIES: u32 = 1000;
/// The tries of a leg are spread over the run, so that a slow moment of the machine affects all legs.
const TURNS: u32 = 20;
/// Steps that the machine alone goes through.
const MACHINE_STEPS: u32 = 1000;
/// Runs that are left suspended.
const RUNS: u32 = 100_000;

#[derive(Deserialize, JsonSchema)]
struct Count {
    steps: u32,
    asks: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    /// What they chose.
    choice: String,
    /// Why.
    note: String,
}

/// Takes `steps` steps and asks `asks` questions, ten at a time, then one more.
async fn long(ctx: &Ctx, count: Count) -> Result<String> {
    let mut sum = 0;
    for n in 0..count.steps {
        sum += ctx.step("step", || async move { Ok(n) }).await?;
    }
    for n in 0..count.asks / 10 {
        let ask = |m: u32| ctx.elicit::<Answer>(format!("What about item {}?", n * 10 + m)).key("item");
        let five = async |from: u32| {
            tokio::join!(ask(from), ask(from + 1), ask(from + 2), ask(from + 3), ask(from + 4))
        };
        let (first, second) = tokio::join!(five(0), five(5));
        let first = [first.0, first.1, first.2, first.3, first.4];
        let second = [second.0, second.1, second.2, second.3, second.4];
        for answer in first.into_iter().chain(second) {
            let Answer { choice, note } = answer?.accepted()?;
            sum += u32::try_from(choice.len() + note.len()).unwrap_or_default();
        }
    }
    ctx.elicit::<Answer>("Done?").key("done").await?.accepted()?;
    Ok(sum.to_string())
}

fn server() -> Result<Server> {
    Ok(Server::builder("long", "1.0.0")
        .with_seal(SealConfig::default().with_keys(KeyRing::new(1, [1; 32])).with_max_bytes(1 << 20))
        .with_limits(Limits::default().with_max_rounds(10_000))
        .tool(Tool::new("long", "Takes long", long))
        .build()?)
}

/// Plays the run until only the last question is open; returns the request that would end it.
async fn suspended(server: &Server, steps: u32, asks: u32) -> Result<Value> {
    let mut client = Client::connect(server, Revision::V2026_07_28).await?;
    let call = json!({"name": "long", "arguments": {"steps": steps, "asks": asks}});
    let mut request = call.clone();
    let mut answered = 0;
    loop {
        let reply = client.request("tools/call", request).await?;
        request = call.clone();
        request["requestState"] = reply["requestState"].clone();
        let mut last = false;
        for key in reply["inputRequests"].as_object().into_iter().flatten().map(|(key, _)| key) {
            answered += 1;
            last |= key == "done";
            let choice = format!("variant {}", answered * 7919 % 97);
            let note = format!("seen on day {answered} by reader {}", answered * 31 % 13);
            let content = json!({"choice": choice, "note": note});
            request["inputResponses"][key] = json!({"action": "accept", "content": content});
        }
        if last {
            return Ok(request);
        }
    }
}

/// The shortest of many tries: the rest is the machine's, not ours.
async fn shortest(client: &mut Client, request: &Value, tries: u32) -> Result<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..tries {
        let began = Instant::now();
        let reply = client.request("tools/call", request.clone()).await?;
        best = best.min(began.elapsed());
        if reply["isError"] != false {
            return Err(Error::tool(reply.to_string()));
        }
    }
    Ok(best)
}

/// A journal of `steps` steps, and how fast the machine alone goes through it.
fn machine_alone(steps: u32, tries: u32) -> Duration {
    let take = |machine: &mut Machine| {
        let (key, op) = (machine.take_key("", "step"), Op::step("step"));
        while machine.step(&key, &op) == Turn::Wait {
            let _ = machine.advance();
        }
        key
    };
    let mut machine = Machine::new(Journal::new("run"));
    for n in 0..steps {
        let key = take(&mut machine);
        machine.finish(&key, Ok(n.into()));
    }
    let (key, op) = (machine.take_key("", "last"), Op::ask("last", &Value::Null));
    machine.ask(&key, &op, || Value::Null);
    while !matches!(machine.advance(), Ok(Advance::Blocked(_))) {}
    let journal = machine.suspend().expect("nothing has drifted").journal;
    let mut best = Duration::MAX;
    for _ in 0..tries {
        let mut machine = Machine::new(journal.clone());
        let began = Instant::now();
        for _ in 0..steps {
            black_box(take(&mut machine));
        }
        best = best.min(began.elapsed());
    }
    best
}

/// What the process holds, in bytes.
fn resident() -> Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().nth(1).unwrap_or_default().parse()?;
    Ok(pages * 4096)
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let server = server()?;
    let mut client = Client::connect(&server, Revision::V2026_07_28).await?;
    if let [steps, asks, tries] = std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        // For a profiler: one shape, many times.
        let request = suspended(&server, steps.parse()?, asks.parse()?).await?;
        let leg = shortest(&mut client, &request, tries.parse()?).await?;
        println!("{} µs", leg.as_micros());
        return Ok(());
    }
    let empty = suspended(&server, 0, 0).await?;
    let mut shapes = Vec::new();
    for (steps, answers) in [(0, 0), (10, 0), (100, 0), (1000, 0), (0, 50), (0, 100), (0, 1000)] {
        shapes.push((steps, answers, suspended(&server, steps, answers).await?, Duration::MAX));
    }
    let mut floor = Duration::MAX;
    for _ in 0..TURNS {
        floor = floor.min(shortest(&mut client, &empty, TRIES / TURNS).await?);
        for (_, _, request, leg) in &mut shapes {
            *leg = (*leg).min(shortest(&mut client, request, TRIES / TURNS).await?);
        }
    }
    let legs: Vec<Value> = shapes
        .iter()
        .map(|(steps, answers, request, leg)| {
            let bytes = request["requestState"].as_str().map_or(0, str::len);
            json!({"steps": steps, "answers": answers, "leg": micros(*leg), "bytes": bytes})
        })
        .collect();
    let machine = machine_alone(MACHINE_STEPS, 2 * TRIES);

    let call = json!({"name": "long", "arguments": {"steps": 3, "asks": 0}});
    for _ in 0..2_000 {
        black_box(client.request("tools/call", call.clone()).await?);
    }
    drop(client);
    let mut client = Client::connect(&server, Revision::V2026_07_28).await?;
    let before = resident()?;
    for n in 0..RUNS {
        // The client remembers what it was sent; it is the server that is weighed.
        if n % 1_000 == 0 {
            client = Client::connect(&server, Revision::V2026_07_28).await?;
        }
        black_box(client.request("tools/call", call.clone()).await?);
    }
    drop(client);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let added = resident()?.saturating_sub(before);
    println!(
        "{}",
        json!({
            "tries": TRIES, "empty": micros(floor), "legs": legs,
            "machine_steps": MACHINE_STEPS, "machine": micros(machine),
            "runs": RUNS, "added_bytes": added,
        })
    );
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
