//! Serves a router over HTTP, and keeps the slow and the greedy from taking the server for themselves.

mod connections;
mod write_timeout;

use std::{convert::Infallible, future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

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

use self::{
    connections::{ConnectionGuard, Connections, Leave},
    write_timeout::WriteTimeoutIo,
};
use crate::body::Held;

/// What a connection may take of a server.
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
    /// Sets how long a client can take to send the headers of a request, and how long a connection can stay idle. Default: 75
    /// seconds.
    ///
    /// That is more than the 60 seconds for which proxies keep a connection to use it again.
    #[must_use]
    pub fn with_header_timeout(mut self, header_timeout: Duration) -> Self {
        self.header_timeout = header_timeout;
        self
    }

    /// Sets the longest request headers, in bytes. Longer ones are answered with 431. Default: 64 KiB.
    #[must_use]
    pub fn with_max_header_bytes(mut self, max_header_bytes: usize) -> Self {
        self.max_header_bytes = max_header_bytes;
        self
    }

    /// Sets how long a client can read nothing of what is sent to it. Default: 60 seconds.
    #[must_use]
    pub fn with_write_timeout(mut self, write_timeout: Duration) -> Self {
        self.write_timeout = write_timeout;
        self
    }

    /// Sets how many connections there can be at the same time, at least 1. Default: 4096.
    ///
    /// A new connection beyond that replaces the oldest one without a request in flight. If there is none, it is answered with
    /// 503.
    #[must_use]
    pub fn with_max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.max(1);
        self
    }

    /// Sets how long requests in flight can go on after the server is asked to end. Default: 30 seconds.
    #[must_use]
    pub fn with_drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// How long requests in flight can go on after the server is asked to end.
    pub fn drain(&self) -> Duration {
        self.drain
    }
}

/// Serves a router over HTTP/1.1 until `shutdown` ends; then lets the requests in hand finish, for a while.
///
/// Use it for routers that have no MCP endpoint: those of operators, of probes, or of any other application. Serve a router
/// with an endpoint in it with `Server::serve_router` of `antiphon`, which also drains the server. Beside serving, it keeps
/// to a [`ServeConfig`]: who sends its head byte by byte, reads nothing, or opens connections without end, is cut off.
/// Handlers find the client's address as axum's `ConnectInfo<SocketAddr>`.
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
    let connections = Connections::new(config.max_connections);
    let drain = config.drain;
    let config = Arc::new(config);
    let mut shutdown = pin!(shutdown);
    loop {
        let (stream, peer) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = accept(&listener) => accepted,
        };
        match connections.guard() {
            Some(guard) => {
                drop(tokio::spawn(attend(stream, peer, router.clone(), Arc::clone(&config), guard)))
            }
            None => drop(tokio::spawn(turn_away(stream))),
        }
    }
    drop(listener);
    if tokio::time::timeout(drain, connections.gone()).await.is_err() {
        tracing::info!("requests in hand were cut off: the server was asked to end {drain:?} ago");
        connections.evict_all();
    }
}

/// The next connection. What can go wrong with accepting one is no reason to accept no more.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) => {
            }
            Err(error) => {
                // Mostly there are too many open files, and some are closed in a moment.
                tracing::error!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Serves one connection to its end.
async fn attend(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    config: Arc<ServeConfig>,
    guard: ConnectionGuard,
) {
    // An event stream is several small writes; without this each costs 40 ms.
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
    // A set polls only what was woken: the connection moves all the time, and to look at a token takes a lock.
    let mut requests = FuturesUnordered::from_iter([guard.request(Leave::Soon), guard.request(Leave::Now)]);
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, %peer, "a connection ended badly");
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

/// Says that there is no place, and hangs up.
async fn turn_away(mut stream: TcpStream) {
    const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\n\
        content-type: text/plain\r\ncontent-length: 20\r\n\r\ntoo many connections";
    const REJECT_TIMEOUT: Duration = Duration::from_secs(1);
    let said = async {
        stream.write_all(FULL).await?;
        stream.shutdown().await?;
        // What was sent must be read, or the other side sees a reset and not the answer.
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(REJECT_TIMEOUT, said).await;
}
