//! Callers of a server that asks through other channels: repeated calls, limits, connections and cancelled calls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use antiphon::{
    ServerBuilder,
    elicitation::AskPolicy,
    prelude::*,
    seal::{KeyRing, SealConfig},
    task::{RetryPolicy, TaskPolicy, TaskStatus},
    testing::{Answers, Revision, Talk},
};
use antiphon_store::{Backend, Memory, QueueConfig};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use crate::{
    asking::{apps, form, key_in, view_key},
    asking_clients::next_of,
    checked::{Checked, connect_with},
    tasks::quick,
};

#[derive(Deserialize, JsonSchema)]
struct Colleague {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    desk: String,
}

/// The number of printed badges.
#[derive(Clone, Default)]
struct Badges(Arc<AtomicU32>);

/// Runs a step, and then asks. If a call starts a second run, it prints a second badge.
async fn onboard(ctx: &Ctx, Colleague { name }: Colleague) -> Result<String> {
    let badges = ctx.state::<Badges>()?;
    let badge: u32 = ctx.step("badge", || async { Ok(badges.0.fetch_add(1, Ordering::SeqCst) + 1) }).await?;
    let approval = ctx.elicit::<Approval>("May they start?").await?.into_answer()?;
    Ok(format!("{name}: badge {badge}, desk {}, {:?}", approval.value.desk, approval.via()))
}

/// Asks with a time limit that the server cannot see.
async fn impatient(ctx: &Ctx, _: ()) -> Result<String> {
    let question = ctx.elicit::<Approval>("May they start?");
    match tokio::time::timeout(Duration::from_secs(20), question).await {
        Ok(answer) => Ok(answer?.accepted()?.desk),
        Err(_) => Ok("no answer".into()),
    }
}

/// Works while its question is open.
async fn busy(ctx: &Ctx, _: ()) -> Result<String> {
    let work = ctx.step("work", || async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok(())
    });
    let (worked, approval) = tokio::join!(work, ctx.elicit::<Approval>("May they start?"));
    worked?;
    Ok(approval?.accepted()?.desk)
}

async fn count(_: &Ctx, _: ()) -> Result<String> {
    Ok("3".into())
}

async fn rest(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.sleep(Duration::from_secs(60)).await?;
    Ok("rested".into())
}

fn builder(policy: AskPolicy) -> ServerBuilder {
    Server::builder("onboarding", "1.0.0")
        .with_tasks(quick().with_retry(RetryPolicy::never()))
        .with_asking(policy)
        .with_state(Badges::default())
        .tool(Tool::new("onboard", "Takes on a colleague", onboard))
        .tool(Tool::new("hire", "Takes on a colleague", onboard).with_tasks(TaskPolicy::Always))
        .tool(Tool::new("count", "Counts", count).with_tasks(TaskPolicy::Always))
        .tool(Tool::new("rest", "Does nothing for a while", rest).with_tasks(TaskPolicy::Always))
        .tool(Tool::new("impatient", "Asks with a time limit", impatient))
        .tool(Tool::new("busy", "Works and asks", busy))
}

/// The capabilities of a host that declares forms and apps.
fn forms_and_apps() -> Value {
    let mut capabilities = apps();
    capabilities["elicitation"] = json!({"form": {}});
    capabilities
}

fn grace() -> Value {
    json!({"name": "Grace"})
}

fn accepted() -> Value {
    json!({"action": "accept", "content": {"desk": "4"}})
}

/// Checks that a call waits for the user, and returns the ID of its task.
fn waiting(talk: &Talk) -> String {
    assert!(talk.text().starts_with("NOT FINISHED") && !talk.is_error(), "{}", talk.text());
    talk.result["structuredContent"]["task"]["id"].as_str().unwrap().to_owned()
}

/// Calls `tool`, waits until its run asks, and returns the ID of its task.
async fn park(client: &mut Checked, tool: &str, arguments: Value) -> Result<String> {
    let talk = client.call(tool, arguments).await?;
    if !talk.text().starts_with("STILL WORKING") {
        return Ok(waiting(&talk));
    }
    let id = &talk.result["structuredContent"]["task"]["id"];
    Ok(waiting(&client.call("task_result", json!({"id": id, "wait": 20})).await?))
}

/// Answers the question of a run in the form, and returns the text of its result.
async fn finish(client: &mut Checked, id: &str) -> Result<String> {
    let view = view_key(client).await?;
    let open = form(client, "ask_open", json!({"view": view, "id": id})).await?;
    let responses = json!({"approval": accepted()});
    let arguments = json!({"view": view, "id": id, "ticket": open["ticket"], "responses": responses});
    assert_eq!(form(client, "ask_answer", arguments).await?["status"], "completed");
    Ok(client.call("task_result", json!({"id": id})).await?.text())
}

#[tokio::test]
async fn repeated_call_joins_the_waiting_run_until_it_ends() -> Result<()> {
    for tool in ["onboard", "hire"] {
        for revision in Revision::BOTH {
            let server = builder(AskPolicy::default()).build()?;
            let mut client = connect_with(&server, revision, apps()).await?;
            let id = park(&mut client, tool, grace()).await?;
            for _ in 0..3 {
                assert_eq!(waiting(&client.call(tool, grace()).await?), id, "{tool}, {revision:?}");
            }
            // Other arguments, and the same call in another session.
            let ada = park(&mut client, tool, json!({"name": "Ada"})).await?;
            assert_ne!(ada, id, "{tool}, {revision:?}");
            let mut other = connect_with(&server, revision, apps()).await?;
            assert_ne!(park(&mut other, tool, grace()).await?, id, "{tool}, {revision:?}");

            assert_eq!(finish(&mut client, &id).await?, "Grace: badge 1, desk 4, App");
            let next = park(&mut client, tool, grace()).await?;
            assert_ne!(next, id, "a call after the end of the run is a new run");
            assert_eq!(finish(&mut client, &next).await?, "Grace: badge 4, desk 4, App");
        }
    }
    Ok(())
}

#[tokio::test]
async fn first_response_of_a_task_has_the_question_or_the_result() -> Result<()> {
    for revision in Revision::BOTH {
        let server = builder(AskPolicy::default()).build()?;
        let mut client = connect_with(&server, revision, apps()).await?;
        let talk = client.call("hire", grace()).await?;
        assert!(talk.text().starts_with("NOT FINISHED"), "{revision:?}: {}", talk.text());
        let talk = client.call("count", json!({})).await?;
        assert_eq!(talk.text(), "3", "{revision:?}");
        // A run that asks nothing and does not end soon is handed over.
        let policy = AskPolicy::default().with_hand_over_after(Duration::from_millis(100));
        let mut client = connect_with(&builder(policy).build()?, revision, apps()).await?;
        let talk = client.call("rest", json!({})).await?;
        assert!(talk.text().starts_with("STILL WORKING"), "{revision:?}: {}", talk.text());
    }
    Ok(())
}

#[tokio::test]
async fn call_that_is_cancelled_during_its_first_step_cancels_the_task() -> Result<()> {
    for revision in Revision::BOTH {
        let server = builder(AskPolicy::default()).build()?;
        let mut client = connect_with(&server, revision, apps()).await?;
        let call = client.start("tools/call", json!({"name": "rest", "arguments": {}})).await?;
        let runs = server.runs().unwrap();
        let status = async |wanted: TaskStatus| {
            while !runs.list(None, None, 10).await?.runs.iter().any(|run| run.status == wanted) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok::<(), Error>(())
        };
        status(TaskStatus::Working).await?;
        client.notify("notifications/cancelled", json!({"requestId": call})).await?;
        let cancelled = tokio::time::timeout(Duration::from_secs(20), status(TaskStatus::Cancelled));
        assert!(cancelled.await.is_ok_and(|found| found.is_ok()), "{revision:?}: the run was not cancelled");
    }
    Ok(())
}

#[tokio::test]
async fn repeated_call_starts_a_second_run_without_joining() -> Result<()> {
    let server = builder(AskPolicy::default().with_joining(false)).build()?;
    let mut client = connect_with(&server, Revision::V2026_07_28, apps()).await?;
    let first = park(&mut client, "onboard", grace()).await?;
    assert_ne!(park(&mut client, "onboard", grace()).await?, first);
    Ok(())
}

#[tokio::test]
async fn number_of_waiting_runs_of_a_caller_is_limited() -> Result<()> {
    for tool in ["onboard", "hire"] {
        for revision in Revision::BOTH {
            let server = builder(AskPolicy::default().with_max_waiting(2)).build()?;
            let mut client = connect_with(&server, revision, apps()).await?;
            let first = park(&mut client, tool, json!({"name": "1"})).await?;
            park(&mut client, tool, json!({"name": "2"})).await?;
            let third = client.call(tool, json!({"name": "3"})).await?;
            assert!(third.is_error(), "{tool}, {revision:?}: {}", third.text());
            let text = third.text();
            assert!(text.contains("2 runs of this caller already wait; answer one"), "{text}");
            assert!(text.contains("cancel one with `task_cancel`"), "{text}");
            client.call("task_cancel", json!({"id": first})).await?;
            let fourth = park(&mut client, tool, json!({"name": "4"})).await?;
            // An answered run does not wait any more.
            finish(&mut client, &fourth).await?;
            park(&mut client, tool, json!({"name": "5"})).await?;
        }
    }
    let error = builder(AskPolicy::default().with_max_waiting(0)).build().unwrap_err();
    assert!(error.to_string().contains("`AskPolicy::with_max_waiting` is 0"), "{error}");
    Ok(())
}

#[tokio::test]
async fn frequent_heartbeats_do_not_delay_a_waiting_result() -> Result<()> {
    for heartbeat in [1, 20] {
        let policy = AskPolicy::default().with_heartbeat(Duration::from_millis(heartbeat));
        let server = builder(policy).build()?;
        for revision in Revision::BOTH {
            let client = connect_with(&server, revision, apps()).await?;
            let mut client = client.saying(json!({"progressToken": "p-7"}));
            let begun = Instant::now();
            waiting(&client.call("impatient", json!({})).await?);
            assert!(begun.elapsed() < Duration::from_secs(10), "{revision:?}: {:?}", begun.elapsed());
        }
    }
    Ok(())
}

/// Calls `onboard` in a session, and returns its ID when the client has received the form.
async fn until_asked(client: &mut Checked) -> Result<u64> {
    let call = client.start("tools/call", json!({"name": "onboard", "arguments": grace()})).await?;
    next_of(client, "elicitation/create").await?;
    Ok(call)
}

#[tokio::test]
async fn only_a_time_limit_of_the_client_makes_a_cancelled_call_count() -> Result<()> {
    let cases = [
        (json!("McpError: MCP error -32001: Request timed out"), true),
        (json!("request timeout"), true),
        (json!("AbortError: This operation was aborted"), false),
        (Value::Null, false),
    ];
    for (reason, counts) in cases {
        let server = builder(AskPolicy::default()).build()?;
        let client = connect_with(&server, Revision::V2025_11_25, forms_and_apps()).await?;
        let mut client = client.answering(Answers::new().raw("approval", accepted()));
        let mut cancelled = json!({"requestId": until_asked(&mut client).await?});
        if !reason.is_null() {
            cancelled["reason"] = reason.clone();
        }
        client.notify("notifications/cancelled", cancelled).await?;
        next_of(&mut client, "notifications/cancelled").await?;
        let talk = client.call("onboard", grace()).await?;
        assert_eq!(talk.asked.is_empty(), counts, "{reason}: {}", talk.text());
    }
    Ok(())
}

#[tokio::test]
async fn end_of_a_connection_does_not_count_as_an_answer() -> Result<()> {
    let server = builder(AskPolicy::default()).build()?;
    let mut gone = connect_with(&server, Revision::V2025_11_25, forms_and_apps()).await?;
    until_asked(&mut gone).await?;
    drop(gone);
    // The server cancels the call of the closed connection.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let client = connect_with(&server, Revision::V2025_11_25, forms_and_apps()).await?;
    let mut client = client.answering(Answers::new().raw("approval", accepted()));
    let talk = client.call("onboard", grace()).await?;
    assert_eq!(talk.keys(), ["approval"], "{}", talk.text());
    Ok(())
}

/// A client over a stream of its own, as over a socket.
struct Socket {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    sent: u64,
}

impl Socket {
    fn connect(server: &Server) -> Self {
        let (near, far) = tokio::io::duplex(1 << 20);
        let server = server.clone();
        tokio::spawn(async move { server.serve_stream(far).await });
        let (reader, writer) = tokio::io::split(near);
        Self { lines: BufReader::new(reader).lines(), writer, sent: 0 }
    }

    /// Sends a 2026-07-28 request as a client that declares forms and apps, and returns the result.
    async fn request(&mut self, method: &str, mut params: Value) -> Result<Value> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": forms_and_apps(),
            "io.modelcontextprotocol/clientInfo": {"name": "socket", "version": "1"},
        });
        self.sent += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params});
        self.writer.write_all(format!("{request}\n").as_bytes()).await?;
        loop {
            let line = self.lines.next_line().await?.expect("the server answers");
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == self.sent {
                assert!(message["result"].is_object(), "{message}");
                return Ok(message["result"].clone());
            }
        }
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value> {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Returns whether the client itself is asked.
    async fn is_asked(&mut self) -> Result<bool> {
        Ok(self.call("onboard", grace()).await?["resultType"] == "input_required")
    }

    /// Declines the question before a user could answer. Returns the ID of the task that waits for the form.
    async fn declines(&mut self) -> Result<Value> {
        let asked = self.call("onboard", grace()).await?;
        assert!(asked["inputRequests"]["approval"].is_object(), "{asked}");
        let call = json!({
            "name": "onboard", "arguments": grace(), "requestState": asked["requestState"],
            "inputResponses": {"approval": {"action": "decline"}},
        });
        let parked = self.request("tools/call", call).await?;
        let id = parked["structuredContent"]["task"]["id"].clone();
        assert!(id.is_string(), "{parked}");
        Ok(id)
    }
}

/// A policy for which every answer of a test client is quick.
fn all_quick() -> AskPolicy {
    AskPolicy::default().with_quick(Duration::from_secs(20))
}

#[tokio::test]
async fn two_streams_are_two_users() -> Result<()> {
    let server = builder(all_quick()).build()?;
    let (mut ada, mut eve) = (Socket::connect(&server), Socket::connect(&server));
    let id = ada.declines().await?;
    // Ada's client is unresponsive, and her call joins the waiting run.
    let again = ada.call("onboard", grace()).await?;
    assert_eq!(again["structuredContent"]["task"]["id"], id, "{again}");
    assert!(eve.is_asked().await?, "the client of another user was not asked");
    assert_ne!(eve.declines().await?, id, "the call joined the run of another user");
    // Neither of them sees the questions of all streams.
    let read = ada.request("resources/read", json!({"uri": "ui://antiphon/form/0"})).await?;
    let view = key_in(read["contents"][0]["text"].as_str().unwrap());
    for socket in [&mut ada, &mut eve] {
        let open = socket.call("ask_open", json!({"view": view})).await?;
        assert_eq!(open["structuredContent"]["error"]["code"], "NOT_FOUND", "{open}");
    }
    let open = ada.call("ask_open", json!({"view": view, "id": id})).await?;
    assert_eq!(open["structuredContent"]["status"], "input_required", "{open}");
    Ok(())
}

#[tokio::test]
async fn limit_of_waiting_runs_applies_to_each_stream() -> Result<()> {
    let server = builder(all_quick().with_max_waiting(1)).build()?;
    let (mut ada, mut eve) = (Socket::connect(&server), Socket::connect(&server));
    ada.declines().await?;
    // The client is unresponsive, so the call would wait for the form.
    let second = ada.call("onboard", json!({"name": "Ada"})).await?;
    assert_eq!(second["isError"], true, "{second}");
    eve.declines().await?;
    Ok(())
}

#[tokio::test]
async fn client_of_another_stream_is_asked_after_an_unresponsive_one() -> Result<()> {
    let server = builder(all_quick().with_joining(false)).build()?;
    let (mut ada, mut eve) = (Socket::connect(&server), Socket::connect(&server));
    ada.declines().await?;
    assert!(!ada.is_asked().await?);
    assert!(eve.is_asked().await?);
    Ok(())
}

fn backend() -> Backend {
    Memory::default().backend(QueueConfig::default())
}

/// A server that shares its tasks and keys with other replicas.
fn replica(policy: AskPolicy, backend: &Backend) -> ServerBuilder {
    let keys = SealConfig::default().with_keys(KeyRing::new(1, [1; 32]));
    builder(policy).with_backend(backend.clone()).with_seal(keys)
}

/// Splits the value of a record in the list into the mark of its write and the ID of the run.
fn split(value: &[u8]) -> (&[u8], &[u8]) {
    value.split_at(value.len() - 32)
}

/// Returns the IDs of the runs that the store lists as waiting.
async fn listed(backend: &Backend) -> Vec<String> {
    let page = backend.store.list("waits/", None, 100).await.unwrap();
    page.items.iter().map(|item| format!("t_{}", String::from_utf8_lossy(split(&item.value).1))).collect()
}

#[tokio::test]
async fn only_waiting_runs_are_listed() -> Result<()> {
    for revision in Revision::BOTH {
        for tool in ["onboard", "hire"] {
            let backend = backend();
            let server = replica(AskPolicy::default(), &backend).build()?;
            let mut client = connect_with(&server, revision, apps()).await?;
            let answered = park(&mut client, tool, grace()).await?;
            assert_eq!(listed(&backend).await, [answered.as_str()], "{tool}, {revision:?}");
            finish(&mut client, &answered).await?;
            assert!(listed(&backend).await.is_empty(), "{tool}, {revision:?}: an answered run");
            let cancelled = park(&mut client, tool, grace()).await?;
            assert_eq!(listed(&backend).await, [cancelled.as_str()], "{tool}, {revision:?}");
            client.call("task_cancel", json!({"id": cancelled})).await?;
            assert!(listed(&backend).await.is_empty(), "{tool}, {revision:?}: a cancelled run");
        }
    }
    Ok(())
}

#[tokio::test]
async fn forged_list_does_not_lead_a_call_to_the_run_of_another_call() -> Result<()> {
    let backend = backend();
    let server = replica(AskPolicy::default(), &backend).build()?;
    let mut client = connect_with(&server, Revision::V2026_07_28, apps()).await?;
    let first = park(&mut client, "onboard", grace()).await?;
    park(&mut client, "onboard", json!({"name": "Ada"})).await?;
    for item in backend.store.list("waits/", None, 100).await.unwrap().items {
        let forged = [split(&item.value).0, first.trim_start_matches("t_").as_bytes()].concat();
        backend.store.update(&item.key, forged.into(), None, item.revision).await.unwrap();
    }
    assert_ne!(park(&mut client, "onboard", json!({"name": "Ada"})).await?, first);
    assert_eq!(park(&mut client, "onboard", grace()).await?, first);
    Ok(())
}

#[cfg(feature = "http")]
mod over_http {
    use antiphon::{elicitation::AskPage, http::HttpConfig};
    use axum::{Router, body::Body};
    use http::{Request, Response};
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::http::post_with;

    /// Calls a tool as a caller whose client shows apps, and returns the result.
    async fn call(app: &Router, caller: Option<&str>, tool: &str, arguments: Value) -> Result<Value> {
        let params = json!({"name": tool, "arguments": arguments});
        let mut request = post_with(Revision::V2026_07_28, "tools/call", params, apps());
        if let Some(caller) = caller {
            request.headers_mut().insert("x-caller", caller.parse()?);
        }
        let body = app.clone().oneshot(request).await?.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)?;
        assert!(answer["result"].is_object(), "{answer}");
        Ok(answer["result"].clone())
    }

    /// Returns the ID of the run of a call.
    async fn run_of(app: &Router, caller: Option<&str>) -> Result<String> {
        let result = call(app, caller, "onboard", grace()).await?;
        Ok(result["structuredContent"]["task"]["id"].as_str().unwrap().to_owned())
    }

    /// A replica that knows its callers.
    fn known(policy: AskPolicy, backend: &Backend) -> Router {
        let server = replica(policy, backend)
            .with_principal(|parts| parts.headers.get("x-caller")?.to_str().ok().map(ToOwned::to_owned));
        server.build().unwrap().router(HttpConfig::default())
    }

    #[tokio::test]
    async fn call_of_the_same_caller_joins_on_another_replica() -> Result<()> {
        let backend = backend();
        let (one, two) = (known(AskPolicy::default(), &backend), known(AskPolicy::default(), &backend));
        let ada = run_of(&one, Some("ada")).await?;
        assert_eq!(run_of(&two, Some("ada")).await?, ada);
        let eve = run_of(&two, Some("eve")).await?;
        assert_ne!(eve, ada);
        // Callers that are not known are never joined.
        assert_ne!(run_of(&one, None).await?, run_of(&one, None).await?);
        Ok(())
    }

    #[tokio::test]
    async fn limit_applies_to_each_caller_on_all_replicas() -> Result<()> {
        let (backend, policy) = (backend(), AskPolicy::default().with_max_waiting(1));
        let (one, two) = (known(policy.clone(), &backend), known(policy, &backend));
        run_of(&one, Some("ada")).await?;
        let second = call(&two, Some("ada"), "onboard", json!({"name": "Ada"})).await?;
        assert_eq!(second["isError"], true, "{second}");
        run_of(&two, Some("eve")).await?;
        Ok(())
    }

    #[tokio::test]
    async fn limit_does_not_apply_to_callers_that_are_not_known() -> Result<()> {
        let (backend, policy) = (backend(), AskPolicy::default().with_max_waiting(1));
        let app = replica(policy, &backend).build()?.router(HttpConfig::default());
        let mut runs = std::collections::BTreeSet::new();
        for _ in 0..3 {
            runs.insert(run_of(&app, None).await?);
        }
        assert_eq!(runs.len(), 3);
        // No caller could use the list.
        assert!(listed(&backend).await.is_empty());
        Ok(())
    }

    /// Posts a message in a session of MCP 2025-11-25.
    async fn post(app: &Router, session: Option<&str>, message: Value) -> Response<Body> {
        let mut request = Request::post("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        app.clone().oneshot(request.body(Body::from(message.to_string())).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn session_is_kept_open_while_a_run_works_and_its_question_waits_elsewhere() -> Result<()> {
        let config = HttpConfig::default().with_session_idle(Duration::from_millis(900));
        let app = builder(AskPolicy::default()).build()?.router(config);
        let program = json!({"name": "t", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": apps(), "clientInfo": program});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
        let response = post(&app, None, hello).await;
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        response.into_body().collect().await?;
        post(&app, Some(&session), json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        let params = json!({"name": "busy", "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let stream = post(&app, Some(&session), call).await.into_body().collect().await?.to_bytes();
        let stream = String::from_utf8_lossy(&stream);
        let events = stream.lines().filter_map(|line| line.strip_prefix("data:"));
        let events: Vec<Value> = events.filter_map(|event| serde_json::from_str(event.trim()).ok()).collect();
        let pings = events.iter().filter(|event| event["method"] == "ping").count();
        assert!(pings >= 2, "{events:?}");
        let text = &events.last().unwrap()["result"]["content"][0]["text"];
        assert!(text.as_str().unwrap().starts_with("NOT FINISHED"), "{text}");
        Ok(())
    }

    /// The answers of clients that declare forms and do not show them.
    fn unshown() -> [(&'static str, Answers); 4] {
        let of = |answer: Value| Answers::new().raw("approval", answer);
        [
            ("decline", of(json!({"action": "decline"}))),
            ("cancel", of(json!({"action": "cancel"}))),
            ("accept without content", of(json!({"action": "accept", "content": {}}))),
            ("error", Answers::new().error("approval", -32_603, "no screen")),
        ]
    }

    #[tokio::test]
    async fn form_that_a_client_does_not_show_in_task_result_moves_to_the_page() -> Result<()> {
        let forms = json!({"elicitation": {"form": {}}});
        for revision in Revision::BOTH {
            for (what, answers) in unshown() {
                let policy = all_quick().with_page(AskPage::at("https://mcp.example.com"));
                let server = builder(policy).build()?;
                let mut client = connect_with(&server, revision, forms.clone()).await?.answering(answers);
                let begun = client.call("hire", grace()).await?;
                let id = &begun.result["structuredContent"]["task"]["id"];
                let talk = client.call("task_result", json!({"id": id, "wait": 20})).await?;
                assert_eq!(talk.keys(), ["approval"], "{revision:?}, {what}: {}", talk.text());
                waiting(&talk);
                let link = "Show the user this link: https://mcp.example.com/ask/";
                assert!(talk.text().contains(link), "{revision:?}, {what}: {}", talk.text());
                let again = client.call("task_result", json!({"id": id, "wait": 0})).await?;
                assert!(again.asked.is_empty(), "{revision:?}, {what}: {:?}", again.asked);
                assert!(again.text().contains(link), "{revision:?}, {what}: {}", again.text());
            }
        }
        Ok(())
    }

    #[tokio::test]
    async fn quick_decline_in_task_result_counts_without_a_page() -> Result<()> {
        for revision in Revision::BOTH {
            let server = builder(all_quick()).build()?;
            let client = connect_with(&server, revision, json!({"elicitation": {"form": {}}})).await?;
            let mut client = client.answering(Answers::new().decline("approval"));
            let begun = client.call("hire", grace()).await?;
            let id = &begun.result["structuredContent"]["task"]["id"];
            let talk = client.call("task_result", json!({"id": id, "wait": 20})).await?;
            assert!(talk.is_error() && talk.text().contains("declined"), "{revision:?}: {}", talk.text());
        }
        Ok(())
    }
}
