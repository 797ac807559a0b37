//! The client side of HTTP+SSE: one HTTP request that stays open for events, and one HTTP request for each message.

use std::{collections::VecDeque, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, header};
use reqwest::Url;
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, timeout_at},
};

use super::event::{Event, Reader};
use crate::{
    Error, Result,
    reconnect::{Client, Dial, Link, Outbox, Reconnect, Settings, refused},
};

/// The maximum number of messages that a client posts at the same time.
const POSTS: usize = 8;

/// The settings of a client over HTTP+SSE.
#[derive(Clone, Debug)]
pub struct SseClientConfig {
    headers: HeaderMap,
    http: Option<reqwest::Client>,
    connect_timeout: Duration,
    reconnect: Option<Reconnect>,
    max_message_bytes: usize,
    max_open_requests: usize,
    idle_limit: Option<Duration>,
    send_timeout: Duration,
}

impl Default for SseClientConfig {
    fn default() -> Self {
        Self {
            headers: HeaderMap::new(),
            http: None,
            connect_timeout: Duration::from_secs(10),
            reconnect: Some(Reconnect::default()),
            max_message_bytes: 16 * 1024 * 1024,
            max_open_requests: 1024,
            idle_limit: None,
            send_timeout: Duration::from_secs(30),
        }
    }
}

impl SseClientConfig {
    /// Sets the HTTP headers of every request, such as `Authorization`. Default: none.
    #[must_use]
    pub fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the HTTP client that sends the requests, for example with an HTTP proxy or special certificates. The HTTP
    /// client must have no total timeout, because a total timeout would end the event stream. Default: a client
    /// without special settings.
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
    /// ends with the first event stream. Default: [`Reconnect::default`].
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

    /// Sets the maximum number of requests from the server that this client has not answered yet. Default: 1024.
    #[must_use]
    pub fn with_max_open_requests(mut self, requests: usize) -> Self {
        self.max_open_requests = requests;
        self
    }

    /// Sets the maximum time without data on the event stream. Comments on the event stream also count as data. If no
    /// data arrives for the maximum time, the client treats the server as lost. Default: no limit, because some
    /// servers send no keep-alive comments.
    #[must_use]
    pub fn with_idle_limit(mut self, idle: impl Into<Option<Duration>>) -> Self {
        self.idle_limit = idle.into();
        self
    }

    /// Sets the maximum time to send a message with POST. Default: 30 seconds.
    #[must_use]
    pub fn with_send_timeout(mut self, timeout: Duration) -> Self {
        self.send_timeout = timeout;
        self
    }
}

/// A client's session with a server over HTTP+SSE, for [`rmcp::serve_client`].
///
/// # Examples
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use antiphon_transport::sse::{SseClient, SseClientConfig};
///
/// let session = SseClient::connect("http://127.0.0.1:8080/sse", SseClientConfig::default()).await?;
/// let client = rmcp::serve_client((), session).await?;
/// let tools = client.list_all_tools().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SseClient(Client<Dialer>);

impl SseClient {
    /// Opens the event stream at `url`, and waits until the server has sent the URL for messages.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is not reachable, rejects the request, or does not send events. Returns an error
    /// if the URL for messages has another origin than `url`.
    pub async fn connect(url: &str, config: SseClientConfig) -> Result<Self> {
        let settings = Settings {
            max_message_bytes: config.max_message_bytes,
            max_open_requests: config.max_open_requests,
            reconnect: config.reconnect.clone(),
            connect_timeout: config.connect_timeout,
        };
        Ok(Self(Client::connect(Dialer::new(url, config)?, settings).await?))
    }

    /// Returns a `watch` receiver for the number of the current session. The first session has the number 1. When the
    /// session number changes, the client has reconnected, and the server's state of the old session (subscriptions,
    /// log level, open requests) is lost.
    pub fn connections(&self) -> watch::Receiver<u64> {
        self.0.connections()
    }
}

impl Transport<RoleClient> for SseClient {
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
    config: SseClientConfig,
}

impl Dialer {
    fn new(url: &str, mut config: SseClientConfig) -> Result<Self> {
        let bad = |reason| Error::Url { url: url.to_owned(), reason };
        let parsed = Url::parse(url).map_err(|_| bad("it is not a valid URL"))?;
        match parsed.scheme() {
            "http" => {}
            "https" if cfg!(feature = "tls") => {}
            "https" => return Err(bad("`https://` needs the feature `tls`")),
            _ => return Err(bad("it must begin with `http://` or `https://`")),
        }
        let http = match config.http.take() {
            Some(http) => http,
            None => reqwest::Client::builder()
                // With TCP keep-alive, the operating system detects a lost peer even if the stream is silent.
                .tcp_keepalive(Duration::from_secs(15))
                .build()
                .map_err(Error::connection)?,
        };
        Ok(Self { url: parsed, http, config })
    }
}

impl Dial for Dialer {
    type Link = Stream;

    async fn dial(&self) -> Result<Stream> {
        let response = self
            .http
            .get(self.url.clone())
            .headers(self.config.headers.clone())
            .header(header::ACCEPT, "text/event-stream")
            .header(header::CACHE_CONTROL, "no-store")
            .send()
            .await
            .map_err(Error::connection)?;
        let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !response.status().is_success() || !kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
        {
            return Err(refused(response).await);
        }
        // After redirects, the URL of the response can differ from the requested URL.
        let base = response.url().clone();
        let mut stream = Stream {
            response,
            reader: Reader::new(self.config.max_message_bytes),
            events: VecDeque::new(),
            idle: self.config.idle_limit,
            heard: Instant::now(),
            outbox: None,
        };
        let endpoint = loop {
            let event = stream.event().await.ok_or(Error::Closed)?;
            if event.name == "endpoint" {
                break event.data;
            }
        };
        let bad = |reason| Error::Url { url: endpoint.clone(), reason };
        let url = base
            .join(&endpoint)
            .map_err(|_| bad("the server sent it as its `endpoint`, but it is not a valid URL"))?;
        // Without this check, a server could make its clients send their credentials to another server.
        if url.origin() != base.origin() {
            return Err(bad("the server sent it as its `endpoint`, but it belongs to another server"));
        }
        stream.outbox = Some(Postbox {
            url,
            http: self.http.clone(),
            headers: self.config.headers.clone(),
            posts: Arc::new(Semaphore::new(POSTS)),
            timeout: self.config.send_timeout,
        });
        Ok(stream)
    }
}

/// An open stream of events, and the URL to which the client posts messages.
struct Stream {
    response: reqwest::Response,
    reader: Reader,
    events: VecDeque<Event>,
    idle: Option<Duration>,
    heard: Instant,
    /// The sending side. The field `outbox` is `None` until the server has sent the URL for messages.
    outbox: Option<Postbox>,
}

impl Stream {
    async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let chunk = self.response.chunk();
            let chunk = match self.idle {
                // Count from the last received data, because the caller can drop this future and call again.
                Some(idle) => timeout_at(self.heard + idle, chunk)
                    .await
                    .inspect_err(|_| {
                        tracing::debug!(
                            ?idle,
                            "an SSE stream is closed: no data arrived within the idle limit"
                        );
                    })
                    .ok()?,
                None => chunk.await,
            };
            self.heard = Instant::now();
            let chunk = chunk.inspect_err(|error| tracing::debug!(%error, "an SSE stream failed")).ok()??;
            let events = &mut self.events;
            if let Err(error) = self.reader.take(&chunk, |event| events.push_back(event)) {
                tracing::warn!(%error, "an SSE stream is closed because of an invalid event");
                return None;
            }
        }
    }
}

impl Link for Stream {
    type Outbox = Postbox;

    fn outbox(&self) -> Postbox {
        self.outbox.clone().expect("a stream is handed out once it has an endpoint")
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let event = self.event().await?;
            if event.name == "message" {
                return Some(event.data.into());
            }
        }
    }

    async fn close(self) {}
}

#[derive(Clone, Debug)]
struct Postbox {
    url: Url,
    http: reqwest::Client,
    headers: HeaderMap,
    posts: Arc<Semaphore>,
    timeout: Duration,
}

/// Converts the error of a failed POST. If the connection was open, it is unknown whether the server received the
/// message.
fn unsent(error: reqwest::Error) -> Error {
    if error.is_connect() || error.is_builder() {
        Error::connection(error)
    } else {
        Error::Unconfirmed(Box::new(error))
    }
}

impl Outbox for Postbox {
    async fn send(&self, text: String) -> Result<()> {
        let _post = self.posts.acquire().await;
        let mut response = self
            .http
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .timeout(self.timeout)
            .body(text)
            .send()
            .await
            .map_err(unsent)?;
        if response.status().is_success() {
            // Read the body to its end, but at most 16 KiB, so that the next message can reuse the connection.
            let mut left = 16 * 1024_usize;
            while left > 0
                && let Ok(Some(chunk)) = response.chunk().await
            {
                left = left.saturating_sub(chunk.len());
            }
            Ok(())
        } else {
            Err(refused(response).await)
        }
    }
}
