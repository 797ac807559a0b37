//! The same run as a task: created, looked at, answered, looked at again.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::{is_curious, must_not_open, rounds};
use crate::chaos::story::{Next, Plot, Story};
use crate::soak::caller::{Caller, Want};
use crate::soak::tally::{Failure, Never};

/// How long a task may take, whatever happens: a lease that has to run out, and then some.
const PATIENCE: Duration = Duration::from_mins(3);

/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) fn visit(caller: &Caller<'_>, rng: &mut Rng) -> Result<(), Failure> {
    let mut story = Story::new(Plot::Checkout, caller.world.number());
    let mut params = story.opening();
    params.insert("name".into(), "checkout_later".into());
    let created = caller.result("tools/call", "checkout_later", params.clone().into(), caller.due)?;
    let id = created["taskId"].as_str().with_context(|| format!("no task: {created}"))?.to_owned();
    let curious = is_curious(rng);
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        thread::sleep(PAUSE);
        let task = look(caller, &id)?;
        match task["status"].as_str() {
            Some("working") => continue,
            Some("input_required") => {
                if let Next::Send(next) = story.tell(params.clone(), &as_round(&task))? {
                    params = next;
                }
                answer(caller, &id, &params)?;
            }
            Some("completed") => {
                ensure_told(&mut story, params, &task)?;
                same_again(caller, &id, &task)?;
                return rounds::end(caller, &story);
            }
            _ => return Err(Failure::new(Never::Wrong, format!("a task ended as {task}"))),
        }
        if curious {
            peek(caller, &id, rng)?;
        }
    }
    Err(Failure::new(Never::Lost, format!("task {id} has not ended after {} s", PATIENCE.as_secs())))
}

fn look(caller: &Caller<'_>, id: &str) -> Result<Value, Failure> {
    caller.result("tasks/get", id, json!({ "taskId": id }), Instant::now())
}

/// A task that asks, as the round that it would be.
fn as_round(task: &Value) -> Value {
    json!({ "resultType": "input_required", "requestState": "task", "inputRequests": task["inputRequests"] })
}

fn answer(caller: &Caller<'_>, id: &str, params: &Map<String, Value>) -> Result<(), Failure> {
    let update = json!({ "taskId": id, "inputResponses": params.get("inputResponses") });
    caller.result("tasks/update", id, update, Instant::now()).map(drop)
}

fn ensure_told(story: &mut Story, params: Map<String, Value>, task: &Value) -> anyhow::Result<()> {
    let next = story.tell(params, &task["result"])?;
    ensure!(matches!(next, Next::Done), "a task that has ended asks: {task}");
    Ok(())
}

/// A task ends once: whoever is asked says the same.
fn same_again(caller: &Caller<'_>, id: &str, task: &Value) -> Result<(), Failure> {
    let again = look(caller, id)?;
    if again != *task {
        return Err(Failure::new(Never::Wrong, format!("{task} became {again}")));
    }
    Ok(())
}

/// Somebody else looks at the task.
fn peek(caller: &Caller<'_>, id: &str, rng: &mut Rng) -> Result<(), Failure> {
    let other = caller.as_person(caller.world.people.other(caller.person, rng));
    let answer = other.ask("tasks/get", id, json!({ "taskId": id }), Want::Verdict, Instant::now())?;
    must_not_open(caller, "foreign task", answer["error"]["code"] == -32602, &answer.to_string())
}
