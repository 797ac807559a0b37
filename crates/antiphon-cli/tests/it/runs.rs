//! `antiphon runs` against a server that is served over HTTP.

use std::{process::Output, time::Duration};

use antiphon::{
    Server,
    prelude::*,
    task::{TaskConfig, TaskPolicy},
    testing::{Client, Revision},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, process::Command};

const TOKEN: &str = "a-token-that-is-long-enough-for-this";

#[derive(Deserialize, JsonSchema)]
struct Sure {
    sure: bool,
}

async fn pay(ctx: &Ctx, _: Card) -> Result<String> {
    let receipt: String = ctx.step("reserve", || async { Ok("receipt-4711".to_owned()) }).await?;
    let Sure { sure } = ctx.elicit("Pay?").await?.accepted()?;
    if sure { Ok(receipt) } else { Err(Error::tool("then not")) }
}

#[derive(Deserialize, JsonSchema)]
struct Card {
    #[expect(dead_code, reason = "only its being there matters")]
    number: String,
}

async fn fail(_: &Ctx, _: ()) -> Result<String> {
    Err(Error::protocol(-32000, "the machine is out of paper"))
}

struct Served {
    server: Server,
    url: String,
}

impl Served {
    async fn start() -> Self {
        let server = Server::builder("till", "1.0.0")
            .with_tasks(TaskConfig::default())
            .tool(Tool::new("pay", "Pays", pay).with_tasks(TaskPolicy::Always))
            .tool(Tool::new("fail", "Fails", fail).with_tasks(TaskPolicy::Always))
            .build()
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = server.operator_router(TOKEN).unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { server, url }
    }

    async fn begin(&self, tool: &str, arguments: Value, status: &str) {
        let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
        let mut client =
            Client::connect_with(&self.server, Revision::V2026_07_28, capabilities).await.unwrap();
        let task = client.request("tools/call", json!({"name": tool, "arguments": arguments})).await.unwrap();
        for _ in 0..500 {
            let task = client.request("tasks/get", json!({"taskId": task["taskId"]})).await.unwrap();
            if task["status"] == status {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never was {status}");
    }

    async fn runs(&self, arguments: &[&str]) -> Output {
        self.runs_with(TOKEN, arguments).await
    }

    async fn runs_with(&self, token: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_antiphon"));
        command.args(["runs", "--url", &self.url]).args(arguments).env("ANTIPHON_OPERATORS_TOKEN", token);
        command.output().await.unwrap()
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let output = self.runs(&[arguments, &["--json"]].concat()).await;
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_is_listed_shown_without_its_values_cancelled_and_purged() {
    let served = Served::start().await;
    served.begin("pay", json!({"number": "4111-1111"}), "input_required").await;
    let listed = text(&served.runs(&["list"]).await);
    assert!(
        listed.contains("pay") && listed.contains("input_required") && listed.contains("sure"),
        "{listed}"
    );
    let runs = served.json(&["list", "--status", "input_required"]).await;
    let run = runs[0]["run"].as_str().unwrap();
    let shown = text(&served.runs(&["show", run]).await);
    for part in ["Timeline", "created", "asked", "step reserve", "text of 12 bytes", "text of 9 bytes"] {
        assert!(shown.contains(part), "{part} is missing:\n{shown}");
    }
    assert!(!shown.contains("4711") && !shown.contains("4111"), "a value is shown:\n{shown}");
    let early = served.runs(&["purge", run]).await;
    assert_eq!(early.status.code(), Some(1));
    assert!(text(&early).contains("cancel it first"), "{}", text(&early));
    assert_eq!(served.runs(&["cancel", run]).await.status.code(), Some(0));
    assert_eq!(served.runs(&["cancel", run]).await.status.code(), Some(3));
    // It may still be cleaning up.
    for _ in 0..100 {
        if served.runs(&["purge", run]).await.status.success() {
            assert_eq!(served.runs(&["show", run]).await.status.code(), Some(3));
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it cannot be purged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_run_is_tried_again() {
    let served = Served::start().await;
    served.begin("fail", json!({}), "failed").await;
    let run = served.json(&["list", "--status", "failed"]).await[0]["run"].as_str().unwrap().to_owned();
    assert_eq!(served.runs(&["retry", &run]).await.status.code(), Some(0));
    for _ in 0..100 {
        let report = served.json(&["show", &run]).await;
        let what: Vec<_> =
            report["timeline"].as_array().unwrap().iter().map(|event| &event["what"]).collect();
        if report["status"] == "failed" && what.iter().filter(|what| **what == "ended").count() == 2 {
            assert!(what.iter().any(|what| *what == "revived"), "{report}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it was not tried again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_no_operator_sees_nothing() {
    let served = Served::start().await;
    served.begin("fail", json!({}), "failed").await;
    let output = served.runs_with("a-token-of-somebody-elses-altogether", &["list"]).await;
    assert_eq!(output.status.code(), Some(6));
    assert_eq!(text(&output), "error: the server rejected the token\n");
    assert!(served.server.operator_router("short").is_err());
}
