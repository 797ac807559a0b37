//! Relays messages between a host on standard input and output, and the current server process.

use std::{
    pin::Pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::{
    build::{Built, Event},
    message::{self, Kind, Message},
    relay::{Greeting, Outgoing, Relay},
    server::{Group, Program},
};

/// The maximum time until a new server responds to the handshake.
const HANDSHAKE: Duration = Duration::from_mins(1);
/// How long a new server waits until the previous server has completed its requests.
const DRAIN: Duration = Duration::from_secs(2);
/// How long requests can continue after the host has closed its side of the connection.
const CLOSE: Duration = Duration::from_secs(5);
/// How long a server can take to exit after its input is closed.
const EXIT: Duration = Duration::from_secs(3);

/// Relays messages until the host closes its side of the connection.
pub(super) async fn run(mut builds: mpsc::Receiver<Event>, program: &Program) {
    let mut host = lines(tokio::io::stdin());
    let (output, written) = writer(tokio::io::stdout());
    let mut connection = Connection {
        program,
        relay: Relay::default(),
        host: output,
        server: None,
        absent: None,
        next: Next::None,
        start_failed: false,
    };
    // When `builds` is dropped, the builds end, and `antiphon dev` ends. So `builds` lives until the last message is
    // written.
    connection.run(&mut host, &mut builds).await;
    let Connection { host: output, server, .. } = connection;
    drop(output);
    // The host may have stopped reading, so wait only for a limited time.
    let _ = timeout(EXIT, written).await;
    if let Some(server) = server {
        server.end().await;
    }
}

struct Connection<'a> {
    program: &'a Program,
    relay: Relay,
    host: mpsc::UnboundedSender<String>,
    server: Option<Process>,
    /// The reason why no server is running. The value is `None` while the first server is being built or started.
    /// Requests of the host then wait for the server.
    absent: Option<String>,
    next: Next,
    /// Whether the last server failed to start. After a failed start, the next build starts the program again, even if
    /// the program has not changed. The cause of a failed start can be outside the program.
    start_failed: bool,
}

/// The state of the server that will replace the current server.
enum Next {
    None,
    Starting {
        starting: Pin<Box<dyn Future<Output = Result<Process, String>> + Send>>,
        command: Vec<String>,
        /// The method of the handshake request that the new server receives.
        greeted: Option<String>,
    },
    /// The new server is ready. The new server replaces the current server when the current server has no running
    /// requests, but at the latest at the time `latest`.
    Ready {
        process: Process,
        command: Vec<String>,
        greeted: Option<String>,
        latest: Instant,
    },
}

/// An event that the relay must handle.
enum Happened {
    FromHost(Option<String>),
    FromServer(Option<String>),
    Build(Option<Event>),
    Started(Result<Process, String>),
    Drained,
    /// The host has closed its side of the connection, and the time for running requests is over.
    Closed,
}

impl Connection<'_> {
    async fn run(&mut self, host: &mut mpsc::UnboundedReceiver<String>, builds: &mut mpsc::Receiver<Event>) {
        let mut building = true;
        let mut closing: Option<Instant> = None;
        loop {
            let waits = self.server.is_none() && self.absent.is_none();
            let happened = tokio::select! {
                line = host.recv(), if !waits && closing.is_none() => Happened::FromHost(line),
                line = next_line(&mut self.server) => Happened::FromServer(line),
                event = builds.recv(), if building => Happened::Build(event),
                happened = next_server(&mut self.next) => happened,
                () = passed(closing) => Happened::Closed,
            };
            match happened {
                Happened::FromHost(None) => closing = Some(Instant::now() + CLOSE),
                Happened::Closed => return,
                Happened::FromHost(Some(line)) => self.host_sent(&line),
                Happened::FromServer(Some(line)) => match self.relay.server_sent(&line) {
                    Some(out) => self.send(out),
                    None => eprintln!("antiphon dev: standard output is only for MCP messages: {line}"),
                },
                Happened::FromServer(None) => self.stopped().await,
                Happened::Build(Some(event)) => self.build(event),
                Happened::Build(None) => building = false,
                Happened::Started(Ok(process)) => {
                    self.start_failed = false;
                    let Next::Starting { command, greeted, .. } =
                        std::mem::replace(&mut self.next, Next::None)
                    else {
                        continue;
                    };
                    self.next = Next::Ready { process, command, greeted, latest: Instant::now() + DRAIN };
                }
                Happened::Started(Err(why)) => {
                    self.next = Next::None;
                    self.did_not_start(&why);
                }
                Happened::Drained => self.replace(),
            }
            if closing.is_some() && !self.relay.is_busy() {
                return;
            }
            if self.server.is_none() || !self.relay.is_busy() {
                self.replace();
            }
        }
    }

    fn host_sent(&mut self, line: &str) {
        if self.server.is_some() {
            let out = self.relay.host_sent(line);
            return self.send(out);
        }
        match (Message::read(line).and_then(|message| message.kind()), &self.absent) {
            (Some(Kind::Request { id, .. }), Some(why)) => {
                let _ = self.host.send(message::error(&id, why));
            }
            // No server receives this message, but the message can change the state of the connection.
            _ => drop(self.relay.host_sent(line)),
        }
    }

    fn build(&mut self, event: Event) {
        match event {
            // While a build is running, requests wait for the server that the build creates.
            Event::Started => self.absent = None,
            Event::Failed(why) => self.fail(&why),
            Event::Built(Built { command, is_new }) => {
                self.relay.succeed();
                let running = self.server.is_some() || !matches!(self.next, Next::None);
                if is_new || !running || self.start_failed {
                    self.start(command);
                }
            }
        }
    }

    fn fail(&mut self, why: &str) {
        let kept = if self.server.is_some() { "; the previous server keeps running" } else { "" };
        eprintln!("antiphon dev: {}{kept}", why.lines().next().unwrap_or_default());
        if self.server.is_none() {
            self.absent = Some(why.to_owned());
            return;
        }
        let out = self.relay.fail(why);
        self.send(out);
    }

    fn did_not_start(&mut self, why: &str) {
        self.start_failed = true;
        self.fail(&format!("the new server did not start: {why}"));
    }

    /// Starts a server. When the new server is ready, it replaces the current server.
    fn start(&mut self, command: Vec<String>) {
        let greeting = self.relay.greeting();
        let greeted = greeting.as_ref().map(|greeting| greeting.method.clone());
        let spawned = self.program.command(&command, None).and_then(Process::start);
        match spawned {
            Ok(process) => {
                let starting = Box::pin(greet(process, greeting));
                self.next = Next::Starting { starting, command, greeted };
            }
            Err(error) => {
                self.next = Next::None;
                let program = command.first().map_or("", String::as_str);
                self.did_not_start(&format!("cannot start `{program}`: {error}"));
            }
        }
    }

    /// Replaces the current server, if the next server is ready.
    fn replace(&mut self) {
        if !matches!(self.next, Next::Ready { .. }) {
            return;
        }
        let Next::Ready { process, command, greeted, .. } = std::mem::replace(&mut self.next, Next::None)
        else {
            return;
        };
        if greeted != self.relay.hello_method() {
            // The host has sent a handshake in the meantime. Start another process that responds to this handshake.
            return self.start(command);
        }
        let previous = self.server.replace(process);
        if let Some(previous) = previous {
            eprintln!("antiphon dev: replaced the server");
            tokio::spawn(previous.end());
        }
        let out = self.relay.replace();
        self.send(out);
    }

    /// Reports a server that has exited.
    async fn stopped(&mut self) {
        let Some(server) = self.server.take() else { return };
        let status = server.end().await.map_or_else(|| "killed".to_owned(), |status| status.to_string());
        let why =
            format!("the server stopped ({status}); `antiphon dev` starts it again after the next change");
        eprintln!("antiphon dev: {why}");
        let out = self.relay.end_requests(&why);
        self.send(out);
        if matches!(self.next, Next::None) {
            self.absent = Some(why);
        }
    }

    fn send(&self, out: Vec<Outgoing>) {
        for send in out {
            // An error is ignored here, because a closed side is detected by the next read.
            let _ = match (send, &self.server) {
                (Outgoing::Host(line), _) => self.host.send(line),
                (Outgoing::Server(line), Some(server)) => server.input.send(line),
                (Outgoing::Server(_), None) => Ok(()),
            };
        }
    }
}

async fn next_line(server: &mut Option<Process>) -> Option<String> {
    match server {
        Some(server) => server.output.recv().await,
        None => std::future::pending().await,
    }
}

async fn next_server(next: &mut Next) -> Happened {
    match next {
        Next::None => std::future::pending().await,
        Next::Starting { starting, .. } => Happened::Started(starting.await),
        Next::Ready { latest, .. } => {
            tokio::time::sleep_until(*latest).await;
            Happened::Drained
        }
    }
}

/// Waits until the time `time`. If `time` is `None`, waits forever.
async fn passed(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// A server process, and the channels for the lines of its input and output.
struct Process {
    group: Group,
    input: mpsc::UnboundedSender<String>,
    output: mpsc::UnboundedReceiver<String>,
}

impl Process {
    fn start(mut command: tokio::process::Command) -> std::io::Result<Self> {
        let mut group = Group::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let (Some(input), Some(output)) = (group.child.stdin.take(), group.child.stdout.take()) else {
            return Err(std::io::Error::other("the server has no pipe for its standard input or output"));
        };
        let (input, _) = writer(input);
        Ok(Self { group, input, output: lines(output) })
    }

    /// Closes the input of the process, and waits until the process exits. Kills the process after a timeout.
    async fn end(self) -> Option<ExitStatus> {
        let Self { mut group, input, output } = self;
        drop((input, output));
        timeout(EXIT, group.child.wait()).await.ok()?.ok()
    }
}

/// Sends the greeting to a new server, and waits for its response.
async fn greet(mut process: Process, greeting: Option<Greeting>) -> Result<Process, String> {
    let Some(Greeting { id, hello, .. }) = greeting else { return Ok(process) };
    let _ = process.input.send(hello);
    let answered = async {
        while let Some(line) = process.output.recv().await {
            let Some(message) = Message::read(&line) else { continue };
            if message.kind() == Some(Kind::Response { id: id.clone() }) {
                return Some(message.get("error"));
            }
        }
        None
    };
    match timeout(HANDSHAKE, answered).await {
        Ok(Some(error)) if error.is_null() => Ok(process),
        Ok(Some(error)) => Err(format!("the process rejected the handshake: {error}")),
        Ok(None) => {
            let status = process.end().await.map_or_else(|| "killed".to_owned(), |status| status.to_string());
            Err(format!("the process stopped ({status}); its standard error output can contain the reason"))
        }
        Err(_) => Err(format!("the process did not answer the handshake within {HANDSHAKE:?}")),
    }
}

/// Writes lines to a stream, until the sender is dropped. The task ends after the last line.
fn writer(
    mut stream: impl AsyncWrite + Send + Unpin + 'static,
) -> (mpsc::UnboundedSender<String>, JoinHandle<()>) {
    let (tx, mut rx) = mpsc::unbounded_channel::<String>();
    let task = tokio::spawn(async move {
        while let Some(mut line) = rx.recv().await {
            line.push('\n');
            if stream.write_all(line.as_bytes()).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
    });
    (tx, task)
}

/// Reads the lines of a stream. The returned channel ends with the stream.
fn lines(stream: impl AsyncRead + Send + Unpin + 'static) -> mpsc::UnboundedReceiver<String> {
    let (tx, rx) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut lines = BufReader::new(stream).split(b'\n');
        while let Ok(Some(line)) = lines.next_segment().await {
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            if !line.is_empty() && tx.send(line).is_err() {
                return;
            }
        }
    });
    rx
}
