//! Steps, branches, loops, handoff: how a conversation is built from parts.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use antiphon::{
    ErrorKind, Limits, ServerBuilder,
    prelude::*,
    testing::{Answers, Failed, Replicas, Revision},
    tool::handoff,
};
use serde_json::json;

use crate::checked::connect;

/// How often each part ran.
#[derive(Clone, Default)]
struct Counts(Arc<[AtomicU32; 3]>);

impl Counts {
    fn up(&self, at: usize) {
        self.0[at].fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self) -> [u32; 3] {
        [0, 1, 2].map(|at| self.0[at].load(Ordering::SeqCst))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

fn serve(tool: Tool) -> ServerBuilder {
    Server::builder("flow", "1.0.0").tool(tool)
}

async fn counted(ctx: &Ctx, _: ()) -> Result<String> {
    let counts = ctx.state::<Counts>()?;
    counts.up(0);
    let first: u32 = ctx.step("first", || async { Ok(counts.0[1].fetch_add(1, Ordering::SeqCst)) }).await?;
    let Word { word } = ctx.elicit("A word?").await?.accepted()?;
    let again = ctx.elicit::<Word>("Another?").await?.accepted()?.word;
    let second: u32 = ctx.step("second", || async { Ok(counts.0[2].fetch_add(1, Ordering::SeqCst)) }).await?;
    Ok(format!("{first}{word}{again}{second}"))
}

#[tokio::test]
async fn a_step_runs_once_however_often_the_tool_does() -> Result<()> {
    for (revision, runs) in [(Revision::V2025_11_25, 1), (Revision::V2026_07_28, 3)] {
        let counts = Counts::default();
        let server = serve(Tool::new("counted", "Counts", counted)).with_state(counts.clone()).build()?;
        let answers =
            Answers::new().accept("word", json!({"word": "a"})).accept("word", json!({"word": "b"}));
        let mut client = connect(&server, revision).await?.answering(answers);
        let talk = client.call("counted", json!({})).await?;
        assert_eq!(talk.text(), "0ab0");
        assert_eq!(counts.get(), [runs, 1, 1], "{revision:?}");
    }
    Ok(())
}

async fn charge(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.elicit::<Word>("Sure?").await?.accepted()?;
    let keys = ctx.step_with_key("charge", async |key: String| Ok(key)).await?;
    let more = ctx.step_with_key("charge", async |key: String| Ok(key)).await?;
    let run = ctx.run_id();
    Ok(format!("{} {}", keys == format!("{run}:charge"), more == format!("{run}:charge#2")))
}

#[tokio::test]
async fn a_step_has_a_stable_idempotency_key() -> Result<()> {
    for revision in Revision::BOTH {
        let server = serve(Tool::new("charge", "Charges", charge)).build()?;
        let mut client = connect(&server, revision)
            .await?
            .answering(Answers::new().accept("word", json!({"word": "yes"})));
        assert_eq!(client.call("charge", json!({})).await?.text(), "true true");
    }
    Ok(())
}

async fn failing_step(ctx: &Ctx, _: ()) -> Result<String> {
    let counts = ctx.state::<Counts>()?;
    let failed = ctx
        .step::<u32, _, _>("pay", || async {
            counts.up(0);
            Err(Error::tool("the card was refused").terminal())
        })
        .await;
    let error = failed.expect_err("the step fails");
    let Word { word } = ctx.elicit("Another card?").await?.accepted()?;
    Ok(format!("{error}, terminal {}, then {word}", error.is_terminal()))
}

#[tokio::test]
async fn a_steps_error_is_recorded_if_the_tool_goes_on() -> Result<()> {
    for revision in Revision::BOTH {
        let counts = Counts::default();
        let server = serve(Tool::new("pay", "Pays", failing_step)).with_state(counts.clone()).build()?;
        let mut client = connect(&server, revision)
            .await?
            .answering(Answers::new().accept("word", json!({"word": "visa"})));
        let talk = client.call("pay", json!({})).await?;
        assert_eq!(talk.text(), "the card was refused, terminal true, then visa");
        assert_eq!(counts.get()[0], 1);
    }
    Ok(())
}

/// An error with a cause, as drivers and HTTP clients return them.
#[derive(Debug)]
struct Unreachable;

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("error sending request")
    }
}

impl std::error::Error for Unreachable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        static CAUSE: std::fmt::Error = std::fmt::Error;
        Some(&CAUSE)
    }
}

async fn ask_about_an_error(ctx: &Ctx, _: ()) -> Result<String> {
    let charged = ctx.step::<u32, _, _>("charge", || async { Err(Unreachable)? }).await;
    let error = charged.expect_err("the step fails");
    let Word { word } = ctx.elicit(format!("Failed: {error}. Again?")).await?.accepted()?;
    assert!(error.source().is_none(), "no leg has more of the error than the journal");
    Ok(format!("{error}, then {word}"))
}

#[tokio::test]
async fn a_question_with_a_steps_error_in_it_is_asked_once() -> Result<()> {
    for revision in Revision::BOTH {
        let server = serve(Tool::new("charge", "Charges", ask_about_an_error)).build()?;
        let mut client =
            connect(&server, revision).await?.answering(Answers::new().accept("word", json!({"word": "no"})));
        let talk = client.call("charge", json!({})).await?;
        let text = std::fmt::Error.to_string();
        assert_eq!(talk.text(), format!("error sending request: {text}, then no"), "{revision:?}");
        assert_eq!(talk.keys(), ["word"], "{revision:?}");
    }
    Ok(())
}

async fn act_on_the_kind(ctx: &Ctx, _: ()) -> Result<String> {
    let kind = ctx.step::<u32, _, _>("find", || async { Err(Error::protocol(-32_002, "gone")) }).await;
    let error = kind.expect_err("the step fails");
    let ErrorKind::Protocol { code, message, .. } = error.kind().clone() else {
        return Err(Error::tool("another kind"));
    };
    ctx.elicit::<Word>("Go on?").await?.accepted()?;
    Err(Error::protocol(code, message))
}

#[tokio::test]
async fn a_steps_error_keeps_its_kind() -> Result<()> {
    for revision in Revision::BOTH {
        let server = serve(Tool::new("find", "Finds", act_on_the_kind)).build()?;
        let mut client = connect(&server, revision)
            .await?
            .answering(Answers::new().accept("word", json!({"word": "yes"})));
        let error = client.call("find", json!({})).await.expect_err("it is a JSON-RPC error");
        let failed = error.source().and_then(|source| source.downcast_ref::<Failed>());
        assert_eq!(failed.map(|failed| failed.code), Some(-32_002), "{revision:?}: {error}");
    }
    Ok(())
}

/// A type that JSON does not bring back as it was.
#[derive(Debug, Deserialize, Serialize)]
struct Receipt {
    number: u32,
    #[serde(skip)]
    secret: u32,
}

async fn keep_a_receipt(ctx: &Ctx, _: ()) -> Result<String> {
    let receipt = ctx.step("pay", || async { Ok(Receipt { number: 7, secret: 42 }) }).await?;
    let Word { word } =
        ctx.elicit(format!("{} {}, keep it?", receipt.number, receipt.secret)).await?.accepted()?;
    let last = ctx
        .loop_with_state("copies", Receipt { number: 0, secret: 1 }, async |_, receipt: Receipt| {
            Ok(if receipt.number == 2 {
                ControlFlow::Break(receipt)
            } else {
                ControlFlow::Continue(Receipt { number: receipt.number + 1, secret: receipt.secret + 1 })
            })
        })
        .await?;
    Ok(format!("{} {} {word} {}", receipt.number, receipt.secret, last.secret))
}

#[tokio::test]
async fn a_value_is_the_recorded_one_from_the_first_leg_on() -> Result<()> {
    for revision in Revision::BOTH {
        let server = serve(Tool::new("pay", "Pays", keep_a_receipt)).build()?;
        let mut client = connect(&server, revision)
            .await?
            .answering(Answers::new().accept("word", json!({"word": "yes"})));
        let talk = client.call("pay", json!({})).await?;
        assert_eq!(talk.text(), "7 0 yes 0", "{revision:?}");
        assert_eq!(talk.keys(), ["word"], "{revision:?}");
    }
    Ok(())
}

async fn polled(ctx: &Ctx, _: ()) -> Result<String> {
    let (ann, bob) = tokio::join!(
        ctx.branch("ann", async |ctx| {
            let first = ctx.elicit::<Word>("Ann?").await?.accepted()?.word;
            let second = ctx.elicit::<Word>("Ann, really?").await?.accepted()?.word;
            Ok(format!("{first}{second}"))
        }),
        ctx.branch("bob", async |ctx| {
            ctx.branch("deep", async |ctx| Ok(ctx.elicit::<Word>("Bob?").await?.accepted()?.word)).await
        }),
    );
    Ok(format!("{}|{}", ann?, bob?))
}

#[tokio::test]
async fn branches_have_scopes_and_ask_together() -> Result<()> {
    let server = serve(Tool::new("poll", "Polls", polled)).build()?;
    let answers = || {
        Answers::new().otherwise(|question| {
            let word = question.message().chars().next().unwrap_or('?').to_string();
            Some(json!({"action": "accept", "content": {"word": word}}))
        })
    };
    let mut client = connect(&server, Revision::V2026_07_28).await?.answering(answers());
    let talk = client.call("poll", json!({})).await?;
    assert_eq!(talk.text(), "AA|B");
    assert_eq!(talk.keys(), ["ann/word", "bob/deep/word", "ann/word#2"]);
    assert_eq!(talk.rounds, 2);
    let mut client = connect(&server, Revision::V2025_11_25).await?.answering(answers());
    assert_eq!(client.call("poll", json!({})).await?.text(), "AA|B");
    Replicas::new(|| serve(Tool::new("poll", "Polls", polled))).run("poll", json!({}), answers).await?;
    Ok(())
}

async fn budgeted(ctx: &Ctx, _: ()) -> Result<String> {
    let branch = ctx
        .branch("few", async |ctx| {
            ctx.elicit::<Word>("One?").await?.accepted()?;
            ctx.branch("inner", async |ctx| ctx.elicit::<Word>("Two?").await).await?.accepted()?;
            ctx.elicit::<Word>("Three?").await?.accepted()
        })
        .max_asks(2)
        .await;
    Ok(branch.err().map(|error| error.to_string()).unwrap_or_default())
}

#[tokio::test]
async fn a_branch_asks_no_more_than_it_may() -> Result<()> {
    for revision in Revision::BOTH {
        let server = serve(Tool::new("few", "Asks little", budgeted)).build()?;
        let mut client =
            connect(&server, revision).await?.answering(Answers::new().accept("word", json!({"word": "x"})));
        let talk = client.call("few", json!({})).await?;
        assert_eq!(
            talk.text(),
            "the branch has reached its limit of 2 questions; ask fewer questions, or raise `Branch::max_asks`"
        );
        assert_eq!(talk.asked.len(), 2);
    }
    Ok(())
}

async fn nested(ctx: &Ctx, _: ()) -> Result<String> {
    let error = ctx
        .branch("a", async |ctx| ctx.branch("b", async |ctx| ctx.branch("c", async |_| Ok(())).await).await)
        .await
        .expect_err("the third branch is too deep");
    Ok(error.to_string())
}

#[tokio::test]
async fn branches_nest_no_deeper_than_allowed() -> Result<()> {
    let server = serve(Tool::new("deep", "Nests", nested))
        .with_limits(Limits::default().with_branch_depth(2))
        .build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let text = client.call("deep", json!({})).await?.text();
    assert_eq!(
        text,
        "branches are nested deeper than the limit of 2; nest fewer branches, or raise `Limits::with_branch_depth`"
    );
    Ok(())
}

/// Counts when it is dropped.
struct Guard(Counts);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.up(0);
    }
}

async fn raced(ctx: &Ctx, _: ()) -> Result<String> {
    let counts = ctx.state::<Counts>()?.clone();
    let slow = ctx.branch("slow", async |ctx| {
        ctx.branch("child", async |_| {
            let _guard = Guard(counts.clone());
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(())
        })
        .await
    });
    tokio::select! {
        _ = slow => Ok("slow".into()),
        word = ctx.elicit::<Word>("Quick?") => Ok(word?.accepted()?.word),
    }
}

#[tokio::test]
async fn a_dropped_parent_drops_its_branches() -> Result<()> {
    let counts = Counts::default();
    let server = serve(Tool::new("race", "Races", raced)).with_state(counts.clone()).build()?;
    let mut client = connect(&server, Revision::V2025_11_25)
        .await?
        .answering(Answers::new().accept("word", json!({"word": "quick"})));
    assert_eq!(client.call("race", json!({})).await?.text(), "quick");
    assert_eq!(counts.get()[0], 1, "the child ended with its parent");
    Ok(())
}

async fn timed(ctx: &Ctx, _: ()) -> Result<String> {
    let outcome = ctx
        .branch("timed", async |_| {
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(())
        })
        .timeout(Duration::from_millis(20))
        .await;
    let late = matches!(outcome.as_ref().map_err(Error::kind), Err(ErrorKind::Timeout(_)));
    let Word { word } = ctx.elicit("Go on?").await?.accepted()?;
    Ok(format!("{late} {word}"))
}

#[tokio::test]
async fn a_branch_takes_no_longer_than_it_may_and_that_is_recorded() -> Result<()> {
    for revision in Revision::BOTH {
        let server = serve(Tool::new("timed", "Waits", timed)).build()?;
        let mut client =
            connect(&server, revision).await?.answering(Answers::new().accept("word", json!({"word": "on"})));
        assert_eq!(client.call("timed", json!({})).await?.text(), "true on");
    }
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct Guess {
    guess: u32,
}

async fn guessing(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.loop_with_state("game", (0, 100), async |ctx, (low, high): (u32, u32)| {
        let middle = u32::midpoint(low, high);
        let noted: u32 = ctx.step("note", || async move { Ok(middle) }).await?;
        let Guess { guess } = ctx.elicit(format!("{low} to {high}?")).await?.accepted()?;
        assert_eq!(noted, middle);
        Ok(match guess {
            0 => ControlFlow::Continue((low, middle)),
            1 => ControlFlow::Continue((middle, high)),
            _ => ControlFlow::Break(format!("{low} to {high}")),
        })
    })
    .await
}

#[tokio::test]
async fn a_loop_keeps_its_state_and_forgets_the_way() -> Result<()> {
    let guesses = || {
        [0, 1, 0, 1, 2]
            .into_iter()
            .fold(Answers::new(), |answers, guess| answers.accept("guess", json!({"guess": guess})))
    };
    for revision in Revision::BOTH {
        let server = serve(Tool::new("guess", "Guesses", guessing)).build()?;
        let mut client = connect(&server, revision).await?.answering(guesses());
        let talk = client.call("guess", json!({})).await?;
        assert_eq!(talk.text(), "31 to 37");
        if revision == Revision::V2026_07_28 {
            assert!(
                talk.keys().iter().all(|key| *key == "game/guess"),
                "each time around begins anew: {:?}",
                talk.keys()
            );
        }
    }
    Ok(())
}

async fn handed(ctx: &Ctx, _: ()) -> Result<String> {
    let counts = ctx.state::<Counts>()?;
    handoff(
        ctx,
        || async {
            counts.up(0);
            Ok(7)
        },
        async |ctx, secret: &u32| {
            counts.up(1);
            let first = ctx.elicit::<Guess>("First?").await?.accepted()?.guess;
            let second = ctx.elicit::<Guess>("Second?").await?.accepted()?.guess;
            Ok(first == *secret || second == *secret)
        },
        |_: u32, won: bool| async move {
            counts.up(2);
            Ok(format!("won: {won}"))
        },
    )
    .await
}

#[tokio::test]
async fn before_and_after_run_once_around_a_replayed_client_part() -> Result<()> {
    for (revision, replays) in [(Revision::V2025_11_25, 1), (Revision::V2026_07_28, 3)] {
        let counts = Counts::default();
        let server = serve(Tool::new("hand", "Hands off", handed)).with_state(counts.clone()).build()?;
        let answers =
            Answers::new().accept("guess", json!({"guess": 1})).accept("guess", json!({"guess": 7}));
        let mut client = connect(&server, revision).await?.answering(answers);
        assert_eq!(client.call("hand", json!({})).await?.text(), "won: true");
        assert_eq!(counts.get(), [1, replays, 1], "{revision:?}");
    }
    Ok(())
}

async fn long_winded(ctx: &Ctx, _: ()) -> Result<String> {
    for n in 0..12 {
        ctx.elicit::<Word>(format!("Word {n}?")).await?.accepted()?;
    }
    Ok("done".into())
}

#[tokio::test]
async fn a_run_that_outlasts_its_client_says_so() -> Result<()> {
    let server = serve(Tool::new("long", "Asks a lot", long_winded)).build()?;
    let answers = || Answers::new().accept("word", json!({"word": "x"}));
    let mut client = connect(&server, Revision::V2026_07_28).await?.answering(answers());
    let talk = client.call("long", json!({})).await?;
    assert!(talk.is_error());
    assert_eq!(talk.rounds, 9);
    assert!(talk.text().starts_with("the run has taken 9 rounds"), "{}", talk.text());
    let mut client = connect(&server, Revision::V2025_11_25).await?.answering(answers());
    assert_eq!(client.call("long", json!({})).await?.text(), "done", "a session has no such limit");
    Ok(())
}

async fn forgetful(ctx: &Ctx, _: ()) -> Result<String> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let name = if CALLS.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) { "even" } else { "odd" };
    ctx.elicit::<Word>("First?").key(name).await?.accepted()?;
    Ok("done".into())
}

#[tokio::test]
async fn drift_is_an_error_a_person_can_act_on() -> Result<()> {
    let server = serve(Tool::new("forget", "Forgets", forgetful)).build()?;
    let mut client = connect(&server, Revision::V2026_07_28)
        .await?
        .answering(Answers::new().accept("even", json!({"word": "x"})));
    let talk = client.call("forget", json!({})).await?;
    assert!(talk.is_error());
    assert_eq!(
        talk.text(),
        "the run cannot be continued: the question `even` was sent in the last round, but the code no longer asks this \
         question and waits for `odd`; if a new version was deployed, call the tool again; if not, the code takes \
         another path than before: move the value that the path depends on into `ctx.step`, which records it"
    );
    let error = Replicas::new(|| serve(Tool::new("forget", "Forgets", forgetful)))
        .run("forget", json!({}), || {
            Answers::new().accept("even", json!({"word": "x"})).accept("odd", json!({"word": "x"}))
        })
        .await
        .unwrap_err();
    assert!(error.to_string().contains("the run cannot be continued"), "{error}");
    Ok(())
}

async fn stuck(_: &Ctx, _: ()) -> Result<String> {
    std::future::pending::<()>().await;
    Ok("never".into())
}

#[tokio::test]
async fn a_tool_that_waits_for_nothing_is_told_so() -> Result<()> {
    for revision in Revision::BOTH {
        let server = serve(Tool::new("stuck", "Hangs", stuck)).build()?;
        let talk = connect(&server, revision).await?.call("stuck", json!({})).await?;
        assert!(talk.is_error());
        assert!(talk.text().starts_with("the tool is deadlocked"), "{}", talk.text());
    }
    Ok(())
}

async fn io_beside(ctx: &Ctx, _: ()) -> Result<String> {
    let (first, second) = tokio::join!(ctx.elicit::<Word>("First?").key("first"), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        ctx.elicit::<Word>("Second?").key("second").await
    });
    Ok(format!("{}{}", first?.accepted()?.word, second?.accepted()?.word))
}

#[tokio::test]
async fn io_beside_a_question_is_waited_for() -> Result<()> {
    let server = serve(Tool::new("beside", "Waits", io_beside)).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?.answering(
        Answers::new().accept("first", json!({"word": "a"})).accept("second", json!({"word": "b"})),
    );
    let talk = client.call("beside", json!({})).await?;
    assert_eq!((talk.text().as_str(), talk.rounds), ("ab", 1));
    Ok(())
}

async fn io_before(ctx: &Ctx, _: ()) -> Result<String> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    let first = ctx.elicit::<Word>("First?").key("first").await?.accepted()?.word;
    let second = ctx.elicit::<Word>("Second?").key("second").await?.accepted()?.word;
    Ok(format!("{first}{second}"))
}

#[tokio::test]
async fn io_before_a_question_is_done_again_and_waited_for() -> Result<()> {
    let server = serve(Tool::new("before", "Waits", io_before)).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?.answering(
        Answers::new().accept("first", json!({"word": "a"})).accept("second", json!({"word": "b"})),
    );
    let talk = client.call("before", json!({})).await?;
    assert_eq!((talk.text().as_str(), talk.rounds), ("ab", 2));
    Ok(())
}

async fn impatient(ctx: &Ctx, _: ()) -> Result<String> {
    let asked = tokio::time::timeout(Duration::from_secs(600), ctx.elicit::<Word>("Word?")).await?;
    Ok(asked?.accepted()?.word)
}

#[tokio::test]
async fn a_timer_around_a_question_does_not_hold_it_back() -> Result<()> {
    let server = serve(Tool::new("impatient", "Hurries", impatient)).build()?;
    let mut client = connect(&server, Revision::V2026_07_28)
        .await?
        .answering(Answers::new().accept("word", json!({"word": "a"})));
    let began = std::time::Instant::now();
    assert_eq!(client.call("impatient", json!({})).await?.text(), "a");
    assert!(began.elapsed() < Duration::from_secs(10));
    Ok(())
}

async fn slow(_: &Ctx, _: ()) -> Result<String> {
    tokio::time::sleep(Duration::from_secs(600)).await;
    Ok("late".into())
}

#[tokio::test]
async fn a_tool_works_no_longer_than_it_may() -> Result<()> {
    for revision in Revision::BOTH {
        let server =
            serve(Tool::new("slow", "Dawdles", slow).with_timeout(Duration::from_millis(30))).build()?;
        let talk = connect(&server, revision).await?.call("slow", json!({})).await?;
        assert!(talk.is_error());
        assert_eq!(talk.text(), "the time limit of 30ms was exceeded");
    }
    Ok(())
}

async fn patient(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.elicit::<Word>("Word?").await?.accepted()?.word)
}

#[tokio::test]
async fn the_time_a_person_takes_is_not_counted() -> Result<()> {
    let server =
        serve(Tool::new("patient", "Waits", patient).with_timeout(Duration::from_millis(30))).build()?;
    let mut client =
        connect(&server, Revision::V2025_11_25).await?.answering(Answers::new().otherwise(|_| {
            std::thread::sleep(Duration::from_millis(120));
            Some(json!({"action": "accept", "content": {"word": "at last"}}))
        }));
    assert_eq!(client.call("patient", json!({})).await?.text(), "at last");
    Ok(())
}

async fn unstated(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.state::<Counts>()?;
    Ok(String::new())
}

#[tokio::test]
async fn state_that_is_missing_is_named() -> Result<()> {
    let server = serve(Tool::new("state", "Reads state", unstated)).build()?;
    let talk = connect(&server, Revision::V2026_07_28).await?.call("state", json!({})).await?;
    assert!(talk.text().contains("Counts`; add it with `ServerBuilder::with_state`"), "{}", talk.text());
    Ok(())
}
