//! A server as a child process.
//!
//! The transport in this module works like the child process transport of the SDK, but also converts the messages in
//! the pipes.

use std::{
    fmt, io,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use antiphon_transport::legacy_tasks::Lines;
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    frame::LineListener,
    stray::{Inspected, StrayOutput, Strays},
};

/// How long a child process can take to exit after its input is closed.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long a child process can take to exit after it has closed a pipe. After this time, the exit status of the
/// process is unknown.
const EXIT: Duration = Duration::from_secs(1);

/// How much of the standard error of a child process is kept, in bytes.
const KEPT: usize = 8 * 1024;

/// A child process and its pipes. Dropping a `Process` kills the child process.
pub(crate) struct Process {
    /// The child process. The value is `None` only during drop.
    child: Option<Child>,
    ending: Arc<Ending>,
    pipes: AsyncRwTransport<RoleClient, Lines<Inspected<ChildStdout>>, Lines<ChildStdin>>,
}

impl Process {
    /// Starts the server program. `strays` receives the output that is not an MCP message. `lines` receives the lines
    /// of a piped standard error.
    pub(crate) fn start(
        mut command: Command,
        strays: Strays,
        lines: Option<LineListener>,
    ) -> io::Result<Self> {
        strays.begin();
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.kill_on_drop(true).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the server process has no pipe for its standard input or output"));
        };
        let ending = Ending {
            child: Mutex::default(),
            stderr: Arc::default(),
            reader: Mutex::default(),
            strays: strays.clone(),
        };
        if let Some(errors) = child.stderr.take() {
            *lock(&ending.reader) = Some(tokio::spawn(read_end(errors, Arc::clone(&ending.stderr), lines)));
        }
        let output = Inspected::new(output, strays);
        let pipes = AsyncRwTransport::new(Lines::client(output), Lines::client(input));
        Ok(Self { child: Some(child), ending: Arc::new(ending), pipes })
    }

    /// Returns a handle with which the caller can read the exit status after this transport is dropped.
    pub(crate) fn ending(&self) -> Arc<Ending> {
        Arc::clone(&self.ending)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // If no other handle exists, the child process is dropped together with `self.ending`, which kills the
        // process.
        *lock(&self.ending.child) = self.child.take();
    }
}

/// The exit status of a child process, and the end of its standard error.
pub(crate) struct Ending {
    /// The child process, after its transport was dropped.
    child: Mutex<Option<Child>>,
    stderr: Arc<Mutex<Vec<u8>>>,
    /// The task that reads standard error, if standard error is piped.
    reader: Mutex<Option<JoinHandle<()>>>,
    strays: Strays,
}

impl Ending {
    /// Returns how the child exited. If the child is still running, kills the child and returns `None`.
    pub(crate) async fn exited(&self) -> Option<ProgramExited> {
        let mut child = lock(&self.child).take()?;
        let status = timeout(EXIT, child.wait()).await.ok()?.ok()?;
        let reader = lock(&self.reader).take();
        if let Some(mut reader) = reader {
            // Another process can still keep the pipe open, so this code waits with a timeout.
            let _ = timeout(EXIT, &mut reader).await;
            reader.abort();
        }
        Some(ProgramExited::new(status, &lock(&self.stderr), self.strays.first()))
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(reader) = lock(&self.reader).take() {
            reader.abort();
        }
    }
}

/// The cause of [`Error::Connect`](crate::Error::Connect) if a child process exited before the connection was ready.
#[derive(Clone, Debug)]
pub struct ProgramExited {
    status: ExitStatus,
    stderr: String,
    stray: Option<StrayOutput>,
}

impl ProgramExited {
    /// The maximum number of lines that [`ProgramExited`] keeps from the program's standard error.
    const LINES: usize = 20;

    pub(crate) fn new(status: ExitStatus, stderr: &[u8], stray: Option<StrayOutput>) -> Self {
        let stderr = String::from_utf8_lossy(stderr);
        let lines: Vec<&str> = stderr.lines().collect();
        let stderr = lines[lines.len().saturating_sub(Self::LINES)..].join("\n");
        Self { status, stderr: stderr.trim().to_owned(), stray }
    }

    /// Returns the exit status of the program.
    pub fn status(&self) -> ExitStatus {
        self.status
    }

    /// Returns the last lines of the program's standard error. Returns an empty text if the program wrote no lines, or
    /// if its standard error is not piped.
    pub fn stderr(&self) -> &str {
        &self.stderr
    }

    /// Returns the first line of the program's standard output that is not an MCP message.
    pub fn stray_output(&self) -> Option<&StrayOutput> {
        self.stray.as_ref()
    }
}

impl fmt::Display for ProgramExited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the program stopped before the connection was ready ({})", self.status)?;
        if let Some(stray) = &self.stray {
            write!(f, "; its standard output has a line that is not an MCP message: `{}`", stray.line())?;
        }
        if !self.stderr.is_empty() {
            f.write_str("; its standard error ends with:")?;
            for line in self.stderr.lines() {
                write!(f, "\n    {line}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ProgramExited {}

/// Reads a stream to its end, keeps its last bytes, and reports its lines.
async fn read_end(
    mut stream: impl AsyncRead + Unpin,
    kept: Arc<Mutex<Vec<u8>>>,
    lines: Option<LineListener>,
) {
    let mut bytes = [0; 4096];
    let mut line = Vec::new();
    let tell = |line: &mut Vec<u8>| {
        if let Some(listener) = lines.as_ref().filter(|_| !line.is_empty()) {
            listener(String::from_utf8_lossy(line).trim_end());
        }
        line.clear();
    };
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        {
            let mut kept = lock(&kept);
            kept.extend_from_slice(&bytes[..count]);
            let excess = kept.len().saturating_sub(KEPT);
            kept.drain(..excess);
        }
        for piece in bytes[..count].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            // A very long line is reported in parts.
            if piece.ends_with(b"\n") || line.len() > KEPT {
                tell(&mut line);
            }
        }
    }
    tell(&mut line);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Closes the input of the child process, and waits until the process exits. Kills the process after a timeout.
    async fn close(&mut self) -> io::Result<()> {
        self.pipes.close().await?;
        let Some(child) = &mut self.child else { return Ok(()) };
        match timeout(PATIENCE, child.wait()).await {
            Ok(ended) => ended.map(drop),
            Err(_) => child.kill().await,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, Strays::default(), None).expect("there is a shell")
    }

    async fn status(process: &mut Process) -> ExitStatus {
        process.child.as_mut().expect("it was not dropped").wait().await.expect("it has ended")
    }

    #[tokio::test]
    async fn standard_error_is_reported_in_lines_and_its_end_is_kept() {
        let (kept, lines) = (Arc::default(), Arc::new(Mutex::new(Vec::new())));
        let told = Arc::clone(&lines);
        let listener: LineListener = Arc::new(move |line| lock(&told).push(line.to_owned()));
        read_end(b"one\r\n\ntwo".as_slice(), Arc::clone(&kept), Some(listener)).await;
        assert_eq!(*lock(&lines), ["one", "", "two"]);
        assert_eq!(*lock(&kept), b"one\r\n\ntwo");
    }

    #[tokio::test]
    async fn a_child_ends_with_its_input() {
        let mut process = shell("cat > /dev/null; exit 7");
        process.close().await.expect("it ends");
        assert_eq!(status(&mut process).await.code(), Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_child_that_stays_is_killed() {
        let mut process = shell("exec sleep 1000");
        process.close().await.expect("it is killed");
        assert_eq!(status(&mut process).await.code(), None);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_child_is_killed_with_its_connection() {
        let process = shell("exec sleep 1000");
        let alive = format!("/proc/{}/exe", process.child.as_ref().and_then(Child::id).expect("it runs"));
        drop(process);
        // A process that was killed but not yet waited for has no executable.
        while std::fs::read_link(&alive).is_ok() {
            tokio::task::yield_now().await;
        }
    }
}
