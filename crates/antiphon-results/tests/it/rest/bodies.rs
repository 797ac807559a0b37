//! The bodies of the specification, to the letter.

use std::time::Duration;

use antiphon_results::{CreateOptions, source::Source};
use axum::body::Body;
use proptest::prelude::*;
use serde_json::json;

use super::{House, people};

const NOT_FOUND: &str =
    r#"{"error":"not_found","message":"Resource not found or expired","code":"RESOURCE_NOT_FOUND"}"#;
const EXPIRED: &str =
    r#"{"error":"not_found","message":"Resource not found or expired","code":"RESOURCE_EXPIRED"}"#;

#[tokio::test]
async fn metadata_has_the_members_of_the_specification() {
    let house = House::open();
    let path = house.people(847).await;
    for _ in 0..3 {
        house.ask("POST", &path, Body::empty()).await;
    }
    let answer = house.ask("GET", &path, Body::empty()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.text(),
        r#"{"status":"ready","total_count":847,"columns":[{"name":"id","type":"integer"},{"name":"name","type":"string"}],"created_at":"2025-01-15T10:30:00Z","expires_at":"2025-01-15T10:45:00Z","access_count":3}"#
    );
    let again = house.ask("GET", &path, Body::empty()).await;
    assert_eq!(again.json()["access_count"], 3, "reading metadata is no access");
}

#[tokio::test]
async fn a_page_has_the_members_of_the_specification() {
    let house = House::open();
    let path = house.people(5).await;
    let page = house.ask("POST", &path, r#"{"offset":1,"limit":2}"#).await;
    assert_eq!(page.status, 200);
    assert_eq!(
        page.text(),
        r#"{"data":[{"id":2,"name":"Person 2"},{"id":3,"name":"Person 3"}],"total_count":5,"returned_count":2,"offset":1,"has_next":true,"next_offset":3}"#
    );
    assert_eq!(page.header("antiphon-consistency"), Some("fixed"));
    assert_eq!(page.header("content-type"), Some("application/json"));
    let last =
        house.ask("POST", &path, r#"{"offset":4,"limit":2,"sort":{"field":"id","order":"desc"}}"#).await;
    assert_eq!(
        last.text(),
        r#"{"data":[{"id":1,"name":"Person 1"}],"total_count":5,"returned_count":1,"offset":4,"has_next":false,"next_offset":null}"#
    );
    let beyond = house.ask("POST", &path, r#"{"offset":9007199254740991}"#).await;
    assert_eq!(
        beyond.text(),
        r#"{"data":[],"total_count":5,"returned_count":0,"offset":9007199254740991,"has_next":false,"next_offset":null}"#
    );
}

#[tokio::test]
async fn without_a_body_a_page_is_the_first_hundred() {
    let house = House::open();
    let path = house.people(150).await;
    for body in
        ["", "{}", r#"{"sort":null,"cursor":null}"#, r#"{"offset":0.0,"limit":1e2}"#, r#"{"offset":-0}"#]
    {
        let page = house.ask("POST", &path, body).await;
        assert_eq!(page.status, 200, "{body}: {}", page.text());
        let page = page.json();
        assert_eq!((&page["returned_count"], &page["next_offset"]), (&json!(100), &json!(100)), "{body}");
    }
}

#[tokio::test]
async fn a_number_is_read_as_it_is_written() {
    let house = House::open();
    let path = house.people(1).await;
    for (written, read) in [
        ("2226850376830711.0", 2_226_850_376_830_711_u64),
        ("9007199254740991.0", 9_007_199_254_740_991),
        ("9.007199254740991e15", 9_007_199_254_740_991),
        ("-0.0", 0),
    ] {
        let page = house.ask("POST", &path, format!(r#"{{"offset": {written}}}"#)).await;
        assert_eq!(page.json()["offset"], read, "{written}");
    }
}

#[tokio::test]
async fn a_limit_above_the_servers_is_the_servers() {
    let limits = antiphon_results::ResultLimits::default().with_page_rows(10);
    let house = House::with(|options| options.with_limits(limits));
    let path = house.people(50).await;
    let page = house.ask("POST", &path, r#"{"limit":9007199254740991}"#).await.json();
    assert_eq!((&page["returned_count"], &page["has_next"]), (&json!(10), &json!(true)));
}

#[tokio::test]
async fn pinning_unpinning_and_extending_say_when_it_ends() {
    let house = House::open();
    let path = house.people(1).await;
    let pinned = r#"{"status":"pinned","expires_at":null}"#;
    for body in ["", "{}", r#"{"pinned":true}"#, r#"{"pinned":true}"#] {
        let answer = house.ask("PUT", &path, body).await;
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, pinned), "{body}");
    }
    house.pass(3600);
    assert_eq!(house.server.clean_up().await.unwrap(), 0, "what is pinned stays");
    let ready = |end: &str| format!(r#"{{"status":"ready","expires_at":"{end}"}}"#);
    let unpinned = house.ask("PUT", &path, r#"{"pinned":false}"#).await;
    assert_eq!(unpinned.text(), ready("2025-01-15T11:45:00Z"));
    let extended = house.ask("PUT", &path, r#"{"expires_in":60}"#).await;
    assert_eq!(extended.text(), ready("2025-01-15T11:31:00Z"));
    let longest = house.ask("PUT", &path, r#"{"expires_in":9007199254740991}"#).await;
    assert_eq!(longest.text(), ready("2025-02-14T11:30:00Z"), "more than allowed is what is allowed");
}

#[tokio::test]
async fn a_deleted_set_is_not_found_by_any_method() {
    let house = House::open();
    let path = house.people(1).await;
    let deleted = house.ask("DELETE", &path, Body::empty()).await;
    assert_eq!((deleted.status.as_u16(), deleted.text().as_str()), (204, ""));
    for (method, path) in every_route(&path) {
        let answer = house.ask(method, &path, Body::empty()).await;
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (404, NOT_FOUND), "{method} {path}");
    }
}

#[tokio::test]
async fn an_expired_set_says_so_before_and_after_it_is_removed() {
    let house = House::open();
    let rows = CreateOptions::new("Short", Source::rows(people(1))).with_expiration(Duration::from_secs(5));
    let path = house.make(rows).await;
    house.pass(5);
    for removed in [0, 1] {
        for (method, path) in every_route(&path) {
            let answer = house.ask(method, &path, Body::empty()).await;
            assert_eq!((answer.status.as_u16(), answer.text().as_str()), (404, EXPIRED), "{method} {path}");
        }
        assert_eq!(house.server.clean_up().await.unwrap(), 1 - removed);
    }
}

pub(super) fn every_route(path: &str) -> Vec<(&'static str, String)> {
    vec![
        ("GET", path.to_owned()),
        ("POST", path.to_owned()),
        ("PUT", path.to_owned()),
        ("DELETE", path.to_owned()),
        ("GET", format!("{path}/rows")),
        ("POST", format!("{path}/links")),
        ("DELETE", format!("{path}/links")),
    ]
}

#[test]
fn pages_add_up_to_the_set_wherever_they_are_cut() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (house, path) = runtime.block_on(async {
        let house = House::open();
        let path = house.people(37).await;
        (house, path)
    });
    proptest!(ProptestConfig::with_cases(40), |(limit in 1_u64..50, descending: bool)| {
        runtime.block_on(async {
            let (mut ids, mut offset) = (Vec::new(), json!(0));
            while !offset.is_null() {
                let order = if descending { "desc" } else { "asc" };
                let ask = json!({"offset": offset, "limit": limit, "sort": {"field": "id", "order": order}});
                let page = house.ask("POST", &path, ask.to_string()).await.json();
                let data = page["data"].as_array().unwrap();
                prop_assert_eq!(&page["returned_count"], data.len());
                prop_assert_eq!(page["has_next"].as_bool().unwrap(), !page["next_offset"].is_null());
                ids.extend(data.iter().map(|row| row["id"].as_u64().unwrap()));
                offset = page["next_offset"].clone();
            }
            if descending {
                ids.reverse();
            }
            prop_assert_eq!(ids, (1..=37).collect::<Vec<_>>());
            Ok(())
        })?;
    });
}
