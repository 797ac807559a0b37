//! The processes that work, and how they are replaced.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::server;

/// How many there are of each.
const ROLES: [(&str, u32); 3] = [("writer", 4), ("pusher", 2), ("worker", 4)];

/// Writers, pushers and workers; all are killed when it goes out of scope.
#[derive(Debug)]
pub(super) struct Crew {
    binary: PathBuf,
    plan: Value,
    log: PathBuf,
    members: Vec<Member>,
    /// How many were killed by chance.
    pub(super) kills: u64,
}

#[derive(Debug)]
struct Member {
    role: &'static str,
    number: u32,
    start: u32,
    child: Child,
}

impl Crew {
    pub(super) fn start(binary: PathBuf, plan: Value, log: &Path) -> Result<Self> {
        let mut crew = Self { binary, plan, log: log.to_path_buf(), members: Vec::new(), kills: 0 };
        for (role, count) in ROLES {
            for number in 0..count {
                let child = crew.spawn(role, number, 0)?;
                crew.members.push(Member { role, number, start: 0, child });
            }
        }
        Ok(crew)
    }

    /// Kills one of those that still work, and starts it again at once.
    pub(super) fn replace_one(&mut self, rng: &mut Rng) -> Result<()> {
        if self.members.is_empty() {
            return Ok(());
        }
        let Member { role, number, start, mut child } =
            self.members.swap_remove(rng.usize(..self.members.len()));
        kill(&mut child);
        self.kills += 1;
        let child = self.spawn(role, number, start + 1)?;
        self.members.push(Member { role, number, start: start + 1, child });
        Ok(())
    }

    /// Kills all of one role for good.
    pub(super) fn dismiss(&mut self, role: &str) {
        self.members.extract_if(.., |it| it.role == role).for_each(|mut it| kill(&mut it.child));
    }

    /// A pusher ends when all is pushed; nobody else may end by itself.
    pub(super) fn check(&mut self) -> Result<()> {
        for index in (0..self.members.len()).rev() {
            if let Some(status) = self.members[index].child.try_wait()? {
                let Member { role, number, .. } = self.members.swap_remove(index);
                ensure!(
                    status.success() && role == "pusher",
                    "{role} {number} ended by itself ({status}); they wrote:\n{}",
                    server::tail(&self.log)
                );
            }
        }
        Ok(())
    }

    fn spawn(&self, role: &str, number: u32, start: u32) -> Result<Child> {
        let mut plan = self.plan.clone();
        plan["number"] = json!(number);
        plan["start"] = json!(start);
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.with_context(|| format!("could not write {}", self.log.display()))?;
        let mut command = Command::new(&self.binary);
        command.arg(role).arg(plan.to_string()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().with_context(|| format!("could not start {}", self.binary.display()))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(|member| kill(&mut member.child));
    }
}

/// With no chance to say goodbye.
fn kill(child: &mut Child) {
    // Both fail only when the process has ended by itself, which is what we want.
    let _ = child.kill();
    let _ = child.wait();
}
