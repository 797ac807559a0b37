//! A server of a test's own, to stop and start.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use redis::Client;

/// A server that does not listen after this time has failed to start.
const START: Duration = Duration::from_secs(30);

/// A server that ends with the test, however that ends.
pub(super) struct Server {
    port: u16,
    folder: PathBuf,
    settings: Vec<String>,
    shell: Option<Child>,
}

impl Server {
    pub(super) async fn start(settings: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(crate::unique("antiphon-redis"));
        std::fs::create_dir_all(&folder).unwrap();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { port: crate::free_port(), folder, settings, shell: None };
        server.resume().await;
        server
    }

    /// Starts one that speaks TLS only, and asks for client certificates.
    #[cfg(feature = "tls")]
    pub(super) async fn start_tls(
        certificates: &crate::certificates::Certificates,
        certificate: &str,
    ) -> Self {
        use crate::certificates::text;
        let folder = std::env::temp_dir().join(crate::unique("antiphon-redis"));
        std::fs::create_dir_all(&folder).unwrap();
        let port = crate::free_port();
        let settings = [
            ("--tls-port", port.to_string()),
            ("--port", "0".to_owned()),
            ("--tls-cert-file", text(&certificates.path(certificate))),
            ("--tls-key-file", text(&certificates.key_path(certificate))),
            ("--tls-ca-cert-file", text(&certificates.path("authority"))),
        ];
        let settings = settings.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
        let mut server = Self { port, folder, settings, shell: None };
        server.resume().await;
        server
    }

    pub(super) async fn start_sentinel(settings: &str) -> Self {
        let folder = std::env::temp_dir().join(crate::unique("antiphon-redis"));
        std::fs::create_dir_all(&folder).unwrap();
        // Sentinel writes what it learns into this file.
        std::fs::write(folder.join("sentinel.conf"), settings).unwrap();
        let settings = ["sentinel.conf".to_owned(), "--sentinel".to_owned()];
        let mut server = Self { port: crate::free_port(), folder, settings: settings.into(), shell: None };
        server.resume().await;
        server
    }

    pub(super) async fn start_cluster() -> Self {
        let server = Self::start(&["--cluster-enabled", "yes"]).await;
        let mut connection = server.client().get_multiplexed_async_connection().await.unwrap();
        let mut cmd = redis::cmd("CLUSTER");
        cmd.arg("ADDSLOTSRANGE").arg(0).arg(16383).exec_async(&mut connection).await.unwrap();
        loop {
            let info: String = redis::cmd("CLUSTER").arg("INFO").query_async(&mut connection).await.unwrap();
            if info.contains("cluster_state:ok") {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn client(&self) -> Client {
        Client::open(self.url()).unwrap()
    }

    /// Sends a signal to the server.
    pub(super) fn signal(&self, signal: &str) {
        let pid = std::fs::read_to_string(self.folder.join("pid")).unwrap();
        let sent = Command::new("kill").arg(signal).arg(pid.trim()).status().unwrap();
        assert!(sent.success());
    }

    /// Kills it. What it has acknowledged is on disk.
    pub(super) fn kill(&mut self) {
        std::fs::write(self.folder.join("keep"), "").unwrap();
        self.signal("-KILL");
        self.shell.take().unwrap().wait().unwrap();
    }

    /// Starts it again, with its data.
    pub(super) async fn resume(&mut self) {
        drop(std::fs::remove_file(self.folder.join("keep")));
        // The shell reads until this process has ended or lets go, and then takes the server with it.
        let script = r#"exec 3<&0; redis-server "$@" & server=$!; echo $server > pid
            (read _; kill -9 $server; [ -e keep ] || rm -rf "$PWD") <&3 & wait"#;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).arg("sh").current_dir(&self.folder);
        if self.settings.first().is_some_and(|first| first == "sentinel.conf") {
            shell.args(&self.settings).args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"]);
        } else {
            shell.args(["--port", &self.port.to_string(), "--save", "", "--appendonly", "yes"]);
            shell.args(["--appendfsync", "always", "--bind", "127.0.0.1", "--enable-debug-command", "local"]);
            shell.args(&self.settings);
        }
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.shell = Some(shell.spawn().unwrap());
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(began.elapsed() < START, "redis-server does not listen on port {}", self.port);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut shell) = self.shell.take() {
            drop(shell.stdin.take());
            shell.wait().unwrap();
        }
    }
}
