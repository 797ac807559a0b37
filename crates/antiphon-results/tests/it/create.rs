//! Making result sets.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use antiphon_results::{
    Access, ColumnDefinition, ColumnType, CreateOptions, DualResponseError, DualResponseServer,
    DualResponseServerOptions, ErrorCode, MemoryStore, Owner, PageOptions, ResultLimits, Rows, SharedStore,
    Source, source::PageRequest,
};
use antiphon_store::{Memory, QueueConfig};
use serde_json::{Value, json};

use crate::support::{BASE, Clock, asked, columns, institution, kept, options, search, server};

#[test]
fn base_url_is_required_and_must_be_one() {
    for bad in
        ["", "not a url", "ftp://example.com/x", "https://user:pw@example.com/r", "https://example.com/r?x=1"]
    {
        let error = DualResponseServer::new(DualResponseServerOptions::new(bad)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Configuration, "{bad}");
        assert!(error.to_string().contains("https://api.example.com/resources"), "{error}");
    }
    let server = DualResponseServer::new(DualResponseServerOptions::new(format!("{BASE}/"))).unwrap();
    assert_eq!(server.base_url(), BASE);
}

#[tokio::test]
async fn defaults_are_the_seeds() {
    let (clock, (source, asked, counted)) = (Clock::new(), asked(20));
    let server = server(&clock);
    let response =
        server.create_response(CreateOptions::new("All", source).with_columns(columns())).await.unwrap();
    assert_eq!(response.sample.len(), 15);
    let life = response.expires_at.unwrap() - response.created_at;
    assert_eq!(life.num_milliseconds(), 900_000);
    assert_eq!(response.created_at, clock.now());
    // Asked once for the preview, counted once.
    assert_eq!(*asked.lock().unwrap(), [PageRequest::new(0, 15)]);
    assert_eq!(counted.load(Ordering::SeqCst), 1);
    assert_eq!(response.total_count, 20);
    assert_eq!(response.columns, columns());
}

#[tokio::test]
async fn every_option_is_kept() {
    let server = server(&Clock::new());
    let metadata = json!({"queryParams": {"state": "NJ"}});
    let options = CreateOptions::new("Institution Search Results", asked(847).0)
        .with_columns(columns())
        .with_sample_size(20)
        .with_expiration(Duration::from_secs(30 * 60))
        .with_metadata(metadata.as_object().unwrap().clone());
    let response = server.create_response(options).await.unwrap();
    assert_eq!(response.sample.len(), 20);
    assert_eq!((response.expires_at.unwrap() - response.created_at).num_milliseconds(), 1_800_000);
    let resource = server.get_resource(&response.resource_id).await.unwrap().unwrap();
    assert_eq!(resource.id, response.resource_id);
    assert_eq!(resource.name, "Institution Search Results");
    assert_eq!(resource.columns, columns());
    assert_eq!(resource.total_count, 847);
    assert_eq!(resource.sample_data, response.sample);
    assert_eq!(resource.created_at, response.created_at);
    assert_eq!(resource.expires_at, response.expires_at);
    assert_eq!((resource.access_count, resource.last_accessed_at), (0, None));
    assert_eq!(Value::Object(resource.metadata), metadata);
}

#[tokio::test]
async fn server_has_a_default_for_each_override() {
    let options = options(&Clock::new())
        .with_default_sample_size(3)
        .with_default_expiration(Duration::from_secs(5))
        .with_store(MemoryStore::new());
    let response = search(&DualResponseServer::new(options).unwrap()).await;
    assert_eq!(response.sample.len(), 3);
    assert_eq!((response.expires_at.unwrap() - response.created_at).num_seconds(), 5);
}

#[tokio::test]
async fn page_without_a_limit_has_the_default_size() {
    let options = options(&Clock::new()).with_default_page_size(7);
    let limits = ResultLimits::default().with_page_rows(5);
    let limited = DualResponseServer::new(options.clone().with_limits(limits)).unwrap();
    for (server, rows) in [(DualResponseServer::new(options).unwrap(), 7), (limited, 5)] {
        let id = kept(&server, 20).await.resource_id;
        let page = server.page(&id, &Access::Program, PageOptions::default()).await.unwrap();
        assert_eq!((page.rows.len(), page.next_offset()), (rows, Some(rows as u64)));
    }
}

#[test]
fn page_without_rows_is_rejected() {
    let no_default = options(&Clock::new()).with_default_page_size(0);
    let no_rows = options(&Clock::new()).with_limits(ResultLimits::default().with_page_rows(0));
    for options in [no_default, no_rows] {
        let error = DualResponseServer::new(options).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Configuration);
        assert!(error.to_string().contains("`with_default_page_size`"), "{error}");
    }
}

#[tokio::test]
async fn ids_differ_and_have_160_bits() {
    let server = server(&Clock::new());
    let mut ids = HashSet::new();
    for _ in 0..100_000 {
        let response =
            server.create_response(CreateOptions::new("x", Source::rows(Rows::new()))).await.unwrap();
        let letters = response.resource_id.strip_prefix("rs_").unwrap();
        assert_eq!(letters.len(), 32);
        assert!(letters.bytes().all(|letter| b"abcdefghijklmnopqrstuvwxyz234567".contains(&letter)));
        assert_eq!(response.resource_uri, format!("resource://{}", response.resource_id));
        assert_eq!(response.resource_url, format!("{BASE}/{}", response.resource_id));
        ids.insert(response.resource_id);
    }
    assert_eq!(ids.len(), 100_000);
}

#[tokio::test]
async fn failing_sources_are_told_apart() {
    let server = server(&Clock::new());
    let fails = |what: &str| antiphon_results::BoxError::from(what.to_owned());
    let query =
        Source::closures(move |_| async move { Err::<Rows, _>(fails("no rows")) }, || async { Ok(1) });
    let error = server.create_response(CreateOptions::new("x", query)).await.unwrap_err();
    assert_eq!(error.code().as_str(), "QUERY_EXECUTION_FAILED");
    let count =
        Source::closures(|_| async { Ok(Rows::new()) }, move || async move { Err(fails("no count")) });
    let error = server.create_response(CreateOptions::new("x", count)).await.unwrap_err();
    assert_eq!(error.code().as_str(), "COUNT_EXECUTION_FAILED");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "no count");
}

#[tokio::test]
async fn slow_sources_are_given_up() {
    tokio::time::pause();
    let server = server(&Clock::new());
    let slow = Source::closures(|_| std::future::pending::<Result<Rows, _>>(), || async { Ok(1) });
    let error = server.create_response(CreateOptions::new("x", slow)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
}

#[tokio::test]
async fn closures_are_refused_by_a_shared_store() {
    let memory = Memory::default();
    let backend =
        antiphon_store::Backend::new(memory.store(), memory.queue(QueueConfig::default()), memory.bus());
    let options = options(&Clock::new()).with_store(SharedStore::new(backend));
    let server = DualResponseServer::new(options).unwrap();
    let error = server.create_response(CreateOptions::new("x", asked(3).0)).await.unwrap_err();
    assert_eq!(error.code().as_str(), "STORAGE_ERROR");
    assert!(error.to_string().contains("register a named query"), "{error}");
}

#[tokio::test]
async fn failing_store_is_a_storage_error() {
    use antiphon_store::{
        Retrying, RetryingConfig,
        flaky::{Flaky, FlakyConfig},
    };

    let memory = Memory::default();
    let broken = FlakyConfig::seeded(1).with_refused(1000);
    let store: Arc<dyn antiphon_store::Store> = Arc::new(memory.store());
    let once = RetryingConfig::default().with_attempts(1);
    let store = Retrying::new(Arc::new(Flaky::new(store, broken))).with_config(once);
    let backend = antiphon_store::Backend::new(store, memory.queue(QueueConfig::default()), memory.bus());
    let server =
        DualResponseServer::new(options(&Clock::new()).with_store(SharedStore::new(backend))).unwrap();
    tokio::time::pause();
    let made = server.create_response(CreateOptions::new("x", Source::rows(Rows::new()))).await;
    assert_eq!(made.unwrap_err().code().as_str(), "STORAGE_ERROR");
    assert_eq!(server.get_resource("rs_x").await.unwrap_err().code().as_str(), "STORAGE_ERROR");
}

#[tokio::test]
async fn unknown_query_is_an_error_that_says_what_to_do() {
    let server = server(&Clock::new());
    let error =
        server.create_response(CreateOptions::new("x", Source::query("nope", json!({})))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Configuration);
    assert!(error.to_string().contains("`with_query`"), "{error}");
}

#[tokio::test]
async fn preview_of_none_asks_for_none_and_too_many_rows_are_cut() {
    let server = server(&Clock::new());
    let (source, asked, _) = asked(9);
    let response = server.create_response(CreateOptions::new("x", source).with_sample_size(0)).await.unwrap();
    assert!(response.sample.is_empty() && asked.lock().unwrap().is_empty());
    let generous = Source::closures(
        |_| async { Ok((1..=50).map(|at| institution(at).as_object().unwrap().clone()).collect::<Vec<_>>()) },
        || async { Ok(40) },
    );
    let response = server.create_response(CreateOptions::new("x", generous)).await.unwrap();
    assert_eq!((response.sample.len(), response.total_count), (15, 40));
    // The count is what is believed.
    let grown = Source::closures(|_| async { Ok(crate::support::institutions(9)) }, || async { Ok(4) });
    let response = server.create_response(CreateOptions::new("x", grown)).await.unwrap();
    assert_eq!((response.sample.len(), response.total_count), (4, 4));
}

#[tokio::test]
async fn columns_of_rows_in_hand_are_found_out() {
    let server = server(&Clock::new());
    let rows = [
        json!({"id": 1, "name": "a", "share": 1, "when": null, "tags": []}),
        json!({"id": 2, "name": "b", "share": 0.5, "extra": true, "tags": {}}),
    ];
    let rows = Rows::try_from(&rows[..]).unwrap();
    let response = server.create_response(CreateOptions::new("x", Source::rows(rows))).await.unwrap();
    let kinds: Vec<_> =
        response.columns.iter().map(|column| (column.name.as_str(), column.kind.name())).collect();
    assert!(kinds.contains(&("id", "integer")) && kinds.contains(&("share", "number")), "{kinds:?}");
    assert!(kinds.contains(&("when", "json")) && kinds.contains(&("extra", "boolean")), "{kinds:?}");
    let extra = response.columns.iter().find(|column| column.name == "extra").unwrap();
    assert_eq!(extra.nullable, Some(true));
}

#[test]
fn columns_of_other_houses_are_kept_as_they_are() {
    let given = json!({"name": "x", "type": "varchar(20)", "nullable": false, "format": "isbn"});
    let column: ColumnDefinition = serde_json::from_value(given.clone()).unwrap();
    assert_eq!(column.kind, ColumnType::Other("varchar(20)".into()));
    assert_eq!(json!(column), given);
}

#[tokio::test]
async fn what_is_too_large_is_refused_with_a_reason() {
    let limits = ResultLimits::default().with_rows_bytes(1_000).with_metadata_bytes(100);
    let server = DualResponseServer::new(options(&Clock::new()).with_limits(limits)).unwrap();
    let rows = CreateOptions::new("x", Source::rows(crate::support::institutions(100)));
    let error = server.create_response(rows).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::LimitExceeded);
    assert!(error.to_string().contains("named query"), "{error}");
    let metadata = json!({"long": "x".repeat(200)}).as_object().unwrap().clone();
    let options = CreateOptions::new("x", Source::rows(Rows::new())).with_metadata(metadata);
    assert_eq!(server.create_response(options).await.unwrap_err().code(), ErrorCode::LimitExceeded);
}

#[tokio::test]
async fn sets_that_nobody_could_reach_are_not_made() {
    let server = server(&Clock::new());
    let options = CreateOptions::new("x", Source::rows(Rows::new())).for_owner(Owner::principal("ada"));
    let error = server.create_response(options).await.unwrap_err();
    assert!(matches!(error, DualResponseError::Config(_)), "{error:?}");
    let authenticated =
        crate::support::options(&Clock::new()).with_authenticate(|_: &http::request::Parts| None);
    let server = DualResponseServer::new(authenticated).unwrap();
    let error = server.create_response(CreateOptions::new("x", Source::rows(Rows::new()))).await.unwrap_err();
    assert!(error.to_string().contains("for_owner"), "{error}");
}

#[tokio::test]
async fn whoever_made_a_set_is_in_the_audit() {
    let events = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let options = options(&Clock::new()).with_audit(move |event| told.lock().unwrap().push(event.clone()));
    let server = DualResponseServer::new(options).unwrap();
    let response = kept(&server, 3).await;
    server
        .page(
            &response.resource_id,
            &antiphon_results::Access::Program,
            antiphon_results::PageOptions::default(),
        )
        .await
        .unwrap();
    server.delete_resource(&response.resource_id).await.unwrap();
    server.delete_resource(&response.resource_id).await.unwrap();
    let events = events.lock().unwrap();
    let said: Vec<_> =
        events.iter().map(|event| (format!("{:?}", event.action), event.rows, event.refused)).collect();
    assert_eq!(
        said,
        [
            ("Create".to_owned(), 0, None),
            ("Read".to_owned(), 3, None),
            ("Delete".to_owned(), 0, None),
            ("Delete".to_owned(), 0, Some(ErrorCode::ResourceNotFound)),
        ]
    );
}
