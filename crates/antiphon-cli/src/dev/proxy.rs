//! Keeps a listener open, and forwards its HTTP requests to the current server process.
//!
//! The proxy forwards single requests and not whole connections. So a client can keep its connection open while the
//! server process is replaced.

use std::{net::SocketAddr, pin::Pin, process::Stdio, sync::Arc, time::Duration};

use anyhow::Result;
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    time::timeout,
};

use super::{
    build::{Built, Event},
    server::{Group, Program},
};

/// The maximum time until a new server listens for connections.
const START: Duration = Duration::from_mins(1);
/// The time between two attempts to connect to a new server.
const RETRY: Duration = Duration::from_millis(50);
/// How long a replaced server can take to complete its requests.
#[cfg(unix)]
const DRAIN: Duration = Duration::from_secs(10);

/// The maximum size of a request, in bytes.
const LARGEST: usize = 64 * 1024 * 1024;

/// Headers that the proxy does not forward, because they belong to one connection. The HTTP client of the proxy sets
/// the length of a request itself.
const OF_CONNECTION: [header::HeaderName; 4] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::CONTENT_LENGTH];

/// The server to which the proxy forwards requests, or the reason why no server is running.
#[derive(Clone, Debug)]
enum Target {
    /// The server is being built or started. Meanwhile, requests wait for the server.
    Wait,
    /// No server is running. The text is the reason why no server is running.
    Absent(Arc<str>),
    Server(SocketAddr),
}

/// Forwards HTTP requests to the current server, until the build task ends.
pub(super) async fn run(
    listener: TcpListener,
    mut builds: mpsc::Receiver<Event>,
    program: &Program,
) -> Result<()> {
    let (target, targets) = watch::channel(Target::Wait);
    // The server receives each request on a new connection, so that a stopped server can close its connections.
    let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
    let client = client.redirect(reqwest::redirect::Policy::none());
    let client = client.no_gzip().no_brotli().no_zstd().no_deflate().build()?;
    let router = Router::new().fallback(forward).with_state(Forward { client, targets });
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut current: Option<Group> = None;
    let mut starting: Option<Pin<Box<dyn Future<Output = Started> + Send + '_>>> = None;
    // After a failed start, the next build starts the program again, even if the program is unchanged. The cause of
    // the failure can be outside the program.
    let mut failed = false;
    loop {
        let happened = tokio::select! {
            event = builds.recv() => match event {
                Some(event) => Happened::Build(event),
                None => return Ok(()),
            },
            started = next(&mut starting) => Happened::Started(started),
            status = exit(&mut current) => Happened::Stopped(status),
        };
        let why = match happened {
            Happened::Stopped(status) => {
                current = None;
                let why = format!(
                    "the server stopped ({status}); `antiphon dev` starts it again after the next change"
                );
                eprintln!("antiphon dev: {why}");
                // If a new server is starting, requests wait until the new server listens.
                let next = if starting.is_some() { Target::Wait } else { Target::Absent(why.into()) };
                target.send_replace(next);
                continue;
            }
            Happened::Build(Event::Started) => {
                if current.is_none() {
                    target.send_replace(Target::Wait);
                }
                continue;
            }
            Happened::Build(Event::Failed(why)) => why,
            Happened::Build(Event::Built(Built { is_new: false, .. }))
                if starting.is_some() || current.is_some() && !failed =>
            {
                continue;
            }
            Happened::Build(Event::Built(Built { command, .. })) => {
                // This assignment drops the previous start, which kills a process that does not listen yet.
                starting = Some(Box::pin(async move { start(program, &command).await }));
                continue;
            }
            Happened::Started(started) => {
                starting = None;
                failed = started.is_err();
                match started {
                    Ok((process, address)) => {
                        target.send_replace(Target::Server(address));
                        if let Some(previous) = current.replace(process) {
                            eprintln!("antiphon dev: replaced the server");
                            tokio::spawn(stop(previous));
                        }
                        continue;
                    }
                    Err(why) => format!("the new server did not start: {why}"),
                }
            }
        };
        let kept = if current.is_some() { "; the previous server keeps running" } else { "" };
        eprintln!("antiphon dev: {}{kept}", why.lines().next().unwrap_or_default());
        if current.is_none() && starting.is_none() {
            target.send_replace(Target::Absent(why.into()));
        }
    }
}

/// The result of a start: a server that listens on an address, or the reason why the server did not start.
type Started = Result<(Group, SocketAddr), String>;

enum Happened {
    Build(Event),
    Started(Started),
    /// The current server has ended. The text is the exit status of the server.
    Stopped(String),
}

async fn next(starting: &mut Option<Pin<Box<dyn Future<Output = Started> + Send + '_>>>) -> Started {
    match starting {
        Some(starting) => starting.await,
        None => std::future::pending().await,
    }
}

/// Starts a server on a free port, and waits until the server listens for connections.
async fn start(program: &Program, command: &[String]) -> Started {
    let failed = |error: std::io::Error| error.to_string();
    // The port is free again when the listener is dropped.
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    drop(listener);
    let mut command = program.command(command, Some(&address.to_string())).map_err(failed)?;
    let mut group = Group::spawn(command.stdin(Stdio::null()).stdout(std::io::stderr())).map_err(failed)?;
    let listens = async {
        while TcpStream::connect(address).await.is_err() {
            tokio::time::sleep(RETRY).await;
        }
    };
    tokio::select! {
        listening = timeout(START, listens) => match listening {
            Ok(()) => Ok((group, address)),
            Err(_) => Err(format!(
                "the process does not listen on {address} after {START:?}; read the address from the variable ADDRESS, or \
                 write `{{address}}` in its command"
            )),
        },
        status = group.child.wait() => {
            let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            Err(format!("the process stopped ({status}); its standard error output can contain the reason"))
        }
    }
}

/// Stops a server. The server can complete its requests before it stops.
async fn stop(mut group: Group) {
    #[cfg(unix)]
    if group.terminate() {
        let _ = timeout(DRAIN, group.child.wait()).await;
    }
    #[cfg(not(unix))]
    let _ = group.child.kill().await;
}

/// Waits until the current server exits.
async fn exit(current: &mut Option<Group>) -> String {
    match current {
        Some(group) => {
            group.child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string())
        }
        None => std::future::pending().await,
    }
}

/// The state that the proxy needs to forward requests.
#[derive(Clone)]
struct Forward {
    client: reqwest::Client,
    targets: watch::Receiver<Target>,
}

async fn forward(State(mut state): State<Forward>, request: Request) -> Response {
    let target = match state.targets.wait_for(|target| !matches!(target, Target::Wait)).await {
        Ok(target) => target.clone(),
        Err(_) => Target::Absent("`antiphon dev` has ended".into()),
    };
    let address = match target {
        Target::Server(address) => address,
        Target::Absent(why) => return (StatusCode::SERVICE_UNAVAILABLE, why.to_string()).into_response(),
        Target::Wait => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
    };
    let (parts, body) = request.into_parts();
    if parts.headers.contains_key(header::UPGRADE) {
        let why = "`antiphon dev` does not forward WebSocket connections";
        return (StatusCode::NOT_IMPLEMENTED, why).into_response();
    }
    let Ok(body) = axum::body::to_bytes(body, LARGEST).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let sent = state.client.request(parts.method, format!("http://{address}{path}"));
    match sent.headers(passed(parts.headers)).body(body).send().await {
        Ok(answer) => {
            let (status, headers) = (answer.status(), passed(answer.headers().clone()));
            (status, headers, Body::from_stream(answer.bytes_stream())).into_response()
        }
        Err(error) => {
            let why = format!("the server stopped or was replaced during this request: {error}");
            (StatusCode::BAD_GATEWAY, why).into_response()
        }
    }
}

fn passed(mut headers: HeaderMap) -> HeaderMap {
    for name in OF_CONNECTION {
        headers.remove(name);
    }
    headers
}
