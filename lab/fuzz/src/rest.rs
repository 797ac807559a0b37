//! The routes of result sets: bodies, queries, headers.

use antiphon_results::{
    CreateOptions, DualResponseServer, DualResponseServerOptions, LinkKeys, Rows, Source,
};
use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Request, Uri},
};
use serde_json::json;
use tower::ServiceExt as _;

use crate::run;

/// A server with one set that never ends.
#[derive(Clone)]
struct House {
    server: DualResponseServer,
    router: Router,
    id: String,
}

async fn house() -> House {
    let options =
        DualResponseServerOptions::new("http://localhost/r").with_link_keys(LinkKeys::new(1, [7; 32]));
    let server = DualResponseServer::new(options).expect("it is a server");
    let mut rows = Rows::new();
    for n in 0..20 {
        rows.push(&json!({"id": n, "name": format!("row {n}"), "half": f64::from(n) / 2.0}))
            .expect("it is JSON");
    }
    let made = server.create_response(CreateOptions::new("Rows", Source::rows(rows))).await;
    let id = made.expect("it is kept").resource_id;
    server.pin_resource(&id).await.expect("it is there");
    House { router: Router::new().nest("/r", server.router()), server, id }
}

/// The first byte says which route; the rest is the body, the query or a header.
pub fn rest(data: &[u8]) {
    thread_local! {
        static HOUSE: std::cell::OnceCell<House> = const { std::cell::OnceCell::new() };
    }
    let Some((route, rest)) = data.split_first() else { return };
    let known = HOUSE.with(|house| house.get().cloned());
    run(async {
        let house = if let Some(house) = known {
            house
        } else {
            let house = house().await;
            HOUSE.with(|kept| kept.get_or_init(|| house).clone())
        };
        ask(&house, *route, rest).await;
    });
}

async fn ask(house: &House, route: u8, rest: &[u8]) {
    let set = format!("/r/{}", house.id);
    let (method, path, header) = match route % 12 {
        0 => ("POST", set, None),
        1 => ("PUT", set, None),
        2 => ("POST", format!("{set}/links"), None),
        3 => ("POST", format!("{set}/aggregate"), None),
        4 => ("POST", format!("{set}/query"), None),
        5 => ("GET", format!("{set}/rows?"), None),
        6 => ("GET", format!("{set}/export?"), None),
        7 => ("GET", "/r/".to_owned(), None),
        8 => ("GET", format!("{set}/rows"), Some("accept")),
        9 => ("GET", format!("{set}/export?format=csv"), Some("range")),
        10 => ("GET", set, Some("if-none-match")),
        _ => ("GET", set, Some("origin")),
    };
    let in_uri = matches!(route % 12, 5..=7);
    let uri = if in_uri { [path.as_bytes(), rest].concat() } else { path.into_bytes() };
    let Ok(uri) = Uri::try_from(uri) else { return };
    let mut request = Request::builder().method(method).uri(uri).header("host", "localhost");
    match header {
        Some(name) => {
            let Ok(value) = HeaderValue::from_bytes(rest) else { return };
            request = request.header(name, value);
        }
        None if !in_uri => request = request.header("content-type", "application/json"),
        None => {}
    }
    let body = if header.is_none() && !in_uri { Body::from(rest.to_vec()) } else { Body::empty() };
    let response = house.router.clone().oneshot(request.body(body).expect("it is a request")).await;
    let response = response.expect("it cannot fail");
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1 << 24).await;
    assert!(status.as_u16() < 500, "{status}: {body:?}");
    // Whatever was asked, the next finds the set.
    house.server.pin_resource(&house.id).await.expect("it is there");
}
