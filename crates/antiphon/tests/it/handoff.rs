//! Tools in three parts: `before` and `after` run once, `client` is replayed.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use antiphon::{
    Error, ErrorKind, ServerBuilder,
    prelude::*,
    seal::{KeyRing, SealConfig},
    task::TaskPolicy,
    testing::{Answers, Replicas, Revision},
    tool::handoff,
};
use antiphon_store::{Memory, QueueConfig};
use serde_json::{Value, json};

use crate::{
    checked::connect,
    tasks::{accept, answer, begin, client, get, quick, until},
};

/// How often each part ran.
#[derive(Clone, Default)]
struct Counts(Arc<[AtomicU32; 3]>);

impl Counts {
    fn up(&self, at: usize) -> u32 {
        self.0[at].fetch_add(1, Ordering::SeqCst)
    }

    fn get(&self) -> [u32; 3] {
        [0, 1, 2].map(|at| self.0[at].load(Ordering::SeqCst))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Bid {
    bid: u32,
}

/// What `before` makes: not `Clone`, and nothing but data.
#[derive(Serialize, Deserialize)]
struct Lot {
    number: u32,
    name: String,
}

/// Sells `name` to whoever bids most of two.
async fn sell(ctx: &Ctx, name: &str) -> Result<String> {
    let counts = ctx.state::<Counts>()?;
    handoff(
        ctx,
        || async { Ok(Lot { number: counts.up(0), name: name.to_owned() }) },
        async |ctx, lot| {
            counts.up(1);
            let first = ctx.elicit::<Bid>(format!("First bid for {}?", lot.name)).await?.accepted()?.bid;
            let second = ctx.elicit::<Bid>(format!("Second bid for {}?", lot.name)).await?.accepted()?.bid;
            Ok(first.max(second))
        },
        |lot: Lot, price| async move {
            counts.up(2);
            Ok(format!("{} {} for {price}", lot.number, lot.name))
        },
    )
    .await
}

async fn auction(ctx: &Ctx, _: ()) -> Result<String> {
    sell(ctx, "chair").await
}

fn server(tool: Tool, counts: &Counts) -> ServerBuilder {
    Server::builder("auctions", "1.0.0").tool(tool).with_state(counts.clone())
}

fn bids() -> Answers {
    Answers::new().accept("bid", json!({"bid": 3})).accept("bid", json!({"bid": 5}))
}

#[tokio::test]
async fn before_and_after_run_once_and_client_once_a_round() -> Result<()> {
    for (revision, rounds) in [(Revision::V2025_11_25, 1), (Revision::V2026_07_28, 3)] {
        let counts = Counts::default();
        let server = server(Tool::new("auction", "Sells a chair", auction), &counts).build()?;
        let mut client = connect(&server, revision).await?.answering(bids());
        assert_eq!(client.call("auction", json!({})).await?.text(), "0 chair for 5");
        assert_eq!(counts.get(), [1, rounds, 1], "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_fresh_replica_at_every_question_prepares_and_concludes_nothing_again() -> Result<()> {
    let counts = Counts::default();
    let seen = counts.clone();
    let replicas =
        Replicas::new(move || server(Tool::new("auction", "Sells a chair", auction), &seen)).schedules(1);
    let report = replicas.run("auction", json!({}), bids).await?;
    assert_eq!(report.result["content"][0]["text"], "0 chair for 5");
    assert_eq!((report.replicas, counts.get()), (3, [1, 3, 1]));
    Ok(())
}

/// Answers the question a task has, whatever its key.
async fn bid(client: &mut crate::checked::Checked, id: &str, bid: u32, of: &str) {
    let task = asked(client, id, of).await;
    let key = task["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    answer(client, id, json!({key: accept(json!({"bid": bid}))})).await;
}

async fn asked(client: &mut crate::checked::Checked, id: &str, of: &str) -> Value {
    for _ in 0..1000 {
        let task = until(client, id, "input_required").await;
        let mut requests = task["inputRequests"].as_object().unwrap().values();
        if requests.any(|request| request["params"]["message"].as_str().unwrap().starts_with(of)) {
            return task;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("`{of}` was never asked: {}", get(client, id).await);
}

#[tokio::test]
async fn a_task_whose_worker_is_replaced_between_two_questions_runs_each_end_once() {
    let counts = Counts::default();
    let (backend, keys) = (Memory::default().backend(QueueConfig::default()), KeyRing::random());
    let replica = |workers| {
        let tool = Tool::new("auction", "Sells a chair", auction).with_tasks(TaskPolicy::Always);
        server(tool, &counts)
            .with_backend(backend.clone())
            .with_seal(SealConfig::default().with_keys(keys.clone()))
            .with_tasks(quick().with_workers(workers))
            .build()
            .unwrap()
    };
    let everything = crate::tasks::everything();
    let front = replica(0);
    let mut front =
        crate::checked::connect_with(&front, Revision::V2026_07_28, everything.clone()).await.unwrap();
    let id = begin(&mut front, "auction", json!({})).await;
    for (question, price) in [("First", 3), ("Second", 5)] {
        let worker = replica(1);
        let _works = client(&worker).await;
        asked(&mut front, &id, question).await;
        // Nobody is there when the answer comes.
        worker.shut_down();
        worker.run_workers(std::future::ready(())).await;
        bid(&mut front, &id, price, question).await;
    }
    assert_eq!(counts.get(), [1, 2, 0]);
    let worker = replica(1);
    let _works = client(&worker).await;
    let task = until(&mut front, &id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "0 chair for 5");
    assert_eq!(counts.get(), [1, 3, 1]);
}

async fn one_after_the_other(ctx: &Ctx, _: ()) -> Result<String> {
    // Names of the tool's own are in nobody's way.
    let before: u32 = ctx.step("before", || async { Ok(7) }).await?;
    let (chair, table) = (sell(ctx, "chair").await?, sell(ctx, "table").await?);
    let after: u32 = ctx.step("after", || async { Ok(9) }).await?;
    Ok(format!("{before}; {chair}; {table}; {after}"))
}

#[tokio::test]
async fn two_handoffs_in_a_tool_do_not_take_each_others_place() -> Result<()> {
    let tool = || Tool::new("both", "Sells two things", one_after_the_other);
    for revision in Revision::BOTH {
        let counts = Counts::default();
        let prices = [3, 5, 8, 2]
            .into_iter()
            .fold(Answers::new(), |answers, bid| answers.accept("bid", json!({"bid": bid})));
        let mut client = connect(&server(tool(), &counts).build()?, revision).await?.answering(prices);
        let said = client.call("both", json!({})).await?.text();
        assert_eq!(said, "7; 0 chair for 5; 1 table for 8; 9");
        assert_eq!((counts.get()[0], counts.get()[2]), (2, 2));
    }
    Ok(())
}

async fn at_once(ctx: &Ctx, _: ()) -> Result<String> {
    let (chair, table) = tokio::join!(sell(ctx, "chair"), sell(ctx, "table"));
    Ok(format!("{}; {}", chair?, table?))
}

/// The second ends long before the first, and each keeps what is its own.
#[tokio::test]
async fn handoffs_at_once_conclude_in_any_order() -> Result<()> {
    let counts = Counts::default();
    let server = server(Tool::new("both", "Sells two things", at_once), &counts).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let mut call = json!({"name": "both", "arguments": {}});
    for (of, price, concluded) in [("table", 8, 0), ("table", 2, 0), ("chair", 3, 1), ("chair", 1, 1)] {
        let reply = client.request("tools/call", call.clone()).await?;
        assert_eq!(counts.get()[2], concluded, "{reply}");
        let about = |request: &Value| request["params"]["message"].as_str().unwrap().contains(of);
        let requests = reply["inputRequests"].as_object().unwrap();
        let (key, _) = requests.iter().find(|(_, request)| about(request)).unwrap();
        call["requestState"] = reply["requestState"].clone();
        call["inputResponses"] = json!({key: accept(json!({"bid": price}))});
    }
    let reply = client.request("tools/call", call).await?;
    // Which was prepared first is nobody's promise.
    let sold = reply["content"][0]["text"].as_str().unwrap();
    assert!(["0 chair for 3; 1 table for 8", "1 chair for 3; 0 table for 8"].contains(&sold), "{reply}");
    let [before, _, after] = counts.get();
    assert_eq!((before, after), (2, 2));
    Ok(())
}

async fn nested(ctx: &Ctx, _: ()) -> Result<String> {
    handoff(
        ctx,
        || async { Ok("house".to_owned()) },
        async |ctx, house| sell(ctx, &format!("chair of the {house}")).await,
        |house: String, sold| async move { Ok(format!("{house}: {sold}")) },
    )
    .await
}

#[tokio::test]
async fn a_handoff_may_be_part_of_another() -> Result<()> {
    let counts = Counts::default();
    let seen = counts.clone();
    let replicas = Replicas::new(move || server(Tool::new("nested", "Sells", nested), &seen)).schedules(1);
    let report = replicas.run("nested", json!({}), bids).await?;
    assert_eq!(report.result["content"][0]["text"], "house: 0 chair of the house for 5");
    assert_eq!(counts.get(), [1, 3, 1]);
    Ok(())
}

async fn bounded(ctx: &Ctx, _: ()) -> Result<String> {
    let counts = ctx.state::<Counts>()?;
    let sold = handoff(
        ctx,
        || async { Ok(counts.up(0)) },
        async |ctx, _| {
            ctx.elicit::<Bid>("First?").await?.accepted()?;
            Ok(ctx.elicit::<Bid>("Second?").await?.accepted()?.bid)
        },
        |_: u32, bid| async move {
            counts.up(2);
            Ok(bid)
        },
    );
    match sold.max_asks(1).await {
        Err(error) if matches!(error.kind(), ErrorKind::Limit(_)) => Ok("asked too much".into()),
        sold => Ok(sold?.to_string()),
    }
}

#[tokio::test]
async fn a_handoff_is_bounded_as_one() -> Result<()> {
    for revision in Revision::BOTH {
        let counts = Counts::default();
        let server = server(Tool::new("bounded", "Asks once", bounded), &counts).build()?;
        let mut client = connect(&server, revision).await?.answering(bids());
        assert_eq!(client.call("bounded", json!({})).await?.text(), "asked too much");
        assert_eq!((counts.get()[0], counts.get()[2]), (1, 0), "what was not agreed on is not concluded");
    }
    Ok(())
}

async fn unprepared(ctx: &Ctx, _: ()) -> Result<String> {
    let counts = ctx.state::<Counts>()?;
    handoff(
        ctx,
        || async { Err::<u32, _>(Error::tool("no chairs left").terminal()) },
        async |_, _| Ok(counts.up(1)),
        |_: u32, _: u32| async { Ok(counts.up(2).to_string()) },
    )
    .await
}

#[tokio::test]
async fn where_nothing_was_prepared_nobody_is_asked() -> Result<()> {
    for revision in Revision::BOTH {
        let counts = Counts::default();
        let server = server(Tool::new("auction", "Has nothing", unprepared), &counts).build()?;
        let talk = connect(&server, revision).await?.call("auction", json!({})).await?;
        assert_eq!((talk.is_error(), talk.text().as_str()), (true, "no chairs left"));
        assert_eq!(counts.get(), [0, 0, 0]);
    }
    Ok(())
}
