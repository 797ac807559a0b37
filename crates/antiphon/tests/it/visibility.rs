//! Tools, prompts and resources that some requests cannot see, and groups of tools.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use antiphon::{
    Capability, Limits, Prompt, Resource, ResourceTemplate, ServerBuilder,
    elicitation::AskPolicy,
    limits::{Quota, Rate},
    middleware::{self, ErrorData, Next, Request, Response},
    prelude::*,
    task::TaskPolicy,
    testing::{Answers, Client, Failed, Revision},
    tool::{RequestInfo, ToolCall},
};
use serde_json::{Map, Value, json};

use crate::{
    checked::{connect, connect_with},
    tasks::{checked, everything, quick, refused, until},
};

mod beside_handler;
#[cfg(feature = "http")]
mod over_http;

#[derive(Deserialize, JsonSchema)]
struct Word {
    word: String,
}

async fn done(_: &Ctx, _: ()) -> Result<String> {
    Ok("done".into())
}

async fn nap(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.sleep(Duration::from_secs(1)).await?;
    Ok("done".into())
}

async fn ask(ctx: &Ctx, _: ()) -> Result<String> {
    Ok(ctx.elicit::<Word>("Word?").await?.accepted()?.word)
}

#[derive(Deserialize, JsonSchema)]
struct Page {
    id: String,
}

async fn page(_: &Ctx, page: Page) -> Result<String> {
    Ok(page.id)
}

async fn unlock(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.enable_group("admin").await?;
    Ok("unlocked".into())
}

async fn lock(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.disable_group("admin").await?;
    Ok("locked".into())
}

/// Disables the group that the tool is in, and asks.
async fn lock_and_ask(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.disable_group("admin").await?;
    ask(ctx, ()).await
}

/// Enables the group, and asks before it returns.
async fn unlock_and_ask(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.enable_group("admin").await?;
    ask(ctx, ()).await
}

fn groups() -> ServerBuilder {
    Server::builder("groups", "1.0.0")
        .tool(Tool::new("unlock", "Shows the administration tools", unlock))
        .tool(Tool::new("lock", "Hides the administration tools", lock))
        .tool(Tool::new("unlock_and_ask", "Shows the administration tools, and asks", unlock_and_ask))
        .tool(Tool::new("erase", "Erases everything", done).in_group("admin"))
}

/// A server whose items `condition` hides, and one visible item of each kind.
fn guarded(condition: impl Fn(&RequestInfo<'_>) -> bool + Clone + Send + Sync + 'static) -> ServerBuilder {
    Server::builder("guarded", "1.0.0")
        .tool(Tool::new("open", "Is open", done))
        .tool(Tool::new("secret", "Is hidden", ask).visible_if(condition.clone()))
        .prompt(Prompt::new("open", "Is open", done))
        .prompt(
            Prompt::new("secret", "Is hidden", page)
                .visible_if(condition.clone())
                .completes("id", |_| async { Ok(vec!["one".to_owned()]) }),
        )
        .resource(Resource::new("test://open", "open", done))
        .resource(Resource::new("test://secret", "secret", done).visible_if(condition.clone()))
        .resource_template(ResourceTemplate::new("open://{id}", "open", page))
        .resource_template(
            ResourceTemplate::new("secret://{id}", "secret", page)
                .visible_if(condition)
                .completes("id", |_| async { Ok(vec!["one".to_owned()]) }),
        )
}

/// A condition that a test switches.
pub(crate) fn switched()
-> (Arc<AtomicBool>, impl Fn(&RequestInfo<'_>) -> bool + Clone + Send + Sync + 'static) {
    let shown = Arc::new(AtomicBool::new(false));
    let read = Arc::clone(&shown);
    (shown, move |_: &RequestInfo<'_>| read.load(Ordering::SeqCst))
}

fn names(listed: &Value, kind: &str, field: &str) -> Vec<String> {
    let items = listed[kind].as_array().unwrap_or_else(|| panic!("{listed}")).iter();
    items.map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

async fn tools(client: &mut Client) -> Vec<String> {
    names(&client.request("tools/list", json!({})).await.unwrap(), "tools", "name")
}

/// The lists of a server, as one client sees them.
async fn lists(client: &mut Client) -> [Vec<String>; 4] {
    let mut all = Vec::new();
    for (method, kind, field) in [
        ("tools/list", "tools", "name"),
        ("prompts/list", "prompts", "name"),
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ] {
        all.push(names(&client.request(method, json!({})).await.unwrap(), kind, field));
    }
    all.try_into().unwrap()
}

/// Removes the name from an error, so that two errors can be compared.
fn nameless(failed: Failed, name: &str) -> (i64, String, String) {
    let Failed { code, message, data } = failed;
    assert!(message.contains(name), "{message}");
    (code, message.replace(name, "…"), data.to_string().replace(name, "…"))
}

/// Requires that a request about a hidden item fails like one about an unknown item.
async fn assert_unknown(client: &mut Client, method: &str, hidden: &str, params: impl Fn(&str) -> Value) {
    let found = nameless(refused(client, method, params(hidden)).await, hidden);
    let unknown = hidden.replace("secret", "nothing").replace("erase", "nothing");
    assert_eq!(found, nameless(refused(client, method, params(&unknown)).await, &unknown), "{method}");
}

/// Requires that the hidden items of [`guarded`] do not exist for a client, in every request that can name them.
async fn assert_nothing_is_there(client: &mut Client) {
    assert_unknown(client, "tools/call", "secret", |name| json!({"name": name, "arguments": {}})).await;
    // The arguments are wrong for the hidden item. A check of them would reveal it.
    assert_unknown(client, "tools/call", "secret", |name| json!({"name": name, "arguments": {"x": 1}})).await;
    assert_unknown(client, "prompts/get", "secret", |name| json!({"name": name})).await;
    for uri in ["test://secret", "secret://1"] {
        assert_unknown(client, "resources/read", uri, |uri| json!({"uri": uri})).await;
    }
    for (hidden, unknown) in [
        (json!({"type": "ref/prompt", "name": "secret"}), json!({"type": "ref/prompt", "name": "nothing"})),
        (
            json!({"type": "ref/resource", "uri": "secret://{id}"}),
            json!({"type": "ref/resource", "uri": "nothing://{id}"}),
        ),
    ] {
        let argument = json!({"name": "id", "value": ""});
        let hidden = client.request("completion/complete", json!({"ref": hidden, "argument": argument}));
        let hidden = hidden.await.unwrap();
        let unknown = client.request("completion/complete", json!({"ref": unknown, "argument": argument}));
        assert_eq!(hidden, unknown.await.unwrap());
    }
}

#[tokio::test]
async fn items_exist_only_where_their_condition_is_true() -> Result<()> {
    let server = guarded(|request| request.supports(Capability::Elicitation)).build()?;
    for revision in Revision::BOTH {
        let mut sees = connect_with(&server, revision, json!({"elicitation": {}})).await?;
        let answers = Answers::new().accept("word", json!({"word": "a"}));
        sees.set_answers(answers);
        assert_eq!(
            lists(&mut sees).await,
            [
                vec!["open", "secret"],
                vec!["open", "secret"],
                vec!["test://open", "test://secret"],
                vec!["open://{id}", "secret://{id}"]
            ]
        );
        assert_eq!(sees.call("secret", json!({})).await?.text(), "a");
        let got = sees.request("prompts/get", json!({"name": "secret", "arguments": {"id": "7"}})).await?;
        assert_eq!(got["messages"][0]["content"]["text"], "7");
        for (uri, text) in [("test://secret", "done"), ("secret://7", "7")] {
            let read = sees.request("resources/read", json!({"uri": uri})).await?;
            assert_eq!(read["contents"][0]["text"], text);
        }
        let mut blind = connect_with(&server, revision, json!({})).await?;
        assert_eq!(
            lists(&mut blind).await,
            [vec!["open"], vec!["open"], vec!["test://open"], vec!["open://{id}"]]
        );
        assert_nothing_is_there(&mut blind).await;
        assert_eq!(blind.call("open", json!({})).await?.text(), "done");
    }
    // The program that owns the tool is not a caller.
    let call = ToolCall::from_value(json!({"id": "1", "name": "secret", "arguments": {}})).unwrap();
    let result = server.call_tool(call).await;
    let text = &result.content[0].as_text().unwrap().text;
    assert_eq!(text, "the client has not declared `elicitation`, so it cannot receive this question");
    Ok(())
}

#[tokio::test]
async fn condition_reads_the_client_and_the_revision() -> Result<()> {
    let server = Server::builder("clients", "1.0.0")
        .tool(Tool::new("named", "x", done).visible_if(|it| it.client_name() == Some("antiphon-testing")))
        .tool(Tool::new("versioned", "x", done).visible_if(|it| it.client_version().is_some()))
        .tool(Tool::new("new", "x", done).visible_if(|it| it.protocol_revision() == Some("2026-07-28")))
        .tool(Tool::new("old", "x", done).visible_if(|it| it.supports(Capability::Session)))
        .tool(Tool::new("ui", "x", done).visible_if(|it| it.supports_extension("io.modelcontextprotocol/ui")))
        .tool(Tool::new("http", "x", done).visible_if(|it| it.headers().is_some()))
        .tool(Tool::new("known", "x", done).visible_if(|it| it.principal().is_some()))
        .tool(Tool::new("both", "x", done).visible_if(|_| true).visible_if(|_| false))
        .build()?;
    let apps = json!({"extensions": {"io.modelcontextprotocol/ui": {}}});
    let mut old = connect_with(&server, Revision::V2025_11_25, json!({})).await?;
    assert_eq!(tools(&mut old).await, ["named", "versioned", "old"]);
    let mut new = connect_with(&server, Revision::V2026_07_28, apps).await?;
    assert_eq!(tools(&mut new).await, ["named", "versioned", "new", "ui"]);
    Ok(())
}

#[tokio::test]
async fn condition_that_panics_hides_its_tool() -> Result<()> {
    let server = guarded(|_| panic!("at the condition")).build()?;
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?;
        assert_eq!(tools(&mut client).await, ["open"]);
        assert_nothing_is_there(&mut client).await;
    }
    Ok(())
}

#[tokio::test]
async fn pages_of_a_filtered_list_are_full_and_complete() -> Result<()> {
    let mut builder = Server::builder("pages", "1.0.0").with_limits(Limits::default().with_list_page_size(3));
    for number in 0..20 {
        let tool = Tool::new(format!("tool_{number}"), "x", done);
        builder = builder.tool(tool.visible_if(move |_| number % 2 == 0));
    }
    let server = builder.build()?;
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?;
        let (mut pages, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
            let listed = client.request("tools/list", params).await?;
            pages.push(names(&listed, "tools", "name"));
            cursor = listed["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3, 1]);
        let expected: Vec<_> = (0..20).step_by(2).map(|number| format!("tool_{number}")).collect();
        assert_eq!(pages.concat(), expected);
    }
    Ok(())
}

#[tokio::test]
async fn next_round_of_a_hidden_tool_is_answered_like_an_unknown_tool() -> Result<()> {
    let (shown, condition) = switched();
    shown.store(true, Ordering::SeqCst);
    let server = guarded(condition).build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let call = json!({"name": "secret", "arguments": {}});
    let asked = client.request("tools/call", call.clone()).await?;
    assert_eq!(asked["resultType"], "input_required");
    let next = |name: &str| {
        json!({
            "name": name,
            "arguments": {},
            "requestState": asked["requestState"],
            "inputResponses": {"word": {"action": "accept", "content": {"word": "a"}}},
        })
    };
    shown.store(false, Ordering::SeqCst);
    assert_unknown(&mut client, "tools/call", "secret", next).await;
    // The state is still valid when the tool is visible again.
    shown.store(true, Ordering::SeqCst);
    assert_eq!(client.request("tools/call", next("secret")).await?["content"][0]["text"], "a");
    Ok(())
}

#[tokio::test]
async fn tasks_of_a_hidden_tool_do_not_exist() -> Result<()> {
    for revision in Revision::BOTH {
        let (shown, condition) = switched();
        shown.store(true, Ordering::SeqCst);
        let server = Server::builder("tasks", "1.0.0")
            .with_tasks(quick())
            .tool(Tool::new("secret", "Is hidden", ask).with_tasks(TaskPolicy::Always).visible_if(condition))
            .build()?;
        let mut client = checked(&server, revision).await;
        let call = |name: &str| match revision {
            Revision::V2025_11_25 => json!({"name": name, "arguments": {}, "task": {}}),
            Revision::V2026_07_28 => json!({"name": name, "arguments": {}}),
        };
        let created = client.request("tools/call", call("secret")).await?;
        let id = created["taskId"].as_str().or(created["task"]["taskId"].as_str()).unwrap().to_owned();
        shown.store(false, Ordering::SeqCst);
        assert_unknown(&mut client, "tools/call", "secret", call).await;
        let methods: &[&str] = match revision {
            Revision::V2025_11_25 => &["tasks/get", "tasks/result", "tasks/cancel"],
            Revision::V2026_07_28 => &["tasks/get", "tasks/update", "tasks/cancel"],
        };
        for method in methods {
            let of = |id: &str| {
                let mut params = json!({"taskId": id});
                if *method == "tasks/update" {
                    params["inputResponses"] =
                        json!({"word": {"action": "accept", "content": {"word": "a"}}});
                }
                params
            };
            let hidden = refused(&mut client, method, of(&id)).await;
            assert_eq!(hidden, refused(&mut client, method, of(&"0".repeat(32))).await, "{method}");
        }
        if revision == Revision::V2025_11_25 {
            assert_eq!(client.request("tasks/list", json!({})).await?["tasks"], json!([]));
        }
        // The requests above have not changed the task.
        shown.store(true, Ordering::SeqCst);
        until(&mut client, &id, "input_required").await;
    }
    Ok(())
}

#[tokio::test]
async fn subscription_to_a_hidden_resource_receives_no_updates() -> Result<()> {
    let (shown, condition) = switched();
    let limits = Limits::default().with_subscriptions(2);
    let server = guarded(condition).with_limits(limits).build()?;
    let mut session = connect(&server, Revision::V2025_11_25).await?;
    let of = |uri: &str| json!({"uri": uri});
    for uri in ["test://secret", "test://open"] {
        assert_eq!(session.request("resources/subscribe", of(uri)).await?, json!({}));
    }
    // The hidden one counts, as one to an unknown URI does.
    refused(&mut session, "resources/subscribe", of("test://nothing")).await;
    let mut listens = connect(&server, Revision::V2026_07_28).await?;
    let wanted = json!({"resourceSubscriptions": ["test://secret", "secret://1", "test://open"]});
    listens.start("subscriptions/listen", json!({"notifications": wanted})).await?;
    assert_eq!(listens.notification().await?["method"], "notifications/subscriptions/acknowledged");
    for uri in ["test://secret", "secret://1", "test://open"] {
        server.changes().resource(uri);
    }
    for client in [&mut session, &mut listens] {
        assert_eq!(client.notification().await?["params"]["uri"], "test://open");
    }
    // A client that subscribes while it sees the resource receives its updates.
    shown.store(true, Ordering::SeqCst);
    session.request("resources/unsubscribe", of("test://secret")).await?;
    session.request("resources/subscribe", of("test://secret")).await?;
    server.changes().resource("test://secret");
    for client in [&mut session, &mut listens] {
        assert_eq!(client.notification().await?["params"]["uri"], "test://secret");
    }
    Ok(())
}

#[tokio::test]
async fn subscription_that_is_older_than_a_hidden_resource_receives_no_updates() -> Result<()> {
    let (_, condition) = switched();
    let server = Server::builder("later", "1.0.0").tool(Tool::new("open", "Is open", done)).build()?;
    let mut session = connect(&server, Revision::V2025_11_25).await?;
    for uri in ["test://secret", "secret://1", "test://open"] {
        session.request("resources/subscribe", json!({"uri": uri})).await?;
    }
    server.update(|items| {
        items.add_resource(Resource::new("test://secret", "secret", done).visible_if(condition.clone()));
        let template = ResourceTemplate::new("secret://{id}", "secret", page);
        items.add_resource_template(template.visible_if(condition.clone()));
        items.add_resource(Resource::new("test://open", "open", done));
    })?;
    assert_eq!(session.notification().await?["method"], "notifications/resources/list_changed");
    for uri in ["test://secret", "secret://1", "test://open"] {
        server.changes().resource(uri);
    }
    assert_eq!(session.notification().await?["params"]["uri"], "test://open");
    Ok(())
}

#[tokio::test]
async fn condition_reads_a_value_that_a_layer_has_added() -> Result<()> {
    #[derive(Clone)]
    struct Staff;
    async fn add_staff(mut request: Request, next: Next) -> Result<Response, ErrorData> {
        request.extensions_mut().insert(Staff);
        next.run(request).await
    }
    let guarded = || guarded(|request| request.extension::<Staff>().is_some());
    for revision in Revision::BOTH {
        let mut staff = connect(&guarded().layer(middleware::from_fn(add_staff)).build()?, revision).await?;
        assert_eq!(tools(&mut staff).await, ["open", "secret"], "{revision:?}");
        let mut other = connect(&guarded().build()?, revision).await?;
        assert_eq!(tools(&mut other).await, ["open"], "{revision:?}");
        assert_nothing_is_there(&mut other).await;
    }
    Ok(())
}

#[tokio::test]
async fn uri_of_a_subscription_is_never_a_mark() -> Result<()> {
    let (shown, condition) = switched();
    let server = guarded(condition).build()?;
    let mut session = connect(&server, Revision::V2025_11_25).await?;
    let of = |uri: &str| json!({"uri": uri});
    session.request("resources/subscribe", of("hidden test://secret")).await?;
    // The resource is hidden at the first subscription, and visible at the second.
    session.request("resources/subscribe", of("test://secret")).await?;
    shown.store(true, Ordering::SeqCst);
    for uri in ["test://secret", "test://open"] {
        session.request("resources/subscribe", of(uri)).await?;
    }
    server.changes().resource("test://secret");
    assert_eq!(session.notification().await?["params"]["uri"], "test://secret");
    session.request("resources/unsubscribe", of("test://secret")).await?;
    for uri in ["test://secret", "test://open"] {
        server.changes().resource(uri);
    }
    assert_eq!(session.notification().await?["params"]["uri"], "test://open");
    Ok(())
}

/// Calls a tool, and returns its text and how often the list of tools has changed. `notified` is how often to wait for.
async fn called(client: &mut Client, tool: &str, notified: usize) -> (String, usize) {
    let talk = client.call(tool, json!({})).await.unwrap();
    let is_change = |message: &Value| message["method"] == "notifications/tools/list_changed";
    let mut heard = talk.notifications.iter().filter(|message| is_change(message)).count();
    while heard < notified {
        heard += usize::from(is_change(&client.notification().await.unwrap()));
    }
    // A request that is answered later shows that no more notifications were sent before.
    let ping = client.converse("ping", json!({})).await.unwrap();
    heard += ping.notifications.iter().filter(|message| is_change(message)).count();
    (talk.text(), heard)
}

#[tokio::test]
async fn group_is_enabled_in_one_session() -> Result<()> {
    let server = groups().build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    let mut other = connect(&server, Revision::V2025_11_25).await?;
    let open = ["unlock", "lock", "unlock_and_ask"];
    assert_eq!(tools(&mut client).await, open);
    let erase = |name: &str| json!({"name": name, "arguments": {}});
    assert_unknown(&mut client, "tools/call", "erase", erase).await;
    assert_eq!(called(&mut client, "unlock", 1).await, ("unlocked".into(), 1));
    assert_eq!(tools(&mut client).await, ["unlock", "lock", "unlock_and_ask", "erase"]);
    assert_eq!(client.call("erase", json!({})).await?.text(), "done");
    // Nothing changes if the group is already enabled.
    assert_eq!(called(&mut client, "unlock", 0).await, ("unlocked".into(), 0));
    // Another session, and a new one, do not see it.
    assert_eq!(tools(&mut other).await, open);
    assert_unknown(&mut other, "tools/call", "erase", erase).await;
    assert_eq!(called(&mut other, "lock", 0).await, ("locked".into(), 0));
    assert_eq!(client.call("erase", json!({})).await?.text(), "done");
    assert_eq!(called(&mut client, "lock", 1).await, ("locked".into(), 1));
    assert_eq!(tools(&mut client).await, open);
    assert_unknown(&mut client, "tools/call", "erase", erase).await;
    Ok(())
}

#[tokio::test]
async fn tool_in_two_groups_is_visible_if_one_is_enabled() -> Result<()> {
    let both = Tool::new("both", "Is in two groups", done).in_group("reports").in_group("admin");
    let server = groups().tool(both).build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    client.call("unlock", json!({})).await?;
    assert_eq!(tools(&mut client).await, ["unlock", "lock", "unlock_and_ask", "erase", "both"]);
    Ok(())
}

#[tokio::test]
async fn group_is_refused_without_a_session_and_a_caller() -> Result<()> {
    let server = groups().build()?;
    let mut client = connect(&server, Revision::V2026_07_28).await?;
    let talk = client.call("unlock", json!({})).await?;
    assert!(talk.is_error());
    assert!(
        talk.text().contains(
            "the group `admin` cannot be enabled: the request has no session and no authenticated caller"
        ),
        "{}",
        talk.text()
    );
    assert_eq!(tools(&mut client).await, ["unlock", "lock", "unlock_and_ask"]);
    Ok(())
}

#[tokio::test]
async fn unknown_group_is_refused() -> Result<()> {
    async fn unlock(ctx: &Ctx, _: ()) -> Result<String> {
        ctx.enable_group("adnim").await?;
        Ok("unlocked".into())
    }
    let server = groups().tool(Tool::new("misspelled", "x", unlock)).build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    let talk = client.call("misspelled", json!({})).await?;
    assert!(talk.is_error() && talk.text().contains("no tool of the server is in this group"), "{talk:?}");
    Ok(())
}

#[tokio::test]
async fn group_is_refused_in_a_task_of_a_session() -> Result<()> {
    let server = groups().with_tasks(quick()).build()?;
    let mut client = connect_with(&server, Revision::V2025_11_25, everything()).await?;
    let call = json!({"name": "unlock", "arguments": {}, "task": {"ttl": 60_000}});
    let task = client.request("tools/call", call).await?["task"].take();
    let result = client.request("tasks/result", json!({"taskId": task["taskId"]})).await?;
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
    assert!(text.contains("a task of MCP 2025-11-25 has no session"), "{text}");
    assert_eq!(tools(&mut client).await, ["unlock", "lock", "unlock_and_ask"]);
    Ok(())
}

#[tokio::test]
async fn task_continues_when_its_group_is_disabled() -> Result<()> {
    let slow = Tool::new("approve", "Asks", ask).in_group("admin").with_tasks(TaskPolicy::Always);
    let server = groups().tool(slow).with_tasks(quick()).build()?;
    let mut client = connect_with(&server, Revision::V2025_11_25, everything())
        .await?
        .answering(Answers::new().accept("word", json!({"word": "a"})));
    client.call("unlock", json!({})).await?;
    let call = json!({"name": "approve", "arguments": {}, "task": {"ttl": 60_000}});
    let task = client.request("tools/call", call).await?["task"].take();
    client.call("lock", json!({})).await?;
    let result = client.request("tasks/result", json!({"taskId": task["taskId"]})).await?;
    assert_eq!(result["content"][0]["text"], "a");
    Ok(())
}

#[tokio::test]
async fn run_continues_when_its_group_is_disabled() -> Result<()> {
    let tool = Tool::new("lock_and_ask", "Asks", lock_and_ask).in_group("admin");
    let server = groups().tool(tool).build()?;
    let answers = Answers::new().accept("word", json!({"word": "a"}));
    let mut client = connect(&server, Revision::V2025_11_25).await?.answering(answers);
    client.call("unlock", json!({})).await?;
    assert_eq!(client.call("lock_and_ask", json!({})).await?.text(), "a");
    let call = |name: &str| json!({"name": name, "arguments": {}});
    assert_unknown(&mut client, "tools/call", "erase", call).await;
    Ok(())
}

#[tokio::test]
async fn unknown_tool_counts_for_the_rate_also_as_a_task() -> Result<()> {
    let limits = Limits::default().with_principal(Quota::default().with_rate(Rate::per_minute(1)));
    for builder in [groups(), Server::builder("plain", "1.0.0").tool(Tool::new("open", "x", done))] {
        let server = builder.with_limits(limits.clone()).with_tasks(quick()).build()?;
        let mut client = checked(&server, Revision::V2025_11_25).await;
        for code in [-32602, -32000] {
            let call = json!({"name": "nothing", "arguments": {}, "task": {}});
            assert_eq!(refused(&mut client, "tools/call", call).await.code, code);
        }
    }
    Ok(())
}

#[tokio::test]
async fn conditions_that_cannot_work_are_reported() {
    async fn raw(_: &Ctx, _: Map<String, Value>) -> Result<String> {
        Ok(String::new())
    }
    let problem = |tool: Tool| {
        let error = Server::builder("x", "1").tool(tool).build().unwrap_err();
        error.to_string()
    };
    let group = problem(Tool::new("a", "x", done).in_group("two words"));
    assert!(group.contains("the name of its group `two words` must be"), "{group}");
    let schema = json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    });
    let headers = problem(Tool::raw("a", "x", schema, raw).visible_if(|_| true));
    assert!(headers.contains("`x-mcp-header`"), "{headers}");
    #[cfg(feature = "auth")]
    {
        let scopes = problem(Tool::new("a", "x", done).hidden_without_scopes());
        assert!(scopes.contains("needs the scopes of `with_scopes`"), "{scopes}");
    }
}

/// The tools for waiting runs do not show a task of a hidden tool.
#[tokio::test]
async fn task_result_does_not_read_a_task_of_a_hidden_tool() -> Result<()> {
    let (shown, condition) = switched();
    shown.store(true, Ordering::SeqCst);
    let server = Server::builder("asking", "1.0.0")
        .with_asking(AskPolicy::default().with_hand_over_after(Duration::from_millis(10)))
        .tool(Tool::new("secret", "Is hidden", nap).with_tasks(TaskPolicy::Always).visible_if(condition))
        .build()?;
    let mut client = connect_with(&server, Revision::V2025_11_25, json!({})).await?;
    let waiting = client.call("secret", json!({})).await?;
    let text = waiting.text();
    let id = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').find(|word| word.starts_with("t_"));
    let id = id.unwrap_or_else(|| panic!("{text}")).to_owned();
    shown.store(false, Ordering::SeqCst);
    for tool in ["task_result", "task_cancel"] {
        let hidden = client.call(tool, json!({"id": id})).await?;
        let unknown = client.call(tool, json!({"id": format!("t_{}", "0".repeat(32))})).await?;
        assert!(hidden.is_error());
        assert_eq!(hidden.result, unknown.result);
    }
    shown.store(true, Ordering::SeqCst);
    assert_eq!(client.call("task_result", json!({"id": id})).await?.text(), "done");
    Ok(())
}

#[tokio::test]
async fn group_tool_that_is_always_a_task_is_unknown_until_its_group_is_enabled() -> Result<()> {
    let always = Tool::new("erase_all", "Erases", done).in_group("admin").with_tasks(TaskPolicy::Always);
    let server = groups().tool(always).with_tasks(quick()).build()?;
    for revision in Revision::BOTH {
        let mut client = connect_with(&server, revision, everything()).await?;
        let call = |name: &str| match revision {
            Revision::V2025_11_25 => json!({"name": name, "arguments": {}, "task": {}}),
            Revision::V2026_07_28 => json!({"name": name, "arguments": {}}),
        };
        assert_unknown(&mut client, "tools/call", "erase_all", call).await;
        if revision == Revision::V2025_11_25 {
            client.call("unlock", json!({})).await?;
            let created = client.request("tools/call", call("erase_all")).await?;
            assert!(created["task"]["taskId"].is_string(), "{created}");
        }
    }
    Ok(())
}
