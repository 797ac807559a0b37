//! What the tests of several commands stand on: the command in a folder of its own, and a server to talk to.

use std::{path::PathBuf, process::Stdio};

use antiphon::{Server, http::HttpConfig, prelude::*};
use antiphon_results::{
    CreateOptions, DualResponse, DualResponseServer, DualResponseServerOptions, Rows, Source,
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpListener, process::Command};

pub(crate) use crate::support::Folder;

impl Folder {
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs the command in this folder, with its configuration in it.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Ended {
        self.run_with(arguments, &[], "").await
    }

    /// What the command says of itself. Without a configuration: its path would be in there.
    pub(crate) async fn help(&self, command: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_antiphon"))
            .args(command)
            .arg("--help")
            .current_dir(self.path())
            .env_remove("ANTIPHON_CONFIG_DIR")
            .env_remove("ANTIPHON_OPERATORS_URL")
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) async fn run_with(&self, arguments: &[&str], env: &[(&str, &str)], input: &str) -> Ended {
        let mut child = Command::new(env!("CARGO_BIN_EXE_antiphon"))
            .args(arguments)
            .current_dir(self.path())
            .env("ANTIPHON_CONFIG_DIR", self.path().join("config"))
            .env_remove("ANTIPHON_TOKEN")
            .env_remove("ANTIPHON_KEYS")
            .env("NO_COLOR", "1")
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // Who does not read it does not want it.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).replace(&*self.path().to_string_lossy(), "[folder]")
        };
        Ended { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// All of it, for a snapshot.
    pub(crate) fn whole(&self) -> String {
        format!("exit {}\n--- out\n{}--- err\n{}", self.code.unwrap_or(-1), self.out, self.err)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// What shall I call you?
    name: String,
}

async fn greet(ctx: &Ctx, _: ()) -> Result<String> {
    let Name { name } = ctx.elicit("Who are you?").await?.accepted()?;
    Ok(format!("Hello, {name}!"))
}

async fn rows(ctx: &Ctx, _: ()) -> Result<DualResponse> {
    ctx.dual_response(CreateOptions::new("Schools", Source::rows(schools()))).await
}

fn schools() -> Rows {
    let mut rows = Rows::new();
    for id in 1..=2_500_u32 {
        let size = if id.is_multiple_of(7) { Value::Null } else { json!(id * 37 % 1_001) };
        rows.push(&json!({"id": id, "name": format!("School, no. {id}"), "size": size})).unwrap();
    }
    rows
}

/// A server that is served over HTTP: MCP at `/mcp`, result sets at `/resources`.
pub(crate) struct Served {
    pub(crate) origin: String,
    pub(crate) mcp: String,
}

impl Served {
    pub(crate) async fn start() -> Self {
        Self::start_with(|server| server).await
    }

    pub(crate) async fn start_with(
        more: impl FnOnce(antiphon::ServerBuilder) -> antiphon::ServerBuilder,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let options = DualResponseServerOptions::new(format!("{origin}/resources"));
        let results = DualResponseServer::new(options).unwrap();
        let builder = Server::builder("school", "1.2.3")
            .with_results(results.clone())
            .tool(Tool::new("greet", "Greets you by name", greet))
            .tool(Tool::new("rows", "Finds many rows", rows));
        let server = more(builder).build().unwrap();
        let app = server.router(HttpConfig::default()).nest("/resources", results.router());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { mcp: format!("{origin}/mcp"), origin }
    }

    /// Calls `rows`, and returns its answer as `antiphon call --json` would print it.
    pub(crate) async fn answer(&self) -> Value {
        let host = antiphon_host::Host::builder("test", "1").build();
        let server = host.connect(antiphon_host::Endpoint::http(&self.mcp)).await.unwrap();
        serde_json::to_value(server.call("rows", json!({})).await.unwrap()).unwrap()
    }
}
