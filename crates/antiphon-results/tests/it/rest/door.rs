//! Who is answered at all: by the name they ask for, and by the page they are.

use axum::body::Body;
use serde_json::json;

use super::House;

async fn status(house: &House, path: &str, host: &str, origin: Option<&str>) -> u16 {
    let origin = origin.map(|origin| ("origin", origin));
    let headers: Vec<_> = [("host", host)].into_iter().chain(origin).collect();
    house.ask_with("GET", path, &headers, Body::empty()).await.status.as_u16()
}

#[tokio::test]
async fn a_name_that_somebody_points_here_is_not_answered() {
    let house = House::open();
    let path = house.people(3).await;
    for host in ["api.example.com", "API.example.com:443", "localhost:8000", "127.0.0.1:9", "[::1]:1"] {
        assert_eq!(status(&house, &path, host, None).await, 200, "{host}");
    }
    for host in ["evil.example", "api.example.com.evil.example", "10.0.0.1", "localhost.evil.example:80"] {
        assert_eq!(status(&house, &path, host, None).await, 403, "{host}");
        // A page of that name is its own page, and no more welcome.
        let origin = format!("http://{host}");
        assert_eq!(status(&house, &path, host, Some(&origin)).await, 403, "{host}");
    }
    let deleted = house.ask_with("DELETE", &path, &[("host", "evil.example")], Body::empty()).await;
    assert_eq!(deleted.refusal(), (403, "FORBIDDEN".into()));
    assert_eq!(house.ask("GET", &path, "").await.status, 200, "nothing was done");
}

#[tokio::test]
async fn a_page_of_our_own_is_answered_and_a_strangers_is_not() {
    let house = House::open();
    let path = house.people(3).await;
    let own = Some("https://api.example.com");
    assert_eq!(status(&house, &path, "api.example.com", own).await, 200);
    for origin in ["https://evil.example", "null", "https://api.example.com.evil.example", "x"] {
        assert_eq!(status(&house, &path, "api.example.com", Some(origin)).await, 403, "{origin}");
    }
    // A link does not change where a request comes from.
    let link = house.link(&path, &json!({})).await;
    let linked = format!("{path}{link}");
    assert_eq!(status(&house, &linked, "api.example.com", None).await, 200);
    assert_eq!(status(&house, &linked, "evil.example", None).await, 403);
}

#[tokio::test]
async fn hosts_can_be_named_or_all_be_answered() {
    let named = House::with(|options| options.with_allowed_hosts(["results.internal:8080"]));
    let path = named.people(1).await;
    assert_eq!(status(&named, &path, "results.internal:8080", None).await, 200);
    assert_eq!(status(&named, &path, "api.example.com", None).await, 403);
    let open = House::with(|options| options.with_allowed_hosts([] as [&str; 0]));
    let path = open.people(1).await;
    assert_eq!(status(&open, &path, "whatever.example", None).await, 200);
}
