//! The client side of a WebSocket. An HTTP client performs the WebSocket upgrade. After the upgrade, the connection
//! works in the same way as on the server side.

use std::{future::Future, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use reqwest::Url;
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::{
    handshake::{client::generate_key, derive_accept_key},
    protocol::Role,
};

use super::{
    SUBPROTOCOL,
    connection::{self, Connection, Farewell, Limits},
};
use crate::{
    Error, Result,
    reconnect::{Client, Dial, Link, Outbox, Reconnect, Settings, refused},
};

/// The settings of a client over WebSocket.
#[derive(Clone, Debug)]
pub struct WebSocketClientConfig {
    headers: HeaderMap,
    http: Option<reqwest::Client>,
    connect_timeout: Duration,
    reconnect: Option<Reconnect>,
    max_message_bytes: usize,
    queue: usize,
    max_open_requests: usize,
    ping_interval: Option<Duration>,
    idle_limit: Option<Duration>,
    send_timeout: Duration,
}

impl Default for WebSocketClientConfig {
    fn default() -> Self {
        Self {
            headers: HeaderMap::new(),
            http: None,
            connect_timeout: Duration::from_secs(10),
            reconnect: Some(Reconnect::default()),
            max_message_bytes: 16 * 1024 * 1024,
            queue: 32,
            max_open_requests: 1024,
            ping_interval: Some(Duration::from_secs(15)),
            idle_limit: Some(Duration::from_secs(45)),
            send_timeout: Duration::from_secs(30),
        }
    }
}

impl WebSocketClientConfig {
    /// Sets the HTTP headers of the request that opens the WebSocket, such as `Authorization`. Default: none.
    #[must_use]
    pub fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the HTTP client for the request that opens the WebSocket, for example with an HTTP proxy or special
    /// certificates. The HTTP client must be built with `http1_only`. Default: a client without special settings.
    #[must_use]
    pub fn with_http(mut self, http: reqwest::Client) -> Self {
        self.http = Some(http);
        self
    }

    /// Sets the maximum time to connect to the server. For a reconnect, the maximum time includes the repeated MCP
    /// handshake. Default: 10 seconds.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how the client reconnects after it has lost the server. With `None`, the client does not reconnect, and
    /// ends with the first connection. Default: [`Reconnect::default`].
    #[must_use]
    pub fn with_reconnect(mut self, reconnect: impl Into<Option<Reconnect>>) -> Self {
        self.reconnect = reconnect.into();
        self
    }

    /// Sets the maximum length of a message in both directions, in bytes. Default: 16 MiB.
    #[must_use]
    pub fn with_max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets the maximum number of outgoing messages that are queued. If the queue is full, senders of messages wait.
    /// Default: 32.
    #[must_use]
    pub fn with_queue(mut self, messages: usize) -> Self {
        self.queue = messages;
        self
    }

    /// Sets the maximum number of requests from the server that this client has not answered yet. Default: 1024.
    #[must_use]
    pub fn with_max_open_requests(mut self, requests: usize) -> Self {
        self.max_open_requests = requests;
        self
    }

    /// Sets the interval at which the client sends pings to the server, and the maximum time without data from the
    /// server. A pong also counts as data. If no data arrives for the maximum time, the client treats the server as
    /// lost. Default: 15 and 45 seconds.
    #[must_use]
    pub fn with_ping(
        mut self,
        interval: impl Into<Option<Duration>>,
        idle: impl Into<Option<Duration>>,
    ) -> Self {
        self.ping_interval = interval.into();
        self.idle_limit = idle.into();
        self
    }

    /// Sets how long the server can take to read one message before the client treats the server as lost. Default: 30
    /// seconds.
    #[must_use]
    pub fn with_send_timeout(mut self, timeout: Duration) -> Self {
        self.send_timeout = timeout;
        self
    }

    fn limits(&self) -> Limits {
        Limits {
            message_bytes: self.max_message_bytes,
            queue: self.queue,
            ping: self.ping_interval,
            idle: self.idle_limit,
            stall: self.send_timeout,
        }
    }
}

/// A client's connection to a server over WebSocket, for [`rmcp::serve_client`].
///
/// # Examples
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use antiphon_transport::websocket::{WebSocketClient, WebSocketClientConfig};
///
/// let connection = WebSocketClient::connect("ws://127.0.0.1:8080/ws", WebSocketClientConfig::default()).await?;
/// let client = rmcp::serve_client((), connection).await?;
/// let tools = client.list_all_tools().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct WebSocketClient(Client<Dialer>);

impl WebSocketClient {
    /// Connects to the server at `url`, which starts with `ws://` or `wss://`.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL has another scheme. Returns an error if the server is not reachable, rejects the
    /// request, or does not choose the subprotocol `mcp`.
    pub async fn connect(url: &str, config: WebSocketClientConfig) -> Result<Self> {
        let settings = Settings {
            max_message_bytes: config.max_message_bytes,
            max_open_requests: config.max_open_requests,
            reconnect: config.reconnect.clone(),
            connect_timeout: config.connect_timeout,
        };
        Ok(Self(Client::connect(Dialer::new(url, config)?, settings).await?))
    }

    /// Returns a `watch` receiver for the number of the current connection. The first connection has the number 1.
    /// When the connection number changes, the client has reconnected, and the server's state of the old connection
    /// (subscriptions, log level, open requests) is lost.
    pub fn connections(&self) -> watch::Receiver<u64> {
        self.0.connections()
    }
}

impl Transport<RoleClient> for WebSocketClient {
    type Error = Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        self.0.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.0.receive().await
    }

    async fn close(&mut self) -> Result<()> {
        self.0.close().await;
        Ok(())
    }
}

#[derive(Debug)]
struct Dialer {
    url: Url,
    http: reqwest::Client,
    headers: HeaderMap,
    limits: Limits,
}

impl Dialer {
    fn new(url: &str, config: WebSocketClientConfig) -> Result<Self> {
        let bad = |reason| Error::Url { url: url.to_owned(), reason };
        let plain = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("ws") => format!("http://{rest}"),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("wss") && cfg!(feature = "tls") => {
                format!("https://{rest}")
            }
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("wss") => {
                return Err(bad("`wss://` needs the feature `tls`"));
            }
            _ => return Err(bad("it must begin with `ws://` or `wss://`")),
        };
        let limits = config.limits();
        let http = match config.http {
            Some(http) => http,
            None => reqwest::Client::builder()
                .http1_only()
                .redirect(reqwest::redirect::Policy::none())
                .build()
                .map_err(Error::connection)?,
        };
        Ok(Self {
            url: Url::parse(&plain).map_err(|_| bad("it is not a valid URL"))?,
            http,
            headers: config.headers,
            limits,
        })
    }
}

impl Dial for Dialer {
    type Link = Connection<reqwest::Upgraded>;

    async fn dial(&self) -> Result<Self::Link> {
        let key = generate_key();
        let accept = derive_accept_key(key.as_bytes());
        let response = self
            .http
            .get(self.url.clone())
            .headers(self.headers.clone())
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL)
            .header(header::SEC_WEBSOCKET_KEY, key)
            .send()
            .await
            .map_err(Error::connection)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(response).await);
        }
        let says = |name, value: &str| {
            response
                .headers()
                .get(name)
                .and_then(|found: &HeaderValue| found.to_str().ok())
                .is_some_and(|found| found == value)
        };
        if !says(header::SEC_WEBSOCKET_ACCEPT, &accept) {
            return Err(Error::Refused {
                status: 101,
                reason: "the response is not a valid WebSocket handshake".into(),
            });
        }
        if !says(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
            return Err(Error::Subprotocol);
        }
        let upgraded = response.upgrade().await.map_err(Error::connection)?;
        Ok(Connection::new(upgraded, Role::Client, self.limits).await)
    }
}

impl Link for Connection<reqwest::Upgraded> {
    type Outbox = connection::Outbox;

    fn outbox(&self) -> Self::Outbox {
        Self::outbox(self)
    }

    async fn next(&mut self) -> Option<Bytes> {
        Self::next(self).await
    }

    async fn close(mut self) {
        Self::close(&mut self, Farewell::DONE).await;
    }
}

impl Outbox for connection::Outbox {
    async fn send(&self, text: String) -> Result<()> {
        Self::send(self, || Ok(text)).await
    }
}
