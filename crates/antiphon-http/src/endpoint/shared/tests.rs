//! Tests of session parts with a store that fails at critical points.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use antiphon_store::{Cursor, Error, Memory, Page, QueueConfig, Record, Result, Revision};
use async_trait::async_trait;
use bytes::Bytes;
use rmcp::{
    model::{ClientJsonRpcMessage, ClientResult, CustomResult, InitializeRequestParams, RequestId},
    transport::streamable_http_server::session::SessionStore as _,
};
use serde_json::json;
use tokio::time::timeout;

use super::super::{Application, HttpConfig};
use super::{
    ids::{LocalSessionId, Numbered},
    log::{Head, Log},
    record::{SessionRecord, SessionStorage, session_name},
    stream::{EventStream, Followed},
    *,
};

/// An in-memory store that fails the first `fails` reads of pieces.
#[derive(Debug)]
struct Failing {
    store: Arc<dyn Store>,
    fails: AtomicU32,
}

#[async_trait]
impl Store for Failing {
    async fn get(&self, key: &str) -> Result<Option<Record>> {
        let fails = |left: u32| left.checked_sub(1);
        if key.starts_with("pieces/")
            && self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok()
        {
            return Err(Error::backend("get", std::io::Error::other("the primary is gone")));
        }
        self.store.get(key).await
    }

    async fn create(&self, key: &str, value: Bytes, ttl: Option<Duration>) -> Result<Revision> {
        self.store.create(key, value, ttl).await
    }

    async fn update(
        &self,
        key: &str,
        value: Bytes,
        ttl: Option<Duration>,
        revision: Revision,
    ) -> Result<Revision> {
        self.store.update(key, value, ttl, revision).await
    }

    async fn delete(&self, key: &str, revision: Revision) -> Result<()> {
        self.store.delete(key, revision).await
    }

    async fn list(&self, prefix: &str, after: Option<&Cursor>, limit: usize) -> Result<Page<Record>> {
        self.store.list(prefix, after, limit).await
    }

    async fn claim_expired(&self, prefix: &str, lease: Duration, limit: usize) -> Result<Vec<Record>> {
        self.store.claim_expired(prefix, lease, limit).await
    }

    async fn append(&self, log: &str, at: u64, entries: Vec<Bytes>) -> Result<u64> {
        self.store.append(log, at, entries).await
    }

    async fn read(&self, log: &str, from: u64, limit: usize) -> Result<Vec<Bytes>> {
        self.store.read(log, from, limit).await
    }

    async fn delete_log(&self, log: &str) -> Result<()> {
        self.store.delete_log(log).await
    }
}

fn replicas(fails: u32) -> Arc<Replicas> {
    let mut backend = Memory::default().backend(QueueConfig::default());
    backend.store = Arc::new(Failing { store: backend.store, fails: AtomicU32::new(fails) });
    Replicas::new(&backend, &Drain::new(CancellationToken::new()), CancellationToken::new())
}

fn asked(replicas: &Replicas) -> Numbered {
    Numbered { part: LocalSessionId { replica: replicas.id.clone(), number: 0 }, number: 7 }
}

#[tokio::test]
async fn stream_reads_an_event_again_that_the_store_failed_to_give() {
    let replicas = replicas(1);
    let request = asked(&replicas);
    let place =
        Arc::new(SessionStorage::new(Arc::clone(&replicas), "session".into(), Duration::from_secs(60)));
    let log = Log::new(Arc::clone(&place), 0);
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"text": "x".repeat(300 * 1024)}});
    log.append(Head::of(request.to_string()), answer.to_string().into()).await.unwrap();
    let (sender, mut sent) = tokio::sync::mpsc::channel(4);
    let mut tail = EventStream::new(place, Followed::Request(request), sender);
    assert!(tail.read_on().await.is_err(), "the store fails once");
    assert!(sent.try_recv().is_err());
    tail.read_on().await.unwrap();
    let event = sent.try_recv().expect("the answer is not skipped");
    assert_eq!(serde_json::to_value(event.message).unwrap(), answer);
    assert!(sent.try_recv().is_err(), "it is sent once");
}

#[tokio::test]
async fn answer_whose_pieces_cannot_be_read_stays_until_they_can() {
    let replicas = replicas(1);
    let asked = asked(&replicas);
    let result = ClientResult::CustomResult(CustomResult::new(json!({"text": "x".repeat(300 * 1024)})));
    let answer = ClientJsonRpcMessage::response(result, RequestId::String(asked.to_string().into()));
    replicas.forward("session", &asked, &answer).await.unwrap();
    let letters = async || replicas.store.list("answers/", None, 10).await.unwrap().items;
    let key = letters().await[0].key.clone();
    assert!(replicas.deliver(&key).await.is_err(), "the store fails once");
    assert_eq!(letters().await.len(), 1, "the answer is not lost");
    // The answer is delivered twice concurrently. One call delivers the answer, and the other call returns no error.
    let (one, other) = tokio::join!(replicas.deliver(&key), replicas.deliver(&key));
    assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
    assert!(letters().await.is_empty());
    assert!(replicas.store.list("pieces/", None, 10).await.unwrap().items.is_empty());
}

struct Plain(Drain);

impl Application for Plain {
    fn drain(&self) -> &Drain {
        &self.0
    }
}

fn sessions() -> Arc<Sessions> {
    let backend = Memory::default().backend(QueueConfig::default());
    let drain = Drain::new(CancellationToken::new());
    let replicas = Replicas::new(&backend, &drain, CancellationToken::new());
    Sessions::new(Arc::new(Plain(drain)), &replicas, &HttpConfig::default())
}

#[tokio::test]
async fn session_that_is_being_restored_holds_up_no_other() {
    let sessions = sessions();
    let first = sessions.restoring("slow").await.expect("it is the first");
    for other in 0..200 {
        let other = other.to_string();
        let turn = timeout(Duration::from_secs(1), sessions.restoring(&other)).await;
        assert!(turn.expect("no other session waits").is_some());
    }
    assert!(timeout(Duration::from_millis(20), sessions.restoring("slow")).await.is_err());
    drop(first);
    assert!(sessions.restoring("slow").await.is_some());
    assert_eq!(sessions.restorations(), 0, "nothing is left of a turn");
}

#[tokio::test(start_paused = true)]
async fn record_that_was_read_for_a_client_that_hung_up_is_forgotten() {
    let sessions = sessions();
    let record = SessionRecord {
        params: InitializeRequestParams::default(),
        caller: None,
        level: None,
        subscriptions: std::collections::BTreeMap::new(),
        elicitations: antiphon_transport::session::Elicitations::new(),
        groups: std::collections::BTreeSet::new(),
        heard: false,
        segment: 0,
    };
    for id in ["first", "second"] {
        sessions.place(session_name(id)).create(&record).await.unwrap();
    }
    assert!(sessions.load("first").await.unwrap().is_some());
    tokio::time::advance(Duration::from_secs(11)).await;
    assert!(sessions.load("second").await.unwrap().is_some());
    assert_eq!(lock(&sessions.read).len(), 1);
}
