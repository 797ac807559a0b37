//! Operations that return pages of rows answer with a result set.

use antiphon::{
    Server,
    results::{DualResponseServer, DualResponseServerOptions},
    testing::Talk,
};
use antiphon_openapi::{Credential, OpenApi, PageLimits};
use axum::{
    http::header,
    response::{AppendHeaders, IntoResponse as _},
};
use serde_json::{Value, json};
use url::Url;

use crate::api::{Api, Received, call, document, text};

fn serve(openapi: &OpenApi) -> Server {
    let results = DualResponseServerOptions::new("https://api.example.com/resources");
    let converted = openapi.tools().unwrap();
    assert!(converted.report.converted[0].has_result_set, "{}", converted.report);
    let results = DualResponseServer::new(results).unwrap();
    Server::builder("api", "1.0.0").with_results(results).tools(converted.tools).build().unwrap()
}

/// An operation that returns a list with these query parameters.
fn rows(parameters: &[(&str, &str)], schema: &Value, headers: Value) -> Value {
    let mut response = json!({"content": {"application/json": {"schema": schema}}});
    response["headers"] = headers;
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|(name, kind)| json!({"name": name, "in": "query", "schema": {"type": kind}}))
        .collect();
    json!({"/rows": {"get": {
        "operationId": "listRows",
        "parameters": parameters,
        "responses": {"200": response},
    }}})
}

fn list() -> Value {
    json!({"type": "array", "items": {"type": "object"}})
}

fn object_with(field: &str) -> Value {
    json!({"type": "object", "properties": {field: list(), "total": {"type": "integer"}}})
}

fn ids(range: std::ops::Range<u64>) -> Vec<Value> {
    range.map(|id| json!({"id": id, "name": format!("row {id}")})).collect()
}

fn query(received: &Received, name: &str) -> Option<String> {
    let url = Url::parse("http://api").unwrap().join(&received.target).unwrap();
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

fn count(talk: &Talk) -> u64 {
    assert!(!talk.is_error(), "{}", talk.text());
    talk.result["structuredContent"]["metadata"]["total_count"].as_u64().unwrap()
}

fn is_incomplete(talk: &Talk) -> bool {
    talk.text().contains("The result set can be incomplete")
}

async fn read(openapi: OpenApi, api: &Api, limits: PageLimits, arguments: Value) -> Talk {
    let openapi = openapi.with_base_url(&api.url).with_result_sets(limits);
    call(&serve(&openapi), "list_rows", arguments).await
}

#[tokio::test]
async fn links_are_followed_on_the_same_host() {
    let api = Api::start(|received| {
        let page: u64 = query(received, "page").map_or(1, |page| page.parse().unwrap());
        let link = match page {
            3 => "<http://elsewhere.example/rows?page=4>; rel=\"next\"".to_owned(),
            page => format!("</rows?page={}>; rel=\"next\", </rows?page=9>; rel=\"last\"", page + 1),
        };
        ([(header::LINK, link)], axum::Json(ids(page * 10..page * 10 + 5))).into_response()
    })
    .await;
    let openapi = document(rows(&[], &list(), json!({"Link": {"schema": {"type": "string"}}})));
    let talk = read(openapi, &api, PageLimits::new(), json!({})).await;
    assert_eq!(count(&talk), 15);
    assert!(talk.text().contains("on another host"), "{}", talk.text());
    assert_eq!(api.received().len(), 3);
    let first = &talk.result["structuredContent"]["results"][0];
    assert_eq!(*first, json!({"id": 10, "name": "row 10"}));
}

#[tokio::test]
async fn a_link_that_repeats_the_api_key_sends_it_once() {
    let api = Api::start(|received| match query(received, "page") {
        None => {
            let link = format!("<{}&page=2>; rel=\"next\"", received.target);
            ([(header::LINK, link)], axum::Json(ids(0..2))).into_response()
        }
        Some(_) => axum::Json(ids(2..4)).into_response(),
    })
    .await;
    let document = json!({
        "openapi": "3.1.0",
        "security": [{"key": []}],
        "paths": rows(&[], &list(), json!({"Link": {"schema": {"type": "string"}}})),
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "api_key"}}},
    });
    let openapi = OpenApi::from_value(document).unwrap();
    let openapi = openapi.with_credential("key", Credential::token("s3cret-value"));
    assert_eq!(count(&read(openapi, &api, PageLimits::new(), json!({})).await), 4);
    assert_eq!(api.received()[1].target, "/rows?page=2&api_key=s3cret-value");
}

#[tokio::test]
async fn numbered_pages_are_read_until_one_is_not_full() {
    let api = Api::start(|received| {
        let page: u64 = query(received, "page").map_or(1, |page| page.parse().unwrap());
        let rows = if page < 3 { ids(page * 10..page * 10 + 4) } else { ids(30..31) };
        axum::Json(rows).into_response()
    })
    .await;
    let openapi = document(rows(&[("page", "integer"), ("per_page", "integer")], &list(), json!({})));
    let talk = read(openapi, &api, PageLimits::new(), json!({"per_page": 4})).await;
    assert_eq!(count(&talk), 9);
    // The document does not state the number of the first page, so the second request asks for page 1.
    let received = api.received();
    let targets: Vec<&str> = received.iter().map(|it| it.target.as_str()).collect();
    assert_eq!(
        targets,
        ["/rows?per_page=4", "/rows?page=1&per_page=4", "/rows?page=2&per_page=4", "/rows?page=3&per_page=4"]
    );
}

#[tokio::test]
async fn pages_that_start_at_zero_are_all_read() {
    let api = Api::start(|received| {
        let page: u64 = query(received, "page").map_or(0, |page| page.parse().unwrap());
        let rows = if page < 3 { ids(page * 2..page * 2 + 2) } else { Vec::new() };
        axum::Json(rows).into_response()
    })
    .await;
    let openapi = document(rows(&[("page", "integer")], &list(), json!({})));
    let talk = read(openapi, &api, PageLimits::new(), json!({})).await;
    assert_eq!(count(&talk), 6);
    assert!(!is_incomplete(&talk), "{}", talk.text());
    assert_eq!(api.received().len(), 4);
}

#[tokio::test]
async fn a_page_size_above_the_maximum_of_the_api_does_not_end_the_rows() {
    let api = Api::start(|received| {
        let number = |name: &str| query(received, name).map(|number| number.parse::<u64>().unwrap());
        let size = number("per_page").unwrap().min(100);
        let start = number("offset").unwrap_or_else(|| (number("page").unwrap_or(1) - 1) * size);
        axum::Json(ids(start.min(250)..(start + size).min(250))).into_response()
    })
    .await;
    for parameter in ["page", "offset"] {
        let parameters = [(parameter, "integer"), ("per_page", "integer")];
        let openapi = document(rows(&parameters, &list(), json!({})));
        let talk = read(openapi, &api, PageLimits::new(), json!({"per_page": 500})).await;
        assert_eq!(count(&talk), 250, "{parameter}");
        assert!(!is_incomplete(&talk), "{}", talk.text());
    }
}

#[tokio::test]
async fn a_short_page_is_the_last_if_the_document_declares_a_link_to_the_next() {
    let api = Api::start(|_| axum::Json(ids(0..3)).into_response()).await;
    let parameters = [("page", "integer"), ("per_page", "integer")];
    let openapi = document(rows(&parameters, &list(), json!({"Link": {"schema": {"type": "string"}}})));
    let talk = read(openapi, &api, PageLimits::new(), json!({"per_page": 10})).await;
    assert_eq!(count(&talk), 3);
    assert_eq!(api.only().target, "/rows?per_page=10");
}

#[tokio::test]
async fn a_page_number_can_have_a_fraction_of_zero() {
    let api = Api::start(|received| {
        let page: u64 = query(received, "page").unwrap().parse().unwrap();
        let rows = if page < 5 { ids(page * 2..page * 2 + 2) } else { Vec::new() };
        axum::Json(rows).into_response()
    })
    .await;
    let openapi = document(rows(&[("page", "integer")], &list(), json!({})));
    let talk = read(openapi, &api, PageLimits::new(), json!({"page": 3.0})).await;
    assert_eq!(count(&talk), 4);
    let received = api.received();
    let targets: Vec<&str> = received.iter().map(|it| it.target.as_str()).collect();
    assert_eq!(targets, ["/rows?page=3", "/rows?page=4", "/rows?page=5"]);
}

#[tokio::test]
async fn offsets_continue_after_the_rows_that_were_read() {
    let api = Api::start(|received| {
        let offset: u64 = query(received, "offset").map_or(0, |offset| offset.parse().unwrap());
        axum::Json(json!({"results": ids(offset..(offset + 3).min(7)), "total": 7})).into_response()
    })
    .await;
    let openapi =
        document(rows(&[("offset", "integer"), ("limit", "integer")], &object_with("results"), json!({})));
    let talk = read(openapi, &api, PageLimits::new(), json!({"limit": 3})).await;
    assert_eq!(count(&talk), 7);
}

#[tokio::test]
async fn cursors_come_from_the_previous_page() {
    let api = Api::start(|received| {
        let (rows, next) = match query(received, "cursor").as_deref() {
            None => (ids(0..2), json!("abc")),
            Some("abc") => (ids(2..4), json!("")),
            Some(other) => panic!("{other}"),
        };
        axum::Json(json!({"items": rows, "next_cursor": next})).into_response()
    })
    .await;
    let openapi = document(rows(&[("cursor", "string")], &object_with("items"), json!({})));
    let talk = read(openapi, &api, PageLimits::new(), json!({})).await;
    assert_eq!(count(&talk), 4);
    assert!(!is_incomplete(&talk), "{}", talk.text());
}

#[tokio::test]
async fn cursors_can_be_numbers() {
    let api = Api::start(|received| {
        let start: u64 = query(received, "cursor").map_or(0, |cursor| cursor.parse().unwrap());
        let next = if start < 4 { start + 2 } else { 0 };
        axum::Json(json!({"items": ids(start..start + 2), "next_cursor": next})).into_response()
    })
    .await;
    let openapi = document(rows(&[("cursor", "integer")], &object_with("items"), json!({})));
    let talk = read(openapi, &api, PageLimits::new(), json!({})).await;
    assert_eq!(count(&talk), 6);
    assert!(!is_incomplete(&talk), "{}", talk.text());
}

#[tokio::test]
async fn a_response_without_a_known_cursor_has_a_note() {
    let api = Api::start(|_| {
        axum::Json(json!({"items": ids(0..2), "position": {"following": "abc"}})).into_response()
    })
    .await;
    let parameters = [("cursor", "string"), ("limit", "integer")];
    let openapi = |schema: &Value| document(rows(&parameters, schema, json!({})));
    let unknown = object_with("items");
    let talk = read(openapi(&unknown), &api, PageLimits::new(), json!({})).await;
    assert_eq!(count(&talk), 2);
    assert!(talk.text().contains("does not state whether another page exists"), "{}", talk.text());
    // The page is not full.
    let talk = read(openapi(&unknown), &api, PageLimits::new(), json!({"limit": 3})).await;
    assert!(!is_incomplete(&talk), "{}", talk.text());
    // The document declares a known place, which the last page does not have.
    let mut known = object_with("items");
    known["properties"]["meta"] = json!({"properties": {"next_cursor": {"type": "string"}}});
    let talk = read(openapi(&known), &api, PageLimits::new(), json!({})).await;
    assert!(!is_incomplete(&talk), "{}", talk.text());
}

#[tokio::test]
async fn more_rows_without_a_position_have_a_note() {
    let api = Api::start(|_| axum::Json(json!({"items": ids(0..2), "has_more": true})).into_response()).await;
    for parameter in ["cursor", "starting_after"] {
        let mut schema = object_with("items");
        schema["properties"]["next_cursor"] = json!({"type": "string"});
        let openapi = document(rows(&[(parameter, "string")], &schema, json!({})));
        let talk = read(openapi, &api, PageLimits::new().with_pages(2), json!({})).await;
        assert!(is_incomplete(&talk), "{}", talk.text());
    }
}

#[tokio::test]
async fn pages_with_the_same_first_row_are_different_pages() {
    let api = Api::start(|received| {
        let page: u64 = query(received, "page").map_or(1, |page| page.parse().unwrap());
        let rows = match page {
            1..=3 => vec![json!({"pinned": true}), json!({"id": page})],
            _ => Vec::new(),
        };
        axum::Json(rows).into_response()
    })
    .await;
    let openapi = document(rows(&[("page", "integer")], &list(), json!({})));
    let talk = read(openapi, &api, PageLimits::new(), json!({})).await;
    assert_eq!(count(&talk), 6);
    assert!(!is_incomplete(&talk), "{}", talk.text());
}

#[tokio::test]
async fn the_next_link_can_be_in_a_second_header() {
    let api = Api::start(|received| match query(received, "page") {
        None => {
            let first = (header::LINK, "</rows?page=1>; rel=\"first\"");
            let next = (header::LINK, "</rows?page=2>; rel=\"next\"");
            (AppendHeaders([first, next]), axum::Json(ids(0..2))).into_response()
        }
        Some(_) => axum::Json(ids(2..4)).into_response(),
    })
    .await;
    let openapi = document(rows(&[], &list(), json!({"Link": {"schema": {"type": "string"}}})));
    let talk = read(openapi, &api, PageLimits::new(), json!({})).await;
    assert_eq!(count(&talk), 4);
    assert!(!is_incomplete(&talk), "{}", talk.text());
}

#[tokio::test]
async fn the_last_id_is_the_cursor_of_starting_after() {
    let api = Api::start(|received| {
        let start: u64 = query(received, "starting_after").map_or(0, |id| id.parse::<u64>().unwrap() + 1);
        axum::Json(json!({"data": ids(start..start + 2), "has_more": start < 4})).into_response()
    })
    .await;
    let openapi = document(rows(&[("starting_after", "string")], &object_with("data"), json!({})));
    assert_eq!(count(&read(openapi, &api, PageLimits::new(), json!({})).await), 6);
}

#[tokio::test]
async fn limits_end_the_reading_with_a_note() {
    let api = Api::start(|received| {
        let page: u64 = query(received, "page").map_or(1, |page| page.parse().unwrap());
        axum::Json(ids(page * 10..page * 10 + 5)).into_response()
    })
    .await;
    let openapi = || document(rows(&[("page", "integer")], &list(), json!({})));
    let talk = read(openapi(), &api, PageLimits::new().with_pages(2), json!({})).await;
    assert_eq!(count(&talk), 10);
    assert!(
        talk.text().starts_with("The result set can be incomplete: the limit of 2 pages"),
        "{}",
        talk.text()
    );
    assert!(talk.result["structuredContent"]["about"].as_str().unwrap().contains("2 pages"));
    let talk = read(openapi(), &api, PageLimits::new().with_rows(7), json!({})).await;
    assert_eq!(count(&talk), 7);
}

#[tokio::test]
async fn an_api_that_ignores_the_page_does_not_repeat_rows() {
    let api = Api::start(|_| axum::Json(ids(0..5)).into_response()).await;
    let openapi = document(rows(&[("page", "integer")], &list(), json!({})));
    let talk = read(openapi, &api, PageLimits::new(), json!({})).await;
    assert_eq!(count(&talk), 5);
    assert!(talk.text().contains("page 2 has the same rows"), "{}", talk.text());
    assert_eq!(api.received().len(), 3);
}

#[tokio::test]
async fn a_failure_of_the_first_page_is_an_error_and_of_a_later_page_a_note() {
    let api = Api::start(|received| match query(received, "page").as_deref() {
        Some("2") => text(429, "slow down"),
        Some("7") => text(403, "no"),
        _ => axum::Json(ids(0..5)).into_response(),
    })
    .await;
    let openapi = || document(rows(&[("page", "integer")], &list(), json!({})));
    let talk = read(openapi(), &api, PageLimits::new(), json!({})).await;
    assert_eq!(count(&talk), 5);
    assert!(talk.text().contains("page 2 failed with HTTP 429"), "{}", talk.text());
    let talk = read(openapi(), &api, PageLimits::new(), json!({"page": 7})).await;
    assert!(talk.is_error());
    assert_eq!(talk.text(), "GET /rows failed with HTTP 403: no");
}

#[test]
fn operations_without_pages_have_no_result_set() {
    let openapi = document(rows(&[], &list(), json!({})))
        .with_base_url("https://api.example.com")
        .with_result_sets(PageLimits::new());
    assert!(!openapi.tools().unwrap().report.converted[0].has_result_set);
}
