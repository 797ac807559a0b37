//! Contract tests for saving, reading and updating resources.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use serde_json::{Map, Value, json};

use super::{
    super::{Origin, Removal, Resource, ResourceUpdate},
    fixture::{HOUR, MINUTE, Stores, live},
};
use crate::{column::ColumnDefinition, owner::Owner};

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

/// Returns a resource with a value in every field.
fn full(stores: &Stores, id: &str) -> Resource {
    Resource {
        name: "Ünïçødé \u{1F980} \u{202E}\u{0} \"quoted\" \\ line\nbreak".to_owned(),
        query: Origin::Live {
            query: "colleges".to_owned(),
            parameters: json!({"state": "NJ", "min": -1.5, "none": null}),
        },
        columns: vec![
            ColumnDefinition::integer("id"),
            ColumnDefinition::string("näme")
                .nullable()
                .with_format("text")
                .with_description("What it\u{2028}is"),
        ],
        key: vec!["id".to_owned()],
        sorts: false,
        total_count: u64::MAX,
        bytes: Some(1 << 40),
        sample_data: vec![
            object(json!({"id": 1, "näme": "Ada"})),
            object(json!({"id": u64::MAX, "näme": null})),
        ],
        access_count: 7,
        last_accessed_at: Some(stores.now() - TimeDelta::nanoseconds(1)),
        life: Duration::new(7, 5),
        metadata: object(json!({
            "big": "ü".repeat(50_000),
            "": {"deep": [[[{"er": false}]]]},
            "n": i64::MIN,
            // An imprecise parser reads the first number as a neighbouring float.
            "floats": [907.303_832_202_868_9, 0.1, -0.0, 5e-324, f64::MAX],
        })),
        owner: Owner::principal("ada@example.com").with_tenant("Ä/..\u{0}"),
        link_epoch: 3,
        ..live(stores, id)
    }
}

/// Tests that a resource is read exactly as it was saved.
pub async fn saved_resource_is_read_back_equal(stores: &Stores) {
    let store = stores.open().await;
    let mut plain = live(stores, "plain");
    plain.expires_at = None;
    for resource in [full(stores, "full"), plain, live(stores, "-_0aZ"), live(stores, &"x".repeat(64))] {
        assert_eq!(store.save(resource.clone()).await.unwrap(), resource.id);
        assert_eq!(store.get(&resource.id).await.unwrap(), Some(resource));
    }
}

/// Tests that a write of one replica is visible to all replicas.
pub async fn save_is_seen_by_another_opening(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    let resource = live(stores, "set");
    assert_eq!(two.get("set").await.unwrap(), None);
    one.save(resource.clone()).await.unwrap();
    assert_eq!(two.get("set").await.unwrap(), Some(resource));
    let update = ResourceUpdate::at(stores.now()).with_name("New");
    let changed = two.update("set", update).await.unwrap().unwrap();
    assert_eq!(one.get("set").await.unwrap(), Some(changed));
    assert!(two.delete("set", Removal::Deleted).await.unwrap());
    assert_eq!(one.get("set").await.unwrap(), None);
}

/// Tests that a second save of a resource replaces the first save.
pub async fn saved_again_is_as_it_was_last_written(stores: &Stores) {
    let store = stores.open().await;
    store.save(full(stores, "set")).await.unwrap();
    store.save(live(stores, "set")).await.unwrap();
    assert_eq!(store.get("set").await.unwrap().unwrap().name, "Set set");
}

/// Tests that operations on an unknown ID do not create a resource.
pub async fn unknown_resource_is_nothing(stores: &Stores) {
    let store = stores.open().await;
    store.save(live(stores, "known")).await.unwrap();
    let now = stores.now();
    let updates = [
        ResourceUpdate::at(now).with_accesses(1),
        ResourceUpdate::at(now).with_name("New"),
        ResourceUpdate::at(now).with_expires_at(Some(now + MINUTE)),
        ResourceUpdate::at(now).with_expires_at(None),
    ];
    for update in updates {
        assert_eq!(store.update("unknown", update).await.unwrap(), None);
    }
    assert!(!store.delete("unknown", Removal::Deleted).await.unwrap());
    assert!(!store.delete("unknown", Removal::Expired { at: now }).await.unwrap());
    assert_eq!(store.tombstone("unknown").await.unwrap(), None);
    assert_eq!(store.get("unknown").await.unwrap(), None);
    assert!(store.rows("unknown", 0, 10).await.unwrap().is_empty());
}

/// Tests that an ID with unusual or malicious characters matches no other result set.
pub async fn hostile_ids_are_unknown(stores: &Stores) {
    let store = stores.open().await;
    let set = live(stores, "a");
    store.save(set.clone()).await.unwrap();
    let long = "a".repeat(10_000);
    let hostile = [
        "",
        ".",
        "..",
        "/",
        "a/",
        "/a",
        "a/b",
        "../a",
        "a/../a",
        "./a",
        "a\0",
        "\0",
        "a ",
        " a",
        "a\n",
        "*",
        ">",
        "a.b",
        "a%2Fb",
        "%00",
        "ä",
        "\u{FF41}",
        "\u{1F980}",
        "results/sets/a",
        "sets/a",
        "a'--",
        "a:b",
        "a~",
        "a=",
        "{a}",
        &long,
    ];
    for id in hostile {
        let update = ResourceUpdate::at(stores.now()).with_accesses(1);
        assert_eq!(store.get(id).await.unwrap(), None, "{id:?}");
        assert_eq!(store.update(id, update.clone()).await.unwrap(), None, "{id:?}");
        assert_eq!(store.update(id, update.with_expires_at(None)).await.unwrap(), None, "{id:?}");
        assert!(!store.delete(id, Removal::Deleted).await.unwrap(), "{id:?}");
        assert_eq!(store.tombstone(id).await.unwrap(), None, "{id:?}");
        assert!(store.rows(id, 0, 10).await.unwrap().is_empty(), "{id:?}");
    }
    assert_eq!(store.get("a").await.unwrap(), Some(set));
}

/// Tests that IDs are case-sensitive, and that a prefix of an ID is a different ID.
pub async fn ids_that_look_alike_are_different(stores: &Stores) {
    let store = stores.open().await;
    let ids = ["a", "A", "aa", "a-", "a_", "-a", "0", "00"];
    for id in ids {
        store.save(live(stores, id)).await.unwrap();
    }
    assert!(store.delete("a", Removal::Deleted).await.unwrap());
    assert_eq!(store.get("a").await.unwrap(), None);
    for id in &ids[1..] {
        assert_eq!(store.get(id).await.unwrap().unwrap().name, format!("Set {id}"));
    }
}

/// Tests that an update changes only the fields that are set in the update.
pub async fn partial_update_changes_only_what_it_gives(stores: &Stores) {
    let store = stores.open().await;
    let mut expected = full(stores, "set");
    store.save(expected.clone()).await.unwrap();
    let now = stores.now();
    let update = ResourceUpdate::at(now);

    let mut check = async |update: ResourceUpdate, change: &dyn Fn(&mut Resource)| {
        change(&mut expected);
        assert_eq!(store.update("set", update).await.unwrap().as_ref(), Some(&expected));
        assert_eq!(store.get("set").await.unwrap().as_ref(), Some(&expected));
    };
    check(update.clone(), &|_| {}).await;
    check(update.clone().with_name("New"), &|set| "New".clone_into(&mut set.name)).await;
    let metadata = object(json!({"only": "this"}));
    check(update.clone().with_metadata(metadata.clone()), &|set| set.metadata.clone_from(&metadata)).await;
    let end = Some(now + TimeDelta::hours(5));
    check(update.clone().with_expires_at(end), &|set| set.expires_at = end).await;
    check(update.clone().with_expires_at(None), &|set| set.expires_at = None).await;
    check(update.clone().with_accesses(2), &|set| {
        set.access_count = 9;
        set.last_accessed_at = Some(now);
    })
    .await;
    check(update.revoking_links(), &|set| set.link_epoch = 4).await;
}

/// Tests that concurrent updates of different fields do not undo each other.
pub async fn updates_of_different_fields_at_once_are_all_kept(stores: &Stores) {
    for round in 0..8 {
        let (one, two) = (stores.open().await, stores.open().await);
        let id = format!("set-{round}");
        one.save(live(stores, &id)).await.unwrap();
        let update = ResourceUpdate::at(stores.now());
        let metadata = object(json!({"round": round}));
        let (name, data, pin, access, links) = tokio::join!(
            one.update(&id, update.clone().with_name("New")),
            two.update(&id, update.clone().with_metadata(metadata.clone())),
            one.update(&id, update.clone().with_expires_at(None)),
            two.update(&id, update.clone().with_accesses(1)),
            one.update(&id, update.revoking_links()),
        );
        for updated in [name, data, pin, access, links] {
            updated.unwrap().expect("it is there");
        }
        let set = two.get(&id).await.unwrap().unwrap();
        assert_eq!((set.name.as_str(), set.metadata), ("New", metadata));
        assert_eq!((set.expires_at, set.access_count, set.link_epoch), (None, 1, 1));
    }
}

/// Tests that an update returns the state of the resource after this update.
pub async fn update_returns_what_the_resource_then_is(stores: &Stores) {
    let store = stores.open().await;
    store.save(live(stores, "set")).await.unwrap();
    let update = ResourceUpdate::at(stores.now());
    let end = stores.now() + TimeDelta::hours(3);
    let (pinned, ending) = tokio::join!(
        store.update("set", update.clone().with_expires_at(None)),
        store.update("set", update.with_expires_at(Some(end))),
    );
    assert_eq!(pinned.unwrap().unwrap().expires_at, None);
    assert_eq!(ending.unwrap().unwrap().expires_at, Some(end));
}

/// Tests that each of several concurrent revocations increases the link epoch.
pub async fn revoking_links_raises_the_epoch(stores: &Stores) {
    let (one, two) = (stores.open().await, stores.open().await);
    one.save(live(stores, "set")).await.unwrap();
    let mut racers = tokio::task::JoinSet::new();
    for number in 0..8 {
        let store = Arc::clone(if number % 2 == 0 { &one } else { &two });
        let update = ResourceUpdate::at(stores.now()).revoking_links();
        racers.spawn(
            async move { store.update("set", update).await.unwrap().expect("it is there").link_epoch },
        );
    }
    let mut epochs = racers.join_all().await;
    epochs.sort_unstable();
    assert_eq!(epochs, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(one.get("set").await.unwrap().unwrap().link_epoch, 8);
    assert_eq!(one.get("set").await.unwrap().unwrap().life, 2 * HOUR);
}

/// Tests that a store can be closed twice.
pub async fn closing_twice_is_fine(stores: &Stores) {
    let store = stores.open().await;
    store.save(live(stores, "set")).await.unwrap();
    store.close().await.unwrap();
    store.close().await.unwrap();
    // A store that is opened later still has the saved set.
    let later = stores.open().await;
    assert!(later.get("set").await.unwrap().is_some());
}
