//! Serves a router over HTTP, with limits against slow clients and too many connections.

mod connections;
mod write_timeout;

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use axum::{Router, extract::ConnectInfo};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use http::Request;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

pub(crate) use self::connections::Held;
use self::{
    connections::{ConnectionGuard, Connections, Leave},
    write_timeout::WriteTimeoutIo,
};

/// The limits of a server's HTTP connections.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    header_timeout: Duration,
    max_header_bytes: usize,
    write_timeout: Duration,
    max_connections: usize,
    drain: Duration,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(75),
            max_header_bytes: 64 * 1024,
            write_timeout: Duration::from_secs(60),
            max_connections: 4096,
            drain: Duration::from_secs(30),
        }
    }
}

impl ServeConfig {
    /// Sets the maximum time in which a client must send the headers of a request. The server also closes a connection
    /// that is idle for this time. Default: 75 seconds.
    ///
    /// The default is longer than 60 seconds, because proxies typically keep an idle connection for 60 seconds.
    #[must_use]
    pub fn with_header_timeout(mut self, header_timeout: Duration) -> Self {
        self.header_timeout = header_timeout;
        self
    }

    /// Sets the maximum length of a request's headers, in bytes. If the headers of a request are longer than
    /// `max_header_bytes`, the server answers with status 431. Default: 64 KiB.
    #[must_use]
    pub fn with_max_header_bytes(mut self, max_header_bytes: usize) -> Self {
        self.max_header_bytes = max_header_bytes;
        self
    }

    /// Sets the maximum time for which a client can stop reading the response. If a client does not read for the
    /// maximum time, the server closes the connection. Default: 60 seconds.
    #[must_use]
    pub fn with_write_timeout(mut self, write_timeout: Duration) -> Self {
        self.write_timeout = write_timeout;
        self
    }

    /// Sets the maximum number of concurrent connections. A maximum below 1 counts as 1. Default: 4096.
    ///
    /// If the maximum number is reached, the server closes the oldest connection without a request in flight, and
    /// accepts the new connection. If all connections have requests in flight, the server answers the new connection
    /// with status 503.
    #[must_use]
    pub fn with_max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.max(1);
        self
    }

    /// Sets how long requests in flight can continue after the shutdown begins. Default: 30 seconds.
    #[must_use]
    pub fn with_drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// Returns how long requests in flight can continue after the shutdown begins.
    pub fn drain(&self) -> Duration {
        self.drain
    }
}

/// Serves a router over HTTP/1.1 until `shutdown` completes. After the shutdown has begun, requests in flight can
/// continue for the duration of [`ServeConfig::with_drain`].
///
/// Use `serve` for routers without an MCP endpoint, for example for operator routes or health probes. For a router
/// with an MCP endpoint, use `Server::serve_router` of the crate `antiphon`. `Server::serve_router` also shuts down
/// the MCP server gracefully.
///
/// `serve` enforces the limits of a [`ServeConfig`]. The server disconnects clients that send their headers too
/// slowly, stop reading, or open too many connections. Handlers can get the client's address from axum's
/// `ConnectInfo<SocketAddr>`.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// use antiphon_http::{ServeConfig, serve, shutdown_signal};
/// use axum::{Router, routing::get};
///
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8001").await?;
/// let app = Router::new().route("/", get(async || "hello"));
/// serve(listener, app, ServeConfig::default(), shutdown_signal()).await;
/// # Ok(())
/// # }
/// ```
pub async fn serve(
    listener: TcpListener,
    router: Router,
    config: ServeConfig,
    shutdown: impl Future<Output = ()>,
) {
    let stop = CancellationToken::new();
    let mut serving = serve_until(listener, router, config, stop.clone());
    tokio::select! {
        biased;
        () = shutdown => stop.cancel(),
        () = &mut serving => return,
    }
    serving.await;
}

/// Serves the router until `stop` is cancelled. `serve_until` is neither generic nor `async`, so this crate compiles
/// the code of HTTP connections once. With a generic function, every program with a server would compile the code of
/// HTTP connections again.
fn serve_until(
    listener: TcpListener,
    router: Router,
    config: ServeConfig,
    stop: CancellationToken,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(accept_until(listener, router, config, stop))
}

async fn accept_until(listener: TcpListener, router: Router, config: ServeConfig, stop: CancellationToken) {
    let connections = Connections::new(config.max_connections);
    let drain = config.drain;
    let config = Arc::new(config);
    loop {
        let (stream, peer) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accept(&listener) => accepted,
        };
        match connections.guard() {
            Some(guard) => {
                drop(tokio::spawn(attend(stream, peer, router.clone(), Arc::clone(&config), guard)));
            }
            None => drop(tokio::spawn(turn_away(stream))),
        }
    }
    drop(listener);
    if tokio::time::timeout(drain, connections.gone()).await.is_err() {
        tracing::info!("in-flight requests were cancelled: shutdown began {drain:?} ago");
        connections.evict_all();
    }
}

/// Accepts the next connection. After an error, the server continues to accept connections.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) => {
            }
            Err(error) => {
                // Accepting a connection usually fails because the process has too many open files. The process usually
                // closes some of these files soon.
                tracing::error!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Serves one connection until the connection ends.
async fn attend(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    config: Arc<ServeConfig>,
    guard: ConnectionGuard,
) {
    // An event stream consists of several small writes. Without `TCP_NODELAY`, each of these writes can be delayed by
    // 40 ms.
    let _ = stream.set_nodelay(true);
    let inner = TowerToHyperService::new(router);
    let open = guard.connection();
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let busy = open.busy();
        let answered = inner.call(request);
        async move { Ok::<_, Infallible>(answered.await?.map(|body| Held::new(body, busy, None))) }
    });
    let io = TokioIo::new(WriteTimeoutIo::new(stream, config.write_timeout));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(config.header_timeout)
        .max_header_size(config.max_header_bytes);
    let mut connection = pin!(builder.serve_connection(io, service).with_upgrades());
    // The connection is polled often, and checking a cancellation token takes a lock. `FuturesUnordered` polls a token
    // only if the token was woken.
    let mut requests = FuturesUnordered::from_iter([guard.request(Leave::Soon), guard.request(Leave::Now)]);
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, %peer, "a connection failed");
                }
                return;
            }
            Some(leave) = requests.next() => match leave {
                Leave::Soon if open.is_busy() => connection.as_mut().graceful_shutdown(),
                Leave::Soon | Leave::Now => return,
            },
        }
    }
}

/// Responds to a new connection with status 503 and closes the connection.
async fn turn_away(mut stream: TcpStream) {
    const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\n\
        content-type: text/plain\r\ncontent-length: 20\r\n\r\ntoo many connections";
    const REJECT_TIMEOUT: Duration = Duration::from_secs(1);
    let said = async {
        stream.write_all(FULL).await?;
        stream.shutdown().await?;
        // The server must read the data that the client has sent. If the server closed the connection without reading,
        // the client would receive a TCP reset instead of the response.
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(REJECT_TIMEOUT, said).await;
}
