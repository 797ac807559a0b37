//! The rules of replay, one story each.

use std::{future::Future, ops::ControlFlow};

use antiphon_replay::{Failure, Journal, Op};
use futures_util::{
    FutureExt, StreamExt,
    future::{join, join_all},
    stream::FuturesUnordered,
};
use serde_json::{Value, json};

use crate::harness::{Ctx, Leg, Story, drive};

const ELSEWHERE: &str = "if a new version was deployed, call the tool again; if not, the code takes another path \
    than before: move the value that the path depends on into `ctx.step`, which records it";

async fn shirt(ctx: Ctx) -> String {
    let size = ctx.ask("size", "Which size?").await;
    let colour = ctx.ask("colour", &format!("Which colour, in {size}?")).await;
    format!("{colour} {size}")
}

async fn booking(ctx: Ctx) -> String {
    let quote = ctx.step("quote", 42).await;
    let (seat, meal) = join(ctx.ask("seat", "Which seat?"), ctx.ask("meal", "Which meal?")).await;
    let sure = ctx.ask("confirm", &format!("{seat} with {meal} for {quote}?")).await;
    let receipt = ctx.step("charge", "paid").await;
    format!("{seat} {meal} {sure} {receipt}")
}

// Keys and rounds.

#[test]
pub(crate) fn one_question_follows_the_other_over_rounds() {
    Story::new(shirt)
        .asks(["size"])
        .answered("size", "L")
        .asks(["colour"])
        .worded("colour", "Which colour, in L?")
        .recorded(["size"])
        .answered("colour", "red")
        .returns("red L")
        .recorded(["size", "colour"]);
}

#[test]
pub(crate) fn questions_that_wait_together_are_asked_in_one_round() {
    Story::new(booking)
        .asks(["meal", "seat"])
        .answered("seat", "12A")
        .answered("meal", "soup")
        .asks(["confirm"])
        .worded("confirm", "12A with soup for 42?")
        .answered("confirm", true)
        .returns("12A soup true paid");
}

#[test]
fn a_question_after_a_step_leaves_with_the_question_beside_it() {
    Story::new(|ctx: Ctx| async move {
        let left = ctx.ask("a", "A?");
        let right = async {
            let price = ctx.step("price", 7).slow(3).await;
            ctx.ask("b", &format!("B for {price}?")).await
        };
        let (a, b) = join(left, right).await;
        a + &b
    })
    .asks(["a", "b"])
    .worded("b", "B for 7?")
    .answered("a", "1")
    .answered("b", "2")
    .returns("12");
}

#[test]
pub(crate) fn keys_say_scope_name_and_occurrence() {
    Story::new(|ctx: Ctx| async move {
        let (ann, other) = (ctx.scope("ann"), ctx.scope("ann"));
        let asks = [
            ctx.ask("vote", "?"),
            ctx.ask("vote", "?"),
            ann.ask("vote", "?"),
            ann.ask("vote", "?"),
            other.ask("vote", "?"),
            ctx.ask("a/b#c~d\n", "?"),
            ctx.ask("", "?"),
        ];
        join_all(asks).await.join("")
    })
    .asks(["_", "a_b_c_d_", "ann#2/vote", "ann/vote", "ann/vote#2", "vote", "vote#2"]);
}

#[test]
fn a_key_is_taken_by_the_call_and_not_by_the_wait() {
    Story::new(|ctx: Ctx| async move {
        let first = ctx.ask("q", "first");
        let second = ctx.ask("q", "second");
        let second = second.await;
        first.await + &second
    })
    .asks(["q#2"])
    .worded("q#2", "second")
    .answered("q#2", "2")
    .asks(["q"])
    .worded("q", "first")
    .answered("q", "1")
    .returns("12");
}

#[test]
fn a_renamed_question_leaves_no_gap() {
    Story::new(|ctx: Ctx| async move {
        let scope = ctx.scope("part");
        let again = ctx.scope("part");
        let asks = [
            ctx.ask("q", "?").named("x"),
            ctx.ask("q", "?"),
            ctx.ask("q", "?").named("y"),
            ctx.ask("q", "?"),
            scope.ask("q", "?").named("x"),
            scope.ask("q", "?"),
            again.ask("q", "?").named("x"),
            again.ask("q", "?"),
            again.ask("q", "?").named("q"),
        ];
        join_all(asks).await.join("")
    })
    .asks(["part#2/q", "part#2/q#2", "part#2/x", "part/q", "part/x", "q", "q#2", "x", "y"]);
}

#[test]
fn the_same_name_in_two_branches_stays_with_its_branch_whoever_is_answered_first() {
    async fn two(ctx: Ctx) -> String {
        let branch = async |name: &str| {
            let one = ctx.ask("q", &format!("{name}1")).await;
            let two = ctx.ask("q", &format!("{name}2")).await;
            one + &two
        };
        let (left, right) = join(branch("left"), branch("right")).await;
        format!("{left} {right}")
    }
    Story::new(two)
        .asks(["q", "q#2"])
        .answered("q#2", "C")
        .asks(["q", "q#3"])
        .worded("q", "left1")
        .worded("q#3", "right2")
        .answered("q#3", "D")
        .asks(["q"])
        .answered("q", "A")
        .asks(["q#4"])
        .worded("q#4", "left2")
        .answered("q#4", "B")
        .wins("AB CD");
}

#[test]
pub(crate) fn a_new_question_beside_a_pending_one_does_not_take_its_answer() {
    async fn before(ctx: Ctx) -> String {
        ctx.ask("size", "Which?").await
    }
    async fn after(ctx: Ctx) -> String {
        let (gift, size) = join(ctx.ask("gift", "Which?"), ctx.ask("size", "Which?")).await;
        format!("{size} {gift}")
    }
    Story::new(before)
        .asks(["size"])
        .deploy(after)
        .answered("size", "L")
        .asks(["gift"])
        .answered("gift", "yes")
        .returns("L yes");
}

// Answers.

#[test]
fn an_answer_to_a_question_nobody_asked_is_ignored() {
    Story::new(shirt).asks(["size"]).answered("shoes", "44").asks(["size"]).recorded([]);
}

#[test]
pub(crate) fn a_later_question_cannot_be_answered_before_it_was_asked() {
    Story::new(shirt)
        .asks(["size"])
        .answered("size", "L")
        .answered("colour", "none")
        .asks(["colour"])
        .answered("colour", "red")
        .returns("red L");
}

#[test]
pub(crate) fn answers_on_the_first_call_are_good_for_the_first_questions_only() {
    Story::new(booking)
        .answered("seat", "12A")
        .answered("meal", "soup")
        .answered("confirm", true)
        .asks(["confirm"])
        .worded("confirm", "12A with soup for 42?");
}

#[test]
fn a_missing_answer_is_asked_for_again_alone() {
    Story::new(booking)
        .asks(["meal", "seat"])
        .answered("meal", "soup")
        .asks(["seat"])
        .asks(["seat"])
        .answered("meal", "fish")
        .answered("seat", "12A")
        .asks(["confirm"])
        .worded("confirm", "12A with soup for 42?");
}

#[test]
fn an_answer_that_does_not_fit_is_asked_for_again() {
    Story::new(booking)
        .fits(|request, answer| request["message"].is_string() && answer.is_string())
        .asks(["meal", "seat"])
        .answered("meal", json!({"no": "string"}))
        .answered("seat", "12A")
        .asks(["meal"])
        .answered("meal", 7)
        .asks(["meal"])
        .answered("meal", "soup")
        .asks(["confirm"]);
}

#[test]
fn a_thousand_answers_that_do_not_fit_are_a_thousand_questions_asked_again() {
    async fn many(ctx: Ctx) -> String {
        join_all((0..1000).map(|_| ctx.ask("q", "?"))).await.len().to_string()
    }
    let mut leg = Leg::new(Journal::new("run"));
    leg.fits = |_, answer| answer.is_string();
    for round in 0..3 {
        let crate::harness::End::Suspended(suspension) = drive(many, &leg) else {
            panic!("expected questions");
        };
        assert_eq!(suspension.asks.len(), 1000, "in round {round}");
        leg.journal = suspension.journal;
        leg.answers = suspension.asks.into_keys().map(|key| (key, json!(round))).collect();
    }
}

#[test]
fn answers_are_handed_over_in_the_order_of_the_questions() {
    Story::new(|ctx: Ctx| async move {
        let mut asks: FuturesUnordered<_> =
            ["c", "a", "b"].map(|name| ctx.ask(name, "?")).into_iter().collect();
        let mut seen = String::new();
        while let Some(answer) = asks.next().await {
            seen += &answer;
        }
        seen
    })
    .asks(["a", "b", "c"])
    .answered("b", "B")
    .answered("c", "C")
    .asks(["a"])
    .recorded(["c", "b"])
    .answered("a", "A")
    .wins("CBA");
}

#[test]
fn a_question_that_cannot_be_asked_is_refused_and_stays_so() {
    Story::new(|ctx: Ctx| async move {
        let draft = ctx.ask("draft", "Write!").await;
        let sure = ctx.ask("sure", "Sure?").await;
        format!("{draft}; {sure}")
    })
    .refused("draft", "sampling")
    .asks(["sure"])
    .recorded(["draft"])
    // This client could, but the code has taken its turn.
    .answered("draft", "text")
    .answered("sure", "yes")
    .returns("refused: sampling; yes");
}

#[test]
fn several_refusals_at_once_replay_one_by_one() {
    Story::new(|ctx: Ctx| async move {
        let branch = async |name: &str| {
            let draft = ctx.ask(name, "Write!").await;
            ctx.ask("next", &format!("{draft}, and {name}?")).await
        };
        let (a, b) = join(branch("a"), branch("b")).await;
        a + &b
    })
    .refused("a", "sampling")
    .refused("b", "sampling")
    .asks(["next", "next#2"])
    .worded("next", "refused: sampling, and a?")
    .answered("next", "1")
    .answered("next#2", "2")
    .returns("12");
}

// Steps.

#[test]
fn a_step_is_taken_once_over_all_rounds() {
    Story::new(booking)
        .asks(["meal", "seat"])
        .did([("run:quote", 1)])
        .answered("meal", "soup")
        .asks(["seat"])
        .answered("seat", "12A")
        .asks(["confirm"])
        .answered("confirm", true)
        .returns("12A soup true paid")
        .did([("run:charge", 1), ("run:quote", 1)]);
}

#[test]
fn a_step_that_failed_has_failed_for_good() {
    Story::new(|ctx: Ctx| async move {
        let failure = Failure { message: "no stock".into(), code: Some(-32_000), terminal: true, kind: None };
        let stock = ctx.failing("stock", failure).await;
        let instead = ctx.ask("instead", &stock).await;
        format!("{stock}: {instead}")
    })
    .asks(["instead"])
    .recorded(["stock"])
    .deploy(|ctx: Ctx| async move {
        let stock = ctx.step("stock", "plenty").await;
        let instead = ctx.ask("instead", &stock).await;
        format!("{stock}: {instead}")
    })
    .answered("instead", "tea")
    .wins("failed: no stock (Some(-32000), true): tea")
    .did([("run:stock", 1)]);
}

#[test]
fn what_was_said_before_the_first_question_is_not_said_again() {
    Story::new(|ctx: Ctx| async move {
        ctx.note("hello");
        let name = ctx.ask("name", "Who?").await;
        ctx.note("thinking");
        let age = ctx.ask("age", "How old?").await;
        ctx.note("bye");
        name + &age
    })
    .asks(["name"])
    .said(["hello"])
    .answered("name", "Ann")
    .asks(["age"])
    .said(["hello", "thinking"])
    .answered("age", "7")
    .returns("Ann7")
    .said(["hello", "thinking", "bye"]);
}

#[test]
fn code_that_waits_for_nothing_we_know_is_deadlocked() {
    Story::new(|_: Ctx| std::future::pending()).deadlocks();
}

// Races.

#[test]
fn a_race_between_two_questions_replays_its_winner() {
    for _ in 0..100 {
        Story::new(|ctx: Ctx| async move {
            let winner = tokio::select! {
                a = ctx.ask("a", "A?") => a,
                b = ctx.ask("b", "B?") => b,
            };
            let sure = ctx.ask("sure", &format!("{winner}, sure?")).await;
            format!("{winner} {sure}")
        })
        .asks(["a", "b"])
        .answered("b", "B")
        .asks(["sure"])
        .worded("sure", "B, sure?")
        .answered("a", "A")
        .answered("sure", "yes")
        .wins("B yes")
        .recorded(["b", "sure"]);
    }
}

#[test]
fn of_two_answers_to_a_race_the_first_asked_wins() {
    Story::new(|ctx: Ctx| async move {
        tokio::select! {
            z = ctx.ask("z", "Z?") => z,
            a = ctx.ask("a", "A?") => a,
        }
    })
    .deploy(|ctx: Ctx| async move {
        tokio::select! {
            biased;
            z = ctx.ask("z", "Z?") => z,
            a = ctx.ask("a", "A?") => a,
        }
    })
    .asks(["a", "z"])
    .answered("a", "A")
    .answered("z", "Z")
    .wins("Z")
    .recorded(["z"]);
}

/// A step that takes its time races a question; what comes after names the winner.
async fn race(ctx: Ctx, polls: u32) -> String {
    let winner = tokio::select! {
        biased;
        step = ctx.step("step", "step").slow(polls) => step,
        answer = ctx.ask("a", "A?") => answer,
    };
    let sure = ctx.ask("sure", &format!("{winner}, sure?")).await;
    format!("{winner} {sure}")
}

#[test]
pub(crate) fn an_instant_step_does_not_win_on_replay_a_race_it_lost() {
    // The answer came with the first call, while the step was being taken.
    Story::new(|ctx| race(ctx, 9))
        .answered("a", "answer")
        .asks(["sure"])
        .worded("sure", "answer, sure?")
        .recorded(["a"])
        .did([("run:step", 1)])
        .deploy(|ctx| race(ctx, 0))
        .answered("sure", "yes")
        .wins("answer yes")
        .did([("run:step", 1)]);
}

#[test]
fn an_answer_that_a_step_overtook_in_the_same_breath_was_never_seen() {
    // The answer is handed over, and before the code looks at it the step ends and wins.
    Story::new(|ctx| race(ctx, 1))
        .answered("a", "answer")
        .asks(["sure"])
        .worded("sure", "step, sure?")
        .recorded(["step"])
        .answered("sure", "yes")
        .wins("step yes");
}

#[test]
fn what_the_code_saw_first_is_recorded_first() {
    // The answer to `a` is handed over first, but the step before it in the join ends in that poll.
    Story::new(|ctx: Ctx| async move {
        let left = async {
            let step = ctx.step("step", "s").slow(1).await;
            ctx.ask("q", &format!("after {step}?")).await
        };
        let right = async {
            let a = ctx.ask("a", "A?").await;
            ctx.ask("q", &format!("after {a}?")).await
        };
        let (left, right) = join(left, right).await;
        left + &right
    })
    .answered("a", "a")
    .asks(["q", "q#2"])
    .worded("q", "after s?")
    .worded("q#2", "after a?")
    .recorded(["step", "a"])
    .answered("q", "1")
    .answered("q#2", "2")
    .wins("12");
}

#[test]
fn a_rival_takes_its_key_however_fast_a_step_wins() {
    // The second arm makes its call when it is polled, which an instant winner must not prevent.
    Story::new(|ctx: Ctx| async move {
        let go = ctx.ask("go", "Go?").await;
        let winner = tokio::select! {
            biased;
            step = ctx.step("step", "step") => step,
            answer = async { ctx.ask("q", "Race?").await } => answer,
        };
        let q = ctx.ask("q", &format!("{winner}, sure?")).await;
        go + &q
    })
    .asks(["go"])
    .answered("go", "1")
    .asks(["q#2"])
    .worded("q#2", "step, sure?")
    .answered("q#2", "2")
    .returns("12");
}

#[test]
fn a_rival_takes_its_key_however_fast_a_loop_wins() {
    Story::new(|ctx: Ctx| async move {
        let go = ctx.ask("go", "Go?").await;
        let count = ctx.fold("count", json!(0), async |_: Ctx, n: Value| match n.as_u64() {
            Some(n) if n < 3 => ControlFlow::Continue(json!(n + 1)),
            _ => ControlFlow::Break(n.to_string()),
        });
        let winner = tokio::select! {
            biased;
            count = count => count,
            answer = async { ctx.ask("q", "Race?").await } => answer,
        };
        let q = ctx.ask("q", &format!("{winner}, sure?")).await;
        go + &q
    })
    .asks(["go"])
    .answered("go", "1")
    .asks(["q#2"])
    .worded("q#2", "3, sure?")
    .answered("q#2", "2")
    .returns("12");
}

/// Starts two questions, waits for a third, and only then looks at the two.
async fn held<F: Future<Output = String>>(
    ctx: Ctx,
    look: impl Fn(Ctx, [crate::harness::Ask; 2]) -> F,
) -> String {
    let [mut a, mut b] = [ctx.ask("a", "A?"), ctx.ask("b", "B?")];
    assert!((&mut a).now_or_never().is_none());
    assert!((&mut b).now_or_never().is_none());
    let c = ctx.ask("c", "C?").await;
    let seen = look(ctx.clone(), [a, b]).await;
    let sure = ctx.ask("sure", &format!("{seen}, sure?")).await;
    format!("{c} {seen} {sure}")
}

#[test]
fn a_random_choice_between_two_answers_that_lay_ready_replays() {
    for both_in_one_round in [true, false] {
        for _ in 0..50 {
            let story = Story::new(|ctx| {
                held(ctx, async |_, [a, b]| {
                    tokio::select! { a = a => a, b = b => b }
                })
            })
            .asks(["a", "b", "c"])
            .answered("a", "A")
            .answered("b", "B");
            let story = if both_in_one_round { story } else { story.asks(["c"]).recorded(["a", "b"]) };
            // `asks` replays the round, and the question names the winner.
            let story = story.answered("c", "C").asks(["sure"]);
            let winner = story.journal().entries[0].outcome.clone();
            let antiphon_replay::Outcome::Answer(Value::String(winner)) = winner else {
                panic!("expected an answer and not {winner:?}");
            };
            story
                .worded("sure", &format!("{winner}, sure?"))
                .answered("sure", "yes")
                .wins(&format!("C {winner} yes"));
        }
    }
}

#[test]
fn a_glance_at_an_answer_that_lay_ready_replays() {
    Story::new(|ctx| {
        held(ctx, async |_, [mut a, mut b]| {
            let glance = |ask: &mut crate::harness::Ask| ask.now_or_never().unwrap_or("nothing".into());
            format!("{} and {}", glance(&mut a), glance(&mut b))
        })
    })
    .asks(["a", "b", "c"])
    .answered("b", "B")
    .answered("c", "C")
    .asks(["sure"])
    .worded("sure", "nothing and B, sure?")
    .recorded(["b", "c"])
    .answered("sure", "yes")
    .wins("C nothing and B yes");
}

// Loops.

async fn guess(ctx: Ctx) -> String {
    let secret = ctx.step("secret", 42).await;
    let body = async move |ctx: Ctx, tries: Value| {
        let tries = tries.as_u64().unwrap_or_default();
        let hint = ctx.step("hint", tries).await;
        let guess = ctx.ask("guess", &format!("Guess {tries} ({hint})?")).await;
        if guess == secret {
            ControlFlow::Break(format!("{tries} tries"))
        } else {
            ControlFlow::Continue(json!(tries + 1))
        }
    };
    ctx.fold("game", json!(0), body).await
}

#[test]
fn a_loop_forgets_what_it_saw_and_keeps_its_state() {
    Story::new(guess)
        .asks(["game/guess"])
        .recorded(["secret", "game/hint"])
        .answered("game/guess", "1")
        .asks(["game/guess"])
        .worded("game/guess", "Guess 1 (1)?")
        .recorded(["secret", "game", "game/hint"])
        .answered("game/guess", "2")
        .asks(["game/guess"])
        .worded("game/guess", "Guess 2 (2)?")
        .recorded(["secret", "game", "game/hint"])
        .answered("game/guess", "42")
        .returns("2 tries");
}

#[test]
fn a_step_in_a_loop_has_another_idempotency_key_each_time_around() {
    Story::new(guess)
        .asks(["game/guess"])
        .answered("game/guess", "1")
        .asks(["game/guess"])
        .answered("game/guess", "2")
        .asks(["game/guess"])
        .did([("run:game/hint", 1), ("run:game~1/hint", 1), ("run:game~2/hint", 1), ("run:secret", 1)]);
}

#[test]
fn a_loop_may_go_around_a_thousand_times_in_a_small_journal() {
    let mut story = Story::new(guess).asks(["game/guess"]);
    let mut largest = 0;
    for _ in 0..1000 {
        story = story.answered("game/guess", "0").asks(["game/guess"]);
        largest = largest.max(story.journal().to_json().len());
    }
    assert_eq!(story.journal().entries.len(), 3);
    assert!(largest < 400, "the journal has grown to {largest} bytes");
    story.answered("game/guess", "42").wins("1000 tries");
}

#[test]
fn a_loop_that_waits_for_nothing_goes_around_as_well() {
    async fn count(ctx: Ctx) -> String {
        let body = async |_: Ctx, n: Value| match n.as_u64() {
            Some(n) if n < 1000 => ControlFlow::Continue(json!(n + 1)),
            _ => ControlFlow::Break(n.to_string()),
        };
        let n = ctx.fold("count", json!(0), body).await;
        ctx.ask("sure", &format!("{n}, sure?")).await
    }
    Story::new(count)
        .asks(["sure"])
        .worded("sure", "1000, sure?")
        .recorded(["count"])
        .answered("sure", "yes")
        .returns("yes");
}

#[test]
fn a_loop_in_a_loop_begins_anew_each_time() {
    async fn table(ctx: Ctx) -> String {
        let row = async |ctx: Ctx, row: Value| {
            let cell = async |ctx: Ctx, cell: Value| {
                ctx.step("log", 0).await;
                let go = ctx.ask("go", &format!("After {row}.{cell}?")).await;
                match go.as_str() {
                    "on" => ControlFlow::Continue(json!(cell.as_u64().unwrap_or_default() + 1)),
                    _ => ControlFlow::Break(go),
                }
            };
            match ctx.fold("cell", json!(0), cell).await.as_str() {
                "down" => ControlFlow::Continue(json!(row.as_u64().unwrap_or_default() + 1)),
                _ => ControlFlow::Break(row.to_string()),
            }
        };
        ctx.fold("row", json!(0), row).await
    }
    Story::new(table)
        .asks(["row/cell/go"])
        .worded("row/cell/go", "After 0.0?")
        .answered("row/cell/go", "on")
        .asks(["row/cell/go"])
        .worded("row/cell/go", "After 0.1?")
        .answered("row/cell/go", "down")
        .asks(["row/cell/go"])
        .worded("row/cell/go", "After 1.0?")
        .recorded(["row", "row/cell/log"])
        .answered("row/cell/go", "on")
        .asks(["row/cell/go"])
        .worded("row/cell/go", "After 1.1?")
        .recorded(["row", "row/cell", "row/cell/log"])
        .did([
            ("run:row/cell/log", 1),
            ("run:row/cell~1/log", 1),
            ("run:row~1/cell/log", 1),
            ("run:row~1/cell~1/log", 1),
        ])
        .answered("row/cell/go", "out")
        .wins("1");
}

/// Two players may move; whoever is first ends the turn.
async fn blitz(ctx: Ctx, text: fn(u64) -> String) -> String {
    let body = async move |ctx: Ctx, turn: Value| {
        let turn = turn.as_u64().unwrap_or_default();
        let moved = tokio::select! {
            biased;
            white = ctx.ask("white", &text(turn)) => white,
            black = ctx.ask("black", &text(turn)) => black,
        };
        if moved == "mate" {
            ControlFlow::Break(turn.to_string())
        } else {
            ControlFlow::Continue(json!(turn + 1))
        }
    };
    ctx.fold("turn", json!(0), body).await
}

#[test]
fn an_answer_that_lost_its_race_is_not_good_for_the_next_time_around() {
    Story::new(|ctx| blitz(ctx, |_| "Your move?".into()))
        .asks(["turn/black", "turn/white"])
        .answered("turn/white", "e4")
        .answered("turn/black", "mate")
        .asks(["turn/black", "turn/white"]);
    Story::new(|ctx| blitz(ctx, |_| "Your move?".into()))
        .answered("turn/white", "e4")
        .answered("turn/black", "mate")
        .asks(["turn/black", "turn/white"]);
}

#[test]
fn a_question_that_lost_its_race_is_not_reworded_by_the_next_time_around() {
    let mut story = Story::new(|ctx| blitz(ctx, |turn| format!("Move {turn}?")));
    story = story.asks(["turn/black", "turn/white"]);
    for turn in 1..10 {
        story = story
            .answered("turn/white", "e4")
            .asks(["turn/black", "turn/white"])
            .worded("turn/black", &format!("Move {turn}?"));
    }
    story.answered("turn/black", "mate").wins("9");
}

#[test]
fn loops_side_by_side_do_not_disturb_each_other() {
    async fn both(ctx: Ctx) -> String {
        let count = |name: &'static str| {
            ctx.fold(name, json!(0), async move |ctx: Ctx, n: Value| {
                let n = n.as_u64().unwrap_or_default();
                let go = ctx.ask("go", &format!("{name} {n}?")).await;
                if go == "on" {
                    ControlFlow::Continue(json!(n + 1))
                } else {
                    ControlFlow::Break(n.to_string())
                }
            })
        };
        let (a, b) = join(count("a"), count("ab")).await;
        let sure = ctx.ask("sure", &format!("{a}:{b}, sure?")).await;
        format!("{a}:{b} {sure}")
    }
    Story::new(both)
        .asks(["a/go", "ab/go"])
        .answered("a/go", "on")
        .asks(["a/go", "ab/go"])
        .answered("ab/go", "on")
        .asks(["a/go", "ab/go"])
        .recorded(["a", "ab"])
        .answered("a/go", "on")
        .answered("ab/go", "on")
        .asks(["a/go", "ab/go"])
        .answered("ab/go", "on")
        .asks(["a/go", "ab/go"])
        .worded("a/go", "a 2?")
        .worded("ab/go", "ab 3?")
        .answered("ab/go", "out")
        .asks(["a/go"])
        .answered("a/go", "out")
        .asks(["sure"])
        .recorded(["a", "ab", "ab/go", "a/go"])
        .answered("sure", "yes")
        .returns("2:3 yes");
}

// Drift.

#[test]
fn a_reworded_pending_question_is_asked_again() {
    Story::new(shirt)
        .asks(["size"])
        .deploy(|ctx: Ctx| async move { ctx.ask("size", "Which size, S to XL?").await })
        .answered("size", "L")
        .asks(["size"])
        .worded("size", "Which size, S to XL?")
        .answered("size", "M")
        .returns("M");
}

#[test]
fn a_question_reworded_more_than_twice_is_volatile() {
    let at =
        |hour: u32| move |ctx: Ctx| async move { ctx.ask("sure", &format!("It is {hour}. Sure?")).await };
    Story::new(at(1))
        .asks(["sure"])
        .deploy(at(2))
        .answered("sure", "yes")
        .asks(["sure"])
        .deploy(at(3))
        .answered("sure", "yes")
        .asks(["sure"])
        .deploy(at(4))
        .answered("sure", "yes")
        .drifts(
            "the text of the question `sure` has changed 3 times",
            "the text depends on a value that changes between rounds, often a clock or a random number: read the value in `ctx.step`",
        );
}

const CHANGED: &str = "if a new version was deployed, call the tool again; if not, move values that vary (time, random numbers, lookups) into `ctx.step`, which records them";

#[test]
pub(crate) fn an_answered_question_that_changed_is_drift() {
    Story::new(shirt)
        .asks(["size"])
        .answered("size", "L")
        .asks(["colour"])
        .deploy(|ctx: Ctx| async move { ctx.ask("size", "Which shoe size?").await })
        .drifts(
            "journal entry 0 (`size`) was recorded as ask `Which size?` and is now ask `Which shoe size?`",
            CHANGED,
        );
}

#[test]
pub(crate) fn a_question_that_changed_where_its_label_does_not_reach_is_drift() {
    let of = |choices: Value| {
        move |ctx: Ctx| {
            let size = ctx.ask_details("size", "Which size?", choices.clone());
            async move { size.await + &ctx.ask("sure", "Sure?").await }
        }
    };
    Story::new(of(json!(["S", "M"])))
        .asks(["size"])
        .answered("size", "M")
        .asks(["sure"])
        .deploy(of(json!(["M", "L"])))
        .drifts(
            "journal entry 0 (`size`) was recorded as ask `Which size?` and is now ask `Which size?` with other details",
            CHANGED,
        );
}

#[test]
pub(crate) fn a_step_that_became_a_question_is_drift() {
    Story::new(booking)
        .asks(["meal", "seat"])
        .deploy(|ctx: Ctx| async move { ctx.ask("quote", "How much?").await })
        .drifts("journal entry 0 (`quote`) was recorded as step quote and is now ask `How much?`", CHANGED);
}

#[test]
pub(crate) fn a_step_that_became_a_loop_is_drift() {
    Story::new(booking)
        .asks(["meal", "seat"])
        .deploy(|ctx: Ctx| async move {
            ctx.fold("quote", json!(0), async |_: Ctx, _: Value| ControlFlow::Break(String::new())).await
        })
        .drifts("journal entry 0 (`quote`) was recorded as step quote and is now fold quote", CHANGED);
}

#[test]
fn an_entry_the_code_does_not_wait_for_is_drift() {
    let story = Story::new(booking).asks(["meal", "seat"]);
    let story = story
        .deploy(|ctx: Ctx| async move { join(ctx.step("price", 7), ctx.ask("seat", "Which seat?")).await.1 });
    story.drifts(
        "journal entry 0 is `quote` (step quote), but on replay the code waits for `price`, `seat`",
        ELSEWHERE,
    );
    story.did([("run:quote", 1)]).deploy(|_: Ctx| std::future::pending()).drifts(
        "journal entry 0 is `quote` (step quote), but on replay the code waits for nothing",
        ELSEWHERE,
    );
}

#[test]
fn a_tool_that_returns_before_its_journal_ends_is_drift() {
    let story = Story::new(shirt).asks(["size"]).answered("size", "L").asks(["colour"]);
    let story = story.deploy(|_: Ctx| async { "done".to_owned() });
    story.drifts(
        "the tool returned before 1 recorded entry was replayed, beginning with `size` (ask `Which size?`)",
        ELSEWHERE,
    );
    let story = Story::new(booking).asks(["meal", "seat"]).answered("meal", "soup").asks(["seat"]);
    story.deploy(|_: Ctx| async { "done".to_owned() }).drifts(
        "the tool returned before 2 recorded entries were replayed, beginning with `quote` (step quote)",
        ELSEWHERE,
    );
}

#[test]
fn a_question_that_is_out_and_not_asked_any_more_is_drift() {
    Story::new(shirt)
        .asks(["size"])
        .deploy(|ctx: Ctx| async move { join(ctx.ask("a", "?"), ctx.ask("b", "?")).await.0 })
        .drifts(
            "the question `size` was sent in the last round, but the code no longer asks this question \
             and waits for `a`, `b`",
            ELSEWHERE,
        );
    Story::new(shirt).asks(["size"]).deploy(|_: Ctx| async { "done".to_owned() }).drifts(
        "the question `size` was sent in the last round, but the code no longer asks this question \
         and waits for nothing",
        ELSEWHERE,
    );
}

#[test]
fn a_long_label_is_cut_and_still_tells_two_questions_apart() {
    let long = |end: &str| {
        let text = "x".repeat(200) + end;
        move |ctx: Ctx| {
            let asks = [ctx.ask("a", &text), ctx.ask("b", "B?")];
            async move {
                let [a, b] = asks;
                a.await + &b.await
            }
        }
    };
    let label = format!("ask `{}…", "x".repeat(59));
    Story::new(long("1")).asks(["a"]).answered("a", "A").asks(["b"]).deploy(long("2")).drifts(
        &format!("journal entry 0 (`a`) was recorded as {label} and is now {label} with other details"),
        CHANGED,
    );
}

#[test]
fn equal_json_has_the_same_fingerprint_in_whatever_order_its_keys_came() {
    let one: Value = serde_json::from_str(r#"{"b": [1, {"d": "\"", "c": null}], "a": 0.5}"#).unwrap();
    let other: Value = serde_json::from_str(r#"{"a": 0.5, "b": [1, {"c": null, "d": "\""}]}"#).unwrap();
    let text = br#"{"a":0.5,"b":[1,{"c":null,"d":"\""}]}"#;
    assert_eq!(Op::ask("?", &one), Op::ask_parts("?", &[text]));
    assert_eq!(Op::ask("?", &one), Op::ask("?", &other));
}
