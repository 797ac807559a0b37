use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::{Break, Client, Field, Fleet};
use crate::field::authority::{Authority, CLIENT, Token};
use crate::field::websocket::Socket;
use crate::mcp::{self, LEGACY};

/// The address under which all replicas are known.
const PUBLIC: &str = "http://localhost:8000";
/// When one token expires, and when another one is revoked, after the connections were opened.
const EXPIRES: Duration = Duration::from_secs(6);
const REVOKED: Duration = Duration::from_secs(3);
/// How long a connection may outlive its token: `TOKEN_CHECK`, as long again in the cache, `SEAL_SKEW`, and one second
/// because the expiry has no fraction.
const LATE: Duration = Duration::from_secs(4);
/// How long the connections are watched.
const WATCHED: Duration = Duration::from_secs(12);

/// A user has connections of each kind open: a WebSocket, a stream of HTTP+SSE, the event stream of a session of 2025-11-25,
/// and a subscription of 2026-07-28. One token expires and another is revoked. A second client of the same user, whose token lacks a scope,
/// sends `tasks/*` requests about a task of the first client.
///
/// Pass: each connection is closed within 4 s of the end of its token and not before, connections with a valid token stay
/// open, and requests with the ended tokens are answered with 401. The second client reads, answers, cancels and lists
/// nothing, and the task goes on undisturbed.
pub(super) fn run(field: &mut Field) -> Result<String> {
    let authority = Authority::start(&format!("{PUBLIC}/mcp"), field.is_broken(Break::Tokens))?;
    let issuer = authority.issuer().to_owned();
    let settings = [
        ("OAUTH_ISSUER", issuer.as_str()),
        ("OAUTH_CLIENT", CLIENT),
        ("TOKEN_CHECK", "1"),
        ("SEAL_SKEW", "1"),
        ("WEBSOCKET", "1"),
        ("SSE", "1"),
        ("PUBLIC_URL", PUBLIC),
    ];
    let mut fleet = field.fleet(2, &settings)?;
    fleet.start_all()?;
    let scopes = scopes(field, &fleet, &authority)?;
    let connections = connections(&fleet, &authority)?;
    Ok(format!("{connections}; {scopes}"))
}

/// How a connection ended.
struct Watched {
    kind: &'static str,
    token: &'static str,
    /// After how long, or `None` if it stayed open.
    closed: Option<Duration>,
}

fn connections(fleet: &Fleet, authority: &Authority) -> Result<String> {
    let token = |expires_at| Token { client: "desktop", scope: "errands", expires_at };
    authority.issue("valid", token(None));
    authority.issue("expiring", token(Some(SystemTime::now() + EXPIRES)));
    authority.issue("revoked", token(None));
    let (address, began) = (fleet.address(0), Instant::now());
    let mut connections = Vec::new();
    for name in ["valid", "expiring", "revoked"] {
        for (kind, open) in KINDS {
            connections.push((*kind, name, open(address, name)?));
        }
    }
    let watched = thread::scope(|scope| {
        let watch = |(kind, token, mut connection): (&'static str, &'static str, Box<dyn Connection>)| {
            scope.spawn(move || Watched { kind, token, closed: connection.closed(began) })
        };
        let threads: Vec<_> = connections.into_iter().map(watch).collect();
        thread::sleep(REVOKED.saturating_sub(began.elapsed()));
        authority.revoke("revoked");
        threads.into_iter().map(|it| it.join().expect("a watcher does not panic")).collect::<Vec<_>>()
    });
    let mut latest = Duration::ZERO;
    for Watched { kind, token, closed } in watched {
        // The expiry is cut to a whole second.
        let end = match token {
            "expiring" => EXPIRES.saturating_sub(Duration::from_secs(1)),
            _ => REVOKED,
        };
        match (token, closed) {
            ("valid", None) => {}
            ("valid", Some(after)) => {
                bail!("{kind} with a valid token was closed after {:.1} s", after.as_secs_f64())
            }
            (_, None) => bail!("{kind} stayed open although its token was {token}"),
            (_, Some(after)) => {
                let shown = format!("{kind} was closed after {:.1} s", after.as_secs_f64());
                ensure!(after >= end, "{shown}, before its token was {token}");
                ensure!(after <= end + Duration::from_secs(1) + LATE, "{shown}; its token was {token}");
                latest = latest.max(after.saturating_sub(end));
            }
        }
    }
    for name in ["expiring", "revoked"] {
        for number in 0..2 {
            let client = Client::new(fleet.address(number)).with_token(name);
            let request = mcp::modern(&fleet.address(number).to_string(), 1, "tools/list", "", json!({}));
            let status = client.send(request)?.status();
            ensure!(status == 401, "a request with a token that was {name} was answered with {status}");
        }
    }
    Ok(format!("connections closed within {:.1} s of the end of their token", latest.as_secs_f64()))
}

/// An open connection.
trait Connection: Send {
    /// How long after `began` the server closed it; `None` if it is open at the end of the watch.
    fn closed(&mut self, began: Instant) -> Option<Duration>;
}

type Open = fn(SocketAddr, &'static str) -> Result<Box<dyn Connection>>;

const KINDS: &[(&str, Open)] = &[
    ("a WebSocket", websocket),
    ("a stream of HTTP+SSE", sse),
    ("the stream of a session", session),
    ("a subscription", subscription),
];

fn websocket(address: SocketAddr, token: &'static str) -> Result<Box<dyn Connection>> {
    Ok(Box::new(Socket::open(address, Some(token))?))
}

fn sse(address: SocketAddr, token: &'static str) -> Result<Box<dyn Connection>> {
    let head = format!(
        "GET /sse HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\nauthorization: Bearer {token}\r\n\
         connection: close\r\n\r\n"
    );
    Ok(Box::new(Events::open(address, head.as_bytes())?))
}

fn session(address: SocketAddr, token: &'static str) -> Result<Box<dyn Connection>> {
    let id = Client::new(address).with_token(token).open_session()?;
    let head = format!(
        "GET /mcp HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\nmcp-protocol-version: {LEGACY}\r\n\
         mcp-session-id: {id}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    Ok(Box::new(Events::open(address, head.as_bytes())?))
}

fn subscription(address: SocketAddr, token: &'static str) -> Result<Box<dyn Connection>> {
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let mut request = mcp::modern(&address.to_string(), 1, "subscriptions/listen", "", params);
    request.headers.retain(|(name, _)| name != "mcp-name");
    request.headers.push(("authorization".into(), format!("Bearer {token}")));
    request.headers.push(("connection".into(), "close".into()));
    Ok(Box::new(Events::open(address, &request.to_bytes())?))
}

impl Connection for Socket {
    fn closed(&mut self, began: Instant) -> Option<Duration> {
        while let Some(left) = WATCHED.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            self.set_patience(left).ok()?;
            if self.message().is_err() {
                return Some(began.elapsed()).filter(|after| *after < WATCHED);
            }
        }
        None
    }
}

/// A stream of events.
struct Events(TcpStream);

impl Events {
    fn open(address: SocketAddr, request: &[u8]) -> Result<Self> {
        let mut stream = mcp::connect(address)?;
        stream.write_all(request)?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        let head = String::from_utf8_lossy(&head);
        ensure!(head.ends_with("200"), "the stream was not opened: {head}");
        Ok(Self(stream))
    }
}

impl Connection for Events {
    fn closed(&mut self, began: Instant) -> Option<Duration> {
        let mut bytes = [0; 4096];
        while let Some(left) = WATCHED.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            self.0.set_read_timeout(Some(left)).ok()?;
            if !matches!(self.0.read(&mut bytes), Ok(1..)) {
                return Some(began.elapsed()).filter(|after| *after < WATCHED);
            }
        }
        None
    }
}

/// A second client of the same user, whose token lacks the scope of the tool.
fn scopes(field: &Field, fleet: &Fleet, authority: &Authority) -> Result<String> {
    authority.issue("full", Token { client: "desktop", scope: "errands", expires_at: None });
    authority.issue("fewer", Token { client: "phone", scope: "", expires_at: None });
    let owner = Client::new(fleet.address(0)).with_token("full");
    let acts = json!([{ "effect": "begun" }, { "ask": "Go on?" }, { "effect": "done" }]);
    let task = owner.start("scopes", &acts)?;
    owner.wait_for(&task, "input_required", Duration::from_secs(20))?;
    let question = owner.get(&task)?;
    let key = question["inputRequests"].as_object().and_then(|asked| asked.keys().next().cloned());
    let other = Client::new(fleet.address(1)).with_token("fewer");
    other.ask("tools/list", "", json!({}))?;
    let answers = json!({ key.unwrap_or_default(): { "action": "accept", "content": { "yes": true } } });
    let requests = [
        ("tasks/get", json!({ "taskId": task })),
        ("tasks/update", json!({ "taskId": task, "inputResponses": answers })),
        ("tasks/cancel", json!({ "taskId": task })),
    ];
    for (method, params) in requests {
        let said = other.ask(method, &task, params);
        ensure!(said.is_err(), "a client without the scope sent {method} and was answered with {said:?}");
    }
    let requests = [("tasks/get", &task), ("tasks/result", &task), ("tasks/cancel", &task)]
        .map(|(method, task)| (method, json!({ "taskId": task })));
    let session = other.open_session()?;
    for (method, params) in requests {
        let said = in_session(&other, &session, method, &params);
        ensure!(said.is_err(), "a client without the scope sent {method} and was answered with {said:?}");
    }
    let listed = in_session(&other, &session, "tasks/list", &json!({}))?;
    ensure!(!listed.to_string().contains(&task), "a client without the scope sees the task in {listed}");
    // The owner sees it in the same way, so that an empty list says something.
    let session = owner.open_session()?;
    let listed = in_session(&owner, &session, "tasks/list", &json!({}))?;
    ensure!(listed.to_string().contains(&task), "the owner does not see the task in {listed}");
    ensure!(
        field.ledger.count("scopes", "done") == 0,
        "the question was answered by a client without the scope"
    );
    owner.answer(&task)?;
    owner.wait_for(&task, "completed", Duration::from_secs(20))?;
    let times = field.ledger.count("scopes", "done");
    ensure!(times == 1, "the effect of the task happened {times} times");
    Ok("a client with fewer scopes was refused 6 times".into())
}

fn in_session(client: &Client, session: &str, method: &str, params: &Value) -> Result<Value> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    mcp::result(&client.send(client.in_session(Some(session), &body))?)
}
