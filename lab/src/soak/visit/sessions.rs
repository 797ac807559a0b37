//! The same run in a session of 2025-11-25: questions come on the stream of the call, answers go wherever the balancer
//! sends them.

use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use fastrand::Rng;
use serde_json::{Value, json};

use super::{is_curious, must_not_open, rounds};
use crate::chaos::story::{Effect, Effects, Next, Plot, Story};
use crate::http::Message;
use crate::mcp::LEGACY;
use crate::soak::caller::{Caller, Want};
use crate::soak::tally::{Failure, Never, Slip};

/// How often a call whose replica died is made again.
const CALLS: usize = 20;

pub(super) fn visit(caller: &Caller<'_>, rng: &mut Rng) -> Result<(), Failure> {
    let mut session = Session::open(*caller, caller.due)?;
    for _ in 0..CALLS {
        // A call that was cut off may have changed the world, so the next one is another.
        let mut story = Story::new(Plot::Checkout, caller.world.number());
        let began = Instant::now();
        match session.call(&mut story) {
            Ok(()) => {
                caller.world.tally.answered(caller.kind, began.elapsed(), 1, session.is_calm(began));
                if is_curious(rng) {
                    session.steal(rng)?;
                }
                session.close()?;
                return rounds::end(caller, &story);
            }
            Err(Broken::Wrong(failure)) => return Err(failure),
            Err(Broken::Off(error)) => {
                caller.slipped(Slip::Session, began, &format!("{error:#}"));
                caller.world.note(perhaps(&story));
            }
        }
        session = Session::open(*caller, Instant::now())?;
    }
    Err(Failure::new(Never::Lost, format!("{CALLS} calls in sessions were cut off")))
}

/// What a call that was cut off may have done: nothing, or each thing once.
fn perhaps(story: &Story) -> Effects {
    Effects { charge: Effect::Perhaps, ship: Effect::Perhaps, ..story.subject() }
}

/// Why a call did not come to its end.
enum Broken {
    /// The stream is gone, or the session: a client calls again.
    Off(anyhow::Error),
    Wrong(Failure),
}

struct Session<'a> {
    caller: Caller<'a>,
    id: String,
}

impl<'a> Session<'a> {
    fn open(caller: Caller<'a>, since: Instant) -> Result<Self, Failure> {
        let params = json!({
            "protocolVersion": LEGACY,
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "xtask", "version": "1" },
        });
        let mut session = Self { caller, id: String::new() };
        let hello =
            session.request(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
        let answer = caller.send(&hello, Want::Success, since)?;
        let id = answer.header("mcp-session-id");
        id.with_context(|| format!("no session: {}", answer.start))?.clone_into(&mut session.id);
        let initialized =
            session.request(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        // A session whose first replica died with it is not there; nothing was done in it yet.
        let noted = caller.send(&initialized, Want::Success, Instant::now())?;
        if noted.status() != 202 {
            return Err(Failure::new(Never::Wrong, format!("{} for `initialized`", noted.start)));
        }
        Ok(session)
    }

    /// A message in this session.
    fn request(&self, body: &Value) -> Message {
        let mut message = self.caller.signed(self.caller.bare(body.to_string()));
        message.headers.push(("mcp-protocol-version".into(), LEGACY.into()));
        if !self.id.is_empty() {
            message.headers.push(("mcp-session-id".into(), self.id.clone()));
        }
        message
    }

    fn call(&self, story: &mut Story) -> Result<(), Broken> {
        let opening = story.opening();
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": opening });
        let mut stream = self.caller.stream(&self.request(&call)).map_err(Broken::Off)?;
        if !stream.is_open() {
            return Err(Broken::Off(anyhow!("the call was answered with `{}`", stream.head())));
        }
        let mut sent = opening;
        loop {
            let message = stream.next().map_err(Broken::Off)?;
            if message["method"] == "elicitation/create" {
                let asked = as_round(&message).map_err(|error| Broken::Wrong(error.into()))?;
                let next = story.tell(sent, &asked).map_err(|error| Broken::Wrong(error.into()))?;
                let Next::Send(next) = next else {
                    return Err(Broken::Off(anyhow!("it ended by a question")));
                };
                let response = next["inputResponses"].as_object().and_then(|all| all.values().next());
                self.answer(&message["id"], response.unwrap_or(&Value::Null)).map_err(Broken::Off)?;
                sent = next;
            } else if message.get("result").is_some() || message.get("error").is_some() {
                return ended(story, sent, &message);
            }
        }
    }

    /// Answers a question, once: whether it was heard shows on the stream.
    fn answer(&self, id: &Value, result: &Value) -> Result<()> {
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        let taken = self.caller.send(&self.request(&answer), Want::Success, Instant::now());
        let taken = taken.map_err(|failure| anyhow!(failure.what))?;
        ensure!(taken.status() == 202, "an answer was taken with `{}`", taken.start);
        Ok(())
    }

    /// Somebody else uses the session.
    fn steal(&self, rng: &mut Rng) -> Result<(), Failure> {
        let Self { caller, id } = self;
        let thief = caller.as_person(caller.world.people.other(caller.person, rng));
        let theirs = Self { caller: thief, id: id.clone() };
        let ping = theirs.request(&json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" }));
        let answer = thief.send(&ping, Want::Verdict, Instant::now())?;
        must_not_open(caller, "foreign session", answer.status() == 404, &answer.start)
    }

    fn close(&self) -> Result<(), Failure> {
        let mut request = self.request(&Value::Null);
        request.start = "DELETE /mcp HTTP/1.1".into();
        request.body.clear();
        let closed = self.caller.send(&request, Want::Verdict, Instant::now())?;
        // Closed by a try whose answer was lost, it is not there any more.
        if !matches!(closed.status(), 200..=204 | 404) {
            return Err(Failure::new(Never::Wrong, format!("{} for DELETE", closed.start)));
        }
        Ok(())
    }

    fn is_calm(&self, since: Instant) -> bool {
        self.caller.world.windows.cause(since, Instant::now()).is_none()
    }
}

fn ended(story: &mut Story, sent: serde_json::Map<String, Value>, message: &Value) -> Result<(), Broken> {
    let result = &message["result"];
    // While the store is away a tool cannot take its step; what it says then is no wrong answer.
    if message.get("error").is_some() || result["isError"] == true {
        return Err(Broken::Off(anyhow!("the call ended with {message}")));
    }
    match story.tell(sent, result).map_err(|error| Broken::Wrong(error.into()))? {
        Next::Done => Ok(()),
        Next::Send(_) => Err(Broken::Wrong(anyhow!("a result asks: {message}").into())),
    }
}

/// A question on a stream, as the round that it would be; its name is that of its only field.
fn as_round(message: &Value) -> Result<Value> {
    let fields = message["params"]["requestedSchema"]["properties"].as_object();
    let Some(name) = fields.and_then(|fields| fields.keys().next()) else {
        bail!("a question without fields: {message}");
    };
    let question = json!({ name: { "params": message["params"] } });
    Ok(json!({ "resultType": "input_required", "requestState": "live", "inputRequests": question }))
}
