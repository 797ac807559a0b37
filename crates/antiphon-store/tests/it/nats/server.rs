//! A server of a test's own, which it may kill.

use std::{
    fs,
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A server that does not listen after this time has failed to start.
const START: Duration = Duration::from_secs(30);

pub(super) struct Server {
    child: Option<Child>,
    program: String,
    arguments: Vec<String>,
    port: u16,
    data: PathBuf,
}

impl Server {
    /// Starts a server with `JetStream`; `None` where there is no `nats-server`.
    pub(super) fn start(arguments: &[&str]) -> Option<Self> {
        super::service("ANTIPHON_TEST_NATS_URL")?;
        Some(Self::start_program("nats-server", arguments))
    }

    /// Starts a server with `JetStream`.
    pub(super) fn start_program(program: &str, arguments: &[&str]) -> Self {
        let port = crate::free_port();
        let data = std::env::temp_dir().join(format!("antiphon-nats-{port}-{}", std::process::id()));
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut server = Self { child: None, program: program.to_owned(), arguments, port, data };
        server.resume();
        server
    }

    pub(super) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// As a power cut does it, but for the disk.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts it again, on what it had.
    pub(super) fn resume(&mut self) {
        let child = Command::new(&self.program)
            .args(["-js", "-a", "127.0.0.1", "-p", &self.port.to_string(), "-sd"])
            .arg(&self.data)
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let child = self.child.insert(child);
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "{} {} ended: {ended:?}", self.program, self.arguments.join(" "));
            assert!(began.elapsed() < START, "{} does not listen on port {}", self.program, self.port);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.data);
    }
}
