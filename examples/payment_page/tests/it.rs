//! The example over HTTP: an MCP client, and a browser that has nothing to do with it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{future::IntoFuture as _, net::SocketAddr, time::Duration};

use antiphon::http::ServeConfig;
use antiphon_host::{Connection, Endpoint, Event, Host, Lifecycle, Page};
use payment_page::{Shop, app};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// Serves the example, and returns its address.
async fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app(Shop::new(format!("http://{address}").parse().unwrap())).unwrap();
    tokio::spawn(antiphon::http::serve(listener, app, ServeConfig::default(), std::future::pending()));
    address
}

/// Makes a request as a browser does, and returns the status and the body.
async fn browse(method: &str, url: &str) -> (u16, String) {
    let (address, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{method} /{path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let status = response.split(' ').nth(1).unwrap().parse().unwrap();
    (status, response)
}

struct Buyer {
    connection: Connection,
    pages: mpsc::UnboundedReceiver<Page>,
    events: mpsc::UnboundedReceiver<Event>,
}

/// A client whose user agrees to go to the page, or does not.
async fn buyer(address: SocketAddr, lifecycle: Lifecycle, agrees: bool) -> Buyer {
    let (sent, pages) = mpsc::unbounded_channel();
    let (told, events) = mpsc::unbounded_channel();
    let host = Host::builder("buyer", "1")
        .with_lifecycle(lifecycle)
        .with_events(move |event| drop(told.send(event)))
        .with_pages(move |page: Page| {
            drop(sent.send(page));
            std::future::ready(agrees)
        })
        .build();
    let connection = host.connect(Endpoint::http(format!("http://{address}/mcp"))).await.unwrap();
    Buyer { connection, pages, events }
}

async fn within<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("it takes too long")
}

#[tokio::test]
async fn item_is_bought_when_the_page_is_paid() {
    let address = serve().await;
    for lifecycle in [Lifecycle::Legacy, Lifecycle::Modern] {
        let Buyer { connection, mut pages, mut events } = buyer(address, lifecycle, true).await;
        let call =
            tokio::spawn(async move { (connection.call("buy", json!({"item": "tea"})).await, connection) });
        let page = within(pages.recv()).await.unwrap();
        assert_eq!(page.message, "Pay 12 euros for tea");
        let (status, shown) = browse("GET", &page.url).await;
        assert_eq!(status, 200);
        assert!(shown.contains("<button>Pay 12 euros</button>"), "{shown}");
        assert!(!call.is_finished(), "nobody has paid");
        assert_eq!(browse("POST", &page.url).await.0, 200);
        let (result, _connection) = within(call).await.unwrap();
        assert_eq!(result.unwrap().content[0].as_text().unwrap().text, "You bought tea.");
        if lifecycle == Lifecycle::Legacy {
            let complete = Event::PageComplete { elicitation_id: page.elicitation_id.unwrap() };
            assert_eq!(within(events.recv()).await, Some(complete));
        }
    }
}

#[tokio::test]
async fn item_is_not_bought_when_the_user_declines() {
    let address = serve().await;
    for lifecycle in [Lifecycle::Legacy, Lifecycle::Modern] {
        let buyer = buyer(address, lifecycle, false).await;
        let result =
            within(buyer.connection.call("buy", json!({"item": "tea"})).into_future()).await.unwrap();
        assert_eq!(result.content[0].as_text().unwrap().text, "You did not buy tea.");
    }
}

#[tokio::test]
async fn page_of_no_order_is_not_found() {
    let address = serve().await;
    for method in ["GET", "POST"] {
        assert_eq!(browse(method, &format!("http://{address}/pay/nothing")).await.0, 404);
    }
}
