//! Games whose processes die.

use std::{process::Stdio, sync::Arc};

use antiphon_host::{Connection, Endpoint, Form, Host, Lifecycle};
use antiphon_llm::Scripted;
use play_ttt::Mark;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::Notify,
};

use crate::script::{End, Script, service};

/// The program itself. It ends with this.
pub(crate) struct Process {
    child: Child,
    pub(crate) url: String,
}

impl Process {
    pub(crate) async fn start(arguments: &[&str], model: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_play_ttt"));
        command.args(["--http", "127.0.0.1:0"]).args(arguments).env_remove("MODEL_URL");
        if let Some(url) = model {
            command.env("MODEL_URL", url);
        }
        let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().expect("it says where it listens");
        let url =
            line.strip_prefix("play_ttt listens on ").unwrap_or_else(|| panic!("it says: {line}")).to_owned();
        Self { child, url }
    }

    /// As `kill -9` does.
    async fn kill(mut self) {
        self.child.kill().await.unwrap();
        assert!(!self.child.wait().await.unwrap().success());
    }
}

/// A host at `process`, whose person plays on from what `script` has left.
async fn player(process: &Process, script: &Script, model: &Arc<Scripted>) -> Connection {
    let host = script.host(Lifecycle::Modern).0.with_model(Arc::clone(model)).build();
    host.connect(Endpoint::http(&process.url)).await.unwrap()
}

#[tokio::test]
async fn game_survives_kill_9_of_its_worker_between_two_moves() {
    let Some(store) = service("ANTIPHON_TEST_POSTGRES_URL", "cargo xtask services run") else { return };
    let keys = format!("1={}", "5a".repeat(32));
    let shared = ["--store", &store, "--keys", &keys];
    let named = |name| [&shared[..], &["--replica", name]].concat();
    for script in Script::all() {
        // It is alone, so it is the one that works on the game.
        let first = Process::start(&named("first"), None).await;
        let model = Arc::new(script.scripted());

        // At their fourth move the person thinks, and thinks.
        let (mut rest, asked) = (script.clone(), Arc::new(Notify::new()));
        let mut begun = script.clone();
        begun.person = rest.person.drain(..3).collect();
        let thinking = Arc::clone(&asked);
        let made = std::sync::atomic::AtomicUsize::new(0);
        let person = move |_: Form| {
            let (nth, thinking) =
                (made.fetch_add(1, std::sync::atomic::Ordering::SeqCst), Arc::clone(&thinking));
            let shown = (nth < 3).then(|| begun.shown(nth));
            async move {
                let Some(shown) = shown else {
                    thinking.notify_one();
                    return std::future::pending().await;
                };
                shown
            }
        };
        let host = Host::builder("player", "1").with_lifecycle(Lifecycle::Modern);
        let host = host.with_form("pickMove", person).with_model(Arc::clone(&model)).build();
        let connection = host.connect(Endpoint::http(&first.url)).await.unwrap();
        let task = connection.call("play_ttt", script.arguments()).as_task().await.unwrap();
        let id = task.id().expect("it is a task by now").to_owned();
        tokio::select! {
            ended = task.wait() => panic!("it ended before the fourth move: {ended:?}"),
            () = asked.notified() => {}
        }
        first.kill().await;

        // Another process, which has never seen the game, and a client that knows its id.
        let second = Process::start(&named("second"), None).await;
        let connection = player(&second, &rest, &model).await;
        let task = connection.task(&id);
        script.check(&json!(task.wait().await.unwrap()));
        let trace = task.status().await.unwrap().trace.unwrap()["events"].to_string();
        assert!(trace.contains("at first") && trace.contains("at second"), "both worked on it: {trace}");
        let moves = model.requests().iter().filter(|request| request.tools[0].name == "__schema__").count();
        // At the fourth question the model, if it has X, is a move ahead.
        let called_off = 3 + usize::from(script.you == Mark::O);
        let ends_early = matches!(script.end, End::Declined | End::Closed);
        let played = if ends_early { called_off } else { script.model.len() };
        assert_eq!(moves, played, "the model was asked nothing twice");
    }
}

#[tokio::test]
async fn game_over_standard_input_and_output_needs_no_flags() {
    for (script, lifecycle) in [
        (Script::new(Mark::X, End::Draw), Lifecycle::Legacy),
        (Script::new(Mark::O, End::ModelWins), Lifecycle::Modern),
    ] {
        let host = script.host(lifecycle).0.with_model(script.scripted()).build();
        let program = Endpoint::command(env!("CARGO_BIN_EXE_play_ttt"), Vec::<String>::new());
        let connection = host.connect(program).await.unwrap();
        script.check(&json!(connection.call("play_ttt", script.arguments()).await.unwrap()));
    }
}

#[tokio::test]
async fn wrong_flags_are_answered_with_what_to_do() {
    for (arguments, hint) in [
        (["--store", "postgres://localhost/games"], "pass --keys"),
        (["--operators", "127.0.0.1:0"], "pass --token"),
        (["--http", "nowhere"], "cannot listen on nowhere"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_play_ttt")).args(arguments).output().await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(hint), "{arguments:?}: {said}");
    }
}
