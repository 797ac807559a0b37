//! Somebody's client: it sends, tries again as a host does, and notes what it met.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::balancer::Balancer;
use super::people::{People, Person};
use super::tally::{Failure, Never, Slip, Tally};
use super::visit::Kind;
use super::window::Windows;
use crate::chaos::story::Effects;
use crate::events::{read_chunk, take_event};
use crate::http::Message;
use crate::mcp;

/// How long one try may take: more than a replica is stopped for.
const TRY: Duration = Duration::from_secs(15);

/// How long a request is tried again before it is given up, and with it the run.
const PATIENCE: Duration = Duration::from_secs(90);

/// What all visits share.
#[derive(Debug)]
pub(super) struct World {
    pub(super) balancer: Balancer,
    pub(super) people: People,
    pub(super) windows: Windows,
    pub(super) tally: Tally,
    /// What the ledger must hold in the end.
    pub(super) effects: Mutex<Vec<Effects>>,
    numbers: AtomicU64,
}

impl World {
    pub(super) fn new(balancer: Balancer, people: People) -> Self {
        let (windows, tally) = (Windows::default(), Tally::default());
        Self { balancer, people, windows, tally, effects: Mutex::default(), numbers: AtomicU64::new(1) }
    }

    /// A number that nobody had before.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn note(&self, effects: Effects) {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner).push(effects);
    }
}

/// What counts as an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// Whatever the server says, refusals by its limits included.
    Anything,
    /// Whatever is no limit's refusal.
    Verdict,
    /// What is no error of a tool, either.
    Success,
}

/// One person's client during one visit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) world: &'a World,
    pub(super) person: &'a Person,
    pub(super) kind: Kind,
    /// When the visit was due.
    pub(super) due: Instant,
}

impl<'a> Caller<'a> {
    /// The same visit, by somebody else.
    pub(super) fn as_person(self, person: &'a Person) -> Self {
        Self { person, ..self }
    }

    /// A request on 2026-07-28, tried until it is answered; its time is counted from `since`.
    pub(super) fn ask(
        &self,
        method: &str,
        name: &str,
        params: Value,
        want: Want,
        since: Instant,
    ) -> Result<Value, Failure> {
        let host = self.world.balancer.address.to_string();
        let request = mcp::modern(&host, self.world.number(), method, name, params);
        let response = self.send(&self.signed(request), want, since)?;
        let text = String::from_utf8_lossy(&response.body);
        let answer = mcp::answer(&response);
        Ok(answer.with_context(|| format!("status {} without an answer: {text}", response.status()))?)
    }

    /// The result of such a request.
    pub(super) fn result(
        &self,
        method: &str,
        name: &str,
        params: Value,
        since: Instant,
    ) -> Result<Value, Failure> {
        let mut answer = self.ask(method, name, params, Want::Success, since)?;
        if answer.get("error").is_some() {
            return Err(Failure::new(Never::Wrong, format!("{method} {name}: {answer}")));
        }
        Ok(answer["result"].take())
    }

    /// What a tool came to, also where its run took so long that it became a task.
    pub(super) fn call(&self, tool: &str, arguments: &Value) -> Result<Value, Failure> {
        let params = json!({ "name": tool, "arguments": arguments });
        let result = self.result("tools/call", tool, params, self.due)?;
        if result["resultType"] != "task" {
            return Ok(result);
        }
        let id = result["taskId"].as_str().with_context(|| format!("no task: {result}"))?.to_owned();
        while self.due.elapsed() < PATIENCE * 2 {
            thread::sleep(Duration::from_millis(500));
            let mut task = self.result("tasks/get", &id, json!({ "taskId": id }), Instant::now())?;
            match task["status"].as_str() {
                Some("working") => {}
                Some("completed") => return Ok(task["result"].take()),
                _ => return Err(Failure::new(Never::Wrong, format!("a call became {task}"))),
            }
        }
        Err(Failure::new(Never::Lost, format!("a call of {tool} that became task {id} has not ended")))
    }

    /// A request to the routes of result sets.
    pub(super) fn fetch(
        &self,
        verb: &str,
        path: &str,
        body: Option<&Value>,
        since: Instant,
    ) -> Result<Message, Failure> {
        let mut request = self.bare(body.map(ToString::to_string).unwrap_or_default());
        request.start = format!("{verb} {path} HTTP/1.1");
        self.send(&self.signed(request), Want::Verdict, since)
    }

    /// A POST that shows nothing of who it is from.
    pub(super) fn bare(&self, body: String) -> Message {
        Message::post(&self.world.balancer.address.to_string(), &[], body.into_bytes())
    }

    /// The same with this person's key.
    pub(super) fn signed(&self, mut request: Message) -> Message {
        request.headers.push(("authorization".into(), format!("Bearer {}", self.person.key)));
        request
    }

    /// Sends until there is an answer.
    pub(super) fn send(&self, request: &Message, want: Want, since: Instant) -> Result<Message, Failure> {
        let bytes = closing(request).to_bytes();
        let World { balancer, windows, tally, .. } = self.world;
        for tries in 1.. {
            let began = Instant::now();
            let outcome = mcp::exchange_once(balancer.address, &bytes, TRY);
            let Some(slip) = slip(&outcome, want) else {
                let is_calm = windows.cause(since, Instant::now()).is_none();
                tally.answered(self.kind, since.elapsed(), tries, is_calm);
                return outcome.map_err(|error| Failure::new(Never::Lost, error));
            };
            let said = said(&outcome);
            self.slipped(slip, began, &format!("{}: {said}", request.start));
            if since.elapsed() > PATIENCE {
                let what = format!("{} failed {tries} times, last with {said}", request.start);
                return Err(Failure::new(Never::Lost, what));
            }
            let pause = if slip == Slip::Busy { 1000 } else { 50 << tries.min(5) };
            thread::sleep(Duration::from_millis(pause));
        }
        unreachable!("tries are not counted to their end")
    }

    /// Notes a try that failed; while nothing is broken, that is a failure of its own.
    pub(super) fn slipped(&self, slip: Slip, began: Instant, what: &str) {
        let cause = self.world.windows.cause(began, Instant::now());
        self.world.tally.slipped(slip, cause);
        if cause.is_none() && slip != Slip::Busy {
            let failure = Failure::new(Never::Unprovoked, format!("{}: {what}", slip.name()));
            self.world.tally.failed(self.kind.name(), &failure);
        }
    }

    /// Sends once, and reads the answer as it comes.
    pub(super) fn stream(&self, request: &Message) -> Result<Stream> {
        let mut stream = BufReader::new(mcp::connect(self.world.balancer.address)?);
        stream.get_mut().set_read_timeout(Some(TRY))?;
        stream.get_mut().write_all(&closing(request).to_bytes())?;
        let mut head = String::new();
        while stream.read_line(&mut head)? > 2 {}
        Ok(Stream { source: stream, head: head.to_ascii_lowercase(), pending: Vec::new(), data: Vec::new() })
    }
}

/// An answer of many events.
#[derive(Debug)]
pub(super) struct Stream {
    source: BufReader<TcpStream>,
    head: String,
    pending: Vec<u8>,
    data: Vec<u8>,
}

impl Stream {
    /// Whether it is one.
    pub(super) fn is_open(&self) -> bool {
        self.head.starts_with("http/1.1 200") && self.head.contains("text/event-stream")
    }

    pub(super) fn head(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The next message.
    pub(super) fn next(&mut self) -> Result<Value> {
        while !take_event(&mut self.pending, &mut self.data) {
            read_chunk(&mut self.source, &mut self.pending)?;
        }
        serde_json::from_slice(&self.data).context("an event is no JSON")
    }
}

/// A connection for each request, so that each goes to the next replica.
fn closing(request: &Message) -> Message {
    let mut request = request.clone();
    request.headers.push(("connection".into(), "close".into()));
    request
}

/// Whether it must be tried again, and why.
fn slip(outcome: &io::Result<Message>, want: Want) -> Option<Slip> {
    let response = match outcome {
        Ok(response) => response,
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            return Some(Slip::Late);
        }
        Err(_) => return Some(Slip::Broken),
    };
    match response.status() {
        429 => return (want != Want::Anything).then_some(Slip::Busy),
        500 => return Some(Slip::Failed),
        502..=504 => return Some(Slip::Unavailable),
        _ => {}
    }
    let answer = mcp::answer(response).unwrap_or(json!({}));
    if answer["error"]["code"] == -32603 {
        return Some(Slip::Failed);
    }
    if answer["error"]["data"]["limit"].is_string() && want != Want::Anything {
        return Some(Slip::Busy);
    }
    (want == Want::Success && answer["result"]["isError"] == true).then_some(Slip::Tool)
}

fn said(outcome: &io::Result<Message>) -> String {
    match outcome {
        Ok(response) => {
            let text = String::from_utf8_lossy(&response.body);
            format!("{} {}", response.status(), text.chars().take(300).collect::<String>())
        }
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &Value) -> Message {
        let start = format!("HTTP/1.1 {status} x");
        Message { start, body: body.to_string().into_bytes(), ..Message::default() }
    }

    #[test]
    fn what_is_tried_again_depends_on_what_is_wanted() {
        let full = Ok(response(200, &json!({"error": {"code": -32000, "data": {"limit": "rate"}}})));
        assert_eq!(slip(&full, Want::Anything), None);
        assert_eq!(slip(&full, Want::Verdict), Some(Slip::Busy));
        let failed = Ok(response(200, &json!({"result": {"isError": true}})));
        assert_eq!(slip(&failed, Want::Verdict), None);
        assert_eq!(slip(&failed, Want::Success), Some(Slip::Tool));
        assert_eq!(slip(&Ok(response(503, &json!({}))), Want::Anything), Some(Slip::Unavailable));
        assert_eq!(slip(&Err(io::ErrorKind::ConnectionReset.into()), Want::Anything), Some(Slip::Broken));
        let refused = Ok(response(200, &json!({"error": {"code": -32602}})));
        assert_eq!(slip(&refused, Want::Success), None);
    }
}
