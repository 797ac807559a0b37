//! What nobody may do, and how they must be told.

use std::io::{BufReader, Write as _};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::http::Message;
use crate::mcp;
use crate::soak::caller::{Caller, Want};
use crate::soak::tally::{Failure, Never};

/// One more than a server reads.
const TOO_LARGE: usize = 4 * 1024 * 1024 + 1;

/// More requests, and more questions to the model, than any caller has.
const TOO_MANY: usize = 2000;

pub(super) fn visit(caller: &Caller<'_>, rng: &mut Rng) -> Result<(), Failure> {
    // The last two take hundreds of requests.
    match rng.u32(..20) {
        0..5 => no_key(caller),
        5..10 => bad_key(caller, rng),
        10..14 => forged_seal(caller, rng),
        14..18 => too_large(caller),
        18 => too_fast(caller),
        _ => too_dear(caller),
    }
}

fn greeting(name: &str) -> Value {
    json!({ "name": "greet", "arguments": { "name": name } })
}

fn call(caller: &Caller<'_>, params: Value) -> Message {
    let host = caller.world.balancer.address.to_string();
    mcp::modern(&host, caller.world.number(), "tools/call", "greet", params)
}

fn no_key(caller: &Caller<'_>) -> Result<(), Failure> {
    let answer = caller.send(&call(caller, greeting("nobody")), Want::Verdict, caller.due)?;
    let challenges = answer.header("www-authenticate").is_some();
    refused(caller, "no key", answer.status() == 401 && challenges, &answer.start)
}

fn bad_key(caller: &Caller<'_>, rng: &mut Rng) -> Result<(), Failure> {
    let mut request = call(caller, greeting("somebody"));
    let key = format!("Bearer {:032x}{:032x}", rng.u128(..), rng.u128(..));
    request.headers.push(("authorization".into(), key));
    let answer = caller.send(&request, Want::Verdict, caller.due)?;
    let says = answer.header("www-authenticate").is_some_and(|it| it.contains("invalid_token"));
    refused(caller, "bad key", answer.status() == 401 && says, &answer.start)
}

fn forged_seal(caller: &Caller<'_>, rng: &mut Rng) -> Result<(), Failure> {
    let letters: String = std::iter::repeat_with(|| rng.alphanumeric()).take(200).collect();
    let params = json!({
        "name": "checkout", "arguments": { "item": "a forgery", "price": 1 }, "requestState": letters,
        "inputResponses": { "address": { "action": "accept", "content": { "address": "anywhere" } } },
    });
    let answer = caller.ask("tools/call", "checkout", params, Want::Verdict, caller.due)?;
    let error = &answer["error"];
    let is_refused = error["code"] == -32602 && error["message"] == "Invalid or expired requestState";
    refused(caller, "forged seal", is_refused, &answer.to_string())
}

fn too_large(caller: &Caller<'_>) -> Result<(), Failure> {
    let mut request = caller.signed(call(caller, greeting("giant")));
    request.body.resize(TOO_LARGE, b' ');
    request.headers.push(("connection".into(), "close".into()));
    let bytes = request.to_bytes();
    loop {
        let began = Instant::now();
        let answered = mcp::connect(caller.world.balancer.address).and_then(|mut stream| {
            // Refused before all of it was read, the rest is not taken; the answer is there all the same.
            let _ = stream.write_all(&bytes);
            Message::read(&mut BufReader::new(stream))
        });
        match answered {
            Ok(Some(answer)) if !matches!(answer.status(), 500..) => {
                return refused(caller, "body too large", answer.status() == 413, &answer.start);
            }
            // Somebody was away: that is no verdict.
            _ if caller.world.windows.cause(began, Instant::now()).is_some() => {
                std::thread::sleep(Duration::from_millis(500));
            }
            other => return refused(caller, "body too large", false, &format!("{other:?}")),
        }
    }
}

/// Somebody sends as fast as they can until they are told to wait.
fn too_fast(caller: &Caller<'_>) -> Result<(), Failure> {
    let glutton = caller.as_person(&caller.world.people.glutton);
    for _ in 0..TOO_MANY {
        let params = greeting("glutton");
        let answer = glutton.ask("tools/call", "greet", params, Want::Anything, Instant::now())?;
        let error = &answer["error"];
        if error.is_object() {
            let is_told = error["code"] == -32000
                && error["data"]["limit"] == "rate"
                && error["data"]["retryAfter"].is_u64();
            return refused(caller, "over the rate", is_told, &answer.to_string());
        }
    }
    refused(caller, "over the rate", false, "nobody stopped them")
}

/// Somebody asks the model until they have used it up.
fn too_dear(caller: &Caller<'_>) -> Result<(), Failure> {
    let glutton = caller.as_person(&caller.world.people.glutton);
    for _ in 0..TOO_MANY {
        let params = json!({ "name": "advise", "arguments": { "question": "More?" } });
        let answer = glutton.ask("tools/call", "advise", params, Want::Verdict, Instant::now())?;
        if answer["result"]["isError"] == true {
            let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
            return refused(caller, "over the model's budget", text.contains("the caller's limit of"), text);
        }
    }
    refused(caller, "over the model's budget", false, "nobody stopped them")
}

fn refused(caller: &Caller<'_>, what: &'static str, is_right: bool, said: &str) -> Result<(), Failure> {
    if !is_right {
        return Err(Failure::new(Never::Accepted, format!("{what}: {said}")));
    }
    caller.world.tally.count(|counts| *counts.refused.entry(what).or_default() += 1);
    Ok(())
}
