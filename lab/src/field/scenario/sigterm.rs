use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::{Break, Client, Field};
use crate::field::websocket::Socket;
use crate::mcp;

/// How long each call works.
const WORK: Duration = Duration::from_secs(5);
/// How long a leg works that outlasts the shutdown, which gives legs 10 s.
const LONG: Duration = Duration::from_secs(14);
/// How long a replica may take to end: its drain, and the legs of tasks after it.
const END: Duration = Duration::from_secs(45);

/// A replica is sent SIGTERM while it works on a call of 2025-11-25 in a session, a call of 2026-07-28, a call over
/// WebSocket, and a leg of a task.
///
/// Pass: the three calls are answered with a result, the process ends by itself, and the task ends: its effect happens
/// exactly once, here or at the other replica. A second task, whose leg outlasts the shutdown, is handed over: its effect
/// happens at the other replica long before the lease of 60 s is over.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let mut fleet = field.fleet(2, &[("WEBSOCKET", "1"), ("LEASE", "60")])?;
    fleet.set(1, "WORKERS", "0");
    fleet.start_all()?;
    let client = Client::new(fleet.address(0)).with_patience(END);
    let acts = json!([{ "work": WORK.as_millis() }, { "effect": "done" }]);
    client.start("task", &acts)?;
    client.start("long", &json!([{ "work": LONG.as_millis() }, { "effect": "done" }]))?;
    let calls = [
        ("2026-07-28", modern(&client, &acts)),
        ("2025-11-25", session(&client, &acts)?),
        ("WebSocket", socket(&fleet.address(0), &acts)?),
    ];
    thread::sleep(Duration::from_secs(1));
    // Another replica that could take over what is not done in time.
    fleet.kill(1);
    fleet.set(1, "WORKERS", "16");
    fleet.start(1)?;
    let took = if field.is_broken(Break::Kill) {
        fleet.kill(0);
        Duration::ZERO
    } else {
        fleet.end(0, END)?
    };
    let mut failures = Vec::new();
    for (name, call) in calls {
        match call.join() {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => failures.push(format!("the call on {name} was not answered: {error:#}")),
            Err(_) => bail!("the client on {name} panicked"),
        }
    }
    let limit = Instant::now() + Duration::from_secs(30);
    for name in ["task", "long"] {
        if field.ledger.wait(name, "done", limit).is_none() {
            failures.push(format!("the task `{name}` did not end"));
        }
    }
    ensure!(
        failures.is_empty(),
        "{}; the process ended {:.1} s after SIGTERM",
        failures.join("; "),
        took.as_secs_f64()
    );
    thread::sleep(Duration::from_secs(1));
    for name in ["task", "long", "modern", "session", "socket"] {
        let times = field.ledger.count(name, "done");
        ensure!(times == 1, "the effect of `{name}` happened {times} times");
    }
    Ok(format!("4 calls were answered; the process ended {:.1} s after SIGTERM", took.as_secs_f64()))
}

fn modern(client: &Client, acts: &Value) -> JoinHandle<Result<Value>> {
    let (client, acts) = (client.clone(), acts.clone());
    thread::spawn(move || is_done(client.call_now("modern", &acts)?))
}

/// A call in a session, whose answer comes on a stream of events.
fn session(client: &Client, acts: &Value) -> Result<JoinHandle<Result<Value>>> {
    let id = client.open_session()?;
    let params = json!({ "name": "errand_now", "arguments": { "name": "session", "acts": acts } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let request = client.in_session(Some(&id), &call);
    let client = client.clone();
    Ok(thread::spawn(move || is_done(mcp::result(&client.send(request)?)?)))
}

fn socket(address: &std::net::SocketAddr, acts: &Value) -> Result<JoinHandle<Result<Value>>> {
    let mut socket = Socket::open(*address, None)?;
    socket.set_patience(END)?;
    let params = json!({ "name": "errand_now", "arguments": { "name": "socket", "acts": acts } });
    socket.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }))?;
    Ok(thread::spawn(move || {
        let mut answer = socket.answer(1)?;
        ensure!(answer.get("error").is_none(), "the answer is {answer}");
        is_done(answer["result"].take())
    }))
}

fn is_done(result: Value) -> Result<Value> {
    let text = result["content"][0]["text"].as_str().context("the result has no text")?;
    ensure!(text.ends_with("is done"), "the result is {result}");
    Ok(result)
}
