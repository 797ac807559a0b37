//! How long result sets live.

use std::{sync::Arc, time::Duration};

use antiphon_results::{
    Access, CreateOptions, DualResponseError, DualResponseServer, Expiry, LinkKeys, LinkOptions, MemoryStore,
    Owner, PageOptions, ResourceStore, Scope, Source,
};
use chrono::TimeDelta;

use crate::support::{Clock, institutions, kept, options, search, server};

#[tokio::test]
async fn unknown_sets_are_none_and_false() {
    let server = server(&Clock::new());
    assert!(server.get_resource("rs_unknown").await.unwrap().is_none());
    assert!(!server.pin_resource("rs_unknown").await.unwrap());
    assert!(!server.delete_resource("rs_unknown").await.unwrap());
}

#[tokio::test]
async fn sets_expire_and_are_known_to_have() {
    let clock = Clock::new();
    let server = server(&clock);
    let id = search(&server).await.resource_id;
    clock.turn(TimeDelta::milliseconds(899_999));
    assert!(server.get_resource(&id).await.unwrap().is_some());
    clock.turn(TimeDelta::milliseconds(1));
    assert!(server.get_resource(&id).await.unwrap().is_none());
    let expired =
        async |server: &DualResponseServer| server.describe(&id, &Access::Program).await.unwrap_err();
    assert!(matches!(expired(&server).await, DualResponseError::Expired));
    // The same after it was removed.
    assert_eq!(server.clean_up().await.unwrap(), 1);
    assert_eq!(server.clean_up().await.unwrap(), 0);
    assert!(matches!(expired(&server).await, DualResponseError::Expired));
    let unknown = server.describe("rs_never", &Access::Program).await.unwrap_err();
    assert!(matches!(unknown, DualResponseError::NotFound));
    assert_eq!(unknown.to_string(), expired(&server).await.to_string());
}

#[tokio::test]
async fn only_the_owner_is_told_that_a_set_has_expired() {
    let clock = Clock::new();
    let options = options(&clock).with_authenticate(|_: &http::request::Parts| None);
    let server = DualResponseServer::new(options).unwrap();
    let ada = Owner::principal("ada").with_tenant("acme");
    let made = CreateOptions::new("x", Source::rows(institutions(1))).for_owner(ada.clone());
    let id = server.create_response(made).await.unwrap().resource_id;
    clock.turn(TimeDelta::minutes(15));
    for removed in [false, true] {
        if removed {
            server.clean_up().await.unwrap();
        }
        for (caller, code) in [
            (ada.clone(), "RESOURCE_EXPIRED"),
            (Owner::principal("ada").with_tenant("other"), "RESOURCE_NOT_FOUND"),
            (Owner::principal("eve").with_tenant("acme"), "RESOURCE_NOT_FOUND"),
            (Owner::nobody(), "RESOURCE_NOT_FOUND"),
        ] {
            let error = server.describe(&id, &Access::caller(caller)).await.unwrap_err();
            assert_eq!(error.code().as_str(), code, "removed: {removed}");
        }
    }
}

#[tokio::test]
async fn clean_up_comes_by_itself_every_minute() {
    tokio::time::pause();
    let clock = Clock::new();
    let store = Arc::new(MemoryStore::new());
    let server = DualResponseServer::new(options(&clock).with_store(Arc::clone(&store))).unwrap();
    let id = kept(&server, 3).await.resource_id;
    clock.turn(TimeDelta::minutes(15));
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert!(store.get(&id).await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(store.get(&id).await.unwrap().is_none());
    assert!(store.rows(&id, 0, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn pinned_sets_stay_and_unpinned_ones_live_their_life_again() {
    let clock = Clock::new();
    let server = server(&clock);
    let id = search(&server).await.resource_id;
    assert!(server.pin_resource(&id).await.unwrap());
    assert!(server.pin_resource(&id).await.unwrap(), "pinning twice is pinning");
    clock.turn(TimeDelta::days(400));
    assert_eq!(server.clean_up().await.unwrap(), 0);
    assert_eq!(server.get_resource(&id).await.unwrap().unwrap().expires_at, None);
    assert!(server.unpin_resource(&id).await.unwrap());
    let end = server.get_resource(&id).await.unwrap().unwrap().expires_at.unwrap();
    assert_eq!(end - clock.now(), TimeDelta::minutes(15));
    assert!(server.extend_resource(&id, Duration::from_secs(3600)).await.unwrap());
    clock.turn(TimeDelta::minutes(59));
    assert!(server.get_resource(&id).await.unwrap().is_some());
    clock.turn(TimeDelta::minutes(1));
    assert!(!server.pin_resource(&id).await.unwrap(), "what has expired cannot be pinned");
}

#[tokio::test]
async fn lives_are_bounded() {
    let clock = Clock::new();
    let server = server(&clock);
    let id = search(&server).await.resource_id;
    let set = server.set_expiry(&id, &Access::Program, Expiry::For(Duration::MAX)).await.unwrap();
    assert_eq!(set.expires_at.unwrap() - clock.now(), TimeDelta::days(30));
}

#[tokio::test]
async fn deleted_is_deleted_once_and_not_expired() {
    let server = server(&Clock::new());
    let id = kept(&server, 3).await.resource_id;
    assert!(server.delete_resource(&id).await.unwrap());
    assert!(!server.delete_resource(&id).await.unwrap());
    let error = server.describe(&id, &Access::Program).await.unwrap_err();
    assert!(matches!(error, DualResponseError::NotFound));
}

#[tokio::test]
async fn reading_rows_counts_and_looking_does_not() {
    let clock = Clock::new();
    let server = server(&clock);
    let id = kept(&server, 3).await.resource_id;
    server.describe(&id, &Access::Program).await.unwrap();
    clock.turn(TimeDelta::minutes(1));
    for _ in 0..3 {
        server.page(&id, &Access::Program, PageOptions::default()).await.unwrap();
    }
    let resource = server.get_resource(&id).await.unwrap().unwrap();
    assert_eq!((resource.access_count, resource.last_accessed_at), (3, Some(clock.now())));
}

#[tokio::test]
async fn reading_lets_a_set_live_on_only_if_that_is_wanted() {
    for (sliding, lives) in [(false, false), (true, true)] {
        let clock = Clock::new();
        let server = DualResponseServer::new(options(&clock).with_sliding_expiration(sliding)).unwrap();
        let id = kept(&server, 3).await.resource_id;
        clock.turn(TimeDelta::minutes(14));
        server.page(&id, &Access::Program, PageOptions::default()).await.unwrap();
        clock.turn(TimeDelta::minutes(14));
        assert_eq!(server.get_resource(&id).await.unwrap().is_some(), lives);
    }
}

#[tokio::test]
async fn shutdown_closes_the_store_and_ends_the_clean_up() {
    tokio::time::pause();
    let clock = Clock::new();
    let store = Arc::new(MemoryStore::new());
    let server = DualResponseServer::new(options(&clock).with_store(Arc::clone(&store))).unwrap();
    let id = kept(&server, 3).await.resource_id;
    server.shutdown().await.unwrap();
    server.shutdown().await.unwrap();
    clock.turn(TimeDelta::minutes(15));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(store.get(&id).await.unwrap().is_some(), "nobody cleans up any more");
}

#[tokio::test]
async fn links_end_with_the_set_at_the_latest() {
    let clock = Clock::new();
    let server = DualResponseServer::new(options(&clock).with_link_keys(LinkKeys::random())).unwrap();
    let id = search(&server).await.resource_id;
    let link = async |life: u64| {
        let options = LinkOptions::default().with_scopes([Scope::Read]).with_life(Duration::from_secs(life));
        server.mint_link(&id, &Access::Program, options).await.unwrap()
    };
    assert_eq!(link(60).await.expires_at - clock.now(), TimeDelta::seconds(60));
    assert_eq!(link(u64::MAX).await.expires_at - clock.now(), TimeDelta::minutes(15));
    clock.turn(TimeDelta::minutes(10));
    assert_eq!(link(600).await.expires_at - clock.now(), TimeDelta::minutes(5));
}

#[tokio::test]
async fn links_open_what_they_say_until_they_end_or_are_revoked() {
    let clock = Clock::new();
    let ring = LinkKeys::new(1, [1; 32]);
    let server = DualResponseServer::new(options(&clock).with_link_keys(ring)).unwrap();
    let id = search(&server).await.resource_id;
    let link = server.mint_link(&id, &Access::Program, LinkOptions::default()).await.unwrap();
    assert!(!format!("{link:?}").contains("link="), "a link is not shown where logs are");
    let token = link.url.split_once("?link=").unwrap().1;
    let access = server.open_link(token).unwrap();
    server.page(&id, &access, PageOptions::default()).await.unwrap();
    assert!(matches!(server.delete(&id, &access).await, Err(DualResponseError::Forbidden)));
    let again = server.mint_link(&id, &access, LinkOptions::default()).await;
    assert!(matches!(again, Err(DualResponseError::Forbidden)), "a link makes no links");
    server.revoke_links(&id, &Access::Program).await.unwrap();
    let revoked = server.page(&id, &server.open_link(token).unwrap(), PageOptions::default()).await;
    assert!(matches!(revoked, Err(DualResponseError::Unauthorized)));
    let link = server.mint_link(&id, &Access::Program, LinkOptions::default()).await.unwrap();
    clock.turn(TimeDelta::minutes(5));
    let token = link.url.split_once("?link=").unwrap().1;
    assert!(matches!(server.open_link(token), Err(DualResponseError::Unauthorized)));
}
