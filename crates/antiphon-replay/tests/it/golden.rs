//! Journals written by earlier versions stay readable, byte for byte, and their runs go on.

use std::ops::ControlFlow;

use antiphon_replay::{FORMAT, Failure, FormatError, Journal};
use serde_json::{Value, json};

use crate::harness::{Ctx, Story};

/// Reads a golden journal; written again it must be the same file.
#[track_caller]
fn golden(file: &str) -> Journal {
    let text = file.strip_suffix('\n').expect("a file ends with a line");
    let journal = Journal::from_json(text.as_bytes()).expect("a golden journal stays readable");
    assert_eq!(String::from_utf8_lossy(&journal.to_json()), text);
    journal
}

macro_rules! golden {
    ($name:literal) => {
        golden(include_str!(concat!("golden/", $name, ".json")))
    };
}

async fn order(ctx: Ctx) -> String {
    let failure = Failure { message: "no stock".into(), code: Some(-32_000), terminal: true, kind: None };
    let stock = ctx.failing("stock", failure).await;
    let draft = ctx.ask("draft", "Write an apology").await;
    let part = ctx.scope("part");
    let one = part.ask("tea", "Which tea?").await;
    let two = part.ask("tea", "Which other tea?").await;
    let sure = ctx.ask("sure", "Sure?").await;
    let charge = ctx.step("charge", json!({"paid": 7})).await;
    format!("{stock}, {draft}, {one}, {two}, {sure}, {charge}")
}

const ORDERED: &str =
    r#"failed: no stock (Some(-32000), true), refused: sampling, green, {"name":"black"}, yes, {"paid":7}"#;

#[test]
fn a_first_round_of_format_1_goes_on() {
    Story::from(golden!("1-first-round"), order)
        .refused("draft", "sampling")
        .asks(["part/tea"])
        .answered("part/tea", "green")
        .asks(["part/tea#2"])
        .answered("part/tea#2", json!({"name": "black"}))
        .asks(["sure"])
        .answered("sure", "yes")
        .returns(ORDERED);
}

#[test]
fn answers_refusals_and_failures_of_format_1_go_on() {
    Story::from(golden!("1-outcomes"), order).answered("sure", "yes").wins(ORDERED).did([("run:charge", 1)]);
}

#[test]
fn a_journal_brings_back_where_its_run_is_traced() {
    let mut journal = golden!("1-first-round");
    assert_eq!(journal.trace, None);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    journal.trace = Some(trace.into());
    let read = Journal::from_json(&journal.to_json()).expect("it is a journal");
    assert_eq!(read.trace.as_deref(), Some(trace));
}

#[test]
fn a_finished_run_of_format_1_replays() {
    Story::from(golden!("1-finished"), order).wins(ORDERED).did([]);
}

async fn count(ctx: Ctx) -> String {
    let body = async |ctx: Ctx, state: Value| {
        ctx.step("tick", 0).await;
        match ctx.ask("go", &format!("After {}?", state["n"])).await.as_str() {
            "on" => ControlFlow::Continue(json!({"n": state["n"].as_u64().unwrap_or_default() + 1})),
            _ => ControlFlow::Break(state.to_string()),
        }
    };
    ctx.fold("count", json!({"n": 0}), body).await
}

#[test]
fn a_loop_of_format_1_goes_around_again() {
    Story::from(golden!("1-loop"), count)
        .answered("count/go", "on")
        .asks(["count/go"])
        .did([("run:count~4/tick", 1)])
        .answered("count/go", "out")
        .wins(r#"{"n":4}"#);
}

fn hour(hour: u32) -> impl Fn(Ctx) -> crate::harness::Ask {
    move |ctx| ctx.ask("sure", &format!("It is {hour}. Sure?"))
}

#[test]
fn a_reworded_question_of_format_1_is_answered() {
    Story::from(golden!("1-reworded"), hour(3)).answered("sure", "yes").returns("yes");
}

#[test]
fn rewordings_of_format_1_still_count() {
    Story::from(golden!("1-reworded"), hour(4)).drifts(
        "the text of the question `sure` has changed 3 times",
        "the text depends on a value that changes between rounds, often a clock or a random number: read the value in `ctx.step`",
    );
}

#[test]
fn a_journal_of_a_newer_format_is_refused_by_its_number() {
    assert_eq!(FORMAT, 1);
    let error = Journal::from_json(br#"{"v":2,"everything":"else"}"#).expect_err("too new");
    assert!(matches!(error, FormatError::Unknown { found: 2 }));
    assert_eq!(
        error.to_string(),
        "the journal has format 2, which is not supported; this version reads formats up to 1"
    );
    let error = Journal::from_json(br#"{"v":0,"run":"run","r":0}"#).expect_err("there is no such format");
    assert_eq!(
        error.to_string(),
        "the journal has format 0, which is not supported; this version reads formats up to 1"
    );
}

#[test]
fn what_is_no_journal_is_malformed() {
    for text in ["", "[]", "{}", r#"{"v":1}"#, r#"{"v":"1","run":"run","r":0}"#] {
        let error = Journal::from_json(text.as_bytes()).expect_err(text);
        assert!(matches!(error, FormatError::Malformed(_)), "{text}");
        assert_eq!(error.to_string(), "the bytes are not a valid journal");
    }
}
