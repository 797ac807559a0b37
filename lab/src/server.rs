//! A server process of ours that is stopped when it goes out of scope.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Some servers are programs in languages that take their time to start.
const READY_LIMIT: Duration = Duration::from_mins(1);

/// A running server on loopback.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl Server {
    /// Starts `binary --http ADDRESS` and waits until it accepts connections.
    ///
    /// What the server prints goes to the file `log`.
    pub(crate) fn start(binary: &Path, address: SocketAddr, extra: &[String], log: &Path) -> Result<Self> {
        let mut command = Command::new(binary);
        let mut server =
            Self::spawn(command.arg("--http").arg(address.to_string()).args(extra), address, log)?;
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Starts a server of any kind that listens on `address`, and does not wait for it.
    pub(crate) fn spawn(command: &mut Command, address: SocketAddr, log: &Path) -> Result<Self> {
        let output = log_file(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("could not start {}", command.get_program().display()))?;
        Ok(Self { child, address, log: log.to_path_buf() })
    }

    /// The endpoint for MCP clients.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The socket it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The operating system's id of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process at once (`kill -9` where there are signals).
    pub(crate) fn kill(&mut self) {
        // Both fail only when the process has ended by itself, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it has ended by itself, and says whether it did within `patience`.
    pub(crate) fn has_ended(&mut self, patience: Duration) -> Result<bool> {
        let start = Instant::now();
        while start.elapsed() < patience {
            if self.child.try_wait()?.is_some() {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(false)
    }

    /// Waits until it accepts connections.
    pub(crate) fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        while TcpStream::connect_timeout(&self.address, Duration::from_millis(200)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended ({status}) before it listened; it wrote:\n{}", tail(&self.log));
            }
            if start.elapsed() > READY_LIMIT {
                bail!(
                    "nothing listens on {} after {} s; the server wrote:\n{}",
                    self.address,
                    READY_LIMIT.as_secs(),
                    tail(&self.log)
                );
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An address on loopback that nobody used a moment ago.
///
/// Its port is below the range from which the system takes ports for outgoing connections, so that a server
/// can come back to it however many connections were made while it was down.
pub(crate) fn free_address() -> Result<SocketAddr> {
    let ports = std::iter::repeat_with(|| fastrand::u16(20_000..32_000)).take(100);
    let mut addresses = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    addresses.find(|address| TcpListener::bind(address).is_ok()).context("no free port on 127.0.0.1")
}

/// Opens a log to add to it, in a folder that is made if need be.
pub(crate) fn log_file(path: &Path) -> Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
    }
    let open = File::options().create(true).append(true).open(path);
    open.with_context(|| format!("could not write {}", path.display()))
}

/// The last lines of a log, for an error message.
pub(crate) fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
