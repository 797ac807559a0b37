//! `antiphon dev`: a server is replaced behind a connection that stays open.
#![cfg(unix)]

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use antiphon_host::{Connection, Endpoint, Event, Form, Host, HostBuilder, Lifecycle, Shown};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc,
};

use crate::support::Folder;

const PATIENCE: Duration = Duration::from_mins(1);

const BOTH: [Lifecycle; 2] = [Lifecycle::Modern, Lifecycle::Legacy];

/// A project whose build copies `src/version`, or fails, and whose server is an example. `starts` has the version of
/// each process.
struct Project(Folder);

impl Project {
    fn new(serve: &str) -> Self {
        let folder = Folder::new();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        folder.write("src/version", "1\n");
        folder.write(
            "build.sh",
            "if grep -q broken src/version; then echo 'error: this is broken' >&2; exit 1; fi\ncp src/version built\n",
        );
        let antiphon = env!("CARGO_BIN_EXE_antiphon");
        folder.write("server.sh", &format!("cat built >> starts\nexec {antiphon} serve {serve}\n"));
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn change(&self, version: &str) {
        change(self.path(), version);
    }

    fn starts(&self) -> String {
        starts(self.path())
    }

    fn stderr(&self) -> String {
        stderr(self.path())
    }

    fn dev(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_antiphon"));
        command.args(["dev", "--watch", "src", "--build", "sh build.sh"]).args(arguments);
        command.args(["--", "sh", "server.sh"]).current_dir(self.path()).env_remove("ANTIPHON_KEYS");
        command
    }

    /// Connects a host to `antiphon dev` over standard input and output.
    async fn connect(&self, host: HostBuilder, lifecycle: Lifecycle) -> Connection {
        let mut prepared = self.dev(&[]);
        prepared.stderr(std::fs::File::create(self.path().join(".stderr")).unwrap());
        let prepared = std::sync::Mutex::new(Some(prepared));
        let endpoint = Endpoint::child("dev", move || prepared.lock().unwrap().take().unwrap());
        let host = host.with_lifecycle(lifecycle).build();
        tokio::time::timeout(PATIENCE, host.connect(endpoint)).await.unwrap().unwrap()
    }
}

fn change(folder: &Path, version: &str) {
    std::fs::write(folder.join("src/version"), format!("{version}\n")).unwrap();
}

fn stderr(folder: &Path) -> String {
    std::fs::read_to_string(folder.join(".stderr")).unwrap()
}

fn starts(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("starts")).unwrap_or_default()
}

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let waiting = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// A host that gives its name, and the events of its servers.
fn ada() -> (HostBuilder, mpsc::UnboundedReceiver<Event>) {
    let (tx, rx) = mpsc::unbounded_channel();
    let host = Host::builder("test", "1")
        .with_forms(|_: Form| std::future::ready(Shown::Accept(json!({"name": "Ada"}))))
        .with_events(move |event| drop(tx.send(event)));
    (host, rx)
}

async fn event(events: &mut mpsc::UnboundedReceiver<Event>, is: impl Fn(&Event) -> bool) -> Event {
    let waiting = async {
        loop {
            let event = events.recv().await.unwrap();
            if is(&event) {
                return event;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap()
}

async fn greet(server: &Connection) -> String {
    let result = server.call("greet", json!({})).await.unwrap();
    result.content[0].as_text().unwrap().text.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_is_replaced_after_a_change_and_the_connection_stays_open() {
    for lifecycle in BOTH {
        let project = Project::new("hello");
        let (host, mut events) = ada();
        let server = project.connect(host, lifecycle).await;
        assert_eq!(greet(&server).await, "Hello, Ada!");
        project.change("22");
        event(&mut events, |event| *event == Event::ToolsChanged).await;
        assert_eq!(project.starts(), "1\n22\n", "{lifecycle:?}: {}", project.stderr());
        assert_eq!(server.tools().await.unwrap()[0].name, "greet");
        assert_eq!(greet(&server).await, "Hello, Ada!");
        while let Ok(event) = events.try_recv() {
            assert_ne!(event, Event::Reconnected, "the host did not connect again");
        }
        server.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_build_keeps_the_server_and_is_the_answer_of_the_next_call() {
    for lifecycle in BOTH {
        let project = Project::new("hello");
        let (host, mut events) = ada();
        let server = project.connect(host, lifecycle).await;
        assert_eq!(greet(&server).await, "Hello, Ada!");
        project.change("broken");
        until("a failed build", || project.stderr().contains("the previous server keeps running")).await;
        assert!(project.stderr().contains("error: this is broken"), "{}", project.stderr());
        let failed = server.call("greet", json!({})).await.unwrap();
        assert_eq!(failed.is_error, Some(true));
        let text = &failed.content[0].as_text().unwrap().text;
        assert!(text.contains("error: this is broken") && text.contains("call the tool again"), "{text}");
        assert_eq!(greet(&server).await, "Hello, Ada!");
        if lifecycle == Lifecycle::Legacy {
            let log = event(&mut events, |event| matches!(event, Event::Log { .. })).await;
            let Event::Log { data, .. } = log else { unreachable!() };
            assert!(data.to_string().contains("error: this is broken"), "{data}");
        }
        project.change("333");
        event(&mut events, |event| *event == Event::ToolsChanged).await;
        assert_eq!(project.starts(), "1\n333\n");
        assert_eq!(greet(&server).await, "Hello, Ada!");
        server.close().await;
    }
}

/// A host whose user answers the first form only after the server was replaced.
fn slow(folder: &Path) -> HostBuilder {
    let (folder, first) = (folder.to_owned(), Arc::new(AtomicBool::new(true)));
    Host::builder("test", "1").with_forms(move |_: Form| {
        let (folder, is_first) = (folder.clone(), first.swap(false, Ordering::Relaxed));
        async move {
            if is_first {
                change(&folder, "22");
                until("a new server", || stderr(&folder).contains("replaced the server")).await;
            }
            Shown::Accept(json!({"name": "Ada"}))
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_that_waits_for_an_answer_continues_in_the_new_server() {
    let project = Project::new("hello");
    let server = project.connect(slow(project.path()), Lifecycle::Modern).await;
    assert_eq!(greet(&server).await, "Hello, Ada!");
    assert_eq!(project.starts(), "1\n22\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_of_a_session_fails_when_its_server_is_replaced() {
    let project = Project::new("hello");
    let server = project.connect(slow(project.path()), Lifecycle::Legacy).await;
    let error = server.call("greet", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("replaced the server"), "{error}");
    assert_eq!(greet(&server).await, "Hello, Ada!");
    assert_eq!(project.starts(), "1\n22\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_does_not_start_leaves_the_previous_one() {
    let project = Project::new("hello");
    let (host, _events) = ada();
    let server = project.connect(host, Lifecycle::Modern).await;
    project.0.write("server.sh", "exit 3\n");
    project.change("22");
    until("a failed start", || project.stderr().contains("the previous server keeps running")).await;
    let failed = server.call("greet", json!({})).await.unwrap();
    let text = &failed.content[0].as_text().unwrap().text;
    assert!(text.contains("did not start") && text.contains("exit status: 3"), "{text}");
    assert_eq!(greet(&server).await, "Hello, Ada!");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_build_that_fails_is_the_error_of_the_connection() {
    let project = Project::new("hello");
    project.change("broken");
    let mut prepared = project.dev(&[]);
    prepared.stderr(Stdio::null());
    let prepared = std::sync::Mutex::new(Some(prepared));
    let endpoint = Endpoint::child("dev", move || prepared.lock().unwrap().take().unwrap());
    let host = Host::builder("test", "1").with_lifecycle(Lifecycle::Legacy).build();
    let error = format!("{:#}", anyhow::Error::new(host.connect(endpoint).await.unwrap_err()));
    assert!(error.contains("error: this is broken"), "{error}");
}

/// A package whose server does not start while the file `fail` exists.
struct Package {
    folder: Folder,
    /// The arguments of the example, as Rust code.
    arguments: &'static str,
}

impl Package {
    fn new(arguments: &'static str) -> Self {
        let folder = Folder::new();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        folder.write("Cargo.toml", "[package]\nname = \"desk\"\nedition = \"2024\"\n\n[workspace]\n");
        let package = Self { folder, arguments };
        package.change(1);
        package
    }

    fn change(&self, version: u32) {
        let (antiphon, arguments) = (env!("CARGO_BIN_EXE_antiphon"), self.arguments);
        let main = format!(
            "use std::{{os::unix::process::CommandExt as _, path::Path, process::Command}};\n\n\
             fn main() {{\n    eprintln!(\"version {version}\");\n    \
             assert!(!Path::new(\"fail\").exists());\n    \
             panic!(\"{{}}\", Command::new({antiphon:?}).args([{arguments}]).exec());\n}}\n"
        );
        self.folder.write("src/main.rs", &main);
    }

    /// Changes the server to a version that does not start.
    fn break_start(&self, version: u32) {
        self.folder.write("fail", "");
        self.change(version);
    }

    fn repair_start(&self) {
        std::fs::remove_file(self.folder.path().join("fail")).unwrap();
    }

    fn stderr(&self) -> String {
        stderr(self.folder.path())
    }

    fn dev(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_antiphon"));
        command.args(["dev", "--build", &format!("{} build --offline", env!("CARGO"))]).args(arguments);
        command.current_dir(self.folder.path()).env_remove("ANTIPHON_KEYS");
        command.env("CARGO_TARGET_DIR", self.folder.path().join("target"));
        command
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_of_cargo_is_found_and_its_errors_are_reported() {
    let package = Package::new("\"serve\", \"hello\"");
    let mut command = package.dev(&[]);
    command.stderr(std::fs::File::create(package.folder.path().join(".stderr")).unwrap());
    let prepared = std::sync::Mutex::new(Some(command));
    let endpoint = Endpoint::child("dev", move || prepared.lock().unwrap().take().unwrap());
    let (host, mut events) = ada();
    let host = host.with_lifecycle(Lifecycle::Modern).build();
    let server = tokio::time::timeout(PATIENCE, host.connect(endpoint)).await.unwrap().unwrap();
    assert_eq!(greet(&server).await, "Hello, Ada!");

    package.folder.write("src/main.rs", "fn main() { let number: u32 = \"text\"; }\n");
    until("a failed build", || package.stderr().contains("the previous server keeps running")).await;
    let failed = server.call("greet", json!({})).await.unwrap();
    let text = &failed.content[0].as_text().unwrap().text;
    assert!(text.contains("error[E0308]") && text.contains("src/main.rs:1"), "{text}");

    package.change(2);
    event(&mut events, |event| *event == Event::ToolsChanged).await;
    assert!(package.stderr().contains("version 2"), "{}", package.stderr());
    assert_eq!(greet(&server).await, "Hello, Ada!");

    package.break_start(3);
    until("a failed start", || package.stderr().contains("the new server did not start")).await;
    let replaced = || package.stderr().matches("replaced the server").count();
    let before = replaced();
    package.repair_start();
    until("a new server", || replaced() > before).await;
    assert_eq!(greet(&server).await, "Hello, Ada!");
}

/// A running `antiphon dev --http`. Drop ends it, and so its servers.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        signal(&self.0, "-TERM");
    }
}

/// Sends a signal to a process that has not exited.
fn signal(child: &Child, signal: &str) {
    if let Some(id) = child.id() {
        let _ = std::process::Command::new("kill").args([signal, &id.to_string()]).status();
    }
}

const HTTP: &[&str] = &["--http", "127.0.0.1:0"];

/// Starts `antiphon dev --http`, and returns the URL.
async fn listen(mut command: Command, folder: &Path) -> (Listening, String) {
    command.stderr(Stdio::piped()).stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = tokio::time::timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
    let url = first.split_once("listening on ").unwrap().1.to_owned();
    let log = folder.join(".stderr");
    std::fs::write(&log, "").unwrap();
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let _ = std::fs::write(&log, text + &line + "\n");
        }
    });
    (Listening(child), url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_over_http_is_replaced_behind_one_address() {
    let project = Project::new("hello --http \"$ADDRESS\"");
    let (_child, url) = listen(project.dev(HTTP), project.path()).await;
    let host = slow(project.path()).with_lifecycle(Lifecycle::Modern).build();
    let connecting = host.connect(Endpoint::http(&url));
    let server = tokio::time::timeout(PATIENCE, connecting).await.unwrap().unwrap();
    assert_eq!(greet(&server).await, "Hello, Ada!");
    assert_eq!(project.starts(), "1\n22\n", "{}", project.stderr());
    project.change("broken");
    until("a failed build", || project.stderr().contains("the previous server keeps running")).await;
    assert_eq!(greet(&server).await, "Hello, Ada!");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn address_returns_the_errors_of_the_first_build_until_it_succeeds() {
    let project = Project::new("hello --http \"$ADDRESS\"");
    project.change("broken");
    let (_child, url) = listen(project.dev(HTTP), project.path()).await;
    let answer = reqwest::get(&url).await.unwrap();
    assert_eq!(answer.status(), 503);
    let text = answer.text().await.unwrap();
    assert!(text.contains("error: this is broken"), "{text}");
    project.change("22");
    until("a server", || project.starts() == "22\n").await;
    let (host, _events) = ada();
    let server = host.build().connect(Endpoint::http(&url)).await.unwrap();
    assert_eq!(greet(&server).await, "Hello, Ada!");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_over_http_that_did_not_start_is_started_again_after_the_next_build() {
    let package = Package::new("\"serve\", \"hello\", \"--http\", &std::env::var(\"ADDRESS\").unwrap()");
    let (_child, url) = listen(package.dev(HTTP), package.folder.path()).await;
    // This request waits for the first server.
    reqwest::get(&url).await.unwrap();
    package.break_start(2);
    until("a failed start", || package.stderr().contains("the new server did not start")).await;
    package.repair_start();
    until("a new server", || package.stderr().contains("replaced the server")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_replaces_a_server_over_http_that_never_listens() {
    let project = Project::new("hello --http \"$ADDRESS\"");
    let server = std::fs::read_to_string(project.path().join("server.sh")).unwrap();
    project
        .0
        .write("server.sh", &format!("if grep -q 22 built; then echo 22 >> starts; sleep 600; fi\n{server}"));
    let (_child, url) = listen(project.dev(HTTP), project.path()).await;
    reqwest::get(&url).await.unwrap();
    project.change("22");
    until("a server that does not listen", || project.starts() == "1\n22\n").await;
    project.change("333");
    until("a new server", || project.stderr().contains("replaced the server")).await;
    assert_eq!(project.starts(), "1\n22\n333\n", "{}", project.stderr());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signal_that_ends_dev_ends_its_server() {
    for name in ["-TERM", "-HUP"] {
        let project = Project::new("hello --http \"$ADDRESS\"");
        let server = std::fs::read_to_string(project.path().join("server.sh")).unwrap();
        // The server is a child of the shell.
        let server = server.replace("exec ", "");
        project.0.write("server.sh", &format!("echo \"$ADDRESS\" > address\n{server}exit $?\n"));
        let (mut dev, url) = listen(project.dev(HTTP), project.path()).await;
        // This request waits for the server.
        reqwest::get(&url).await.unwrap();
        let address = std::fs::read_to_string(project.path().join("address")).unwrap();
        let is_open = || std::net::TcpStream::connect(address.trim()).is_ok();
        assert!(is_open(), "{address}");
        signal(&dev.0, name);
        let status = tokio::time::timeout(PATIENCE, dev.0.wait()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(130), "{name}");
        until("a closed port", || !is_open()).await;
    }
}

/// A host that reads and writes the messages itself.
struct Raw {
    log: PathBuf,
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Raw {
    fn start(project: &Project) -> Self {
        let mut command = project.dev(&[]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let log = project.path().join(".stderr");
        command.stderr(std::fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { log, input: child.stdin.take(), child, output }
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.input.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    /// Sends a request of MCP 2026-07-28 without a handshake.
    async fn list_tools(&mut self, id: u32) {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"_meta": meta});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": params})).await;
    }

    async fn response(&mut self, id: u32) -> Value {
        let waiting = async {
            loop {
                let line = self.output.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("{:?}", std::fs::read_to_string(&self.log)));
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["id"] == id {
                    return message;
                }
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_during_a_build_is_built_too() {
    let project = Project::new("hello");
    let edit = "if grep -q 22 src/version; then echo 333 > src/version; fi";
    project.0.write("build.sh", &format!("cp src/version built\n{edit}\n"));
    let mut host = Raw::start(&project);
    host.list_tools(1).await;
    host.response(1).await;
    project.change("22");
    until("a server of the last change", || project.starts().ends_with("333\n")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshake_that_ends_while_no_server_runs_reaches_the_next_server() {
    let project = Project::new("hello");
    let antiphon = env!("CARGO_BIN_EXE_antiphon");
    // The first server exits after `initialize`. The input of the second one is in `input`.
    let first = format!("if grep -qx 1 built; then head -n 1 | {antiphon} serve hello; exit 3; fi");
    project
        .0
        .write("server.sh", &format!("cat built >> starts\n{first}\ntee input | {antiphon} serve hello\n"));
    let mut host = Raw::start(&project);
    let info = json!({"name": "raw", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    host.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
    host.response(0).await;
    until("an exit", || project.stderr().contains("the server stopped")).await;
    host.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    // The response shows that `antiphon dev` has read the notification.
    host.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    assert!(host.response(1).await["error"]["message"].as_str().unwrap().contains("the server stopped"));
    project.change("22");
    until("a new server", || project.starts() == "1\n22\n").await;
    host.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await;
    let listed = host.response(2).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "greet", "{listed}");
    // `tee` writes to the server first, and to the file after it.
    let input = || std::fs::read_to_string(project.path().join("input")).unwrap_or_default();
    until("the notification", || input().contains("notifications/initialized")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_server_does_not_replace_the_server_of_a_host_without_a_handshake() {
    let project = Project::new("hello");
    let mut host = Raw::start(&project);
    host.list_tools(1).await;
    host.response(1).await;
    project.0.write("server.sh", "exit 3\n");
    project.change("22");
    until("a failed start", || project.stderr().contains("the previous server keeps running")).await;
    host.list_tools(2).await;
    let listed = host.response(2).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "greet", "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_that_closes_its_side_gets_the_responses_to_its_requests() {
    let project = Project::new("hello");
    let mut host = Raw::start(&project);
    host.list_tools(1).await;
    host.input = None;
    let listed = host.response(1).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "greet", "{listed}");
    let status = tokio::time::timeout(PATIENCE, host.child.wait()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn options_that_do_not_fit_together_are_rejected() {
    let folder = Folder::new();
    for (arguments, part) in [
        (&["dev", "--build", "make"][..], "needs the server's command after `--`"),
        (&["dev", "--build", ""], "`--build` is empty"),
        (&["dev", "--build", "make", "--", "./server"], "needs `--watch`"),
        (&["dev", "--watch", "nowhere"], "cannot watch `nowhere`"),
        (&["dev", "--project", "nowhere"], "check `--project`"),
        (&["dev", "--http", "nowhere"], "cannot listen on nowhere"),
    ] {
        let rejected = folder.run(arguments).await;
        assert_ne!(rejected.code, Some(0), "{rejected:?}");
        assert!(rejected.err.contains(part), "{rejected:?}");
    }
}
