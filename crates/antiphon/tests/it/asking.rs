//! Questions through the form, and results that are read later, on both revisions.

use std::{sync::atomic::Ordering, time::Duration};

use antiphon::{
    ServerBuilder,
    elicitation::AskPolicy,
    prelude::*,
    task::{RetryPolicy, TaskPolicy},
    testing::{Answers, Failed, Revision},
};
use serde_json::{Value, json};

use crate::{
    checked::{Checked, connect_with},
    tasks::quick,
    visibility::switched,
};

/// The tools for models, and the tools of the form.
const FOR_MODELS: [&str; 2] = ["task_result", "task_cancel"];
const FOR_FORMS: [&str; 2] = ["ask_open", "ask_answer"];

#[derive(Deserialize, JsonSchema)]
struct Colleague {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Which desk?
    desk: String,
    #[schemars(range(min = 1, max = 9))]
    floor: u8,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    sure: bool,
}

#[derive(Serialize, JsonSchema)]
struct Onboarded {
    name: String,
    desk: String,
    floor: u8,
    sure: bool,
    via: String,
}

async fn onboard(ctx: &Ctx, Colleague { name }: Colleague) -> Result<Json<Onboarded>> {
    let approval = ctx.elicit::<Approval>("May they start?").context(&name).await?.into_answer()?;
    let via = format!("{:?}", approval.via());
    let Approval { desk, floor } = approval.value;
    let Confirmation { sure } = ctx.elicit::<Confirmation>("Are you sure?").await?.accepted()?;
    Ok(Json(Onboarded { name, desk, floor, sure, via }))
}

async fn report(ctx: &Ctx, _: ()) -> Result<String> {
    ctx.step("work", || async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok(())
    })
    .await?;
    Ok("42 rows".into())
}

fn builder(policy: AskPolicy) -> ServerBuilder {
    Server::builder("onboarding", "1.0.0")
        .with_title("Onboarding")
        .with_tasks(quick().with_retry(RetryPolicy::never()))
        .with_asking(policy)
        .tool(Tool::new("onboard", "Takes on a colleague", onboard))
        .tool(Tool::new("report", "Writes a report", report))
}

fn server() -> Server {
    builder(AskPolicy::default()).build().unwrap()
}

/// The capabilities of a host that shows apps and no forms.
pub(crate) fn apps() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}})
}

async fn host(server: &Server, revision: Revision) -> Result<Checked> {
    connect_with(server, revision, apps()).await
}

/// Reads the form as a host does, and returns its view key.
pub(crate) async fn view_key(client: &mut Checked) -> Result<String> {
    let tools = client.request("tools/list", json!({})).await?;
    let tools = tools["tools"].as_array().unwrap();
    let meta = &tools.iter().find(|tool| tool["name"] == "task_question").unwrap()["_meta"];
    assert_eq!(meta["ui"]["resourceUri"], meta["ui/resourceUri"]);
    let uri = meta["ui"]["resourceUri"].as_str().unwrap();
    let read = client.request("resources/read", json!({"uri": uri})).await?;
    let content = &read["contents"][0];
    assert_eq!(content["mimeType"], "text/html;profile=mcp-app");
    Ok(key_in(content["text"].as_str().unwrap()))
}

pub(crate) fn key_in(page: &str) -> String {
    let is_key = |text: &&str| text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    page.split('"').find(is_key).expect("the page has a view key").to_owned()
}

/// Calls `onboard`, which waits, and returns the ID of its task.
async fn park(client: &mut Checked) -> Result<String> {
    let talk = client.call("onboard", json!({"name": "Grace"})).await?;
    assert!(talk.text().starts_with("NOT FINISHED: `onboard` waits"), "{}", talk.text());
    Ok(talk.result["structuredContent"]["task"]["id"].as_str().unwrap().to_owned())
}

/// Calls a tool of the form, and returns the state that it returns.
pub(crate) async fn form(client: &mut Checked, tool: &str, arguments: Value) -> Result<Value> {
    let talk = client.call(tool, arguments).await?;
    let state = talk.result["structuredContent"].clone();
    assert_eq!(talk.is_error(), state.get("error").is_some(), "{state}");
    Ok(state)
}

fn approve(desk: &str) -> Value {
    json!({"approval": {"action": "accept", "content": {"desk": desk, "floor": 3}}})
}

fn answers() -> Answers {
    let content = json!({"desk": "4", "floor": 3});
    Answers::new().accept("approval", content).accept("confirmation", json!({"sure": true}))
}

fn names(list: &Value) -> Vec<&str> {
    list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn run_waits_for_the_form_and_its_result_is_read_later() -> Result<()> {
    let server = server();
    for revision in Revision::BOTH {
        let mut client = host(&server, revision).await?;
        let waiting = client.call("onboard", json!({"name": "Grace"})).await?;
        assert!(!waiting.is_error() && waiting.asked.is_empty(), "{}", waiting.text());
        let structured = &waiting.result["structuredContent"];
        assert_eq!(structured["about"], waiting.text());
        let (id, task) = (structured["task"]["id"].as_str().unwrap(), &structured["task"]);
        assert_eq!((&task["status"], &task["tool"]), (&json!("input_required"), &json!("onboard")));
        assert!(task["expires_at"].is_string(), "{task}");
        assert_eq!(waiting.result["_meta"]["antiphon/task"], json!({"id": id}));
        assert!(waiting.text().contains(id) && waiting.text().contains(">May they start?</data-"));

        let shown = client.call("task_question", json!({"id": id})).await?;
        assert!(shown.text().starts_with("The form is shown") && shown.text().contains(id));
        assert_eq!(shown.result["structuredContent"]["task"]["id"], id);

        let view = view_key(&mut client).await?;
        let open = form(&mut client, "ask_open", json!({"view": view, "id": id})).await?;
        assert_eq!(open["status"], "input_required");
        for (name, expected) in [
            ("server", json!("Onboarding")),
            ("tool", json!("Takes on a colleague")),
            ("arguments", json!({"name": "Grace"})),
            ("for", Value::Null),
        ] {
            assert_eq!(open[name], expected, "{name}");
        }
        let question = &open["questions"]["approval"];
        assert_eq!(question["message"], "May they start?");
        assert_eq!(question["context"], "Grace");
        assert_eq!(question["schema"]["properties"]["desk"]["type"], "string");

        let ticket = &open["ticket"];
        let answer = |ticket: &Value, responses: Value| json!({"view": view, "id": id, "ticket": ticket, "responses": responses});
        // A misfit uses nothing up.
        let misfit = json!({"approval": {"action": "accept", "content": {"desk": 4}}});
        let invalid = form(&mut client, "ask_answer", answer(ticket, misfit)).await?;
        assert_eq!((&invalid["status"], &invalid["ticket"]), (&json!("invalid"), ticket));
        assert_eq!(invalid["problems"]["approval"]["floor"], "is required");
        assert!(invalid["problems"]["approval"]["desk"].is_string(), "{invalid}");

        let next = form(&mut client, "ask_answer", answer(ticket, approve("4"))).await?;
        assert_eq!(next["status"], "input_required", "{next}");
        assert_eq!(next["questions"]["confirmation"]["message"], "Are you sure?");
        // A repeated request changes nothing. Another answer to the same question is too late.
        let again = form(&mut client, "ask_answer", answer(ticket, approve("4"))).await?;
        assert_eq!(again["questions"], next["questions"]);
        let other = form(&mut client, "ask_answer", answer(ticket, approve("5"))).await?;
        assert_eq!(other, json!({"status": "used", "id": id}));

        let sure = json!({"confirmation": {"action": "accept", "content": {"sure": true}}});
        let done = form(&mut client, "ask_answer", answer(&next["ticket"], sure)).await?;
        assert_eq!(done["status"], "completed", "{done}");
        assert!(done.get("ticket").is_none() && done.get("questions").is_none(), "{done}");

        let result = client.call("task_result", json!({"id": id})).await?;
        let expected = json!({"name": "Grace", "desk": "4", "floor": 3, "sure": true, "via": "App"});
        assert!(!result.is_error(), "{}", result.text());
        assert_eq!(result.result["structuredContent"], expected);
    }
    Ok(())
}

#[tokio::test]
async fn declined_question_reaches_the_tool() -> Result<()> {
    let server = server();
    let mut client = host(&server, Revision::V2026_07_28).await?;
    let (id, view) = (park(&mut client).await?, view_key(&mut client).await?);
    let open = form(&mut client, "ask_open", json!({"view": view, "id": id})).await?;
    let declined = json!({"approval": {"action": "decline"}});
    let arguments = json!({"view": view, "id": id, "ticket": open["ticket"], "responses": declined});
    form(&mut client, "ask_answer", arguments).await?;
    let result = client.call("task_result", json!({"id": id, "wait": 20})).await?;
    assert!(result.is_error() && result.text().contains("declined"), "{}", result.text());
    Ok(())
}

#[tokio::test]
async fn form_tools_reject_calls_without_their_secrets() -> Result<()> {
    let server = builder(AskPolicy::default().with_joining(false)).build()?;
    for revision in Revision::BOTH {
        let mut client = host(&server, revision).await?;
        let (id, other) = (park(&mut client).await?, park(&mut client).await?);
        let view = view_key(&mut client).await?;
        let open = form(&mut client, "ask_open", json!({"view": view, "id": id})).await?;
        let theirs = form(&mut client, "ask_open", json!({"view": view, "id": other})).await?;
        let mut code = async |tool: &str, changed: Value| -> Result<Value> {
            let mut arguments = match tool {
                "ask_open" => json!({"view": view, "id": id}),
                _ => json!({"view": view, "id": id, "ticket": open["ticket"], "responses": approve("4")}),
            };
            arguments.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
            Ok(form(&mut client, tool, arguments).await?["error"]["code"].take())
        };
        for tool in FOR_FORMS {
            for wrong in ["", "__VIEW_KEY__", &"0".repeat(32)] {
                assert_eq!(code(tool, json!({"view": wrong})).await?, "VIEW", "{tool}");
            }
            for unknown in ["", "t_", &format!("t_{}", "0".repeat(32)), &id[..20]] {
                assert_eq!(code(tool, json!({"id": unknown})).await?, "NOT_FOUND", "{tool}: {unknown}");
            }
        }
        for forged in [json!(""), json!("ticket"), theirs["ticket"].clone()] {
            assert_eq!(code("ask_answer", json!({"ticket": forged})).await?, "TICKET");
        }
        let unasked = json!({"confirmation": {"action": "accept", "content": {"sure": true}}});
        for responses in [json!({}), unasked] {
            assert_eq!(code("ask_answer", json!({"responses": responses})).await?, "TICKET");
        }
        // Nothing of this has answered the question.
        let still = form(&mut client, "ask_open", json!({"view": view, "id": id})).await?;
        assert_eq!(still["questions"], open["questions"]);
        let result = client.call("task_result", json!({"id": id, "wait": 0})).await?;
        assert!(result.text().starts_with("NOT FINISHED"), "{}", result.text());
    }
    Ok(())
}

#[tokio::test]
async fn form_tools_do_not_find_a_task_of_a_hidden_tool() -> Result<()> {
    for revision in Revision::BOTH {
        let (shown, condition) = switched();
        shown.store(true, Ordering::SeqCst);
        let server = Server::builder("onboarding", "1.0.0")
            .with_tasks(quick().with_retry(RetryPolicy::never()))
            .with_asking(AskPolicy::default())
            .tool(Tool::new("onboard", "Takes on a colleague", onboard).visible_if(condition))
            .build()?;
        let mut client = host(&server, revision).await?;
        let (id, view) = (park(&mut client).await?, view_key(&mut client).await?);
        let open = form(&mut client, "ask_open", json!({"view": view, "id": id})).await?;
        let answer = json!({"view": view, "id": id, "ticket": open["ticket"], "responses": approve("4")});
        shown.store(false, Ordering::SeqCst);
        for (tool, arguments) in [("ask_open", json!({"view": view, "id": id})), ("ask_answer", answer)] {
            assert_eq!(form(&mut client, tool, arguments).await?["error"]["code"], "NOT_FOUND", "{tool}");
        }
        assert_eq!(form(&mut client, "ask_open", json!({"view": view})).await?, json!({"status": "none"}));
        let hidden = client.call("task_question", json!({"id": id})).await?;
        let unknown = client.call("task_question", json!({"id": format!("t_{}", "0".repeat(32))})).await?;
        assert!(hidden.is_error());
        assert_eq!(hidden.result, unknown.result);
        // The calls above have not answered the question.
        shown.store(true, Ordering::SeqCst);
        let still = form(&mut client, "ask_open", json!({"view": view, "id": id})).await?;
        assert_eq!(still["questions"], open["questions"]);
    }
    Ok(())
}

#[tokio::test]
async fn form_without_an_id_shows_the_question_that_waits() -> Result<()> {
    for revision in Revision::BOTH {
        let server = builder(AskPolicy::default().with_joining(false)).build()?;
        let mut client = host(&server, revision).await?;
        let view = view_key(&mut client).await?;
        assert_eq!(form(&mut client, "ask_open", json!({"view": view})).await?, json!({"status": "none"}));
        let first = park(&mut client).await?;
        let only = form(&mut client, "ask_open", json!({"view": view})).await?;
        assert_eq!((&only["status"], &only["id"]), (&json!("input_required"), &json!(first)));
        let second = park(&mut client).await?;
        let several = form(&mut client, "ask_open", json!({"view": view})).await?;
        assert_eq!(several["status"], "choose");
        let choices = several["choices"].as_array().unwrap();
        let mut ids: Vec<_> = choices.iter().map(|choice| choice["id"].as_str().unwrap()).collect();
        let mut expected = [first.as_str(), &second];
        ids.sort_unstable();
        expected.sort_unstable();
        assert_eq!(ids, expected);
        assert_eq!(choices[0]["message"], "May they start?");
        assert!(choices[0]["updated_at"].is_string());
    }
    Ok(())
}

#[tokio::test]
async fn form_is_served_under_the_uri_of_another_version() -> Result<()> {
    let server = server();
    for revision in Revision::BOTH {
        let mut client = host(&server, revision).await?;
        let view = view_key(&mut client).await?;
        let listed = client.request("resources/list", json!({})).await?;
        assert_eq!(listed["resources"], json!([]));
        let older = json!({"uri": "ui://antiphon/form/0123456789abcdef"});
        let mut other = connect_with(&server, revision, json!({})).await?;
        other.request("resources/read", older.clone()).await.unwrap_err();
        let read = client.request("resources/read", older).await?;
        assert_eq!(read["contents"][0]["mimeType"], "text/html;profile=mcp-app");
        assert_eq!(key_in(read["contents"][0]["text"].as_str().unwrap()), view);
        let wrong = json!({"uri": "ui://antiphon/form/viewer"});
        client.request("resources/read", wrong).await.unwrap_err();
    }
    Ok(())
}

#[tokio::test]
async fn client_without_forms_and_apps_gets_an_error_that_names_the_capability() -> Result<()> {
    let server = server();
    let mut client = connect_with(&server, Revision::V2025_11_25, json!({})).await?;
    let talk = client.call("onboard", json!({"name": "Grace"})).await?;
    assert!(talk.is_error() && talk.text().contains("`elicitation`"), "{}", talk.text());
    let mut client = connect_with(&server, Revision::V2026_07_28, json!({})).await?;
    let error = client.call("onboard", json!({"name": "Grace"})).await.unwrap_err();
    let failed = error.source().and_then(|source| source.downcast_ref::<Failed>()).unwrap();
    assert_eq!(failed.code, -32021, "{failed}");
    assert!(failed.message.contains("`elicitation`"), "{failed}");
    Ok(())
}

#[tokio::test]
async fn client_that_shows_forms_is_asked_itself() -> Result<()> {
    let server = server();
    for revision in Revision::BOTH {
        let mut both = apps();
        both["elicitation"] = json!({"form": {}});
        let mut client = connect_with(&server, revision, both).await?.answering(answers());
        let talk = client.call("onboard", json!({"name": "Grace"})).await?;
        assert_eq!(talk.keys(), ["approval", "confirmation"]);
        assert_eq!(talk.result["structuredContent"]["via"], "Client", "{}", talk.text());
    }
    Ok(())
}

#[tokio::test]
async fn tools_are_listed_to_the_clients_that_need_them() -> Result<()> {
    let server = server();
    let tasks = json!({"io.modelcontextprotocol/tasks": {}});
    let ui = apps()["extensions"]["io.modelcontextprotocol/ui"].take();
    let both = json!({"io.modelcontextprotocol/tasks": {}, "io.modelcontextprotocol/ui": ui});
    let own = vec!["onboard", "report"];
    let model = [&own[..], &FOR_MODELS].concat();
    let all = [&own[..], &FOR_MODELS, &["task_question"], &FOR_FORMS].concat();
    // On 2025-11-25, a client calls tools without tasks, unless it asks for one.
    let cases = [
        (json!({"elicitation": {}}), [&model, &model]),
        (apps(), [&all, &all]),
        (json!({"extensions": tasks}), [&model, &own]),
        (json!({"extensions": both}), [&all, &all]),
    ];
    for (capabilities, expected) in &cases {
        for (revision, expected) in Revision::BOTH.into_iter().zip(expected) {
            let mut client = connect_with(&server, revision, capabilities.clone()).await?;
            let listed = client.request("tools/list", json!({})).await?;
            assert_eq!(names(&listed), **expected, "{revision:?}: {capabilities}");
            for hidden in all.iter().filter(|tool| !expected.contains(tool)) {
                let error = client.call(hidden, json!({})).await.unwrap_err();
                let failed = error.source().and_then(|source| source.downcast_ref::<Failed>()).unwrap();
                assert_eq!(failed.message, format!("there is no tool `{hidden}`"));
            }
        }
    }
    let without_form = builder(AskPolicy::default().with_app(false)).build()?;
    let mut client = host(&without_form, Revision::V2026_07_28).await?;
    assert_eq!(names(&client.request("tools/list", json!({})).await?), model);
    Ok(())
}

#[tokio::test]
async fn server_declares_apps_and_tells_models_about_waiting_results() -> Result<()> {
    let server = builder(AskPolicy::default()).with_instructions("Be kind.").build()?;
    let mut client = host(&server, Revision::V2026_07_28).await?;
    let discovered = client.request("server/discover", json!({})).await?;
    let declared = &discovered["capabilities"]["extensions"]["io.modelcontextprotocol/ui"];
    assert_eq!(*declared, json!({"mimeTypes": ["text/html;profile=mcp-app"]}));
    let client = host(&server, Revision::V2025_11_25).await?;
    let hello = client.frames().iter().find(|frame| frame.method.as_deref() == Some("initialize")).unwrap();
    assert_eq!(
        hello.message["result"]["instructions"],
        "Be kind.\n\nA tool can answer NOT FINISHED: then follow the text of that answer."
    );
    Ok(())
}

#[tokio::test]
async fn output_schema_accepts_the_waiting_result_and_the_result() -> Result<()> {
    let server = server();
    for revision in Revision::BOTH {
        let mut client = host(&server, revision).await?;
        let listed = client.request("tools/list", json!({})).await?;
        let tools = listed["tools"].as_array().unwrap();
        let schema = &tools.iter().find(|tool| tool["name"] == "onboard").unwrap()["outputSchema"];
        assert_eq!(schema["type"], "object");
        let schema = jsonschema::validator_for(schema).unwrap();
        let waiting = client.call("onboard", json!({"name": "Grace"})).await?;
        assert!(schema.is_valid(&waiting.result["structuredContent"]), "{:?}", waiting.result);
        let done = json!({"name": "Grace", "desk": "4", "floor": 3, "sure": true, "via": "App"});
        assert!(schema.is_valid(&done));
        assert!(!schema.is_valid(&json!({"name": "Grace"})));
    }
    Ok(())
}

#[tokio::test]
async fn long_call_returns_early_and_its_result_is_read_later() -> Result<()> {
    let server = builder(AskPolicy::default().with_hand_over_after(Duration::from_millis(50))).build()?;
    for revision in Revision::BOTH {
        let mut client = connect_with(&server, revision, json!({})).await?;
        let handed = client.call("report", json!({})).await?;
        assert!(handed.text().starts_with("STILL WORKING: `report` has not finished"), "{}", handed.text());
        let task = &handed.result["structuredContent"]["task"];
        assert_eq!((&task["status"], &task["tool"]), (&json!("working"), &json!("report")));
        let early = client.call("task_result", json!({"id": task["id"], "wait": 0})).await?;
        assert!(early.text().starts_with("STILL WORKING") && !early.is_error(), "{}", early.text());
        // The ID can be given without its prefix.
        let id = task["id"].as_str().unwrap().trim_start_matches("t_");
        let result = client.call("task_result", json!({"id": id})).await?;
        assert_eq!((result.text().as_str(), result.is_error()), ("42 rows", false));
    }
    Ok(())
}

#[tokio::test]
async fn tool_that_is_always_a_task_serves_clients_without_tasks() -> Result<()> {
    let tool = Tool::new("hire", "Takes on a colleague", onboard).with_tasks(TaskPolicy::Always);
    let server = builder(AskPolicy::default()).tool(tool).build()?;
    for revision in Revision::BOTH {
        // The client shows the questions while `task_result` waits.
        let mut client =
            connect_with(&server, revision, json!({"elicitation": {}})).await?.answering(answers());
        let begun = client.call("hire", json!({"name": "Grace"})).await?;
        assert!(begun.text().starts_with("NOT FINISHED: `hire`"), "{}", begun.text());
        let id = &begun.result["structuredContent"]["task"]["id"];
        let result = client.call("task_result", json!({"id": id, "wait": 20})).await?;
        assert_eq!(result.keys(), ["approval", "confirmation"], "{}", result.text());
        assert_eq!(result.result["structuredContent"]["desk"], "4", "{}", result.text());
        assert_eq!(result.result["structuredContent"]["via"], "Client");
        assert_eq!(result.asked[0].context(), Some(&json!("Grace")));
        // The result can be read again.
        let again = client.call("task_result", json!({"id": id})).await?;
        assert_eq!((again.asked.len(), &again.result["content"]), (0, &result.result["content"]));
    }
    Ok(())
}

#[tokio::test]
async fn cancelled_run_has_no_result() -> Result<()> {
    let server = server();
    for revision in Revision::BOTH {
        let mut client = host(&server, revision).await?;
        let (id, view) = (park(&mut client).await?, view_key(&mut client).await?);
        let cancelled = client.call("task_cancel", json!({"id": id})).await?;
        assert_eq!(cancelled.text(), format!("The run of `onboard` is cancelled (task {id})."));
        let again = client.call("task_cancel", json!({"id": id})).await?;
        assert!(again.text().contains("has already ended"), "{}", again.text());
        let result = client.call("task_result", json!({"id": id})).await?;
        assert_eq!(result.text(), "The run of `onboard` was cancelled. It has no result.");
        let open = form(&mut client, "ask_open", json!({"view": view, "id": id})).await?;
        assert_eq!(open["status"], "cancelled");
        for tool in ["task_result", "task_cancel", "task_question"] {
            let unknown = client.call(tool, json!({"id": "t_0"})).await?;
            assert!(unknown.is_error() && unknown.text().contains("there is no such task"), "{tool}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn question_expires() -> Result<()> {
    let server = builder(AskPolicy::default().with_expiry(Duration::from_secs(2))).build()?;
    for revision in Revision::BOTH {
        let mut client = host(&server, revision).await?;
        let view = view_key(&mut client).await?;
        let id = park(&mut client).await?;
        let open = form(&mut client, "ask_open", json!({"view": view, "id": id})).await?;
        let result = client.call("task_result", json!({"id": id, "wait": 20})).await?;
        assert!(result.is_error() && result.text().contains("not answered in time"), "{}", result.text());
        let late = json!({"view": view, "id": id, "ticket": open["ticket"], "responses": approve("4")});
        assert_eq!(form(&mut client, "ask_answer", late).await?["error"]["code"], "EXPIRED");
    }
    Ok(())
}

#[test]
fn policy_without_time_is_rejected() {
    let policy = AskPolicy::default()
        .with_expiry(Duration::ZERO)
        .with_heartbeat(Duration::ZERO)
        .with_hand_over_after(Duration::ZERO)
        .with_quick(Duration::ZERO);
    let error = Server::builder("x", "1.0.0").with_asking(policy).build().unwrap_err();
    let settings = ["with_hand_over_after", "with_expiry", "with_heartbeat"];
    assert_eq!(error.problems().len(), settings.len(), "{error}");
    for (problem, setting) in error.problems().iter().zip(settings) {
        assert!(problem.starts_with(&format!("`AskPolicy::{setting}` is 0")), "{problem}");
    }
    // Waiting runs are tasks, so the server has them without further settings.
    let server = Server::builder("x", "1.0.0").with_asking(AskPolicy::default()).build().unwrap();
    assert!(server.runs().is_some());
}

#[cfg(feature = "http")]
mod over_http {
    use antiphon::http::HttpConfig;
    use axum::Router;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::http::post_with;

    #[derive(Clone, Copy)]
    struct Caller(&'static str);

    async fn call(app: &Router, caller: Option<&'static str>, tool: &str, arguments: Value) -> Result<Value> {
        let params = json!({"name": tool, "arguments": arguments});
        let mut request = post_with(Revision::V2026_07_28, "tools/call", params, apps());
        if let Some(caller) = caller {
            request.extensions_mut().insert(Caller(caller));
        }
        let body = app.clone().oneshot(request).await?.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)?;
        assert!(answer["result"].is_object(), "{tool}: {answer}");
        Ok(answer["result"].clone())
    }

    /// Reads the view key, which is the same for every caller.
    async fn key(app: &Router) -> Result<String> {
        let older = json!({"uri": "ui://antiphon/form/0"});
        let request = post_with(Revision::V2026_07_28, "resources/read", older, apps());
        let body = app.clone().oneshot(request).await?.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)?;
        Ok(key_in(answer["result"]["contents"][0]["text"].as_str().unwrap()))
    }

    #[tokio::test]
    async fn task_of_another_caller_does_not_exist() -> Result<()> {
        let server = builder(AskPolicy::default())
            .with_principal(|parts| parts.extensions.get::<Caller>().map(|caller| caller.0.to_owned()))
            .build()?;
        let app = server.router(HttpConfig::default());
        let view = key(&app).await?;
        let (ada, eve) = (Some("ada"), Some("eve"));
        let waiting = call(&app, ada, "onboard", json!({"name": "Grace"})).await?;
        let id = waiting["structuredContent"]["task"]["id"].as_str().unwrap();
        let open = call(&app, ada, "ask_open", json!({"view": view})).await?;
        let open = &open["structuredContent"];
        assert_eq!((&open["id"], &open["for"]), (&json!(id), &json!("ada")));
        let nothing = format!("t_{}", "0".repeat(32));
        let calls = |id: &str| {
            let answer = json!({"view": view, "id": id, "ticket": open["ticket"], "responses": approve("4")});
            let which = json!({"id": id});
            let shown = json!({"view": view, "id": id});
            FOR_MODELS
                .map(|tool| (tool, which.clone()))
                .into_iter()
                .chain([("task_question", which), ("ask_open", shown), ("ask_answer", answer)])
                .collect::<Vec<_>>()
        };
        for ((tool, theirs), (_, nobodys)) in calls(id).into_iter().zip(calls(&nothing)) {
            let foreign = call(&app, eve, tool, theirs).await?;
            let unknown = call(&app, eve, tool, nobodys).await?;
            assert_eq!(foreign, unknown, "{tool}");
            assert_eq!(foreign["isError"], true, "{tool}: {foreign}");
        }
        let waiting = call(&app, eve, "ask_open", json!({"view": view})).await?;
        assert_eq!(waiting["structuredContent"], json!({"status": "none"}));
        // The ticket of a caller is not valid for another caller, even for a question of the same name.
        let hers = call(&app, eve, "onboard", json!({"name": "Grace"})).await?;
        let stolen = json!({
            "view": view, "id": hers["structuredContent"]["task"]["id"], "ticket": open["ticket"],
            "responses": approve("4"),
        });
        let stolen = call(&app, eve, "ask_answer", stolen).await?;
        assert_eq!(stolen["structuredContent"]["error"]["code"], "TICKET");
        let still = call(&app, ada, "task_result", json!({"id": id, "wait": 0})).await?;
        assert_eq!(still["structuredContent"]["task"]["status"], "input_required");
        Ok(())
    }

    #[tokio::test]
    async fn unknown_caller_must_name_the_task() -> Result<()> {
        let app = builder(AskPolicy::default()).build()?.router(HttpConfig::default());
        let view = key(&app).await?;
        let waiting = call(&app, None, "onboard", json!({"name": "Grace"})).await?;
        let id = &waiting["structuredContent"]["task"]["id"];
        let unnamed = call(&app, None, "ask_open", json!({"view": view})).await?;
        let error = &unnamed["structuredContent"]["error"];
        assert_eq!(error["code"], "NOT_FOUND");
        assert!(error["message"].as_str().unwrap().contains("pass its `id`"), "{error}");
        let named = call(&app, None, "ask_open", json!({"view": view, "id": id})).await?;
        assert_eq!(named["structuredContent"]["status"], "input_required");
        Ok(())
    }
}
