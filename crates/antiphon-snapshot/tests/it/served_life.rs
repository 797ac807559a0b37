//! How sets of saved rows end: deleted, expired, given up; and how much of a server one tenant may take.

use std::time::Duration;

use antiphon_results::{
    Access, CreateOptions, DualResponseError, Owner, PageOptions, ResultLimits,
    snapshot::{Phase, SnapshotId, SnapshotState, SnapshotStore as _, SnapshotWriteOptions},
    store::{MemoryStore, Origin, Resource, ResourceStore},
};
use antiphon_snapshot::{Batches, Snapshots};
use chrono::Utc;
use futures_util::{StreamExt as _, stream};
use serde_json::json;

use crate::served::{House, batch, numbers, quick, schema, sent};

#[tokio::test]
async fn a_set_that_is_deleted_or_expires_takes_its_rows_with_it() {
    let snapshots = Snapshots::open("memory:").unwrap();
    let house = House::with(&snapshots, |options| options).await;
    let (deleted, expired) = (house.numbers(100).await, house.numbers(100).await);
    assert!(snapshots.usage(None).await.unwrap() > 0);
    assert!(house.server.delete_resource(&deleted).await.unwrap());
    let id = SnapshotId::new(&Owner::nobody(), &deleted);
    assert!(matches!(snapshots.manifest(&id).await, Err(DualResponseError::NotFound)));
    assert_eq!(house.json(&format!("{deleted}/rows")).await.0, 404);
    house.pass(16 * 60);
    let (status, body) = house.json(&format!("{expired}/export")).await;
    assert_eq!((status, &body["code"]), (404, &json!("RESOURCE_EXPIRED")));
    assert_eq!(house.server.clean_up().await.unwrap(), 1);
    assert_eq!(snapshots.usage(None).await.unwrap(), 0);
}

#[tokio::test]
async fn deleting_a_set_stops_its_being_written() {
    let snapshots = Snapshots::open("memory:").unwrap();
    let house = House::with(&snapshots, |options| options.with_limits(quick())).await;
    let (tx, source) = sent();
    tx.send(Ok(batch(0, 20))).unwrap();
    let id = house.make(source).await.resource_id;
    assert!(house.server.delete_resource(&id).await.unwrap());
    assert!(tx.is_closed(), "the source was let go of before the answer");
    assert_eq!(snapshots.usage(None).await.unwrap(), 0);
}

#[tokio::test]
async fn a_set_that_expires_under_its_writer_ends_it() {
    let snapshots = Snapshots::open("memory:").unwrap();
    let house = House::with(&snapshots, |options| options.with_limits(quick())).await;
    let (tx, source) = sent();
    tx.send(Ok(batch(0, 20))).unwrap();
    let options = CreateOptions::new("x", source).with_expiration(Duration::from_mins(1));
    house.server.create_response(options).await.unwrap();
    house.pass(61);
    tokio::time::timeout(Duration::from_secs(10), tx.closed()).await.unwrap();
}

#[tokio::test]
async fn a_server_that_shuts_down_says_why_its_sets_failed() {
    let snapshots = Snapshots::open("memory:").unwrap();
    let house = House::with(&snapshots, |options| options.with_limits(quick())).await;
    let (tx, source) = sent();
    tx.send(Ok(batch(0, 20))).unwrap();
    let id = house.make(source).await.resource_id;
    house.server.shutdown().await.unwrap();
    assert!(tx.is_closed());
    let (_, manifest) = house.json(&format!("{id}/manifest")).await;
    assert!(manifest["failure"].as_str().unwrap().contains("shut down"), "{manifest}");
    assert_eq!(snapshots.usage(None).await.unwrap(), 0);
}

/// A set whose writer died after its first word.
async fn orphaned(store: &MemoryStore) -> String {
    let mut resource = Resource::new("rs_orphan", "Orphan", Utc::now(), Duration::from_mins(10));
    resource.query = Origin::Snapshot;
    resource.snapshot = Some(SnapshotState::writing(Utc::now()));
    resource.total_count = 20;
    store.save(resource).await.unwrap()
}

#[tokio::test]
async fn a_set_whose_writer_is_silent_has_failed() {
    let store = std::sync::Arc::new(MemoryStore::new());
    let kept = std::sync::Arc::clone(&store);
    let house = House::with(&Snapshots::open("memory:").unwrap(), |options| options.with_store(kept)).await;
    let id = orphaned(&store).await;
    assert_eq!(house.json(&format!("{id}/rows")).await.0, 202);
    house.pass(61);
    let (status, body) = house.json(&format!("{id}/rows")).await;
    assert_eq!((status, &body["code"]), (502, &json!("SNAPSHOT_FAILED")));
    assert!(body["message"].as_str().unwrap().contains("does not respond"), "{body}");
    let state = store.get(&id).await.unwrap().unwrap().snapshot.unwrap();
    assert!(matches!(state.phase, Phase::Failed { .. }), "and stays so: {state:?}");
}

#[tokio::test]
async fn a_writer_that_was_given_up_and_comes_back_leaves_nothing() {
    let snapshots = Snapshots::open("memory:").unwrap();
    // It is never heard of.
    let limits = quick().with_beat(Duration::from_hours(1));
    let house = House::with(&snapshots, |options| options.with_limits(limits)).await;
    let other = Snapshots::clone(&snapshots);
    let (tx, source) = sent();
    tx.send(Ok(batch(0, 20))).unwrap();
    let id = house.make(source).await.resource_id;
    house.pass(61);
    assert_eq!(house.json(&format!("{id}/rows")).await.0, 502);
    drop(tx);
    assert_eq!(house.settled(&id).await["status"], "failed");
    assert_eq!(other.usage(None).await.unwrap(), 0);
}

#[tokio::test]
async fn a_sweep_removes_what_no_set_knows_and_nothing_else() {
    let snapshots = Snapshots::open("memory:").unwrap();
    let house = House::with(&snapshots, |options| options.with_limits(quick())).await;
    let options = CreateOptions::new("Kept", numbers(100)).with_expiration(Duration::from_hours(24));
    let kept = house.server.create_response(options).await.unwrap().resource_id;
    let stray = SnapshotId::new(&Owner::nobody().with_tenant("gone"), "rs_stray");
    let begun = async |id: &SnapshotId| {
        let row_source = Batches::new(schema(), stream::iter([Ok(batch(0, 50))])).into();
        snapshots.begin(id, row_source, SnapshotWriteOptions::sample(5)).await.unwrap()
    };
    begun(&stray).await.rest.await.unwrap();
    // The set's id in another tenant's place.
    let elsewhere = SnapshotId::new(&Owner::nobody().with_tenant("gone"), &kept);
    begun(&elsewhere).await.rest.await.unwrap();
    assert_eq!(house.server.sweep().await.unwrap(), 0, "too young");
    house.pass(2 * 60 * 60);
    // Somebody is at it.
    let (tx, source) = sent();
    tx.send(Ok(batch(0, 20))).unwrap();
    let written = house.make(source).await.resource_id;
    let mut found: Vec<_> =
        snapshots.ids(Utc::now() + chrono::TimeDelta::hours(1)).map(Result::unwrap).collect().await;
    found.sort();
    let live = [&kept, &written].map(|set| SnapshotId::new(&Owner::nobody(), set));
    let mut expected = vec![stray.clone(), elsewhere.clone(), live[0].clone(), live[1].clone()];
    expected.sort();
    assert_eq!(found, expected, "it looks at all four");
    assert_eq!(house.server.sweep().await.unwrap(), 2);
    assert!(matches!(snapshots.manifest(&stray).await, Err(DualResponseError::NotFound)));
    assert!(matches!(snapshots.manifest(&elsewhere).await, Err(DualResponseError::NotFound)));
    let (status, page) = house.json(&format!("{kept}/rows?offset=90")).await;
    assert_eq!((status, &page["total_count"], &page["returned_count"]), (200, &json!(100), &json!(10)));
    tx.send(Ok(batch(20, 5))).unwrap();
    drop(tx);
    let manifest = house.settled(&written).await;
    assert_eq!((&manifest["status"], &manifest["rows"]), (&json!("ready"), &json!(25)));
    assert_eq!(house.server.sweep().await.unwrap(), 0);
    assert_eq!(house.json(&format!("{written}/rows")).await.0, 200);
}

#[tokio::test]
async fn one_tenant_has_so_many_intakes_and_another_has_its_own() {
    let limits = quick().with_intakes_per_tenant(2);
    let house =
        House::with(&Snapshots::open("memory:").unwrap(), |options| options.with_limits(limits)).await;
    let make = async |tenant: &str| {
        let (tx, source) = sent();
        tx.send(Ok(batch(0, 20))).unwrap();
        let options = CreateOptions::new("x", source).for_owner(Owner::principal("ada").with_tenant(tenant));
        house.server.create_response(options).await.map(|response| (tx, response))
    };
    let (first, _second) = (make("acme").await.unwrap(), make("acme").await.unwrap());
    let refused = make("acme").await.unwrap_err();
    assert!(matches!(refused, DualResponseError::Busy { .. }), "{refused:?}");
    make("other").await.unwrap();
    // Whoever is through makes room.
    drop(first.0);
    house.server.page(&first.1.resource_id, &Access::Program, PageOptions::default()).await.ok();
    tokio::time::timeout(Duration::from_secs(10), async { while make("acme").await.is_err() {} })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_tenant_that_has_saved_too_much_saves_no_more() {
    let limits = ResultLimits::default().with_tenant_bytes(1000);
    let house =
        House::with(&Snapshots::open("memory:").unwrap(), |options| options.with_limits(limits)).await;
    let make = async |tenant: &str| {
        let owner = Owner::principal("ada").with_tenant(tenant);
        house.server.create_response(CreateOptions::new("x", numbers(2000)).for_owner(owner)).await
    };
    make("acme").await.unwrap();
    let refused = make("acme").await.unwrap_err();
    assert!(matches!(&refused, DualResponseError::TooLarge(text) if text.contains("delete")), "{refused:?}");
    make("other").await.unwrap();
}
