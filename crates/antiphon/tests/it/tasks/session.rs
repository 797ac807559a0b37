//! Tasks as 2025-11-25 has them.

use std::time::Duration;

use antiphon::{
    Elicited, Error, Limits, Server,
    prelude::*,
    task::TaskPolicy,
    testing::{Answers, Client, Revision},
};
use serde_json::{Value, json};

use super::{checked, quick, refused, until};
use crate::checked::Checked;

#[derive(Deserialize, JsonSchema)]
struct Sum {
    a: u32,
    b: u32,
}

async fn add(_: &Ctx, Sum { a, b }: Sum) -> Result<String> {
    Ok((a + b).to_string())
}

#[derive(Deserialize, JsonSchema)]
struct Seat {
    seat: String,
}

async fn book(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(match ctx.elicit::<Seat>("Which seat?").key("seat").await? {
        Elicited::Accept(answer) => answer.value.seat,
        Elicited::Decline(_) => "declined".into(),
        Elicited::Cancel(_) => "closed".into(),
    })
}

async fn think(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.sample("What is 6 × 7?").key("thought").await?.text())
}

/// Sends the user to a page, and finds out by itself that they are done with it.
async fn sign_in(ctx: &Ctx, _: ()) -> Result<String> {
    let visited = ctx.elicit_url("Sign in", "https://example.com/auth").await?;
    ctx.elicitation_complete(&visited.id);
    Ok(visited.id)
}

async fn fail(_: &Ctx, _: ()) -> Result<String> {
    Err(Error::tool("out of paper").terminal())
}

async fn break_down(_: &Ctx, _: ()) -> Result<String> {
    Err(Error::protocol(-32_050, "on fire"))
}

pub(super) fn builder() -> antiphon::ServerBuilder {
    super::server()
        .tool(Tool::new("add", "Adds", add))
        .tool(Tool::new("book", "Asks for a seat", book).with_tasks(TaskPolicy::Always))
        .tool(Tool::new("think", "Asks a model", think))
        .tool(Tool::new("sign_in", "Sends to a page", sign_in))
        .tool(Tool::new("fail", "Fails", fail))
        .tool(Tool::new("break", "Ends with a JSON-RPC error", break_down))
        .tool(Tool::new("hello", "Is never a task", add).with_tasks(TaskPolicy::Never))
}

pub(super) fn server() -> Server {
    builder().build().unwrap()
}

pub(super) async fn connect(server: &Server) -> Checked {
    checked(server, Revision::V2025_11_25).await
}

/// Calls a tool as a task, and returns the task.
pub(super) async fn begin(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments, "task": {"ttl": 60_000}});
    client.request("tools/call", params).await.unwrap()["task"].take()
}

pub(super) fn of(task: &Value) -> Value {
    json!({"taskId": task["taskId"]})
}

/// Looks at a task until it is so.
pub(super) async fn looked(client: &mut Client, task: &Value, status: &str) -> Value {
    for _ in 0..1000 {
        let task = client.request("tasks/get", of(task)).await.unwrap();
        if task["status"] == status {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the task never was {status}");
}

#[tokio::test]
async fn call_with_a_task_is_answered_with_it_and_the_result_is_fetched() {
    let server = server();
    let mut client = connect(&server).await;
    let task = begin(&mut client, "add", json!({"a": 1, "b": 2})).await;
    assert_eq!(task["status"], "working");
    assert_eq!((&task["ttl"], &task["pollInterval"]), (&json!(60_000), &json!(20)));
    assert_eq!(task["taskId"].as_str().unwrap().len(), 32);
    let result = client.request("tasks/result", of(&task)).await.unwrap();
    assert_eq!(
        result,
        json!({
            "content": [{"type": "text", "text": "3"}],
            "isError": false,
            "_meta": {"io.modelcontextprotocol/related-task": {"taskId": task["taskId"]}},
        })
    );
    let seen = client.request("tasks/get", of(&task)).await.unwrap();
    assert_eq!(seen["status"], "completed");
    assert_eq!(seen["createdAt"], task["createdAt"]);
    assert!(seen["lastUpdatedAt"].as_str() > task["lastUpdatedAt"].as_str());
    // It stays, and can be fetched again.
    assert_eq!(client.request("tasks/result", of(&task)).await.unwrap(), result);
}

/// A client that does not show apps can neither list nor call a tool that is for apps only.
#[tokio::test]
async fn tool_for_apps_only_is_no_task_of_a_client_without_apps() {
    let hidden =
        Tool::new("refresh", "Refreshes a page", add).with_meta("ui", json!({"visibility": ["app"]}));
    let server = builder().tool(hidden).build().unwrap();
    let call = json!({"name": "refresh", "arguments": {"a": 1, "b": 2}, "task": {"ttl": 60_000}});
    let mut plain = connect(&server).await;
    let failed = refused(&mut plain, "tools/call", call.clone()).await;
    assert_eq!((failed.code, failed.message.as_str()), (-32602, "there is no tool `refresh`"));

    let apps =
        json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}});
    let mut host = crate::checked::connect_with(&server, Revision::V2025_11_25, apps).await.unwrap();
    let task = host.request("tools/call", call).await.unwrap()["task"].take();
    let result = host.request("tasks/result", of(&task)).await.unwrap();
    assert_eq!(result["content"][0]["text"], "3");
}

/// The shape of a task, member for member, and when it says that it changed.
#[tokio::test]
async fn task_says_when_it_was_last_updated_and_never_updated_at() {
    let server = server();
    let mut client = connect(&server).await;
    let task = begin(&mut client, "book", json!({})).await;
    let mut members: Vec<_> = task.as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(members, ["createdAt", "lastUpdatedAt", "pollInterval", "status", "taskId", "ttl"]);
    let mut changed = vec![task["lastUpdatedAt"].as_str().unwrap().to_owned()];
    for status in ["input_required", "cancelled"] {
        if status == "cancelled" {
            client.request("tasks/cancel", of(&task)).await.unwrap();
        }
        let task = looked(&mut client, &task, status).await;
        assert!(task.get("updatedAt").is_none(), "{task}");
        assert_eq!(task["createdAt"], changed[0].as_str());
        changed.push(task["lastUpdatedAt"].as_str().unwrap().to_owned());
    }
    for time in &changed {
        // ISO 8601, in UTC and with the same number of digits each time.
        let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{time}");
    }
    // ISO 8601 sorts by time, and every change of status has a later one.
    assert!(changed.is_sorted_by(|a, b| a < b), "{changed:?}");
}

#[tokio::test]
async fn life_is_as_asked_for_up_to_the_most_and_null_is_for_ever() {
    let config = quick().with_ttl(None).with_max_ttl(Duration::from_secs(10));
    let server = builder().with_tasks(config).build().unwrap();
    let mut client = connect(&server).await;
    let call = json!({"name": "add", "arguments": {"a": 1, "b": 2}});
    for (asked, given) in [
        (json!({"ttl": 1_000_000_000_000_u64}), json!(10_000)),
        (json!({}), json!(null)),
        (json!({"ttl": 0}), json!(1000)),
    ] {
        let mut call = call.clone();
        call["task"] = asked;
        let task = client.request("tools/call", call).await.unwrap();
        assert_eq!(task["task"].get("ttl"), Some(&given));
    }
    for wrong in [json!({"ttl": "long"}), json!({"ttl": -1}), json!("yes")] {
        let mut call = call.clone();
        call["task"] = wrong;
        assert_eq!(refused(&mut client, "tools/call", call).await.code, -32602);
    }
}

#[tokio::test]
async fn tools_say_whether_they_can_be_tasks() {
    let server = server();
    let mut client = connect(&server).await;
    let listed = client.request("tools/list", json!({})).await.unwrap();
    let support: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|tool| &tool["execution"]).collect();
    let support: Vec<_> =
        support.iter().map(|execution| execution["taskSupport"].as_str().unwrap()).collect();
    assert_eq!(
        support,
        ["optional", "required", "optional", "optional", "optional", "optional", "forbidden"]
    );
    assert!(listed.get("resultType").is_none());
    let plain = client.request("tools/list", json!({})).await.unwrap();
    assert_eq!(plain["tools"].as_array().unwrap().len(), support.len());
}

#[tokio::test]
async fn what_tools_say_of_tasks_is_kept_to() {
    let server = server();
    let mut client = connect(&server).await;
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments, "task": {}});
    let sum = json!({"a": 1, "b": 2});
    let never = refused(&mut client, "tools/call", call("hello", sum.clone())).await;
    assert_eq!((never.code, &*never.message), (-32601, "the tool `hello` cannot be called as a task"));
    let always = refused(&mut client, "tools/call", json!({"name": "book", "arguments": {}})).await;
    assert_eq!(always.code, -32601);
    assert!(always.message.contains("requires task augmentation"), "{always}");
    let unknown = refused(&mut client, "tools/call", call("nobody", json!({}))).await;
    assert_eq!((unknown.code, &*unknown.message), (-32602, "there is no tool `nobody`"));
    let misfit = refused(&mut client, "tools/call", call("add", json!({"a": "one"}))).await;
    assert_eq!(misfit.code, -32602);
    // Nothing of that has become a task, and a tool that may be one need not.
    assert_eq!(client.request("tasks/list", json!({})).await.unwrap(), json!({"tasks": []}));
    assert_eq!(client.call("add", sum).await.unwrap().text(), "3");
}

#[tokio::test]
async fn server_without_tasks_takes_a_call_as_if_it_asked_for_none() {
    let server = Server::builder("plain", "1.0.0").tool(Tool::new("add", "Adds", add)).build().unwrap();
    let mut client = crate::checked::connect(&server, Revision::V2025_11_25).await.unwrap();
    assert_eq!(declared(&client), Value::Null);
    let listed = client.request("tools/list", json!({})).await.unwrap();
    assert!(listed["tools"][0].get("execution").is_none());
    for method in ["get", "cancel", "result", "list"] {
        let method = format!("tasks/{method}");
        assert_eq!(refused(&mut client, &method, json!({"taskId": "a"})).await.code, -32601);
    }
    // Not a task's frame, so it goes by another client, unchecked.
    let mut client = Client::connect(&server, Revision::V2025_11_25).await.unwrap();
    let call = json!({"name": "add", "arguments": {"a": 1, "b": 2}, "task": {}});
    let result = client.request("tools/call", call).await.unwrap();
    assert_eq!(result, json!({"content": [{"type": "text", "text": "3"}], "isError": false}));
}

/// A handler as one writes it for the SDK, which knows no tasks.
#[derive(Clone)]
struct Existing;

impl rmcp::ServerHandler for Existing {
    async fn call_tool(
        &self,
        request: rmcp::model::CallToolRequestParams,
        _: rmcp::service::RequestContext<rmcp::RoleServer>,
    ) -> Result<rmcp::model::CallToolResponse, rmcp::ErrorData> {
        let text = format!("old {}", request.name);
        Ok(rmcp::model::CallToolResult::success(vec![rmcp::model::ContentBlock::text(text)]).into())
    }
}

#[tokio::test]
async fn tools_of_a_handler_that_is_served_along_are_no_tasks() {
    let call = json!({"name": "tool", "arguments": {}, "task": {}});
    let server = builder().handler(Existing).build().unwrap();
    let mut client = connect(&server).await;
    assert_eq!(refused(&mut client, "tools/call", call.clone()).await.code, -32601);
    // Without tasks the wish for one is ignored there as well.
    let server = Server::builder("plain", "1.0.0").handler(Existing).build().unwrap();
    let mut client = Client::connect(&server, Revision::V2025_11_25).await.unwrap();
    let result = client.request("tools/call", call).await.unwrap();
    assert_eq!(result["content"][0]["text"], "old tool");
}

/// What `initialize` says of tasks, in its place or where the layer below the SDK finds it.
fn declared(client: &Client) -> Value {
    let capabilities = &client.frames()[0].message["result"]["capabilities"];
    capabilities["tasks"].clone()
}

#[tokio::test]
async fn tasks_are_declared_to_those_who_know_them() {
    let server = server();
    let client = connect(&server).await;
    let all = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(declared(&client), all);
    let mut modern = checked(&server, Revision::V2026_07_28).await;
    let found = modern.request("server/discover", json!({})).await.unwrap();
    assert!(!found.to_string().contains("antiphon/tasks"), "{found}");
    assert!(found["capabilities"]["extensions"].get("io.modelcontextprotocol/tasks").is_some());
}

#[tokio::test]
async fn tool_that_failed_is_a_failed_task_here_and_a_completed_one_on_2026_07_28() {
    let server = server();
    let mut client = connect(&server).await;
    let task = begin(&mut client, "fail", json!({})).await;
    let result = client.request("tasks/result", of(&task)).await.unwrap();
    assert_eq!((&result["isError"], &result["content"][0]["text"]), (&json!(true), &json!("out of paper")));
    let seen = client.request("tasks/get", of(&task)).await.unwrap();
    assert_eq!((&seen["status"], &seen["statusMessage"]), (&json!("failed"), &json!("out of paper")));
    let mut modern = checked(&server, Revision::V2026_07_28).await;
    let seen = until(&mut modern, task["taskId"].as_str().unwrap(), "completed").await;
    assert_eq!(seen["result"]["isError"], true);
}

#[tokio::test]
async fn json_rpc_error_is_what_the_result_is() {
    let server = server();
    let mut client = connect(&server).await;
    let task = begin(&mut client, "break", json!({})).await;
    let error = refused(&mut client, "tasks/result", of(&task)).await;
    assert_eq!((error.code, &*error.message), (-32_050, "on fire"));
    assert_eq!(client.request("tasks/get", of(&task)).await.unwrap()["status"], "failed");
}

#[tokio::test]
async fn ended_task_cannot_be_cancelled() {
    let server = server();
    let mut client = connect(&server).await;
    let task = begin(&mut client, "book", json!({})).await;
    looked(&mut client, &task, "input_required").await;
    let cancelled = client.request("tasks/cancel", of(&task)).await.unwrap();
    assert_eq!((&cancelled["taskId"], &cancelled["status"]), (&task["taskId"], &json!("cancelled")));
    let again = refused(&mut client, "tasks/cancel", of(&task)).await;
    assert_eq!(
        (again.code, &*again.message),
        (-32602, "the task cannot be cancelled: its status is already `cancelled`")
    );
    assert_eq!(client.request("tasks/get", of(&task)).await.unwrap()["status"], "cancelled");
    let result = refused(&mut client, "tasks/result", of(&task)).await;
    assert_eq!((result.code, &*result.message), (-32603, "the task was cancelled"));
    let task = begin(&mut client, "fail", json!({})).await;
    looked(&mut client, &task, "failed").await;
    let ended = refused(&mut client, "tasks/cancel", of(&task)).await;
    assert_eq!(
        (ended.code, &*ended.message),
        (-32602, "the task cannot be cancelled: its status is already `failed`")
    );
}

#[tokio::test]
async fn unknown_tasks_are_invalid_parameters() {
    let server = server();
    let mut client = connect(&server).await;
    for id in [json!("0".repeat(32)), json!("../../etc"), json!(""), json!(7), json!(null)] {
        for method in ["tasks/get", "tasks/cancel", "tasks/result"] {
            assert_eq!(
                refused(&mut client, method, json!({"taskId": id})).await.code,
                -32602,
                "{method} {id}"
            );
        }
    }
}

#[tokio::test]
async fn pages_of_tasks_end_and_cursors_are_ours() {
    let server = builder().with_limits(Limits::default().with_list_page_size(2)).build().unwrap();
    let mut client = connect(&server).await;
    let mut begun = Vec::new();
    for _ in 0..5 {
        begun.push(begin(&mut client, "add", json!({"a": 1, "b": 2})).await["taskId"].clone());
    }
    let (mut listed, mut params, mut pages) = (Vec::new(), json!({}), 0);
    loop {
        let page = client.request("tasks/list", params.clone()).await.unwrap();
        pages += 1;
        listed.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].clone()));
        let Some(next) = page.get("nextCursor") else { break };
        assert!(!begun.iter().any(|id| next.as_str().unwrap().contains(id.as_str().unwrap())), "{next}");
        params["cursor"] = next.clone();
    }
    assert_eq!(pages, 3);
    begun.sort_by_key(Value::to_string);
    listed.sort_by_key(Value::to_string);
    assert_eq!(listed, begun);
    let mut forged = params["cursor"].as_str().unwrap().to_owned();
    forged.replace_range(8..9, if &forged[8..9] == "A" { "B" } else { "A" });
    for cursor in ["2", "", "tasks/anyone/", &forged] {
        assert_eq!(refused(&mut client, "tasks/list", json!({"cursor": cursor})).await.code, -32602);
    }
}

#[tokio::test]
async fn names_of_ours_are_unknown_on_2026_07_28() {
    let server = server();
    let mut client = checked(&server, Revision::V2026_07_28).await;
    for method in ["tasks/call", "tasks/get", "tasks/cancel", "tasks/list", "tasks/result", "tools/list"] {
        let params = json!({"taskId": "0", "name": "add", "arguments": {"a": 1, "b": 2}, "task": {}});
        assert_eq!(
            refused(&mut client, &format!("antiphon/{method}"), params).await.code,
            -32601,
            "{method}"
        );
    }
}

/// The next notification that a page is complete, whether it came before or comes now.
async fn completed(client: &mut Client) -> Value {
    const COMPLETE: &str = "notifications/elicitation/complete";
    let seen = client.frames().iter().find(|frame| frame.message["method"] == COMPLETE);
    if let Some(seen) = seen {
        return seen.message["params"].clone();
    }
    loop {
        let told = client.notification().await.unwrap();
        if told["method"] == COMPLETE {
            return told["params"].clone();
        }
    }
}

#[tokio::test]
async fn session_is_told_that_a_page_of_its_task_is_complete() {
    let server = server();
    let accepting = Answers::new().otherwise(|_| Some(json!({"action": "accept"})));
    let mut client = connect(&server).await.answering(accepting);
    // The leg that tells of it has no client: whoever asked the question for the task is told.
    let task = begin(&mut client, "sign_in", json!({})).await;
    let result = client.request("tasks/result", of(&task)).await.unwrap();
    let id = result["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(completed(&mut client).await, json!({"elicitationId": id}));
}
