//! What streamable HTTP asks of a client beside the messages.

use std::sync::{Arc, Mutex};

use antiphon::{http::HttpConfig, prelude::*};
use antiphon_host::{Error as HostError, Host, HttpEndpoint, Lifecycle};
use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse as _,
    routing::{any, post},
};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use crate::support::BOTH;

fn host(lifecycle: Lifecycle) -> Host {
    Host::builder("h", "1").with_lifecycle(lifecycle).build()
}

/// Serves `router` and says where.
async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    base
}

fn server() -> Server {
    let schema =
        json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    let tool = Tool::raw(
        "where",
        "Says where",
        schema,
        async |_: &Ctx, arguments: Map<String, Value>| -> Result<String> {
            Ok(arguments["region"].as_str().unwrap_or_default().to_owned())
        },
    );
    Server::builder("s", "1").tool(tool).build().unwrap()
}

#[tokio::test]
async fn a_tool_whose_arguments_travel_in_headers_can_be_called_without_being_listed() {
    let base = serve(server().router(HttpConfig::default())).await;
    for lifecycle in BOTH {
        let server = host(lifecycle).connect(HttpEndpoint::new(format!("{base}/mcp"))).await.unwrap();
        for region in ["north", "süd", " west "] {
            let result = server.call("where", json!({"region": region})).await.unwrap();
            assert_eq!(result.content[0].as_text().unwrap().text, region, "{lifecycle:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_moved_to_another_path_is_followed() {
    let moved =
        |to: &'static str| move || async move { (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, to)]) };
    let router = server().router(HttpConfig::default()).route("/old", any(moved("/mcp")));
    let base = serve(router).await;
    for lifecycle in BOTH {
        let server = host(lifecycle).connect(HttpEndpoint::new(format!("{base}/old"))).await.unwrap();
        assert_eq!(server.tools().await.unwrap().len(), 1, "{lifecycle:?}");
    }
}

#[tokio::test]
async fn what_a_request_carries_is_not_carried_to_another_server() {
    let strangers = Arc::new(Mutex::new(Vec::<HeaderMap>::new()));
    let seen = Arc::clone(&strangers);
    let stranger = serve(Router::new().fallback(move |request: Request| {
        seen.lock().unwrap().push(request.headers().clone());
        async { StatusCode::NOT_FOUND }
    }))
    .await;
    let base = serve(Router::new().route(
        "/mcp",
        post(move || {
            let to = format!("{stranger}/mcp");
            async { (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response() }
        }),
    ))
    .await;
    for lifecycle in BOTH {
        let endpoint = HttpEndpoint::new(format!("{base}/mcp")).with_header("x-api-key", "s3cr3t");
        let error = host(lifecycle).connect(endpoint).await.unwrap_err();
        assert!(matches!(error, HostError::Connect { .. }), "{lifecycle:?}: {error:?}");
    }
    assert!(strangers.lock().unwrap().is_empty(), "{strangers:?}");
}
