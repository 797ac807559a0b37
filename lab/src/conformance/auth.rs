//! `cargo xtask conformance auth`: the example `guarded` with oidc-provider as its authorization server.
//!
//! The official suite has no scenario for servers that want to know who is calling, so this has its own: everything goes
//! over sockets between three programs, of which one is somebody else's.

use std::cell::OnceCell;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::Suite;
use crate::http::Message;
use crate::mcp::{MODERN, tool_call};
use crate::project::{self, Profile, Project};
use crate::server::{self, Server};

/// What is checked, one after the other: each goes on from where the last has left both servers.
const CHECKS: [(&str, Check); 9] = [
    ("whoever has no token is told where to get one", told_where),
    ("a token for the resource opens it, and says whose it is", opens),
    ("a token for another resource does not", other_resource),
    ("a token with too little is told what it lacks, and one with that goes through", steps_up),
    ("an opaque token is asked about", opaque),
    ("our own host comes by tokens and by more scopes by itself", own_host),
    ("a key that is new is taken, and the old one still is", rotated),
    ("a key that was forgotten is refused once the new one was seen", forgotten),
    ("an opaque token that was taken back is good as long as its answer is known, and no longer", taken_back),
];

type Check = fn(&Scene) -> Result<()>;

pub(super) fn main() -> Result<()> {
    let project = Project::open()?;
    let scene = Scene::set(&project)?;
    let mut complaints = Vec::new();
    for (what, check) in CHECKS {
        let start = Instant::now();
        let outcome = check(&scene);
        let seconds = start.elapsed().as_secs_f64();
        println!("{} {what} ({seconds:.1} s)", if outcome.is_ok() { "ok    " } else { "FAILED" });
        complaints.extend(outcome.err().map(|error| format!("{what}: {error:#}")));
    }
    println!();
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!("{} passed, {} failed", CHECKS.len() - complaints.len(), complaints.len());
    ensure!(complaints.is_empty(), "the logs of both servers are in {}", scene.logs.display());
    Ok(())
}

/// Both servers, and where they are.
struct Scene {
    authority: Server,
    guarded: Server,
    client: PathBuf,
    logs: PathBuf,
    /// An opaque token that was good, and was then taken back.
    revoked: OnceCell<String>,
}

/// A resource of somebody else's.
const OTHER: &str = "https://other.example/mcp";

impl Scene {
    fn set(project: &Project) -> Result<Self> {
        let logs = project.target.join("conformance").join("auth");
        if logs.exists() {
            std::fs::remove_dir_all(&logs).with_context(|| format!("could not clear {}", logs.display()))?;
        }
        let folder = project.root.join("lab").join("conformance").join("auth");
        project::npm_install(&folder)?;
        // It needs a newer Node than many have, and the suite has one.
        let node = Suite::install(project)?.bin.join("node");
        let guarded = project.build("guarded", "guarded", Profile::Dev)?;
        let (at, resource_at) = (server::free_address()?, server::free_address()?);
        let resource = format!("http://{resource_at}/mcp");
        let mut serve = Command::new(node);
        serve.arg(folder.join("serve.mjs")).args([&at.port().to_string(), &resource, OTHER]);
        let mut authority = Server::spawn(&mut serve, at, &logs.join("authority.log"))?;
        authority.wait_until_ready()?;
        let mut command = Command::new(&guarded);
        command.args(["--http", &resource_at.to_string(), "--resource", &resource]);
        command.args(["--issuer", &issuer(at), "--introspection", "guarded"]);
        command.env("GUARDED_SECRET", secret("guarded"));
        let mut server = Server::spawn(&mut command, resource_at, &logs.join("guarded.log"))?;
        server.wait_until_ready()?;
        let client = guarded.with_file_name(format!("guarded-client{}", std::env::consts::EXE_SUFFIX));
        Ok(Self { authority, guarded: server, client, logs, revoked: OnceCell::new() })
    }

    fn resource(&self) -> String {
        self.guarded.url()
    }

    fn issuer(&self) -> String {
        issuer(self.authority.address())
    }

    /// A token of the client's own.
    fn token(&self, client: &str, resource: &str, scope: &str) -> Result<String> {
        let encoded = |text: &str| text.replace(':', "%3A").replace('/', "%2F").replace(' ', "+");
        let form =
            format!("grant_type=client_credentials&resource={}&scope={}", encoded(resource), encoded(scope));
        let answer = self.ask_authority("/token", client, form)?;
        let body: Value = serde_json::from_slice(&answer.body)?;
        let token = body["access_token"].as_str();
        token.map(ToOwned::to_owned).with_context(|| format!("no token: {} {body}", answer.start))
    }

    /// Asks the authorization server something, as a client of its.
    fn ask_authority(&self, path: &str, client: &str, form: String) -> Result<Message> {
        let who = STANDARD.encode(format!("{client}:{}", secret(client)));
        let headers = [
            ("authorization", format!("Basic {who}")),
            ("content-type", "application/x-www-form-urlencoded".to_owned()),
        ];
        exchange(self.authority.address(), &format!("POST {path} HTTP/1.1"), &headers, form.into_bytes())
    }

    /// Has the authorization server sign with another key.
    fn rotate(&self, query: &str) -> Result<()> {
        let rotated =
            exchange(self.authority.address(), &format!("POST /rotate{query} HTTP/1.1"), &[], Vec::new())?;
        ensure!(rotated.status() == 200, "the keys were not rotated: {}", rotated.start);
        Ok(())
    }

    /// Calls a tool of the guarded server.
    fn call(&self, tool: &str, token: Option<&str>) -> Result<Message> {
        let host = self.guarded.address().to_string();
        let Value::Object(params) = json!({"name": tool, "arguments": {"name": "Q3"}}) else {
            unreachable!()
        };
        let mut request = tool_call(MODERN, &host, 1, params);
        request.headers.push(("connection".into(), "close".into()));
        if let Some(token) = token {
            request.headers.push(("authorization".into(), format!("Bearer {token}")));
        }
        send(self.guarded.address(), &request)
    }

    /// Reads a report, and says as whom.
    fn reads_as(&self, token: &str) -> Result<String> {
        let answer = self.call("read_report", Some(token))?;
        let said = String::from_utf8_lossy(&answer.body);
        ensure!(answer.status() == 200, "{}: {said}", answer.start);
        let message: Value = serde_json::from_str(&said)?;
        let text = message["result"]["content"][0]["text"].as_str().unwrap_or_default();
        let who = text.strip_prefix("Q3, as ").and_then(|rest| rest.strip_suffix(" may read it"));
        who.map(ToOwned::to_owned).with_context(|| format!("not a report: {message}"))
    }

    fn is_refused(&self, token: &str) -> Result<()> {
        let answer = self.call("read_report", Some(token))?;
        let challenge = answer.header("www-authenticate").unwrap_or_default();
        ensure!(answer.status() == 401, "it was not refused: {}", answer.start);
        ensure!(challenge.contains(r#"error="invalid_token""#), "it is not said to be invalid: {challenge}");
        Ok(())
    }
}

fn issuer(at: SocketAddr) -> String {
    format!("http://127.0.0.1:{}", at.port())
}

fn secret(client: &str) -> String {
    format!("{client}-0123456789abcdef0123456789abcdef")
}

fn exchange(address: SocketAddr, start: &str, headers: &[(&str, String)], body: Vec<u8>) -> Result<Message> {
    let fixed = [("host", address.to_string()), ("connection", "close".to_owned())];
    let headers = fixed.iter().chain(headers).map(|(name, value)| ((*name).to_owned(), value.clone()));
    send(address, &Message { start: start.to_owned(), headers: headers.collect(), body })
}

fn send(address: SocketAddr, request: &Message) -> Result<Message> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("nothing listens on {address}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(&request.to_bytes())?;
    Message::read(&mut BufReader::new(stream))?.context("the connection was closed without an answer")
}

/// What a challenge says under a name.
fn said<'a>(challenge: &'a str, name: &str) -> Result<&'a str> {
    let after = challenge.split_once(&format!("{name}=\"")).map(|(_, after)| after);
    let value = after.and_then(|after| after.split_once('"')).map(|(value, _)| value);
    value.with_context(|| format!("the challenge says nothing of `{name}`: {challenge}"))
}

fn told_where(scene: &Scene) -> Result<()> {
    let answer = scene.call("read_report", None)?;
    ensure!(answer.status() == 401, "{}", answer.start);
    let challenge = answer.header("www-authenticate").context("there is no challenge")?;
    let metadata = said(challenge, "resource_metadata")?;
    let host = format!("http://{}", scene.guarded.address());
    let path = metadata.strip_prefix(&host).with_context(|| format!("{metadata} is somewhere else"))?;
    let answer = exchange(scene.guarded.address(), &format!("GET {path} HTTP/1.1"), &[], Vec::new())?;
    let metadata: Value = serde_json::from_slice(&answer.body)?;
    ensure!(metadata["resource"] == scene.resource(), "{metadata}");
    ensure!(metadata["authorization_servers"] == json!([scene.issuer()]), "{metadata}");
    Ok(())
}

fn opens(scene: &Scene) -> Result<()> {
    for client in ["ada", "eve"] {
        let token = scene.token(client, &scene.resource(), "reports:read")?;
        ensure!(token.split('.').count() == 3, "it is not signed: {token}");
        let who = scene.reads_as(&token)?;
        ensure!(who == format!("{}#{client}", scene.issuer()), "it is {who}'s");
    }
    Ok(())
}

fn other_resource(scene: &Scene) -> Result<()> {
    scene.is_refused(&scene.token("ada", OTHER, "reports:read")?)
}

fn steps_up(scene: &Scene) -> Result<()> {
    let token = scene.token("ada", &scene.resource(), "reports:read")?;
    let answer = scene.call("publish_report", Some(&token))?;
    ensure!(answer.status() == 403, "{}", answer.start);
    let challenge = answer.header("www-authenticate").context("there is no challenge")?;
    ensure!(said(challenge, "error")? == "insufficient_scope", "{challenge}");
    let token = scene.token("ada", &scene.resource(), said(challenge, "scope")?)?;
    let answer = scene.call("publish_report", Some(&token))?;
    let asks = String::from_utf8_lossy(&answer.body).contains("input_required");
    ensure!(answer.status() == 200 && asks, "{}: {}", answer.start, String::from_utf8_lossy(&answer.body));
    Ok(())
}

fn opaque(scene: &Scene) -> Result<()> {
    let token = scene.token("opaque", &scene.resource(), "reports:read")?;
    ensure!(!token.contains('.'), "it is signed: {token}");
    let who = scene.reads_as(&token)?;
    // The token names no subject, so it is the client's own.
    ensure!(who == format!("{}?client_id#opaque", scene.issuer()), "it is {who}'s");
    scene.is_refused(&scene.token("opaque", OTHER, "reports:read")?)?;
    scene.is_refused("a-token-of-nobodys")?;
    let revoked = scene.ask_authority("/token/revocation", "opaque", format!("token={token}"))?;
    ensure!(revoked.status() == 200, "it was not taken back: {}", revoked.start);
    scene.reads_as(&token)?;
    // What becomes of it is looked at in the end.
    let _ = scene.revoked.set(token);
    Ok(())
}

fn own_host(scene: &Scene) -> Result<()> {
    let mut client = Command::new(&scene.client);
    client.args([scene.resource(), "ada".to_owned()]).env("GUARDED_SECRET", secret("ada"));
    let printed = project::read(&mut client)?;
    let who = format!("{}#ada", scene.issuer());
    let expected = format!("Q3, as {who} may read it\nQ3, published by {who}\n");
    ensure!(printed == expected, "it printed {printed}");
    Ok(())
}

fn rotated(scene: &Scene) -> Result<()> {
    let old = scene.token("ada", &scene.resource(), "reports:read")?;
    scene.reads_as(&old)?;
    scene.rotate("")?;
    let new = scene.token("ada", &scene.resource(), "reports:read")?;
    ensure!(kid(&old)? != kid(&new)?, "the key is the same");
    // At once: it is the first that nobody here knew.
    scene.reads_as(&new)?;
    scene.reads_as(&old).map(drop)
}

fn forgotten(scene: &Scene) -> Result<()> {
    let old = scene.token("ada", &scene.resource(), "reports:read")?;
    scene.rotate("?forget")?;
    let new = scene.token("ada", &scene.resource(), "reports:read")?;
    // Keys were fetched for the sake of a token a moment ago, so there is a pause of ten seconds.
    wait(Duration::from_secs(20), || scene.reads_as(&new).map(drop))?;
    scene.is_refused(&old)
}

fn taken_back(scene: &Scene) -> Result<()> {
    let token = scene.revoked.get().context("there is none that was taken back")?;
    // By default an answer is known for half a minute.
    wait(Duration::from_secs(40), || scene.is_refused(token))
}

/// Which key a token says it was signed with.
fn kid(token: &str) -> Result<String> {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let head = token.split('.').next().unwrap_or_default();
    let head: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(head)?)?;
    head["kid"].as_str().map(ToOwned::to_owned).context("the token names no key")
}

/// Tries until it is so.
fn wait(limit: Duration, attempt: impl Fn() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if start.elapsed() > limit => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(250)),
            Ok(()) => return Ok(()),
        }
    }
}
