//! Servers that are asked to end while a host waits for an answer.

use std::time::{Duration, Instant};

use antiphon::{
    http::{HttpConfig, ServeConfig},
    prelude::*,
};
use antiphon_host::{Endpoint, Host, Lifecycle};
use antiphon_transport::{
    sse::{self, SseConfig},
    websocket::{self, WebSocketConfig},
};
use serde_json::json;
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
    time::timeout,
};

const MOMENT: Duration = Duration::from_secs(10);

async fn work(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.state::<mpsc::UnboundedSender<()>>()?.send(())?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok("worked".into())
}

#[tokio::test]
async fn call_in_flight_is_answered_over_every_transport_by_a_server_that_is_asked_to_end() {
    for (transport, lifecycle) in [
        ("http", Lifecycle::Legacy),
        ("http", Lifecycle::Modern),
        ("ws", Lifecycle::Legacy),
        ("ws", Lifecycle::Modern),
        ("sse", Lifecycle::Legacy),
    ] {
        let (begins, mut begun) = mpsc::unbounded_channel::<()>();
        let tool = Tool::new("work", "Works for two seconds", work);
        let server = Server::builder("s", "1").tool(tool).with_state(begins).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (one, other) = (server.clone(), server.clone());
        let over_websocket = websocket::router(WebSocketConfig::default(), move |transport| {
            let server = one.clone();
            async move { drop(server.serve_transport(transport).await) }
        });
        let over_sse = sse::router(SseConfig::default(), move |transport| {
            let server = other.clone();
            async move { drop(server.serve_transport(transport).await) }
        });
        let app = server.router(HttpConfig::default()).merge(over_websocket).merge(over_sse);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            server.serve_router(listener, app, ServeConfig::default(), async { drop(stopped.await) }).await;
        });
        let endpoint = match transport {
            "http" => Endpoint::http(format!("http://{address}/mcp")),
            "ws" => Endpoint::websocket(format!("ws://{address}/ws")),
            _ => Endpoint::sse(format!("http://{address}/sse")),
        };
        let host = Host::builder("h", "1").with_lifecycle(lifecycle).build();
        let connection = host.connect(endpoint).await.unwrap();
        let calling = async {
            timeout(MOMENT, connection.call("work", json!({})).into_future()).await.unwrap().unwrap()
        };
        let ending = async {
            begun.recv().await.unwrap();
            drop(stop);
            Instant::now()
        };
        let (answer, asked) = tokio::join!(calling, ending);
        let answer = serde_json::to_value(answer).unwrap();
        assert_eq!(answer["content"][0]["text"], "worked", "{transport} {lifecycle:?}");
        timeout(MOMENT, serving).await.expect("the server ends").unwrap();
        assert!(asked.elapsed() < Duration::from_secs(6), "{transport} {lifecycle:?}: {:?}", asked.elapsed());
    }
}
