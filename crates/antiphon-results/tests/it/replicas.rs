//! Several servers over one store.

use std::time::Duration;

use antiphon_results::{
    Access, CreateOptions, DualResponse, DualResponseError, DualResponseServer, PageOptions, SharedStore,
    Source,
};
use antiphon_store::{Backend, Error as StoreError, QueueConfig, conformance::service};
use chrono::TimeDelta;

use crate::support::{Clock, institutions, options};

/// Three servers that share a backend and a clock.
async fn fleet(url: &str, clock: &Clock) -> Option<Vec<DualResponseServer>> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).unwrap();
    let space = format!("fleet{:016x}", u64::from_ne_bytes(random));
    let url = service(url)?;
    let mut servers = Vec::new();
    for _ in 0..3 {
        let backend = Backend::connect(&url, &space, QueueConfig::default()).await.unwrap();
        servers.push(DualResponseServer::new(options(clock).with_store(SharedStore::new(backend))).unwrap());
    }
    Some(servers)
}

async fn make(server: &DualResponseServer, life: Duration) -> DualResponse {
    let options = CreateOptions::new("Institutions", Source::rows(institutions(20))).with_expiration(life);
    server.create_response(options).await.unwrap()
}

/// What expired is removed once and nothing else, whoever looks.
async fn clean_up_is_done_once(url: &str) {
    let clock = Clock::new();
    let Some(servers) = fleet(url, &clock).await else { return };
    // The alarm of each set runs by the store's clock, so these are short; the set's own end is by ours.
    // On a busy machine, a set must still exist when the test pins it.
    let (short, long) = (Duration::from_secs(3), Duration::from_secs(3600));
    let mut expiring = Vec::new();
    let mut pinned = Vec::new();
    let mut staying = Vec::new();
    for at in 0..60 {
        let server = &servers[at % 3];
        expiring.push(make(server, short).await.resource_id);
        if at % 3 == 0 {
            let id = make(server, short).await.resource_id;
            assert!(servers[(at + 1) % 3].pin_resource(&id).await.unwrap());
            pinned.push(id);
            staying.push(make(server, long).await.resource_id);
        }
    }
    clock.turn(TimeDelta::milliseconds(3001));
    let mut removed = 0;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while removed < expiring.len() as u64 && tokio::time::Instant::now() < deadline {
        let (a, b, c) = tokio::join!(servers[0].clean_up(), servers[1].clean_up(), servers[2].clean_up());
        removed += a.unwrap() + b.unwrap() + c.unwrap();
    }
    assert_eq!(removed, expiring.len() as u64);
    tokio::time::sleep(short).await;
    for server in &servers {
        assert_eq!(server.clean_up().await.unwrap(), 0);
    }
    for id in &expiring {
        let error = servers[0].describe(id, &Access::Program).await.unwrap_err();
        assert_eq!(error.code().as_str(), "RESOURCE_EXPIRED");
    }
    for id in pinned.iter().chain(&staying) {
        let page = servers[2].page(id, &Access::Program, PageOptions::default()).await.unwrap();
        assert_eq!(page.rows.len(), 20);
    }
}

/// Ten thousand at once through three servers.
async fn accesses_are_counted_exactly(url: &str) {
    let clock = Clock::new();
    let Some(servers) = fleet(url, &clock).await else { return };
    let id = make(&servers[0], Duration::from_secs(3600)).await.resource_id;

    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..10_000_usize {
        let (server, id) = (servers[at % 3].clone(), id.clone());
        tasks.spawn(async move {
            // A rejected request is sent again, also if the store had no connection for it.
            loop {
                match server.page(&id, &Access::Program, PageOptions::new(0, 1)).await {
                    Err(DualResponseError::Busy { .. }) => {}
                    Err(DualResponseError::Storage(cause))
                        if matches!(cause.downcast_ref(), Some(StoreError::Busy { .. })) => {}
                    other => return other.map(drop),
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    let resource = servers[1].get_resource(&id).await.unwrap().unwrap();
    assert_eq!(resource.access_count, 10_000);
}

const POSTGRES: &str = "ANTIPHON_TEST_POSTGRES_URL";
const REDIS: &str = "ANTIPHON_TEST_REDIS_URL";
const NATS: &str = "ANTIPHON_TEST_NATS_URL";

#[tokio::test]
async fn clean_up_is_done_once_over_postgres() {
    clean_up_is_done_once(POSTGRES).await;
}

#[tokio::test]
async fn clean_up_is_done_once_over_redis() {
    clean_up_is_done_once(REDIS).await;
}

#[tokio::test]
async fn clean_up_is_done_once_over_nats() {
    clean_up_is_done_once(NATS).await;
}

#[tokio::test]
async fn ten_thousand_accesses_are_counted_exactly_over_postgres() {
    accesses_are_counted_exactly(POSTGRES).await;
}

#[tokio::test]
async fn ten_thousand_accesses_are_counted_exactly_over_redis() {
    accesses_are_counted_exactly(REDIS).await;
}
