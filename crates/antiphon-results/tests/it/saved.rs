//! What the server does with a store of snapshots, whichever it is: one on a shelf, that can be told to be slow.

use std::{sync::Arc, time::Duration};

use antiphon_results::{
    Access, Action, CreateOptions, DualResponseError, DualResponseServer, LinkKeys, LinkOptions, Owner,
    PageOptions, QueryOptions, ResultLimits, Scope, Source,
    snapshot::{ExportFormat, ExportRequest, RowSource},
    store::{MemoryStore, Resource, ResourceStore, ResourceUpdate, SnapshotUpdate},
};
use chrono::TimeDelta;
use futures_util::{StreamExt as _, stream};

use crate::support::{Clock, Shelf, institutions, options};

fn quick() -> ResultLimits {
    ResultLimits::default()
        .with_settle(Duration::from_millis(50))
        .with_view_wait(Duration::from_millis(50))
        .with_wait(Duration::from_millis(50))
        .with_beat(Duration::from_millis(20))
}

fn served(shelf: &Shelf, store: &Arc<MemoryStore>, limits: ResultLimits) -> DualResponseServer {
    let options = options(&Clock::new()).with_snapshots(shelf.clone()).with_store(Arc::clone(store));
    let keys = LinkKeys::new(1, [7; 32]);
    DualResponseServer::new(options.with_limits(limits).with_link_keys(keys)).unwrap()
}

fn saved(rows: u64) -> Source {
    Source::snapshot(RowSource::rows(stream::iter([Ok(institutions(rows))])))
}

fn endless() -> Source {
    Source::snapshot(RowSource::rows(stream::iter([Ok(institutions(20))]).chain(stream::pending())))
}

fn sorted_by(column: &str) -> PageOptions {
    PageOptions::new(0, 5).with_sort(antiphon_results::Sort::ascending(column))
}

fn columns() -> Vec<antiphon_results::ColumnDefinition> {
    ["id", "name", "state"]
        .map(|name| antiphon_results::ColumnDefinition::new(name, antiphon_results::ColumnType::String))
        .into()
}

#[tokio::test]
async fn statistics_that_take_long_are_found_out_while_somebody_comes_back() {
    let shelf = Shelf::default();
    let limits = quick().with_scans_per_tenant(1);
    let server = served(&shelf, &Arc::default(), limits);
    let made = server.create_response(CreateOptions::new("x", saved(20))).await.unwrap();
    let stats = async || server.stats(&made.resource_id, &Access::Program).await;
    for _ in 0..3 {
        let refused = stats().await.unwrap_err();
        assert!(matches!(refused, DualResponseError::NotReady { .. }), "one place is enough: {refused:?}");
    }
    shelf.looked.notify_one();
    let found = async { while stats().await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(10), found).await.unwrap();
}

#[tokio::test]
async fn a_creation_that_nobody_waits_for_any_more_leaves_no_set() {
    let (shelf, store) = (Shelf::default(), Arc::new(MemoryStore::new()));
    let server = served(&shelf, &store, quick());
    let making = server.create_response(CreateOptions::new("x", endless()).complete());
    assert!(tokio::time::timeout(Duration::from_millis(100), making).await.is_err());
    let gone = async {
        while format!("{store:?}") != format!("{:?}", MemoryStore::new()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
    assert!(shelf.is_empty());
    // One that was answered goes on.
    let made = server.create_response(CreateOptions::new("x", endless())).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(server.get_resource(&made.resource_id).await.unwrap().is_some());
}

#[tokio::test]
async fn views_count_towards_what_a_tenant_may_have() {
    let shelf = Shelf::default();
    let limits = quick().with_tenant_bytes(institutions(20).bytes() as u64 * 5 / 2);
    let server = served(&shelf, &Arc::default(), limits);
    let made = CreateOptions::new("x", saved(20)).with_columns(columns());
    let made = server.create_response(made).await.unwrap();
    let page = async |options| server.page(&made.resource_id, &Access::Program, options).await;
    page(sorted_by("id")).await.unwrap();
    let refused = page(sorted_by("name")).await.unwrap_err();
    assert!(matches!(&refused, DualResponseError::TooLarge(text) if text.contains("delete")), "{refused:?}");
    assert_eq!(shelf.views.lock().unwrap().len(), 1);
    // What is there stays to be read.
    page(sorted_by("id")).await.unwrap();
    page(PageOptions::new(0, 5)).await.unwrap();
}

#[tokio::test]
async fn a_set_made_by_a_link_ends_with_the_link() {
    let server = served(&Shelf::default(), &Arc::default(), quick());
    let id = server.create_response(CreateOptions::new("x", saved(20))).await.unwrap().resource_id;
    let link = async |scopes: &[Scope]| {
        let options =
            LinkOptions::default().with_scopes(scopes.iter().copied()).with_life(Duration::from_secs(60));
        let link = server.mint_link(&id, &Access::Program, options).await.unwrap();
        (server.open_link(link.url.split_once("?link=").unwrap().1).unwrap(), link.expires_at)
    };
    let ask = async |access: &Access| server.query(&id, access, QueryOptions::new("SELECT 1")).await;
    let (access, end) = link(&[Scope::Read, Scope::Query]).await;
    let derived = ask(&access).await.unwrap();
    assert!(derived.expires_at.unwrap() <= end && derived.resource_url.contains("?link="), "{derived:?}");
    let (queries, _) = link(&[Scope::Query]).await;
    assert!(matches!(ask(&queries).await, Err(DualResponseError::Forbidden)), "rows are not its to read");
}

#[tokio::test]
async fn exports_on_their_way_out_leave_the_views_their_places() {
    let limits = quick().with_scans_per_tenant(1).with_exports_per_tenant(1);
    let server = served(&Shelf::default(), &Arc::default(), limits);
    let made = CreateOptions::new("x", saved(20)).with_columns(columns());
    let id = server.create_response(made).await.unwrap().resource_id;
    let export =
        async || server.export(&id, &Access::Program, ExportRequest::new(ExportFormat::Ndjson)).await;
    let under_way = export().await.unwrap();
    assert!(matches!(export().await, Err(DualResponseError::Busy { .. })));
    server.page(&id, &Access::Program, sorted_by("id")).await.unwrap();
    drop(under_way);
    export().await.unwrap();
}

#[tokio::test]
async fn whoever_was_heard_of_again_is_not_given_up() {
    let store = MemoryStore::new();
    let now = Clock::new().now();
    let mut resource = Resource::new("rs_a", "x", now, Duration::from_secs(600));
    let state = antiphon_results::snapshot::SnapshotState::writing(now);
    resource.snapshot = Some(state.clone());
    store.save(resource).await.unwrap();
    let mut failed = state.clone();
    failed.phase = antiphon_results::snapshot::Phase::Failed { reason: "silent".into() };
    let mut beaten = state;
    beaten.heard_at = now + TimeDelta::seconds(3);
    let say = async |update| {
        let update = ResourceUpdate::at(now).with_snapshot(update);
        store.update("rs_a", update).await.unwrap().unwrap().snapshot.unwrap()
    };
    let given_up = |at| SnapshotUpdate::new(failed.clone(), 0, 0).if_heard_at(at);
    say(SnapshotUpdate::new(beaten.clone(), 7, 70)).await;
    assert_eq!(say(given_up(now)).await, beaten, "it was heard of since");
    assert_eq!(say(given_up(beaten.heard_at)).await, failed);
}

#[tokio::test]
async fn whoever_may_only_read_takes_no_whole_set_away() {
    let limits = quick().with_page_rows(10);
    let reads = |_: &Resource, _: &Owner, action: Action| matches!(action, Action::Read | Action::Describe);
    let server =
        DualResponseServer::new(options(&Clock::new()).with_limits(limits).with_authorize(reads)).unwrap();
    let made = server.create_response(CreateOptions::new("x", Source::rows(institutions(20)))).await.unwrap();
    let caller = Access::caller(Owner::principal("ada"));
    let stream = async |options| server.stream(&made.resource_id, &caller, options).await.map(drop);
    stream(PageOptions::new(0, 10)).await.unwrap();
    for options in [PageOptions::default(), PageOptions::new(0, 11)] {
        assert!(matches!(stream(options).await, Err(DualResponseError::NotFound)));
    }
}

#[tokio::test]
async fn whoever_may_only_read_makes_links_that_only_read() {
    let limits = quick().with_page_rows(10);
    let sharers = |_: &Resource, _: &Owner, action: Action| {
        matches!(action, Action::Read | Action::Describe | Action::Query | Action::Link)
    };
    let options = options(&Clock::new()).with_snapshots(Shelf::default()).with_limits(limits);
    let options = options.with_authorize(sharers).with_link_keys(LinkKeys::random());
    let server = DualResponseServer::new(options).unwrap();
    let id = server.create_response(CreateOptions::new("x", saved(20))).await.unwrap().resource_id;
    let caller = Access::caller(Owner::principal("ada"));
    let scopes = LinkOptions::default().with_scopes([Scope::Read, Scope::Query]);
    let opened = async |access: &Access| {
        let link = server.mint_link(&id, access, scopes.clone()).await.unwrap();
        server.open_link(link.url.split_once("?link=").unwrap().1).unwrap()
    };
    let export = async |id: &str, access: &Access| {
        server.export(id, access, ExportRequest::new(ExportFormat::Csv)).await.map(drop)
    };
    let stream = async |access: &Access| server.stream(&id, access, PageOptions::new(0, 11)).await.map(drop);

    let link = opened(&caller).await;
    server.page(&id, &link, PageOptions::new(0, 10)).await.unwrap();
    assert!(matches!(export(id.as_str(), &link).await, Err(DualResponseError::Forbidden)));
    assert!(matches!(stream(&link).await, Err(DualResponseError::Forbidden)));
    // What is found by it is no more the bearer's to take away.
    let derived = server.query(&id, &link, QueryOptions::new("SELECT 1")).await.unwrap();
    let further = server.open_link(derived.resource_url.split_once("?link=").unwrap().1).unwrap();
    server.page(&derived.resource_id, &further, PageOptions::new(0, 3)).await.unwrap();
    assert!(matches!(
        export(derived.resource_id.as_str(), &further).await,
        Err(DualResponseError::Forbidden)
    ));

    let link = opened(&Access::Program).await;
    export(id.as_str(), &link).await.unwrap();
    stream(&link).await.unwrap();
}
