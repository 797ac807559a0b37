use std::sync::Mutex;

use antiphon_results::{
    ErrorCode, Sort,
    client::{FetchAllOptions, FetchOptions},
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{
    local,
    server::{ROWS, Server},
};

#[derive(Deserialize, PartialEq, Debug)]
struct Person {
    id: u64,
    name: String,
}

async fn set(server: &Server) -> antiphon_results::client::ParsedDualResponse {
    local(&format!("{}/abc123", server.serve().await))
}

#[tokio::test]
async fn a_page_is_fetched_with_offset_limit_and_sort() {
    let server = Server::default();
    let set = set(&server).await;
    let options = FetchOptions::new().with_offset(100).with_limit(50).with_sort(Sort::descending("id"));
    let page = set.fetch(options).await.unwrap();
    assert_eq!(page.data.len(), 50);
    assert_eq!(page.data[0]["id"], 746);
    assert_eq!((page.total_count, page.returned_count, page.offset), (847, 50, 100));
    assert_eq!((page.has_next, page.has_previous, page.next_offset), (true, true, Some(150)));
    let asked = json!({"offset": 100, "limit": 50, "sort": {"field": "id", "order": "desc"}});
    assert_eq!(server.asked(), [asked]);
}

#[tokio::test]
async fn the_first_and_the_last_page_know_that_they_are() {
    let set = set(&Server::default()).await;
    let first = set.fetch(FetchOptions::new()).await.unwrap();
    assert_eq!((first.has_previous, first.has_next, first.returned_count), (false, true, 100));
    let last = set.fetch(FetchOptions::new().with_offset(800)).await.unwrap();
    assert_eq!((last.has_previous, last.has_next, last.next_offset), (true, false, None));
    let past = set.fetch(FetchOptions::new().with_offset(847)).await.unwrap();
    assert_eq!((past.returned_count, past.has_next), (0, false));
}

#[tokio::test]
async fn rows_are_read_as_what_is_asked_for() {
    let set = set(&Server::default()).await;
    let page = set.fetch_as::<Person>(FetchOptions::new().with_limit(1)).await.unwrap();
    assert_eq!(page.data, [Person { id: 0, name: "row 0".to_owned() }]);
    let page = set.fetch_as::<Box<RawValue>>(FetchOptions::new().with_limit(1)).await.unwrap();
    assert_eq!(page.data[0].get(), r#"{"id":0,"name":"row 0"}"#);
    let error = set.fetch_as::<u64>(FetchOptions::new()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::FetchError);
}

#[tokio::test]
async fn numbers_of_a_page_may_be_nested_and_the_offset_be_called_skip() {
    let set = set(&Server { nested: true, ..Server::default() }).await;
    let page = set.fetch(FetchOptions::new().with_offset(10).with_limit(10)).await.unwrap();
    assert_eq!((page.total_count, page.offset, page.has_next, page.next_offset), (847, 10, true, Some(20)));
    assert_eq!(set.fetch_all(FetchAllOptions::new()).await.unwrap().len(), 847);
}

#[tokio::test]
async fn all_rows_are_fetched_in_two_requests_and_progress_is_told() {
    let server = Server::default();
    let set = set(&server).await;
    let told = Mutex::new(Vec::new());
    let options =
        FetchAllOptions::new().with_progress(|fetched, total| told.lock().unwrap().push((fetched, total)));
    let rows = set.fetch_all_as::<Person>(options).await.unwrap();
    assert!(rows.iter().map(|person| person.id).eq(0..ROWS));
    assert_eq!(*told.lock().unwrap(), [(500, 847), (847, 847)]);
    assert_eq!(server.asked(), [json!({"offset": 0, "limit": 500}), json!({"offset": 500, "limit": 500})]);
}

#[tokio::test]
async fn a_server_that_gives_fewer_rows_than_asked_for_is_followed() {
    let server = Server { most: Some(100), ..Server::default() };
    let rows = set(&server).await.fetch_all_as::<Person>(FetchAllOptions::new()).await.unwrap();
    assert!(rows.iter().map(|person| person.id).eq(0..ROWS));
    assert_eq!(server.requests(), 9);
}

#[tokio::test]
async fn more_rows_than_fit_are_an_error_after_one_request() {
    let server = Server::default();
    let options = FetchAllOptions::new().with_batch_size(100).with_max_rows(846);
    let error = set(&server).await.fetch_all(options).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::LimitExceeded);
    assert!(error.to_string().contains("`fetch_stream`"), "{error}");
    assert_eq!(server.requests(), 1);
    let options = FetchAllOptions::new().with_max_rows(847);
    assert_eq!(set(&server).await.fetch_all(options).await.unwrap().len(), 847);
}

#[tokio::test]
async fn pages_that_lead_nowhere_are_an_error_and_not_a_loop() {
    for claims in [
        json!({"data": [], "returned_count": 0, "has_next": true, "next_offset": 0}),
        json!({"data": [], "returned_count": 0, "has_next": true, "next_offset": 500}),
        json!({"has_next": true, "next_offset": 0}),
        json!({"has_next": true, "next_offset": 499}),
        json!({"has_next": true, "next_offset": 501}),
        json!({"offset": 7}),
        json!({"returned_count": 3}),
    ] {
        let server = Server { claims: claims.clone(), ..Server::default() };
        let error = set(&server).await.fetch_all(FetchAllOptions::new()).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::FetchError, "{claims}: {error}");
        assert_eq!(server.requests(), 1, "{claims}");
    }
}
