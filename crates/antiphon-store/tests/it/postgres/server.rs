//! A server of one's own, to be stopped and started.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use antiphon_store::postgres::PostgresConfig;

pub(super) struct Server {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    settings: String,
}

impl Server {
    /// Starts one. `None` where PostgreSQL is not installed, which is a failure in CI.
    #[expect(clippy::print_stderr, reason = "a test that does nothing says so")]
    pub(super) fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            assert!(std::env::var_os("CI").is_none(), "PostgreSQL's programs are not installed");
            eprintln!("skipped: PostgreSQL's programs are not installed");
            return None;
        };
        let port = crate::free_port();
        let folder = std::env::temp_dir().join(crate::unique("antiphon-postgres"));
        std::fs::create_dir(&folder).expect("there is room for temporary files");
        if is_root() {
            let chown = Command::new("chown").arg("postgres").arg(&folder).status();
            assert!(chown.is_ok_and(|status| status.success()), "there is a user `postgres`");
        }
        let server = Self { programs, folder, port, settings: String::new() };
        let data = server.data();
        server.run("initdb", &["-D", &data, "-U", "owner", "-A", "trust", "-E", "UTF8", "--no-sync"]);
        server.up();
        Some(server)
    }

    /// Starts the server again, with a certificate. It then accepts only TLS with a client certificate.
    #[cfg(feature = "tls")]
    pub(super) fn use_tls(&mut self, certificates: &crate::certificates::Certificates, certificate: &str) {
        use crate::certificates::text;
        self.down();
        // The key must belong to the server, and be read by nobody else.
        let key = self.folder.join("server-key.pem");
        let mut install = Command::new("install");
        install.args(["-m", "600"]);
        if is_root() {
            install.args(["-o", "postgres"]);
        }
        let installed = install.arg(certificates.key_path(certificate)).arg(&key).status();
        assert!(installed.is_ok_and(|status| status.success()), "the key can be copied");
        let access = self.folder.join("data").join("pg_hba.conf");
        std::fs::write(access, "hostssl all all all trust clientcert=verify-ca\n")
            .expect("the file is writable");
        self.settings = format!(
            " -c ssl=on -c ssl_cert_file={} -c ssl_ca_file={} -c ssl_key_file={}",
            text(&certificates.path(certificate)),
            text(&certificates.path("authority")),
            key.display()
        );
        self.up();
    }

    pub(super) fn config(&self) -> PostgresConfig {
        PostgresConfig::new(self.url("owner"))
    }

    pub(super) fn url(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/postgres", self.port)
    }

    pub(super) fn up(&self) {
        let options = format!(
            "-p {} -k {} -c listen_addresses=127.0.0.1{}",
            self.port,
            self.folder.display(),
            self.settings
        );
        let log = self.folder.join("log").display().to_string();
        self.run("pg_ctl", &["-D", &self.data(), "-w", "-l", &log, "-o", &options, "start"]);
    }

    /// As if it had crashed.
    pub(super) fn down(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "-w", "-m", "immediate", "stop"]);
    }

    fn data(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let program = self.programs.join(program);
        // The server refuses to run as root.
        let mut command = if is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(&program);
            command
        } else {
            Command::new(&program)
        };
        let status = command
            .args(arguments)
            .current_dir(&self.folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("the program is installed");
        assert!(status.success(), "{} {arguments:?}: {status}", program.display());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if Path::new(&self.data()).join("postmaster.pid").exists() && !std::thread::panicking() {
            self.down();
        } else if std::thread::panicking() {
            // A test that failed may have stopped it already.
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.down())).ok();
        }
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Where Debian puts them, newest first, or where the first `pg_ctl` of the path is.
fn programs() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let candidates = versions.into_iter().rev().map(|(_, folder)| folder).chain(std::env::split_paths(&path));
    candidates.into_iter().find(|folder| folder.join("pg_ctl").exists() && folder.join("initdb").exists())
}
