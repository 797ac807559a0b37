//! Properties of all programs: whatever the client loses, repeats or delays, the result is the same.

use std::{collections::BTreeMap, ops::ControlFlow, rc::Rc};

use antiphon_replay::{Journal, Key, Suspension};
use futures_util::future::{LocalBoxFuture, join_all};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner},
};
use serde_json::{Value, json};

use crate::harness::{Ctx, End, Leg, World, drive, is_broken};

/// A program.
#[derive(Clone, Debug)]
enum Node {
    Ask(&'static str),
    /// A step, and how often it is polled in vain.
    Step(&'static str, u32),
    Sequence(Vec<Self>),
    Join(Vec<Self>),
    Scope(&'static str, Vec<Self>),
    /// A loop, and how often it goes around.
    Fold(u64, Vec<Self>),
    Race(Vec<Self>),
}

/// A few names, so that they collide.
fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b"])
}

fn leaf() -> impl Strategy<Value = Node> {
    prop_oneof![
        3 => name().prop_map(Node::Ask),
        1 => (name(), 0..4_u32).prop_map(|(name, polls)| Node::Step(name, polls)),
    ]
}

fn inner(node: impl Strategy<Value = Node> + Clone) -> impl Strategy<Value = Node> {
    let some = prop::collection::vec(node, 1..4);
    prop_oneof![
        2 => some.clone().prop_map(Node::Sequence),
        3 => some.clone().prop_map(Node::Join),
        1 => (name(), some.clone()).prop_map(|(name, nodes)| Node::Scope(name, nodes)),
        1 => (0..3_u64, some).prop_map(|(turns, nodes)| Node::Fold(turns, nodes)),
    ]
}

/// Programs whose result does not depend on who comes first.
fn steady() -> impl Strategy<Value = Node> {
    leaf().prop_recursive(4, 12, 3, inner)
}

fn racing() -> impl Strategy<Value = Node> {
    leaf().prop_recursive(4, 12, 3, |node| {
        let race = prop::collection::vec(node.clone(), 1..4).prop_map(Node::Race);
        prop_oneof![2 => inner(node), 1 => race]
    })
}

/// Runs `node`. `trail` is what came before it; questions and results depend on it.
fn run(ctx: Ctx, node: Node, trail: String) -> LocalBoxFuture<'static, String> {
    Box::pin(async move {
        match node {
            Node::Ask(name) => ctx.ask(name, &digest("ask", &trail)).await,
            Node::Step(name, polls) => ctx.step(name, digest("step", &trail)).slow(polls).await,
            Node::Sequence(nodes) => sequence(ctx, nodes, trail).await,
            Node::Join(nodes) => {
                let arms = nodes.into_iter().enumerate();
                let arms = arms.map(|(i, node)| run(ctx.clone(), node, format!("{trail}|{i}")));
                digest("join", &join_all(arms).await.join("|"))
            }
            Node::Scope(name, nodes) => sequence(ctx.scope(name), nodes, trail).await,
            Node::Fold(turns, nodes) => {
                let body = async move |ctx: Ctx, state: Value| {
                    let (turn, seen) = (state[0].as_u64().unwrap_or_default(), &state[1]);
                    let seen = sequence(ctx, nodes.clone(), format!("{trail}@{turn}{seen}")).await;
                    if turn < turns {
                        ControlFlow::Continue(json!([turn + 1, seen]))
                    } else {
                        ControlFlow::Break(seen)
                    }
                };
                ctx.fold("loop", json!([0, ""]), body).await
            }
            Node::Race(nodes) => {
                let arms = nodes.into_iter().enumerate();
                let arms = arms.map(|(i, node)| run(ctx.clone(), node, format!("{trail}/{i}")));
                // Polls its arms in order and takes the first that is ready.
                let (winner, at, losers) = futures_util::future::select_all(arms).await;
                drop(losers);
                digest("race", &format!("{at}{winner}"))
            }
        }
    })
}

async fn sequence(ctx: Ctx, nodes: Vec<Node>, mut trail: String) -> String {
    for node in nodes {
        let seen = run(ctx.clone(), node, trail.clone()).await;
        trail = format!("{trail}>{seen}");
    }
    digest("sequence", &trail)
}

/// A short name for a long story (FNV-1a).
fn digest(kind: &str, text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{kind}-{hash:016x}")
}

/// What the person at the other end says: always the same to the same question.
fn reply(request: &Value) -> Value {
    json!(digest("answer", request["message"].as_str().unwrap_or_default()))
}

/// Enough randomness for a schedule (xorshift).
struct Schedule(u64);

impl Schedule {
    fn one_in(&mut self, n: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.is_multiple_of(n)
    }
}

/// More rounds than any schedule needs.
const ROUNDS: u32 = 500;

/// A client that answers everything at once.
fn calm(node: &Node, leg: &mut Leg) -> Result<(String, Journal), TestCaseError> {
    for _ in 0..ROUNDS {
        match drive(|ctx| run(ctx, node.clone(), String::new()), leg) {
            End::Done(done, journal) => return Ok((done, journal)),
            End::Suspended(Suspension { journal, asks }) => {
                leg.journal = journal;
                leg.answers = asks.iter().map(|(key, request)| (key.clone(), reply(request))).collect();
            }
            end => return fail(format!("a calm client got {end:?}")),
        }
    }
    fail("a calm client never comes to an end")
}

/// A client that forgets, repeats and makes things up. With `lossy` replies get lost as well, and it
/// tries again from where it was.
fn wild(
    node: &Node,
    leg: &mut Leg,
    schedule: &mut Schedule,
    lossy: bool,
) -> Result<(String, Journal), TestCaseError> {
    let mut known: BTreeMap<Key, Value> = BTreeMap::new();
    let mut out: BTreeMap<Key, Value> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let end = drive(|ctx| run(ctx, node.clone(), String::new()), leg);
        let again = Leg { world: Rc::default(), ..leg.clone() };
        if drive(|ctx| run(ctx, node.clone(), String::new()), &again) != end {
            return fail("a request sent twice was answered in two ways");
        }
        if lossy && schedule.one_in(4) {
            // Before anything was asked there is nothing to tell true from early.
            if !out.is_empty() {
                leg.answers = some_answers(&out, &known, schedule);
            }
            continue;
        }
        match end {
            End::Done(done, journal) => return Ok((done, journal)),
            End::Suspended(Suspension { journal, asks }) => {
                leg.journal = Journal::from_json(&journal.to_json())?;
                out = asks;
                check_rests(node, leg, &out)?;
                known.extend(out.keys().map(|key| (key.clone(), json!("an old answer"))));
                leg.answers = some_answers(&out, &known, schedule);
            }
            end => return fail(format!("a wild client got {end:?}")),
        }
    }
    fail("a wild client never comes to an end")
}

/// True answers to some of the questions that are out, and false ones to everything that is not.
fn some_answers(
    out: &BTreeMap<Key, Value>,
    known: &BTreeMap<Key, Value>,
    schedule: &mut Schedule,
) -> BTreeMap<Key, Value> {
    let early = ["a", "b", "a#2", "b#2", "a/a", "a/b", "b/a", "loop/a"];
    let mut answers: BTreeMap<Key, Value> =
        early.map(|key| (key.into(), json!("an early answer"))).into_iter().collect();
    answers.extend(known.clone());
    answers.retain(|key, _| !out.contains_key(key));
    for (key, request) in out {
        if schedule.one_in(2) {
            answers.insert(key.clone(), reply(request));
        }
    }
    answers
}

/// A round without answers leads to the same questions and does nothing.
fn check_rests(node: &Node, leg: &Leg, out: &BTreeMap<Key, Value>) -> Result<(), TestCaseError> {
    let idle = Leg { answers: BTreeMap::new(), world: Rc::default(), ..leg.clone() };
    let mut expected = Suspension { journal: leg.journal.clone(), asks: out.clone() };
    expected.journal.round += 1;
    let end = drive(|ctx| run(ctx, node.clone(), String::new()), &idle);
    prop_assert_eq!(end, End::Suspended(expected), "a round without answers");
    prop_assert!(idle.world.effects.borrow().is_empty(), "a round without answers did something");
    Ok(())
}

/// What has ended replays to its end and does nothing.
fn check_replays(node: &Node, done: &str, journal: &Journal) -> Result<(), TestCaseError> {
    let mut leg = Leg::new(journal.clone());
    leg.journal.asked.clear();
    let end = drive(|ctx| run(ctx, node.clone(), String::new()), &leg);
    prop_assert_eq!(end, End::Done(done.to_owned(), leg.journal.clone()), "replayed in full");
    prop_assert!(leg.world.effects.borrow().is_empty(), "a replay did something");
    Ok(())
}

/// Continued from the first `cut` entries, the run comes to the same end, and of the steps in `world`
/// takes as many as are not among them, each once.
fn check_prefix(
    node: &Node,
    done: &str,
    journal: &Journal,
    cut: usize,
    world: &World,
) -> Result<(), TestCaseError> {
    let mut leg = Leg::new(journal.clone());
    leg.journal.entries.truncate(cut);
    leg.journal.asked.clear();
    leg.journal.round = leg.journal.round.max(1);
    // What a loop had forgotten it does again if its state is not among the entries, so loops do not
    // count. Names do not either: who is `a` and who `a#2` depends on who was answered first.
    let taken = |world: &World| world.effects.borrow().keys().filter(|name| !name.contains("loop")).count();
    let kept = leg
        .journal
        .entries
        .iter()
        .filter(|entry| entry.describe().starts_with("step ") && !entry.key.as_str().contains("loop"));
    let left = taken(world) - kept.count();
    let (again, whole) = calm(node, &mut leg)?;
    prop_assert_eq!(again, done, "continued from the first {} entries", cut);
    check_replays(node, done, &whole)?;
    check_effects(&leg.world)?;
    prop_assert_eq!(taken(&leg.world), left, "steps taken from the first {} entries", cut);
    Ok(())
}

fn check_effects(world: &World) -> Result<(), TestCaseError> {
    for (name, times) in &*world.effects.borrow() {
        prop_assert_eq!(*times, 1, "`{}` was taken {} times", name, times);
    }
    Ok(())
}

fn fail<T>(reason: impl Into<String>) -> Result<T, TestCaseError> {
    Err(TestCaseError::fail(reason.into()))
}

/// Always the same cases, so that a failure on one machine is a failure on all.
#[track_caller]
fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    // A mutation is to be noticed; which small program notices it is of no interest.
    let max_shrink_iters = if is_broken() { 0 } else { 1000 };
    let config = Config { cases, failure_persistence: None, max_shrink_iters, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    if let Err(error) = TestRunner::new_with_rng(config, random).run(strategy, test) {
        panic!("{error}");
    }
}

#[test]
pub(crate) fn every_schedule_of_answers_leads_to_one_result() {
    check(200, &(steady(), 1..u64::MAX), |(node, seed)| {
        let mut leg = Leg::new(Journal::new("run"));
        let (done, journal) = calm(&node, &mut leg)?;
        check_effects(&leg.world)?;
        check_replays(&node, &done, &journal)?;
        let mut schedule = Schedule(seed);
        for lossy in [false, true, false, true] {
            let mut leg = Leg::new(Journal::new("run"));
            let (again, journal) = wild(&node, &mut leg, &mut schedule, lossy)?;
            prop_assert_eq!(&again, &done, "a wild client");
            check_replays(&node, &done, &journal)?;
            if !lossy {
                check_effects(&leg.world)?;
            }
        }
        Ok(())
    });
}

#[test]
pub(crate) fn every_prefix_of_a_journal_leads_to_one_result() {
    check(200, &(steady(), 1..u64::MAX), |(node, seed)| {
        let mut leg = Leg::new(Journal::new("run"));
        let (done, journal) = wild(&node, &mut leg, &mut Schedule(seed), false)?;
        for cut in 0..=journal.entries.len() {
            check_prefix(&node, &done, &journal, cut, &leg.world)?;
        }
        Ok(())
    });
}

#[test]
pub(crate) fn a_race_replays_whoever_won() {
    check(1000, &(racing(), 1..u64::MAX), |(node, seed)| {
        let mut leg = Leg::new(Journal::new("run"));
        let (done, journal) = wild(&node, &mut leg, &mut Schedule(seed), false)?;
        check_replays(&node, &done, &journal)
    });
}
