//! The processes that serve and work, and how they die.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::server;

/// How many workers there are, and how many front ends.
pub(crate) const WORKERS: usize = 3;
pub(crate) const FRONTS: usize = 2;

/// Front ends and workers; all are killed when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Crew {
    binary: PathBuf,
    plan: Value,
    log: PathBuf,
    rng: Rng,
    members: Vec<Member>,
    /// Who died, by our hand or by its own.
    pub(crate) deaths: Vec<Death>,
    /// How many died by our hand, and how many between an effect and its record.
    pub(crate) killed: u64,
    pub(crate) fallen: u64,
}

/// The end of a process.
#[derive(Clone, Debug)]
pub(crate) struct Death {
    pub(crate) process: String,
}

#[derive(Debug)]
struct Member {
    role: &'static str,
    number: usize,
    start: u32,
    address: Option<SocketAddr>,
    child: Child,
}

impl Member {
    fn process(&self) -> String {
        name(self.role, self.number, self.start)
    }
}

fn name(role: &str, number: usize, start: u32) -> String {
    format!("{role}-{number}.{start}")
}

impl Crew {
    pub(crate) fn start(
        binary: PathBuf,
        plan: Value,
        log: &Path,
        fronts: &[SocketAddr],
        rng: Rng,
    ) -> Result<Self> {
        let (members, deaths) = (Vec::new(), Vec::new());
        let log = log.to_path_buf();
        let mut crew = Self { binary, plan, log, rng, members, deaths, killed: 0, fallen: 0 };
        for (number, address) in fronts.iter().enumerate() {
            crew.spawn("front", number, 0, Some(*address))?;
        }
        for number in 0..WORKERS {
            crew.spawn("worker", number, 0, None)?;
        }
        Ok(crew)
    }

    /// Kills one of them, and starts it again at once.
    pub(crate) fn replace_one(&mut self) -> Result<()> {
        let index = self.rng.usize(..self.members.len());
        self.replace(index)
    }

    /// Kills this front end, and starts it again at once.
    pub(crate) fn replace_front(&mut self, number: usize) -> Result<()> {
        let is_meant = |member: &Member| member.role == "front" && member.number == number;
        self.members.iter().position(is_meant).map_or(Ok(()), |index| self.replace(index))
    }

    /// Kills all processes, and does not start them again.
    pub(crate) fn stop(&mut self) {
        self.members.drain(..).for_each(|mut member| kill(&mut member.child));
    }

    fn replace(&mut self, index: usize) -> Result<()> {
        let mut member = self.members.swap_remove(index);
        kill(&mut member.child);
        self.killed += 1;
        self.bury(&member)
    }

    /// Starts those again that died over an effect. Nobody else may end by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        for index in (0..self.members.len()).rev() {
            if let Some(status) = self.members[index].child.try_wait()? {
                let member = self.members.swap_remove(index);
                ensure!(
                    status.code().is_none(),
                    "{} ended by itself ({status}); they wrote:\n{}",
                    member.process(),
                    server::tail(&self.log)
                );
                self.fallen += 1;
                self.bury(&member)?;
            }
        }
        Ok(())
    }

    fn bury(&mut self, member: &Member) -> Result<()> {
        self.deaths.push(Death { process: member.process() });
        self.spawn(member.role, member.number, member.start + 1, member.address)
    }

    fn spawn(
        &mut self,
        role: &'static str,
        number: usize,
        start: u32,
        address: Option<SocketAddr>,
    ) -> Result<()> {
        let mut plan = self.plan.clone();
        plan["process"] = json!(name(role, number, start));
        plan["address"] = json!(address);
        plan["seed"] = json!(self.rng.u64(..));
        let log = server::log_file(&self.log)?;
        let mut command = Command::new(&self.binary);
        command.arg(role).arg(plan.to_string()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("could not start {}", self.binary.display()))?;
        self.members.push(Member { role, number, start, address, child });
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop();
    }
}

/// With no chance to say goodbye.
fn kill(child: &mut Child) {
    // Both fail only when the process has ended by itself, which is what we want.
    let _ = child.kill();
    let _ = child.wait();
}

/// Milliseconds of this machine's clock.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
