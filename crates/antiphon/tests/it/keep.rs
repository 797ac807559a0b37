//! What a run keeps in a store: large journals, steps taken at most once, seals good for one use.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use antiphon::{
    ErrorKind, Limits, ServerBuilder,
    prelude::*,
    seal::{KeyRing, SealConfig},
    testing::Revision,
};
use antiphon_store::{Backend, Memory, QueueConfig};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::checked::connect;

#[derive(Deserialize, JsonSchema)]
struct Size {
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Sure {
    sure: bool,
}

/// Text that does not compress to nothing.
fn noise(bytes: usize) -> String {
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut text = String::with_capacity(bytes);
    while text.len() < bytes {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        write!(text, "{seed:016x}").expect("a string takes all");
    }
    text.truncate(bytes);
    text
}

async fn large(ctx: &Ctx, size: Size) -> Result<String> {
    let data: String = ctx.step("data", || async { Ok(noise(size.bytes)) }).await?;
    let Sure { sure } = ctx.elicit("Sure?").await?.accepted()?;
    Ok(format!("{} {sure}", data.len()))
}

/// What happens outside, and can be counted.
#[derive(Clone, Default)]
struct World {
    charges: Arc<AtomicUsize>,
    begun: Arc<Notify>,
    /// Whether a charge never comes back.
    stuck: bool,
}

impl World {
    /// Takes its time, and gives the number of the charge.
    async fn charge(&self) -> Result<usize> {
        let number = self.charges.fetch_add(1, Ordering::SeqCst) + 1;
        self.begun.notify_one();
        if self.stuck {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(number)
    }
}

async fn charge(ctx: &Ctx, _: ()) -> Result<String> {
    let Sure { sure } = ctx.elicit("Sure?").await?.accepted()?;
    let world = ctx.state::<World>()?;
    let paid = async || {
        let number = world.charge().await?;
        if sure { Ok(number) } else { Err(Error::tool("the card was refused")) }
    };
    let receipt: Result<usize> = ctx.step("charge", paid).at_most_once().await;
    match receipt {
        Ok(receipt) => Ok(format!("receipt {receipt}")),
        Err(error) if matches!(error.kind(), ErrorKind::Indeterminate(step) if step == "charge") => {
            Ok(format!("ask the bank: {error}"))
        }
        Err(error) => Err(error),
    }
}

/// As `charge`, but for its claim.
async fn charge_anyway(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.elicit::<Sure>("Sure?").await?.accepted()?;
    let world = ctx.state::<World>()?;
    Ok(format!("receipt {}", ctx.step("charge", || world.charge()).await?))
}

fn memory() -> Backend {
    Memory::default().backend(QueueConfig::default())
}

fn seal() -> SealConfig {
    SealConfig::default().with_keys(KeyRing::new(1, [1; 32]))
}

fn replica(seal: SealConfig, world: &World) -> ServerBuilder {
    Server::builder("shop", "1.0.0")
        .with_seal(seal)
        .with_state(world.clone())
        .with_limits(Limits::default().with_claim_heartbeat(Duration::from_millis(50)))
        .tool(Tool::new("large", "Keeps much", large))
        .tool(Tool::new("charge", "Charges", charge))
        .tool(Tool::new("charge_anyway", "Charges", charge_anyway))
}

async fn call(server: &Server, params: Value) -> Result<Value> {
    let mut client = connect(server, Revision::V2026_07_28).await?;
    client.request("tools/call", params).await
}

async fn state(server: &Server, tool: &str, arguments: Value) -> Result<String> {
    let reply = call(server, json!({"name": tool, "arguments": arguments})).await?;
    assert_eq!(reply["resultType"], "input_required", "{reply}");
    Ok(reply["requestState"].as_str().unwrap().to_owned())
}

fn answer(tool: &str, arguments: Value, state: &str, sure: bool) -> Value {
    json!({
        "name": tool,
        "arguments": arguments,
        "requestState": state,
        "inputResponses": {"sure": {"action": "accept", "content": {"sure": sure}}},
    })
}

fn text(reply: &Value) -> &str {
    reply["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn large_journal_stays_with_the_servers_and_the_client_carries_a_handle() -> Result<()> {
    let (backend, world) = (memory(), World::default());
    let mut lengths = Vec::new();
    for bytes in [200_000, 500_000, 2_000_000] {
        let one = replica(seal(), &world).with_backend(backend.clone()).build()?;
        let two = replica(seal(), &world).with_backend(backend.clone()).build()?;
        let state = state(&one, "large", json!({"bytes": bytes})).await?;
        let reply = call(&two, answer("large", json!({"bytes": bytes}), &state, true)).await?;
        assert_eq!(text(&reply), format!("{bytes} true"));
        // The seal before last opens again: its answer may have been lost.
        let again = call(&one, answer("large", json!({"bytes": bytes}), &state, true)).await?;
        assert_eq!(text(&again), text(&reply));
        lengths.push(state.len());
    }
    assert_eq!(lengths, [106, 106, 106]);
    Ok(())
}

#[tokio::test]
async fn small_journal_does_not_touch_the_store() -> Result<()> {
    let backend = memory();
    let server = replica(seal(), &World::default()).with_backend(backend.clone()).build()?;
    state(&server, "large", json!({"bytes": 10})).await?;
    assert!(backend.store.list("", None, 10).await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn handle_opens_for_nobody_else_and_nowhere_else() -> Result<()> {
    let (backend, world) = (memory(), World::default());
    let server = replica(seal(), &world).with_backend(backend.clone()).build()?;
    let arguments = json!({"bytes": 200_000});
    let state = state(&server, "large", arguments.clone()).await?;
    let without_store = replica(seal(), &world).build()?;
    let other_store = replica(seal(), &world).with_backend(memory()).build()?;
    let other_key = SealConfig::default().with_keys(KeyRing::new(1, [2; 32]));
    let other_key = replica(other_key, &world).with_backend(backend.clone()).build()?;
    let refused = "Invalid or expired requestState";
    for server in [without_store, other_store, other_key] {
        let error = call(&server, answer("large", arguments.clone(), &state, true)).await.unwrap_err();
        assert!(error.to_string().contains(refused), "{error}");
    }
    let error = call(&server, answer("large", json!({"bytes": 7}), &state, true)).await.unwrap_err();
    assert!(error.to_string().contains(refused), "{error}");
    // What is in the store says nothing to who reads it.
    for record in backend.store.list("", None, 10).await?.items {
        let log = backend.store.read(&record.key, 0, 100).await?.concat();
        let kept = [&record.value[..], &log].concat();
        assert!(!kept.windows(16).any(|window| window == &noise(16).as_bytes()[..16]));
    }
    Ok(())
}

#[tokio::test]
async fn without_a_store_a_large_journal_is_an_error_that_says_what_to_do() -> Result<()> {
    let server = replica(seal(), &World::default()).build()?;
    let reply = call(&server, json!({"name": "large", "arguments": {"bytes": 200_000}})).await?;
    assert_eq!(reply["isError"], true);
    assert!(text(&reply).contains("`data`") && text(&reply).contains("with_backend"), "{reply}");
    let tight = seal().with_max_kept_bytes(100_000);
    let server = replica(tight, &World::default()).with_backend(memory()).build()?;
    let reply = call(&server, json!({"name": "large", "arguments": {"bytes": 400_000}})).await?;
    assert!(text(&reply).contains("max_kept_bytes"), "{reply}");
    Ok(())
}

#[tokio::test]
async fn captured_seal_submitted_many_times_at_once_charges_once() -> Result<()> {
    let (backend, world) = (memory(), World::default());
    let replicas: Vec<_> = (0..3)
        .map(|_| replica(seal(), &world).with_backend(backend.clone()).build())
        .collect::<Result<_, _>>()?;
    for round in 1..=5 {
        let state = state(&replicas[0], "charge", json!({})).await?;
        let calls =
            (0..9).map(|number| call(&replicas[number % 3], answer("charge", json!({}), &state, true)));
        for reply in futures_util::future::join_all(calls).await {
            assert_eq!(text(&reply?), format!("receipt {round}"));
        }
        assert_eq!(world.charges.load(Ordering::SeqCst), round);
    }
    Ok(())
}

#[tokio::test]
async fn step_without_a_claim_is_taken_as_often_as_its_seal_is_sent() -> Result<()> {
    let world = World::default();
    let server = replica(seal(), &world).with_backend(memory()).build()?;
    let state = state(&server, "charge_anyway", json!({})).await?;
    for times in 1..=3 {
        call(&server, answer("charge_anyway", json!({}), &state, true)).await?;
        assert_eq!(world.charges.load(Ordering::SeqCst), times);
    }
    Ok(())
}

#[tokio::test]
async fn failed_step_is_not_tried_again_either() -> Result<()> {
    let world = World::default();
    let server = replica(seal(), &world).with_backend(memory()).build()?;
    let state = state(&server, "charge", json!({})).await?;
    for _ in 0..3 {
        let reply = call(&server, answer("charge", json!({}), &state, false)).await?;
        assert_eq!((reply["isError"].as_bool(), text(&reply)), (Some(true), "the card was refused"));
    }
    assert_eq!(world.charges.load(Ordering::SeqCst), 1);
    Ok(())
}

#[tokio::test]
async fn step_whose_taker_died_is_indeterminate_and_stays_so() -> Result<()> {
    let backend = memory();
    let world = World { stuck: true, ..World::default() };
    let dies = replica(seal(), &world).with_backend(backend.clone()).build()?;
    let state = state(&dies, "charge", json!({})).await?;
    let params = answer("charge", json!({}), &state, true);
    let last_words = tokio::spawn(async move { call(&dies, params).await });
    world.begun.notified().await;
    last_words.abort();
    let _ = last_words.await;
    let lives = replica(seal(), &World { stuck: false, ..world.clone() }).with_backend(backend).build()?;
    for _ in 0..2 {
        let reply = call(&lives, answer("charge", json!({}), &state, true)).await?;
        assert!(text(&reply).starts_with("ask the bank: step `charge` has an unknown outcome"), "{reply}");
    }
    assert_eq!(world.charges.load(Ordering::SeqCst), 1);
    Ok(())
}

#[tokio::test]
async fn slow_step_is_waited_for_as_long_as_its_taker_lives() -> Result<()> {
    async fn slow(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.elicit::<Sure>("Sure?").await?.accepted()?;
        let world = ctx.state::<World>()?;
        let work = async || {
            // Many times the silence after which a taker counts as dead.
            tokio::time::sleep(Duration::from_millis(900)).await;
            Ok(world.charges.fetch_add(1, Ordering::SeqCst))
        };
        let number: usize = ctx.step("slow", work).at_most_once().await?;
        Ok(number.to_string())
    }
    let world = World::default();
    let slow = || Tool::new("slow", "Takes its time", slow).needs_backend();
    let server = replica(seal(), &world).with_backend(memory()).tool(slow()).build()?;
    let state = state(&server, "slow", json!({})).await?;
    let calls = (0..3).map(|_| call(&server, answer("slow", json!({}), &state, true)));
    for reply in futures_util::future::join_all(calls).await {
        assert_eq!(text(&reply?), "0");
    }
    Ok(())
}

#[tokio::test]
async fn large_result_of_a_step_is_given_to_the_second_too() -> Result<()> {
    async fn report(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.elicit::<Sure>("Sure?").await?.accepted()?;
        let world = ctx.state::<World>()?;
        let work = async || {
            world.charges.fetch_add(1, Ordering::SeqCst);
            Ok(noise(700_000))
        };
        let data: String = ctx.step("report", work).at_most_once().await?;
        Ok(data.len().to_string())
    }
    let world = World::default();
    let report = Tool::new("report", "Writes much", report);
    let server = replica(seal(), &world).with_backend(memory()).tool(report).build()?;
    let state = state(&server, "report", json!({})).await?;
    for _ in 0..2 {
        assert_eq!(text(&call(&server, answer("report", json!({}), &state, true)).await?), "700000");
    }
    assert_eq!(world.charges.load(Ordering::SeqCst), 1);
    Ok(())
}

#[tokio::test]
async fn what_needs_a_store_is_refused_without_one() -> Result<()> {
    let world = World::default();
    let needy = Tool::new("needy", "Charges", charge).needs_backend();
    let error = replica(seal().with_single_use(true), &world).tool(needy).build().unwrap_err();
    assert_eq!(
        error.problems(),
        [
            "the tool `needy` needs a backend (`Tool::needs_backend`), but the server has none; add one with `ServerBuilder::with_backend`",
            "`SealConfig::with_single_use` needs a backend, but the server has none; add one with `ServerBuilder::with_backend`",
        ]
    );
    // A tool that does not say so is refused when it comes to that, before anything happens.
    let server = replica(seal(), &world).build()?;
    let state = state(&server, "charge", json!({})).await?;
    let reply = call(&server, answer("charge", json!({}), &state, true)).await?;
    assert!(text(&reply).contains("`ServerBuilder::with_backend`"), "{reply}");
    assert_eq!(world.charges.load(Ordering::SeqCst), 0);
    Ok(())
}

#[tokio::test]
async fn seal_good_for_one_use_gets_the_same_reply_again() -> Result<()> {
    let (backend, world) = (memory(), World::default());
    let replicas: Vec<_> = (0..3)
        .map(|_| replica(seal().with_single_use(true), &world).with_backend(backend.clone()).build())
        .collect::<Result<_, _>>()?;
    let state = state(&replicas[0], "charge_anyway", json!({})).await?;
    let calls =
        (0..9).map(|number| call(&replicas[number % 3], answer("charge_anyway", json!({}), &state, true)));
    for reply in futures_util::future::join_all(calls).await {
        assert_eq!(text(&reply?), "receipt 1");
    }
    let late = call(&replicas[2], answer("charge_anyway", json!({}), &state, true)).await?;
    assert_eq!(text(&late), "receipt 1");
    assert_eq!(world.charges.load(Ordering::SeqCst), 1);
    // With other answers it is another request, and the seal has been used.
    let other = call(&replicas[1], answer("charge_anyway", json!({}), &state, false)).await.unwrap_err();
    assert!(other.to_string().contains("Invalid or expired requestState"), "{other}");
    Ok(())
}

#[tokio::test]
async fn question_asked_again_is_asked_with_the_same_seal() -> Result<()> {
    async fn twice(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.elicit::<Sure>("Sure?").await?.accepted()?;
        ctx.elicit::<Sure>("Really?").await?.accepted()?;
        Ok("so be it".into())
    }
    let seal = seal().with_single_use(true);
    let twice = Tool::new("twice", "Asks twice", twice);
    let server = replica(seal, &World::default()).with_backend(memory()).tool(twice).build()?;
    let first = state(&server, "twice", json!({})).await?;
    let second = call(&server, answer("twice", json!({}), &first, true)).await?;
    let again = call(&server, answer("twice", json!({}), &first, true)).await?;
    assert_eq!(second, again);
    let mut last = answer("twice", json!({}), second["requestState"].as_str().unwrap(), true);
    last["inputResponses"] = json!({"sure#2": {"action": "accept", "content": {"sure": true}}});
    assert_eq!(text(&call(&server, last).await?), "so be it");
    Ok(())
}

#[tokio::test]
async fn seal_whose_user_died_can_be_used_by_another() -> Result<()> {
    let backend = memory();
    let world = World { stuck: true, ..World::default() };
    let single = || seal().with_single_use(true);
    let dies = replica(single(), &world).with_backend(backend.clone()).build()?;
    let state = state(&dies, "charge_anyway", json!({})).await?;
    let params = answer("charge_anyway", json!({}), &state, true);
    let last_words = tokio::spawn(async move { call(&dies, params).await });
    world.begun.notified().await;
    last_words.abort();
    let _ = last_words.await;
    let lives = replica(single(), &World { stuck: false, ..world.clone() }).with_backend(backend).build()?;
    let reply = call(&lives, answer("charge_anyway", json!({}), &state, true)).await?;
    assert_eq!(text(&reply), "receipt 2");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_is_removed_and_what_hangs_on_it_too() -> Result<()> {
    let backend = memory();
    let server =
        replica(seal().with_single_use(true), &World::default()).with_backend(backend.clone()).build()?;
    let arguments = json!({"bytes": 700_000});
    let large = state(&server, "large", arguments.clone()).await?;
    call(&server, answer("large", arguments, &large, true)).await?;
    let charged = state(&server, "charge", json!({})).await?;
    call(&server, answer("charge", json!({}), &charged, true)).await?;
    let mut kinds: Vec<_> = backend.store.list("", None, 100).await?.items;
    kinds.retain(|record| !record.key.starts_with("pieces/"));
    assert_eq!(kinds.len(), 3, "two seals and a step: {kinds:?}");
    // An hour for a seal, and a minute each way for clocks that are apart.
    tokio::time::sleep(Duration::from_secs(2 * 60 * 60)).await;
    assert!(backend.store.list("", None, 100).await?.items.is_empty());
    assert!(backend.store.claim_expired("", Duration::from_secs(1), 100).await?.is_empty());
    Ok(())
}
