use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::super::host::Stop;
use super::super::process;
use crate::server;

/// A server of a topology, which can be stopped and started again.
pub(super) struct Node {
    pub(super) address: SocketAddr,
    pub(super) folder: PathBuf,
    command: Box<dyn Fn() -> Result<Command> + Send>,
    child: Option<Child>,
}

impl Node {
    /// Starts a server. `command` makes the command that starts it in the foreground.
    pub(super) fn start(
        address: SocketAddr,
        folder: &Path,
        command: impl Fn() -> Result<Command> + Send + 'static,
    ) -> Result<Self> {
        let folder = folder.to_path_buf();
        let mut node = Self { address, folder, command: Box::new(command), child: None };
        node.resume()?;
        Ok(node)
    }

    /// Starts the server, or lets a stalled server go on.
    pub(super) fn resume(&mut self) -> Result<()> {
        if let Some(stalled) = &self.child {
            return process::signal_all(stalled.id(), "CONT");
        }
        let output = server::log_file(&self.log())?;
        let mut command = (self.command)()?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn();
        let child = child.with_context(|| format!("could not start {}", command.get_program().display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// The file with the output of the server.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.with_extension("log")
    }

    pub(super) fn stop(&mut self, stop: Stop, signal: &str) -> Result<()> {
        ensure!(stop != Stop::Cut, "only a topology can cut off a server");
        let Some(mut child) = self.child.take() else { return Ok(()) };
        match stop {
            Stop::Asked => process::stop(&mut child, signal)?,
            Stop::Killed => {
                // Each fails only when the process has ended by itself, which is what we want. A stalled server has
                // stalled children, which do not see that their parent is gone.
                let _ = process::kill_all(child.id());
                let _ = child.kill();
                let _ = child.wait();
            }
            Stop::Stalled | Stop::Cut => {
                let pid = child.id();
                self.child = Some(child);
                process::signal_all(pid, "STOP")?;
            }
        }
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // A kill cannot fail.
        let _ = self.stop(Stop::Killed, "");
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("address", &self.address)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}
