//! A server as a child process.
//!
//! It is like the child process transport of the SDK, but converts the messages in the pipes.

use std::{io, process::Stdio, time::Duration};

use antiphon_transport::legacy_tasks::Lines;
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// How long a child process can take to exit after its input is closed.
const PATIENCE: Duration = Duration::from_secs(3);

/// A child process and its pipes. Drop kills the process.
pub(crate) struct Process {
    child: Child,
    pipes: AsyncRwTransport<RoleClient, Lines<ChildStdout>, Lines<ChildStdin>>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.kill_on_drop(true).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the child has no pipes"));
        };
        Ok(Self { child, pipes: AsyncRwTransport::new(Lines::client(output), Lines::client(input)) })
    }
}

impl Transport<RoleClient> for Process {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.pipes.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.pipes.receive().await
    }

    /// Closes the input of the child process and waits for it to exit. Kills it after a timeout.
    async fn close(&mut self) -> io::Result<()> {
        self.pipes.close().await?;
        match timeout(PATIENCE, self.child.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_) => self.child.kill().await,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command).expect("there is a shell")
    }

    #[tokio::test]
    async fn a_child_ends_with_its_input() {
        let mut process = shell("cat > /dev/null; exit 7");
        process.close().await.expect("it ends");
        assert_eq!(process.child.wait().await.expect("it has ended").code(), Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_stays_is_killed() {
        let mut process = shell("exec sleep 1000");
        process.close().await.expect("it is killed");
        assert_eq!(process.child.wait().await.expect("it has ended").code(), None);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_child_is_killed_with_its_connection() {
        let process = shell("exec sleep 1000");
        let alive = format!("/proc/{}/exe", process.child.id().expect("it runs"));
        drop(process);
        // A process that was killed but not yet waited for has no executable.
        while std::fs::read_link(&alive).is_ok() {
            tokio::task::yield_now().await;
        }
    }
}
