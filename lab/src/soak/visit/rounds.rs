//! A run with two questions and two effects, each round wherever the balancer sends it.

use std::time::Instant;

use fastrand::Rng;
use serde_json::{Map, Value};

use super::{is_curious, must_not_open};
use crate::chaos::story::{Effect, Next, Plot, Story};
use crate::soak::caller::{Caller, Want};
use crate::soak::tally::{Failure, Never};

pub(super) fn visit(caller: &Caller<'_>, rng: &mut Rng) -> Result<(), Failure> {
    let mut story = Story::new(Plot::Checkout, caller.world.number());
    let mut params = story.opening();
    let mut since = caller.due;
    loop {
        let result = caller.result("tools/call", "checkout", params.clone().into(), since)?;
        match story.tell(params, &result)? {
            Next::Done => return end(caller, &story),
            Next::Send(next) => params = next,
        }
        if is_curious(rng) {
            steal(caller, &params, rng)?;
        }
        since = Instant::now();
    }
}

/// Somebody else goes on with the run.
fn steal(caller: &Caller<'_>, params: &Map<String, Value>, rng: &mut Rng) -> Result<(), Failure> {
    let thief = caller.as_person(caller.world.people.other(caller.person, rng));
    let answer = thief.ask("tools/call", "checkout", params.clone().into(), Want::Verdict, Instant::now())?;
    let error = &answer["error"];
    let is_refused = error["code"] == -32602 && error["message"] == "Invalid or expired requestState";
    must_not_open(caller, "foreign seal", is_refused, &answer.to_string())
}

/// Notes what the world must have seen of a run that has ended.
pub(super) fn end(caller: &Caller<'_>, story: &Story) -> Result<(), Failure> {
    let effects = story.effects();
    let is_known = effects.charge == Effect::Once && effects.ship == Effect::Once;
    caller.world.note(effects);
    // That nobody knows is an answer, but only where somebody was kept from writing it down.
    if !is_known && caller.world.windows.cause(caller.due, Instant::now()).is_none() {
        let what = "nobody knows of a step, and nothing was broken";
        return Err(Failure::new(Never::Effects, what));
    }
    Ok(())
}
