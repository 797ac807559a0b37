//! Restate as it runs here: its server, and on it a service of ours.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Load, Programs, Wait};
use crate::http::Message;
use crate::proc::{cpu_time, peak_mib};
use crate::server::{self, Server};

/// How long anything may take before it is given up.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// A server with our service on it. When this goes out of scope both are stopped and the data is removed.
#[derive(Debug)]
pub(super) struct Engine {
    // Invariant: in this order. The data goes when nobody writes to it any more.
    server: Server,
    service: Service,
    _data: Data,
    log: PathBuf,
}

impl Engine {
    /// Starts both, set up for `load`.
    pub(super) fn start(programs: &Programs, load: Load) -> Result<Self> {
        let data = Data::new(programs.scratch.join("data"))?;
        let log = programs.scratch.join("engine.log");
        let (ingress, admin) = (server::free_address()?, server::free_address()?);
        let mut command = Command::new(&programs.server);
        command
            .args(["--no-logo", "--listen-mode", "tcp", "--node-name", "bench"])
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            .env("RESTATE_BASE_DIR", &data.0)
            .env("RESTATE_LOG_DISABLE_ANSI_CODES", "true")
            .env("RESTATE_LOG_FILTER", "warn")
            .env("RESTATE_DEFAULT_NUM_PARTITIONS", load.partitions.to_string())
            .env("RESTATE_BIND_ADDRESS", server::free_address()?.to_string())
            .env("RESTATE_INGRESS__BIND_ADDRESS", ingress.to_string())
            .env("RESTATE_ADMIN__BIND_ADDRESS", admin.to_string());
        if load.wait == Wait::Suspended {
            command.env("RESTATE_WORKER__INVOKER__INACTIVITY_TIMEOUT", "0s");
        }
        let server = Server::spawn(&mut command, ingress, &log)?;
        let service = Service::start(&programs.service, &log)?;
        let mut engine = Self { server, service, _data: data, log };
        engine.register(admin)?;
        Ok(engine)
    }

    /// Makes the service known to the server, as soon as that listens.
    fn register(&mut self, admin: SocketAddr) -> Result<()> {
        let start = Instant::now();
        loop {
            self.server.wait_until_ready()?;
            let deployment = json!({ "uri": format!("http://{}", self.service.address) });
            let Err(error) = Peer::connect(admin).and_then(|mut it| it.exchange("/deployments", &deployment))
            else {
                return Ok(());
            };
            if start.elapsed() > LIMIT {
                return Err(error).context("the server does not take the service");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// A connection to where runs are started and answered.
    pub(super) fn connect(&self) -> Result<Peer> {
        Peer::connect(self.server.address())
    }

    pub(super) fn questions(&self) -> &Questions {
        &self.service.questions
    }

    /// CPU time of both so far.
    pub(super) fn cpu_time(&self) -> Result<Duration> {
        Ok(cpu_time(self.server.pid())? + cpu_time(self.service.child.0.id())?)
    }

    /// The most that each had resident, added up.
    pub(super) fn peak_mib(&self) -> Result<f64> {
        Ok(peak_mib(self.server.pid())? + peak_mib(self.service.child.0.id())?)
    }

    /// The last lines of what both wrote.
    pub(super) fn log(&self) -> String {
        server::tail(&self.log)
    }
}

/// A folder that is removed when it goes out of scope.
#[derive(Debug)]
struct Data(PathBuf);

impl Data {
    fn new(folder: PathBuf) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("could not remove {}: {error}", self.0.display());
        }
    }
}

/// The probe, running.
#[derive(Debug)]
struct Service {
    child: Running,
    address: SocketAddr,
    questions: Arc<Questions>,
}

impl Service {
    fn start(binary: &Path, log: &Path) -> Result<Self> {
        let mut command = Command::new(binary);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(server::log_file(log)?);
        let child = command.spawn().with_context(|| format!("could not start {}", binary.display()))?;
        let mut child = Running(child);
        let mut output = BufReader::new(child.0.stdout.take().context("its output is piped")?);
        let mut address = String::new();
        output.read_line(&mut address)?;
        let address = address.trim().parse().context("the service did not say where it listens")?;
        let questions = Arc::<Questions>::default();
        let reader = Arc::clone(&questions);
        // It ends with the output, and that with the service.
        thread::spawn(move || reader.read(output));
        Ok(Self { child, address, questions })
    }
}

#[derive(Debug)]
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when the process has ended by itself, which is what we want.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Who waits for the question of which run; `None` when no question will come any more.
#[derive(Debug)]
pub(super) struct Questions(Mutex<Option<HashMap<String, Sender<String>>>>);

impl Default for Questions {
    fn default() -> Self {
        Self(Mutex::new(Some(HashMap::new())))
    }
}

impl Questions {
    /// Receives the id by which the question of `run` is answered.
    pub(super) fn expect(&self, run: &str) -> Receiver<String> {
        let (tx, rx) = mpsc::channel();
        if let Some(waiting) = &mut *self.lock() {
            waiting.insert(run.to_owned(), tx);
        }
        rx
    }

    /// Hands on what the service tells, until it ends.
    fn read(&self, output: impl BufRead) {
        for line in output.lines().map_while(Result::ok) {
            let Some((run, id)) = line.split_once(' ') else { continue };
            // A run that is replayed asks again, and nobody waits for that.
            if let Some(tx) = self.lock().as_mut().and_then(|it| it.remove(run)) {
                // A driver that has gone wants no answer.
                let _ = tx.send(id.to_owned());
            }
        }
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashMap<String, Sender<String>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A keep-alive connection on which others may be heard between a request and its answer.
#[derive(Debug)]
pub(super) struct Peer {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Peer {
    fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Self { stream: BufReader::new(stream), host: address.to_string() })
    }

    /// Posts JSON and does not wait.
    pub(super) fn send(&mut self, path: &str, body: &Value) -> Result<()> {
        let host = self.host.as_str();
        let post = Message::post(host, &[], body.to_string().into_bytes());
        Ok(Message { start: format!("POST {path} HTTP/1.1"), ..post }.write(self.stream.get_mut())?)
    }

    /// The answer's JSON; an error unless it is good.
    pub(super) fn receive(&mut self) -> Result<Value> {
        let answer = Message::read(&mut self.stream)?.context("the server hung up")?;
        let text = String::from_utf8_lossy(&answer.body);
        ensure!((200..300).contains(&answer.status()), "status {}: {text}", answer.status());
        Ok(if text.is_empty() { Value::Null } else { serde_json::from_str(&text)? })
    }

    fn exchange(&mut self, path: &str, body: &Value) -> Result<Value> {
        self.send(path, body)?;
        self.receive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_reaches_who_waits_for_it_and_only_once() {
        let questions = Questions::default();
        let (first, second) = (questions.expect("run-1"), questions.expect("run-2"));
        questions.read(b"run-2 b\nrun-1 a\nrun-1 c\nnonsense\n".as_slice());
        assert_eq!(first.iter().collect::<Vec<_>>(), ["a"]);
        assert_eq!(second.iter().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn nobody_waits_for_a_service_that_has_ended() {
        let questions = Questions::default();
        let before = questions.expect("run-1");
        questions.read(b"".as_slice());
        before.recv().unwrap_err();
        questions.expect("run-2").recv().unwrap_err();
    }

    #[test]
    fn data_goes_with_its_owner() {
        let folder = std::env::temp_dir().join(format!("antiphon-restate-{:016x}", fastrand::u64(..)));
        let data = Data::new(folder.clone()).unwrap();
        fs::write(folder.join("file"), "x").unwrap();
        drop(data);
        assert!(!folder.exists());
    }
}
