//! `Retrying` finds out what became of writes whose answers were lost; `Flaky` loses them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use antiphon_store::{
    Bus, Depth, Error, Memory, MemoryStore, NewJob, Pushed, Queue, QueueConfig, Result, Retrying,
    RetryingConfig, Revision, Store, Subscription,
    flaky::{Flaky, FlakyConfig},
};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;

const SEEDS: u64 = 1000;

/// Of a thousand calls, so many are refused, lost, and made but not reported.
fn faults(seed: u64, [refused, lost, unreported]: [u64; 3]) -> FlakyConfig {
    FlakyConfig::seeded(seed).with_refused(refused).with_lost(lost).with_unreported(unreported)
}

/// A connection that loses answers, and whoever makes up for it.
type Connection = Retrying<Flaky<MemoryStore>>;

fn retrying(store: &MemoryStore, config: FlakyConfig) -> Connection {
    // So few that some writes stay uncertain.
    let attempts = RetryingConfig::default().with_attempts(8);
    Retrying::new(Arc::new(Flaky::new(Arc::new(store.clone()), config))).with_config(attempts)
}

/// What `retrying` writes, read without faults.
fn plain(store: &MemoryStore) -> Retrying<MemoryStore> {
    Retrying::new(Arc::new(store.clone()))
}

async fn value(store: &MemoryStore, key: &str) -> Option<Bytes> {
    plain(store).get(key).await.expect("memory does not fail").map(|record| record.value)
}

/// Faults of this kind that the first call meets, and none of the next five.
async fn once(rates: [u64; 3]) -> FlakyConfig {
    for seed in 0.. {
        let config = faults(seed, rates);
        let flaky = Flaky::new(Arc::new(MemoryStore::default()), config.clone());
        let mut failed = Vec::new();
        for _ in 0..6 {
            failed.push(flaky.get("key").await.is_err());
        }
        if failed == [true, false, false, false, false, false] {
            return config;
        }
    }
    unreachable!("some seed is like that")
}

const LOST: [u64; 3] = [0, 300, 0];
const UNREPORTED: [u64; 3] = [0, 0, 300];
const ALL: [u64; 3] = [200, 200, 300];

#[tokio::test(start_paused = true)]
async fn write_is_reported_made_once_though_its_first_answer_was_lost() {
    for rates in [LOST, UNREPORTED] {
        let store = MemoryStore::default();
        let create = retrying(&store, once(rates).await).create("key", "one".into(), None).await.unwrap();
        assert_eq!(store.get("key").await.unwrap().unwrap().revision, create);

        let update =
            retrying(&store, once(rates).await).update("key", "two".into(), None, create).await.unwrap();
        assert_eq!(store.get("key").await.unwrap().unwrap().revision, update);
        assert_eq!(value(&store, "key").await, Some("two".into()));

        let entries = vec![Bytes::from("a"), Bytes::from("b")];
        assert_eq!(retrying(&store, once(rates).await).append("log", 0, entries.clone()).await.unwrap(), 2);
        assert_eq!(plain(&store).read("log", 0, 10).await.unwrap(), entries);

        retrying(&store, once(rates).await).delete("key", update).await.unwrap();
        assert_eq!(store.get("key").await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn outcome_that_another_writer_hides_stays_uncertain() {
    let store = MemoryStore::default();
    let first = plain(&store).create("key", "theirs".into(), None).await.unwrap();
    let created = retrying(&store, once(LOST).await).create("key", "ours".into(), None).await;
    assert!(matches!(created, Err(Error::Backend { .. })), "{created:?}");

    plain(&store).update("key", "theirs again".into(), None, first).await.unwrap();
    let updated = retrying(&store, once(LOST).await).update("key", "ours".into(), None, first).await;
    assert!(matches!(updated, Err(Error::Backend { .. })), "{updated:?}");
    assert_eq!(value(&store, "key").await, Some("theirs again".into()));
}

#[tokio::test(start_paused = true)]
async fn lost_place_in_a_log_is_known_to_be_lost() {
    let store = MemoryStore::default();
    plain(&store).append("log", 0, vec!["theirs".into()]).await.unwrap();
    let appended = retrying(&store, once(LOST).await).append("log", 0, vec!["ours".into()]).await;
    assert!(matches!(appended, Err(Error::LogConflict { found: 1, .. })), "{appended:?}");
}

#[tokio::test(start_paused = true)]
async fn deletion_is_not_reported_while_the_record_is_there() {
    for seed in 0..SEEDS {
        let store = MemoryStore::default();
        let revision = store.create("key", "x".into(), None).await.unwrap();
        let deleted = retrying(&store, faults(seed, ALL)).delete("key", revision).await;
        let there = store.get("key").await.unwrap().is_some();
        match deleted {
            Ok(()) => assert!(!there, "seed {seed}: it was said to be deleted"),
            Err(Error::Backend { .. }) => {}
            Err(error) => assert!(there, "seed {seed}: it was deleted, and {error:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn job_is_pushed_and_acknowledged_once_though_the_first_answers_were_lost() {
    for rates in [LOST, UNREPORTED] {
        let queue = Arc::new(Memory::default().queue(QueueConfig::default()));
        let flaky = async || Retrying::new(Arc::new(Flaky::new(Arc::clone(&queue), once(rates).await)));
        assert_eq!(flaky().await.push("work", NewJob::new("a", "x")).await.unwrap(), Pushed::Added);
        let job = queue.lease("work", 10, Duration::ZERO).await.unwrap().pop().unwrap();
        flaky().await.ack(&job.lease).await.unwrap();
        assert_eq!(queue.depth("work").await.unwrap(), Depth::default());
        // Without a lost answer, a lost lease is one.
        let again = Retrying::new(Arc::clone(&queue)).ack(&job.lease).await;
        assert!(matches!(again, Err(Error::LeaseLost { .. })), "{again:?}");
    }
}

/// Two writers who want one place, each over a connection of its own that fails in most calls; and what
/// became of it. `write` makes the write of one, `kept` says whose is there.
async fn race(
    write: impl AsyncFn(Connection, &'static str) -> Result<()>,
    kept: impl AsyncFn(&MemoryStore) -> Option<Bytes>,
) {
    let (mut won, mut unsettled) = (0, 0);
    for seed in 0..SEEDS {
        let store = MemoryStore::default();
        plain(&store).create("key", "before".into(), None).await.expect("memory does not fail");
        let one = write(retrying(&store, faults(2 * seed, ALL)), "one");
        let two = write(retrying(&store, faults(2 * seed + 1, ALL)), "two");
        let (one, two) = tokio::join!(one, two);
        let kept = kept(&store).await;
        for (who, ended) in [("one", &one), ("two", &two)] {
            let is_there = kept == Some(who.into());
            match ended {
                Ok(()) => assert!(is_there, "seed {seed}: `{who}` was told that it won"),
                Err(Error::Backend { .. }) => unsettled += 1,
                Err(error) => assert!(!is_there, "seed {seed}: `{who}` won, and was told: {error:?}"),
            }
            won += u64::from(ended.is_ok());
        }
        assert!(one.is_err() || two.is_err(), "seed {seed}: both won");
    }
    assert!(won > SEEDS / 2, "{won} of {SEEDS} races had a winner who knew");
    assert!(unsettled > 0, "with such faults somebody must be left in the dark");
}

#[tokio::test(start_paused = true)]
async fn racing_creators_never_both_win() {
    let write =
        async |store: Connection, who: &'static str| store.create("race", who.into(), None).await.map(drop);
    race(write, async |store| value(store, "race").await).await;
}

#[tokio::test(start_paused = true)]
async fn racing_updaters_never_both_win() {
    // Both have read the first revision.
    let at = Revision(1);
    let write = async |store: Connection, who: &'static str| {
        store.update("key", who.into(), None, at).await.map(drop)
    };
    race(write, async |store| value(store, "key").await).await;
}

#[tokio::test(start_paused = true)]
async fn racing_appenders_never_both_win() {
    let write =
        async |store: Connection, who: &'static str| store.append("log", 0, vec![who.into()]).await.map(drop);
    race(write, async |store| {
        let entries = plain(store).read("log", 0, 10).await.unwrap();
        assert!(entries.len() <= 1, "{entries:?}");
        entries.into_iter().next()
    })
    .await;
}

/// A bus that is never there, and counts who asks.
#[derive(Debug, Default)]
struct Away(AtomicU32);

#[async_trait]
impl Bus for Away {
    async fn publish(&self, _topic: &str, _event: Bytes) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(Error::backend("a bus", "it is away"))
    }

    async fn subscribe(&self, _topic: &str) -> Result<Subscription> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(Error::Busy { backend: "a bus", source: None })
    }
}

#[tokio::test(start_paused = true)]
async fn call_outlasts_a_failover_and_ends_when_its_patience_is_over() {
    let away = Arc::new(Away::default());
    let began = Instant::now();
    let published = Retrying::new(Arc::clone(&away)).publish("topic", Bytes::new()).await;
    assert!(published.is_err());
    let waited = began.elapsed();
    assert!((27..=30).contains(&waited.as_secs()), "by default it waits for {waited:?}");

    let memory = Memory::default();
    let mut backend = memory.backend(QueueConfig::default()).with_patience(Duration::from_secs(3));
    backend.bus = away;
    let began = Instant::now();
    assert!(backend.retrying().bus.publish("topic", Bytes::new()).await.is_err());
    assert!(began.elapsed() <= Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn call_is_made_a_bounded_number_of_times_in_bounded_time() {
    let away = Arc::new(Away::default());
    let config = RetryingConfig::default().with_attempts(6).with_max_pause(Duration::from_millis(40));
    let retrying = Retrying::new(Arc::clone(&away)).with_config(config);
    let began = Instant::now();
    let published = retrying.publish("topic", Bytes::new()).await;
    assert!(matches!(published, Err(Error::Backend { .. })), "{published:?}");
    assert_eq!(away.0.load(Ordering::Relaxed), 6);
    // 10, 20, and then 40 three times; a random part, up to half, is taken off.
    let waited = began.elapsed();
    assert!((75..=155).contains(&waited.as_millis()), "{waited:?}");

    let subscribed = retrying.subscribe("topic").await;
    assert!(matches!(subscribed, Err(Error::Busy { .. })), "{subscribed:?}");
    assert_eq!(away.0.load(Ordering::Relaxed), 12);
}

#[tokio::test(start_paused = true)]
async fn refusal_is_not_made_again() {
    let away = Arc::new(MemoryStore::default());
    let retrying = Retrying::new(away);
    let began = Instant::now();
    let refused = retrying.get("not a name").await;
    assert!(matches!(refused, Err(Error::BadName { .. })), "{refused:?}");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// What a thousand calls meet, and when.
async fn fate(seed: u64) -> Vec<(String, Duration)> {
    let began = Instant::now();
    let flaky = Flaky::new(Arc::new(MemoryStore::default()), faults(seed, ALL));
    let mut fate = Vec::new();
    for call in 0..1000 {
        let created = flaky.create(&format!("key/{call}"), Bytes::new(), None).await;
        fate.push((format!("{created:?}"), began.elapsed()));
    }
    fate
}

#[tokio::test(start_paused = true)]
async fn same_seed_gives_the_same_faults() {
    assert_eq!(fate(7).await, fate(7).await);
    assert_ne!(fate(7).await, fate(8).await);
}

#[tokio::test(start_paused = true)]
async fn each_fault_does_what_it_says() {
    let store = MemoryStore::default();
    let flaky = |rates| Flaky::new(Arc::new(store.clone()), faults(0, rates));
    let refused = flaky([1000, 0, 0]).create("refused", Bytes::new(), None).await;
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    let lost = flaky([0, 1000, 0]).create("lost", Bytes::new(), None).await;
    assert!(matches!(lost, Err(Error::Backend { .. })), "{lost:?}");
    let unreported = flaky([0, 0, 1000]).create("unreported", Bytes::new(), None).await;
    assert!(matches!(unreported, Err(Error::Backend { .. })), "{unreported:?}");
    let keys: Vec<_> =
        store.list("", None, 10).await.unwrap().items.into_iter().map(|record| record.key).collect();
    assert_eq!(keys, ["unreported"]);
}
