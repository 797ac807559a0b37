//! Validators, what may be kept, CORS and compression.

use antiphon_results::{BoxError, CreateOptions, LinkKeys, Owner, snapshot::RowSource, source::Source};
use axum::body::Body;
use futures_util::stream;
use serde_json::json;

use super::{House, people};
use crate::support::Shelf;

#[tokio::test]
async fn rows_that_never_change_are_not_read_again() {
    let house = House::open();
    let path = house.people(3).await;
    let rows = format!("{path}/rows?limit=2");
    let first = house.ask("GET", &rows, Body::empty()).await;
    assert_eq!(first.json()["returned_count"], 2);
    assert_eq!(first.header("cache-control"), Some("private, max-age=900"));
    assert!(first.headers.get_all("vary").iter().any(|vary| vary == "Accept, Authorization"));
    let tag = first.header("etag").unwrap().to_owned();
    assert!(tag.starts_with("W/\""), "{tag}");
    let strong = tag.strip_prefix("W/").unwrap();
    let list = format!("\"other\", {tag}");
    for known in [&tag, strong, "*", &list] {
        let again = house.ask_with("GET", &rows, &[("if-none-match", known)], Body::empty()).await;
        assert_eq!((again.status.as_u16(), again.text().as_str()), (304, ""), "{known}");
        assert_eq!(again.header("etag"), Some(&*tag));
        assert_eq!(again.header("antiphon-consistency"), Some("fixed"));
    }
    let count = house.ask("GET", &path, Body::empty()).await.json()["access_count"].clone();
    assert_eq!(count, 1, "nothing was read for a 304");
    for other in [
        "rows",
        "rows?limit=1",
        "rows?limit=2&offset=1",
        "rows?limit=2&sort=id",
        "rows?limit=2&sort=id&order=desc",
    ] {
        let answer = house
            .ask_with("GET", &format!("{path}/{other}"), &[("if-none-match", &tag)], Body::empty())
            .await;
        assert_eq!(answer.status, 200, "{other}");
    }
    let csv =
        house.ask_with("GET", &rows, &[("accept", "text/csv"), ("if-none-match", &tag)], Body::empty()).await;
    assert_eq!(csv.status, 200, "another format is another body");
    assert!(csv.header("etag").is_some_and(|other| other != tag));
}

#[tokio::test]
async fn a_conditional_request_is_authorised_like_any_other() {
    let house = House::with_callers();
    let path = house.people_of(3, Owner::principal("ada").with_tenant("acme")).await;
    let rows = format!("{path}/rows");
    let ada = ("authorization", "Bearer ada@acme");
    let tag = house.ask_with("GET", &rows, &[ada], Body::empty()).await.header("etag").unwrap().to_owned();
    let known = ("if-none-match", &*tag);
    assert_eq!(house.ask_with("GET", &rows, &[ada, known], Body::empty()).await.status, 304);
    let eve = ("authorization", "Bearer eve@acme");
    assert_eq!(house.ask_with("GET", &rows, &[eve, known], Body::empty()).await.status, 404);
    assert_eq!(house.ask_with("GET", &rows, &[known], Body::empty()).await.status, 401);
    house.pass(900);
    assert_eq!(house.ask_with("GET", &rows, &[ada, known], Body::empty()).await.status, 404);
}

#[tokio::test]
async fn live_rows_are_asked_about_each_time() {
    let house = House::open();
    let source = Source::closures(|_| async { Ok::<_, BoxError>(people(2)) }, || async { Ok(2) });
    let path = house.make(CreateOptions::new("Live", source)).await;
    let rows = format!("{path}/rows");
    let first = house.ask("GET", &rows, Body::empty()).await;
    assert_eq!(first.header("cache-control"), Some("private, no-cache"));
    assert_eq!(first.header("antiphon-consistency"), Some("offset"));
    let tag = first.header("etag").unwrap();
    assert_eq!(house.ask_with("GET", &rows, &[("if-none-match", tag)], Body::empty()).await.status, 304);
    assert_eq!(house.ask("GET", &path, Body::empty()).await.json()["access_count"], 2);
}

#[tokio::test]
async fn metadata_has_a_validator_that_changes_with_it() {
    let house = House::open();
    let path = house.people(1).await;
    let tag = house.ask("GET", &path, Body::empty()).await.header("etag").unwrap().to_owned();
    let known = [("if-none-match", &*tag)];
    assert_eq!(house.ask_with("GET", &path, &known, Body::empty()).await.status, 304);
    house.ask("POST", &path, Body::empty()).await;
    assert_eq!(house.ask_with("GET", &path, &known, Body::empty()).await.status, 200);
}

/// A length would be that of what whoever asks has, and that is not nothing.
#[tokio::test]
async fn answer_that_nothing_has_changed_has_no_length() {
    let shelf = Shelf::default();
    shelf.looked.notify_one();
    let house = House::with(|options| options.with_snapshots(shelf));
    let live = Source::closures(|_| async { Ok::<_, BoxError>(people(2)) }, || async { Ok(2) });
    let live = house.make(CreateOptions::new("Live", live)).await;
    let saved = Source::snapshot(RowSource::rows(stream::iter([Ok(people(2))])));
    let saved = house.make(CreateOptions::new("Saved", saved)).await;
    let set = house.people(2).await;
    for path in [
        set.clone(),
        format!("{set}/rows"),
        format!("{live}/rows"),
        format!("{set}/manifest"),
        format!("{saved}/stats"),
        format!("{set}/view"),
        format!("{set}/export?format=csv"),
        format!("{saved}/export?format=csv"),
    ] {
        let tag = house.ask("GET", &path, Body::empty()).await.header("etag").unwrap().to_owned();
        for method in ["GET", "HEAD"] {
            let known = house.ask_with(method, &path, &[("if-none-match", &tag)], Body::empty()).await;
            let said = (known.status.as_u16(), known.header("content-length"), known.text());
            assert_eq!(said, (304, None, String::new()), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let house = House::open();
    let path = house.people(3).await;
    for path in [path.clone(), format!("{path}/rows"), "/resources/openapi.json".to_owned()] {
        let head = house.ask("HEAD", &path, Body::empty()).await;
        assert_eq!((head.status.as_u16(), head.text().as_str()), (200, ""), "{path}");
        assert_eq!(head.header("content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn a_cursor_leads_to_the_next_page() {
    let house = House::open();
    let path = house.numbers(250).await;
    let first = house.ask("POST", &path, r#"{"limit":100}"#).await;
    assert_eq!(first.header("antiphon-consistency"), Some("keyset"));
    let mut next = first.header("link").unwrap().to_owned();
    for (begin, count) in [(100, 100), (200, 50)] {
        let url =
            next.strip_prefix("<https://api.example.com").unwrap().strip_suffix(">; rel=\"next\"").unwrap();
        let page = house.ask("GET", url, Body::empty()).await;
        assert_eq!(page.json()["data"][0], json!({ "n": begin }));
        assert_eq!(page.json()["returned_count"], count);
        next = page.header("link").unwrap_or_default().to_owned();
    }
    assert_eq!(next, "", "the last page leads nowhere");
    let fixed = house.people(250).await;
    assert_eq!(house.ask("POST", &fixed, Body::empty()).await.header("link"), None);
}

#[tokio::test]
async fn other_origins_may_call_only_where_they_are_allowed() {
    let origin = ("origin", "https://app.example.com");
    let preflight = [origin, ("access-control-request-method", "POST")];
    let closed = House::open();
    let path = closed.people(1).await;
    let answer = closed.ask_with("GET", &path, &[origin], Body::empty()).await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
    assert_eq!(answer.refusal(), (403, "FORBIDDEN".into()));
    assert_eq!(closed.ask_with("OPTIONS", &path, &preflight, Body::empty()).await.status, 403);

    let open = House::with(|options| {
        options
            .with_allowed_origins(["https://app.example.com", "bad\norigin"])
            .with_link_keys(LinkKeys::random())
    });
    let path = open.people(1).await;
    let answer = open.ask_with("GET", &path, &[origin], Body::empty()).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example.com"));
    let exposed = answer.header("access-control-expose-headers").unwrap();
    assert!(["etag", "link", "antiphon-consistency"].iter().all(|name| exposed.contains(name)), "{exposed}");
    let answer = open.ask_with("OPTIONS", &path, &preflight, Body::empty()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    let stranger = open.ask_with("GET", &path, &[("origin", "https://evil.example")], Body::empty()).await;
    assert_eq!((stranger.status.as_u16(), stranger.header("access-control-allow-origin")), (403, None));
    assert_eq!(House::with(|options| options.with_allowed_origins(["*"])).people(1).await.len(), 46);
}

#[tokio::test]
async fn what_is_large_is_compressed_and_what_is_small_is_not() {
    let house = House::open();
    let path = house.people(500).await;
    for coding in ["gzip", "zstd"] {
        let accept = ("accept-encoding", coding);
        let page = house.ask_with("POST", &path, &[accept], r#"{"limit":500}"#).await;
        assert_eq!(page.header("content-encoding"), Some(coding));
        assert!(page.body.unwrap().len() < 8000);
        let stream =
            house.ask_with("POST", &path, &[accept, ("accept", "application/x-ndjson")], Body::empty()).await;
        assert_eq!(stream.header("content-encoding"), Some(coding));
        let small = house.ask_with("GET", &path, &[accept], Body::empty()).await;
        assert_eq!(small.header("content-encoding"), None);
    }
}
