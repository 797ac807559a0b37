//! The replicas: processes of one program, each with variables of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::Client;
use crate::http::Message;
use crate::mcp;
use crate::server::{self, Server};
use crate::services::signal;

/// How long a replica may take to answer its first probe.
const START: Duration = Duration::from_mins(1);

/// One replica, running or not.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) address: SocketAddr,
    pub(super) health: SocketAddr,
    pub(super) log: PathBuf,
    /// The program, if it is another than the fleet's.
    program: Option<PathBuf>,
    variables: Vec<(&'static str, String)>,
    server: Option<Server>,
}

/// Replicas of one program. They are killed when this goes out of scope.
#[derive(Debug)]
pub(super) struct Fleet {
    program: PathBuf,
    variables: Vec<(&'static str, String)>,
    pub(super) replicas: Vec<Replica>,
    /// Whether a replica that has started is asked for a task that does not exist. That repairs nothing. Versions in which
    /// workers start with the first such request then show how they fail otherwise.
    pub(super) is_woken: bool,
}

impl Fleet {
    /// Finds addresses for `count` replicas, and starts none.
    pub(super) fn new(
        program: &Path,
        folder: &Path,
        count: usize,
        variables: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let replica = |number: usize| {
            Ok(Replica {
                address: server::free_address()?,
                health: server::free_address()?,
                log: folder.join(format!("replica-{number}.log")),
                program: None,
                variables: Vec::new(),
                server: None,
            })
        };
        let replicas = (0..count).map(replica).collect::<Result<_>>()?;
        Ok(Self { program: program.to_path_buf(), variables, replicas, is_woken: true })
    }

    /// Gives one replica a variable of its own, from its next start on.
    pub(super) fn set(&mut self, number: usize, name: &'static str, value: &str) {
        let variables = &mut self.replicas[number].variables;
        variables.retain(|(it, _)| *it != name);
        variables.push((name, value.to_owned()));
    }

    /// Gives one replica another program, from its next start on.
    pub(super) fn set_program(&mut self, number: usize, program: PathBuf) {
        self.replicas[number].program = Some(program);
    }

    pub(super) fn start_all(&mut self) -> Result<()> {
        (0..self.replicas.len()).try_for_each(|number| self.start(number))
    }

    /// Starts one replica, and waits until it answers probes. It need not be ready.
    pub(super) fn start(&mut self, number: usize) -> Result<()> {
        let replica = &mut self.replicas[number];
        let mut command = Command::new(replica.program.as_ref().unwrap_or(&self.program));
        command.envs(self.variables.iter().chain(&replica.variables).map(|(name, value)| (name, value)));
        command.env("LISTEN", replica.address.to_string()).env("HEALTH_LISTEN", replica.health.to_string());
        command.env("REPLICA", format!("replica-{number}"));
        let server = replica.server.insert(Server::spawn(&mut command, replica.address, &replica.log)?);
        let began = Instant::now();
        while !is_alive(replica.health) {
            ensure!(
                !server.has_ended(Duration::from_millis(20))? && began.elapsed() < START,
                "replica {number} does not start; it wrote:\n{}",
                server::tail(&replica.log)
            );
        }
        server.wait_until_ready()?;
        if self.is_woken {
            // Refused, whoever asks.
            let _ = Client::new(self.address(number)).get("no-such-task");
        }
        Ok(())
    }

    /// Kills one replica.
    pub(super) fn kill(&mut self, number: usize) {
        // Dropping the server kills its process.
        self.replicas[number].server = None;
    }

    pub(super) fn kill_all(&mut self) {
        (0..self.replicas.len()).for_each(|number| self.kill(number));
    }

    /// Asks one replica to end, and returns how long it took, or an error if it took longer than `limit`.
    pub(super) fn end(&mut self, number: usize, limit: Duration) -> Result<Duration> {
        let began = Instant::now();
        let pid = self.pid(number)?;
        ensure!(signal(pid, "TERM")?, "replica {number} cannot be sent SIGTERM");
        let server = self.replicas[number].server.as_mut().context("a replica that is asked to end runs")?;
        ensure!(server.has_ended(limit)?, "replica {number} did not end within {} s", limit.as_secs());
        self.replicas[number].server = None;
        Ok(began.elapsed())
    }

    pub(super) fn pid(&self, number: usize) -> Result<u32> {
        let server = self.replicas[number].server.as_ref();
        Ok(server.with_context(|| format!("replica {number} does not run"))?.pid())
    }

    /// The address of a replica, for clients.
    pub(super) fn address(&self, number: usize) -> SocketAddr {
        self.replicas[number].address
    }

    /// The status and the text of a probe or of the metrics.
    pub(super) fn probe(&self, number: usize, path: &str) -> Result<(u16, String)> {
        probe(self.replicas[number].health, path)
    }

    /// Waits until a probe answers with `status`, at most for `patience`.
    pub(super) fn wait_for(&self, number: usize, path: &str, status: u16, patience: Duration) -> Result<()> {
        let began = Instant::now();
        loop {
            let said = self.probe(number, path);
            if said.as_ref().is_ok_and(|said| said.0 == status) {
                return Ok(());
            }
            ensure!(
                began.elapsed() < patience,
                "replica {number} answers {path} with {said:?} and not with {status} after {} s",
                patience.as_secs()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The sum of all samples of a metric on one replica; labels are matched by `has`.
    pub(super) fn metric(&self, number: usize, name: &str, has: &str) -> Result<f64> {
        let (_, text) = self.probe(number, "/metrics")?;
        Ok(sum(&text, name, has))
    }
}

fn is_alive(health: SocketAddr) -> bool {
    probe(health, "/livez").is_ok_and(|said| said.0 == 200)
}

/// Asks the port for probes.
pub(super) fn probe(health: SocketAddr, path: &str) -> Result<(u16, String)> {
    let request = Message {
        start: format!("GET {path} HTTP/1.1"),
        headers: vec![("host".into(), health.to_string()), ("connection".into(), "close".into())],
        body: Vec::new(),
    };
    let said = mcp::exchange_once(health, &request.to_bytes(), Duration::from_secs(5))?;
    Ok((said.status(), String::from_utf8_lossy(&said.body).into_owned()))
}

fn sum(text: &str, name: &str, has: &str) -> f64 {
    let samples = text.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(has)
    });
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn metrics_are_added_by_their_whole_name() {
        let text = "a_total{x=\"1\"} 2\na_total{x=\"2\"} 3\na_total_b 7\n";
        assert_eq!((sum(text, "a_total", ""), sum(text, "a_total", "x=\"2\"")), (5.0, 3.0));
    }
}
