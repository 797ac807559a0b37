//! A server to talk to, and the command as it is run.

use std::{
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use antiphon::{Server, http::HttpConfig};
use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, net::TcpListener, process::Command};

pub(crate) const BOTH: [&str; 2] = ["2026-07-28", "2025-11-25"];

/// Serves over HTTP in this process, and says where.
pub(crate) async fn serve(server: &Server) -> String {
    serve_router(server.router(HttpConfig::default())).await + "/mcp"
}

pub(crate) async fn serve_router(router: axum::Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

/// A folder of a test's own, removed after it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("antiphon-cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it, and says where it is.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a command has said, and how it ended.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }

    /// Fails unless it ended so.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "out: {}\nerr: {}", self.out, self.err);
        self
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// The command, with nobody's configuration but this test's.
pub(crate) fn command(folder: &Folder) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_antiphon"));
    command.env("ANTIPHON_CONFIG_DIR", folder.path()).current_dir(folder.path()).env_remove("ANTIPHON_TOKEN");
    command.env("COLUMNS", "100").kill_on_drop(true);
    command
}

/// Runs the command without a terminal.
pub(crate) async fn antiphon(arguments: &[&str]) -> Said {
    antiphon_with("", arguments).await
}

/// The same, with this on its standard input.
pub(crate) async fn antiphon_with(input: &str, arguments: &[&str]) -> Said {
    let folder = Folder::new();
    let mut command = command(&folder);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Who does not read it, does not miss it.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    child.wait_with_output().await.unwrap().into()
}

/// With the port hidden.
pub(crate) fn plain(text: &str, url: &str) -> String {
    text.replace(url, "URL")
}
