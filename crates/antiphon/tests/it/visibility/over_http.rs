//! The same over streamable HTTP, where callers have names.

use antiphon::{
    http::HttpConfig,
    store::{Memory, QueueConfig},
};
use antiphon_store::{
    Bus, Subscription,
    flaky::{Flaky, FlakyConfig},
};
use axum::{Router, body::Body};
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::http::post_with;

/// A caller who is known by a header, on a revision, in a session if that has them.
struct Caller {
    app: Router,
    name: Option<&'static str>,
    revision: Revision,
    session: Option<String>,
}

/// A server that reads the names of its callers from a header, and one router of it.
fn app(builder: ServerBuilder) -> Router {
    app_with(builder, HttpConfig::default())
}

fn app_with(builder: ServerBuilder, config: HttpConfig) -> Router {
    let builder = builder.with_principal(|parts| Some(parts.headers.get("x-caller")?.to_str().ok()?.into()));
    builder.build().unwrap().router(config)
}

fn memory(builder: ServerBuilder) -> ServerBuilder {
    builder.with_backend(Memory::default().backend(QueueConfig::default()))
}

impl Caller {
    async fn new(app: &Router, name: impl Into<Option<&'static str>>, revision: Revision) -> Self {
        let mut caller = Self { app: app.clone(), name: name.into(), revision, session: None };
        if revision == Revision::V2025_11_25 {
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}});
            let response = caller.app.clone().oneshot(caller.request("initialize", hello)).await.unwrap();
            let session = response.headers().get("mcp-session-id").expect("a session");
            caller.session = Some(session.to_str().unwrap().to_owned());
            let mut initialized = caller.request("notifications/initialized", json!({}));
            let message = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            *initialized.body_mut() = Body::from(message.to_string());
            assert_eq!(caller.app.clone().oneshot(initialized).await.unwrap().status(), 202);
        }
        caller
    }

    fn request(&self, method: &str, params: Value) -> Request<Body> {
        let mut request = post_with(self.revision, method, params, everything());
        let headers = request.headers_mut();
        if let Some(name) = self.name {
            headers.insert("x-caller", name.parse().unwrap());
        }
        if let Some(session) = &self.session {
            headers.insert("mcp-session-id", session.parse().unwrap());
        }
        request
    }

    /// Returns the status and the last message of the response.
    async fn send(&self, method: &str, params: Value) -> (u16, Value) {
        let response = self.app.clone().oneshot(self.request(method, params)).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        let lines = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        let message = lines.filter_map(|line| serde_json::from_str(line).ok()).next_back();
        (status, message.unwrap_or_default())
    }

    async fn tools(&self) -> Vec<String> {
        let (_, listed) = self.send("tools/list", json!({})).await;
        names(&listed["result"], "tools", "name")
    }

    /// Calls a tool, and returns its text.
    async fn call(&self, tool: &str) -> String {
        let (_, answer) = self.send("tools/call", json!({"name": tool, "arguments": {}})).await;
        let text = &answer["result"]["content"][0]["text"];
        text.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Requires that a tool is answered like an unknown tool, to the byte except for its name.
    async fn assert_unknown(&self, tool: &str) {
        let call = |name: &str| json!({"name": name, "arguments": {}});
        let (status, hidden) = self.send("tools/call", call(tool)).await;
        let unknown = self.send("tools/call", call("nothing")).await;
        let hidden = hidden.to_string().replace(tool, "nothing");
        assert!(hidden.contains("there is no tool `nothing`"), "{hidden}");
        assert_eq!((status, hidden), (unknown.0, unknown.1.to_string()));
    }
}

#[tokio::test]
async fn condition_reads_the_caller_and_the_headers() {
    let app = app(Server::builder("callers", "1.0.0")
        .tool(Tool::new("open", "x", done))
        .tool(Tool::new("mine", "x", done).visible_if(|it| it.principal() == Some("ada")))
        .tool(Tool::new("header", "x", done).visible_if(|it| {
            it.headers().is_some_and(|headers| headers.get("x-caller").is_some_and(|name| name == "eve"))
        })));
    for revision in Revision::BOTH {
        let (ada, eve) = (Caller::new(&app, "ada", revision).await, Caller::new(&app, "eve", revision).await);
        assert_eq!(ada.tools().await, ["open", "mine"]);
        assert_eq!(eve.tools().await, ["open", "header"]);
        assert_eq!(ada.call("mine").await, "done");
        ada.assert_unknown("header").await;
        eve.assert_unknown("mine").await;
        let nobody = Caller::new(&app, None, revision).await;
        nobody.assert_unknown("mine").await;
        nobody.assert_unknown("header").await;
    }
}

#[tokio::test]
async fn group_is_enabled_in_a_session_over_http() {
    for app in [app(groups()), app(memory(groups()))] {
        let ada = Caller::new(&app, "ada", Revision::V2025_11_25).await;
        let again = Caller::new(&app, "ada", Revision::V2025_11_25).await;
        ada.assert_unknown("erase").await;
        assert_eq!(ada.call("unlock").await, "unlocked");
        assert_eq!(ada.call("erase").await, "done");
        // The group belongs to the session, not to the caller.
        again.assert_unknown("erase").await;
        Caller::new(&app, "ada", Revision::V2026_07_28).await.assert_unknown("erase").await;
        assert_eq!(ada.call("lock").await, "locked");
        ada.assert_unknown("erase").await;
    }
}

/// A bus that does not send the news of sessions.
#[derive(Debug)]
struct Silent(Arc<dyn Bus>);

#[async_trait::async_trait]
impl Bus for Silent {
    async fn publish(&self, topic: &str, event: Bytes) -> antiphon_store::Result<()> {
        if topic == "sessions" {
            return Err(antiphon_store::Error::backend("test", "the bus is down"));
        }
        self.0.publish(topic, event).await
    }

    async fn subscribe(&self, topic: &str) -> antiphon_store::Result<Subscription> {
        self.0.subscribe(topic).await
    }
}

#[tokio::test]
async fn group_of_a_session_does_not_need_the_news_of_sessions() {
    let mut backend = Memory::default().backend(QueueConfig::default());
    backend.bus = Arc::new(Silent(backend.bus));
    let ada = Caller::new(&app(groups().with_backend(backend)), "ada", Revision::V2025_11_25).await;
    assert_eq!(ada.call("unlock").await, "unlocked");
    assert_eq!(ada.call("erase").await, "done");
}

#[tokio::test]
async fn group_is_enabled_for_a_caller_without_sessions() {
    let app = app(memory(groups()));
    let [ada, eve] = ["ada", "eve"].map(|name| Caller::new(&app, name, Revision::V2026_07_28));
    let (ada, eve) = (ada.await, eve.await);
    ada.assert_unknown("erase").await;
    assert_eq!(ada.call("unlock").await, "unlocked");
    assert_eq!(ada.tools().await, ["unlock", "lock", "unlock_and_ask", "erase"]);
    assert_eq!(ada.call("erase").await, "done");
    assert_eq!(eve.tools().await, ["unlock", "lock", "unlock_and_ask"]);
    eve.assert_unknown("erase").await;
    // A session has its own groups.
    Caller::new(&app, "ada", Revision::V2025_11_25).await.assert_unknown("erase").await;
    assert_eq!(ada.call("lock").await, "locked");
    ada.assert_unknown("erase").await;
    let nobody = Caller::new(&app, None, Revision::V2026_07_28).await;
    let refused = nobody.call("unlock").await;
    assert!(refused.contains("no session and no authenticated caller"), "{refused}");
}

#[tokio::test]
async fn session_id_is_ignored_if_the_server_has_no_sessions() {
    let app = app_with(memory(groups()), HttpConfig::default().with_sessions(false));
    let revision = Revision::V2025_11_25;
    let session = Some("made-up".to_owned());
    let ada = Caller { app: app.clone(), name: Some("ada"), revision, session: session.clone() };
    assert_eq!(ada.call("unlock").await, "unlocked");
    assert_eq!(ada.call("erase").await, "done");
    let nobody = Caller { app, name: None, revision, session };
    let refused = nobody.call("unlock").await;
    assert!(refused.contains("no session and no authenticated caller"), "{refused}");
}

#[tokio::test]
async fn group_of_a_caller_needs_a_backend() {
    let ada = Caller::new(&app(groups()), "ada", Revision::V2026_07_28).await;
    let refused = ada.call("unlock").await;
    assert!(refused.contains("the groups of a caller need a backend"), "{refused}");
    ada.assert_unknown("erase").await;
}

#[tokio::test]
async fn replay_does_not_enable_a_group_again() {
    let app = app(memory(groups()));
    let ada = Caller::new(&app, "ada", Revision::V2026_07_28).await;
    let call = json!({"name": "unlock_and_ask", "arguments": {}});
    let (_, asked) = ada.send("tools/call", call.clone()).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    assert_eq!(ada.call("erase").await, "done");
    assert_eq!(ada.call("lock").await, "locked");
    let mut next = call;
    next["requestState"] = asked["result"]["requestState"].clone();
    next["inputResponses"] = json!({"word": {"action": "accept", "content": {"word": "a"}}});
    let (_, answered) = ada.send("tools/call", next).await;
    assert_eq!(answered["result"]["content"][0]["text"], "a", "{answered}");
    ada.assert_unknown("erase").await;
}

#[tokio::test]
async fn next_round_continues_when_its_group_is_disabled() {
    let tool = Tool::new("lock_and_ask", "Asks", lock_and_ask).in_group("admin");
    let app = app(memory(groups().tool(tool)));
    let ada = Caller::new(&app, "ada", Revision::V2026_07_28).await;
    assert_eq!(ada.call("unlock").await, "unlocked");
    let call = |name: &str| json!({"name": name, "arguments": {}});
    let (_, asked) = ada.send("tools/call", call("lock_and_ask")).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    ada.assert_unknown("lock_and_ask").await;
    let next = |name: &str, state: &Value| {
        let mut next = call(name);
        next["requestState"] = state.clone();
        next["inputResponses"] = json!({"word": {"action": "accept", "content": {"word": "a"}}});
        next
    };
    // Neither a forged state nor the state of another tool or caller reveals the tool.
    let eve = Caller::new(&app, "eve", Revision::V2026_07_28).await;
    let state = &asked["result"]["requestState"];
    for (caller, tool, state) in
        [(&ada, "lock_and_ask", &json!("forged")), (&ada, "erase", state), (&eve, "lock_and_ask", state)]
    {
        let (_, hidden) = caller.send("tools/call", next(tool, state)).await;
        let (_, unknown) = caller.send("tools/call", next("nothing", state)).await;
        assert_eq!(hidden.to_string().replace(tool, "nothing"), unknown.to_string());
    }
    let (_, answered) = ada.send("tools/call", next("lock_and_ask", state)).await;
    assert_eq!(answered["result"]["content"][0]["text"], "a", "{answered}");
}

fn rated(builder: ServerBuilder, per_minute: u64) -> ServerBuilder {
    let quota = Quota::default().with_rate(Rate::per_minute(per_minute));
    builder.with_limits(Limits::default().with_principal(quota))
}

#[tokio::test]
async fn caller_over_its_rate_does_not_read_the_groups() {
    // Every read of the store fails, so the error shows whether the store was read.
    let mut backend = Memory::default().backend(QueueConfig::default());
    backend = backend.with_patience(Duration::from_millis(50));
    let config = FlakyConfig::seeded(1).with_refused(0).with_lost(1000).with_delayed(0);
    backend.store = Arc::new(Flaky::new(backend.store, config));
    for tool in ["nothing", "erase"] {
        let app = app(rated(groups(), 1).with_backend(backend.clone()));
        let ada = Caller::new(&app, "ada", Revision::V2026_07_28).await;
        let call = json!({"name": tool, "arguments": {}});
        let (_, read) = ada.send("tools/call", call.clone()).await;
        assert_eq!((read["error"].is_object(), &read["error"]["data"]["limit"]), (true, &Value::Null));
        let (status, refused) = ada.send("tools/call", call).await;
        assert_eq!((status, &refused["error"]["data"]["limit"]), (429, &json!("rate")), "{refused}");
    }
}

#[tokio::test]
async fn call_of_a_tool_in_a_group_counts_once() {
    let ada = Caller::new(&app(rated(memory(groups()), 3)), "ada", Revision::V2026_07_28).await;
    assert_eq!(ada.call("unlock").await, "unlocked");
    assert_eq!(ada.call("erase").await, "done");
    assert_eq!(ada.call("erase").await, "done");
    let (status, refused) = ada.send("tools/call", json!({"name": "erase", "arguments": {}})).await;
    assert_eq!((status, &refused["error"]["data"]["limit"]), (429, &json!("rate")), "{refused}");
}

#[tokio::test]
async fn group_of_a_caller_is_enabled_in_a_task() {
    let unlocks = Tool::new("unlock_later", "x", unlock).with_tasks(TaskPolicy::Always);
    let app = app(memory(groups().tool(unlocks).with_tasks(quick())));
    let ada = Caller::new(&app, "ada", Revision::V2026_07_28).await;
    let (_, created) = ada.send("tools/call", json!({"name": "unlock_later", "arguments": {}})).await;
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    for _ in 0..500 {
        if ada.tools().await.contains(&"erase".to_owned()) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the task did not enable the group");
}
