//! A server behind a transport, and hosts that come to it.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use antiphon::{Server, http::HttpConfig};
use antiphon_host::{Connection, Endpoint, Host, HostBuilder, Lifecycle};
use antiphon_transport::{
    sse::{self, SseConfig},
    websocket::{self, WebSocketConfig},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

use crate::{fixture, frames::Frames};

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    InProcess,
    Stdio,
    Http,
    WebSocket,
    Sse,
}

impl Transport {
    pub(crate) const ALL: [Self; 5] = [Self::InProcess, Self::Stdio, Self::Http, Self::WebSocket, Self::Sse];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in_process",
            Self::Stdio => "stdio",
            Self::Http => "streamable_http",
            Self::WebSocket => "websocket",
            Self::Sse => "legacy_sse",
        }
    }
}

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revision {
    V2025_11_25,
    V2026_07_28,
}

impl Revision {
    pub(crate) const ALL: [Self; 2] = [Self::V2025_11_25, Self::V2026_07_28];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V2025_11_25 => "2025_11_25",
            Self::V2026_07_28 => "2026_07_28",
        }
    }

    pub(crate) fn is_modern(self) -> bool {
        self == Self::V2026_07_28
    }
}

/// A cell of the matrix: a server that is up, and how to speak to it.
pub(crate) struct World {
    pub(crate) transport: Transport,
    pub(crate) revision: Revision,
    endpoint: Endpoint,
    wires: Wires,
    /// What the host sends, where it can be read: in a pipe.
    frames: Option<Frames>,
    /// Where it is, for those transports that have a place.
    pub(crate) address: Option<SocketAddr>,
}

/// Long enough for a loaded machine, short enough for a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Tells this very program to be the server.
pub(crate) const SERVE: &str = "ANTIPHON_CONTRACT_SERVE";

impl World {
    pub(crate) async fn new(transport: Transport, revision: Revision) -> Self {
        let wires = Wires::default();
        let frames =
            (transport == Transport::InProcess).then(|| Frames::new(&revision.name().replace('_', "-")));
        let (endpoint, address) = match transport {
            Transport::InProcess => (in_process(&wires, frames.clone()), None),
            Transport::Stdio => (stdio(), None),
            Transport::Http => http(&wires).await,
            Transport::WebSocket => over_websocket(&wires).await,
            Transport::Sse => over_sse(&wires).await,
        };
        Self { transport, revision, endpoint, wires, frames, address }
    }

    /// The frames that hosts send to this server, if they can be read.
    pub(crate) fn frames(&self) -> Option<Frames> {
        self.frames.clone()
    }

    /// A host for this cell, to be given what it needs.
    pub(crate) fn host(&self) -> HostBuilder {
        Host::builder("contract", "1.0.0").with_lifecycle(if self.revision.is_modern() {
            Lifecycle::Modern
        } else {
            Lifecycle::Legacy
        })
    }

    pub(crate) async fn connect(&self, host: HostBuilder) -> Connection {
        let connected = within(host.build().connect(self.endpoint.clone())).await.expect("the host connects");
        let checked = self.frames.as_ref().and_then(Frames::checked);
        assert_ne!(checked, Some(0), "the host has connected, and no frame was seen");
        connected
    }

    /// The test sends a method that the revision does not have, to see it rejected.
    pub(crate) fn sends_foreign(&self, method: &str) {
        if let Some(frames) = &self.frames {
            frames.allow(method);
        }
    }

    /// Breaks every connection there is. New ones can be made. Over stdio that is the server's end,
    /// which the tool `vanish` brings about.
    pub(crate) fn cut(&self) {
        self.wires.0.lock().unwrap().drain(..).for_each(|wire| wire.abort());
    }

    /// Whether the transport may not carry this revision: HTTP+SSE is of 2024-11-05 and knows nothing
    /// without a session.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.transport == Transport::Sse && self.revision.is_modern()
    }

    /// A host that insists is refused, and one that does not is told to initialize.
    pub(crate) async fn is_refused(&self) {
        let insisting = within(self.host().build().connect(self.endpoint.clone())).await;
        assert!(insisting.is_err(), "{self:?} is not refused");
        let yielding = Host::builder("contract", "1.0.0").build();
        let connection = within(yielding.connect(self.endpoint.clone())).await.expect("the host falls back");
        assert_eq!(connection.server().await.revision, "2025-11-25");
    }

    /// A connection of a host that can be asked nothing.
    pub(crate) async fn plain(&self) -> Connection {
        self.connect(self.host()).await
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.revision.name(), self.transport.name())
    }
}

/// Waits, but not forever.
pub(crate) async fn within<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(PATIENCE, what).await.expect("it takes too long")
}

/// What connections run through, to be cut.
#[derive(Clone, Default)]
struct Wires(Arc<Mutex<Vec<AbortHandle>>>);

impl Wires {
    fn join<A, B>(&self, mut one: A, mut other: B)
    where
        A: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        B: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let wire =
            tokio::spawn(async move { drop(tokio::io::copy_bidirectional(&mut one, &mut other).await) });
        self.0.lock().unwrap().push(wire.abort_handle());
    }

    /// The same for lines of JSON, which are checked on their way.
    fn join_lines<A, B>(&self, client: A, server: B, frames: Frames)
    where
        A: AsyncRead + AsyncWrite + Send + 'static,
        B: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (from_client, mut to_client) = tokio::io::split(client);
        let (from_server, mut to_server) = tokio::io::split(server);
        let wire = tokio::spawn(async move {
            let sent = pass_lines(from_client, &mut to_server, |line| frames.sent(line));
            let received = pass_lines(from_server, &mut to_client, |line| frames.received(line));
            tokio::select! {
                () = sent => {}
                () = received => {}
            }
        });
        self.0.lock().unwrap().push(wire.abort_handle());
    }

    /// A port in front of `server`.
    async fn before(&self, server: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("it has an address");
        let wires = self.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                wires.join(client, server);
            }
        });
        address
    }
}

/// Passes lines on until one end is gone.
async fn pass_lines(from: impl AsyncRead, to: &mut (impl AsyncWrite + Unpin), look: impl Fn(&str)) {
    let from = std::pin::pin!(from);
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        look(&line);
        if to.write_all(format!("{line}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

fn in_process(wires: &Wires, frames: Option<Frames>) -> Endpoint {
    let (server, wires) = (fixture::server(), wires.clone());
    Endpoint::stream("in-process", move || {
        let (near, wire) = tokio::io::duplex(1 << 16);
        let (end, far) = tokio::io::duplex(1 << 16);
        match &frames {
            Some(frames) => wires.join_lines(wire, end, frames.clone()),
            None => wires.join(wire, end),
        }
        let server = server.clone();
        tokio::spawn(async move { server.serve_stream(far).await });
        std::future::ready(Ok::<_, std::io::Error>(near))
    })
}

fn stdio() -> Endpoint {
    let program = std::env::current_exe().expect("a test knows where it is");
    let variable = format!("{SERVE}=stdio");
    Endpoint::command("env", [variable, program.to_string_lossy().into_owned()])
}

async fn http(wires: &Wires) -> (Endpoint, Option<SocketAddr>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let address = listener.local_addr().expect("it has an address");
    let serving = fixture::server();
    tokio::spawn(async move {
        serving.serve_listener(listener, HttpConfig::default(), std::future::pending()).await
    });
    let address = wires.before(address).await;
    (Endpoint::http(format!("http://{address}/mcp")), Some(address))
}

async fn over_websocket(wires: &Wires) -> (Endpoint, Option<SocketAddr>) {
    let server = fixture::server();
    let config = WebSocketConfig::default().with_tasks(true);
    let address =
        serve(websocket::router(config, move |transport| serve_transport(server.clone(), transport))).await;
    let address = wires.before(address).await;
    (Endpoint::websocket(format!("ws://{address}/ws")), Some(address))
}

async fn over_sse(wires: &Wires) -> (Endpoint, Option<SocketAddr>) {
    let server = fixture::server();
    let config = SseConfig::default().with_tasks(true);
    let address =
        serve(sse::router(config, move |transport| serve_transport(server.clone(), transport))).await;
    let address = wires.before(address).await;
    (Endpoint::sse(format!("http://{address}/sse")), Some(address))
}

async fn serve_transport<T, E, A>(server: Server, transport: T)
where
    T: rmcp::transport::IntoTransport<rmcp::RoleServer, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    // A host that goes is how every test ends.
    let _ = server.serve_transport(transport).await;
}

async fn serve(router: axum::Router) -> SocketAddr {
    use axum::serve::ListenerExt as _;

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let address = listener.local_addr().expect("it has an address");
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}
