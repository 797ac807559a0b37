//! Clients that do not show questions, questions at the same time, and calls that take long.

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use antiphon::{
    ErrorKind, ServerBuilder,
    elicitation::AskPolicy,
    prelude::*,
    task::RetryPolicy,
    testing::{Answers, Client, HostProfile, Revision, Talk},
};
use serde_json::{Value, json};

use crate::{
    asking::{apps, form, view_key},
    checked::{Checked, connect_with},
    tasks::quick,
};

/// The result of `onboard` for an answer in the form, and for an answer in the client.
const VIA_APP: &str = "badge 1, desk 4, App";
const VIA_CLIENT: &str = "badge 1, desk 4, Client";

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Which desk?
    desk: String,
}

#[derive(Deserialize, JsonSchema)]
struct Reminders {
    /// Whether each reminder has another text.
    change: bool,
}

/// The number of printed badges.
#[derive(Clone, Default)]
struct Badges(Arc<AtomicU32>);

/// Runs a step, and then asks. If the step ran twice, the badge would have another number.
async fn onboard(ctx: &Ctx, _: ()) -> Result<String> {
    let badges = ctx.state::<Badges>()?;
    let badge: u32 = ctx.step("badge", || async { Ok(badges.0.fetch_add(1, Ordering::SeqCst) + 1) }).await?;
    Ok(format!("badge {badge}, {}", ask_desk(ctx).await?))
}

async fn ask_desk(ctx: &Ctx) -> Result<String> {
    let approval = ctx.elicit::<Approval>("May they start?").await?.into_answer()?;
    Ok(format!("desk {}, {:?}", approval.value.desk, approval.via()))
}

async fn sign_in(ctx: &Ctx, _: ()) -> Result<String> {
    let visited = ctx.elicit_url("Sign in", "https://example.com/auth").await?;
    Ok(format!("agreed: {}", visited.agreed))
}

async fn sample_and_ask(ctx: &Ctx, _: ()) -> Result<String> {
    let (team, approval) = tokio::join!(ctx.sample("Which team?"), ctx.elicit::<Approval>("May they start?"));
    let approval = approval?.into_answer()?;
    Ok(format!("{}, desk {}, {:?}", team?.text(), approval.value.desk, approval.via()))
}

/// The time limit of the question in `limited`.
const LIMIT: Duration = Duration::from_millis(1500);

async fn limited(ctx: &Ctx, _: ()) -> Result<String> {
    let answer = ctx
        .branch("limited", async |ctx| ctx.elicit::<Approval>("May they start?").await)
        .timeout(LIMIT)
        .await;
    match answer {
        Err(error) if matches!(error.kind(), ErrorKind::Timeout(_)) => Ok("no answer".into()),
        answer => Ok(answer?.accepted()?.desk),
    }
}

/// Asks again under the same key if a question expires, three times at most.
async fn remind(ctx: &Ctx, Reminders { change }: Reminders) -> Result<String> {
    ctx.loop_with_state("reminders", (1, change), async |ctx, (turn, change): (u32, bool)| {
        let text = if change { format!("Reminder {turn}") } else { "Reminder".to_owned() };
        match ctx.elicit::<Approval>(text).await {
            Err(error) if matches!(error.kind(), ErrorKind::Unanswered) => Ok(if turn < 3 {
                ControlFlow::Continue((turn + 1, change))
            } else {
                ControlFlow::Break(format!("{turn} reminders"))
            }),
            answer => Ok(ControlFlow::Break(answer?.accepted()?.desk)),
        }
    })
    .await
}

async fn work(ctx: &Ctx, time: Duration) -> Result<()> {
    ctx.step("work", || async move {
        tokio::time::sleep(time).await;
        Ok(())
    })
    .await
}

async fn work_and_ask(ctx: &Ctx, _: ()) -> Result<String> {
    work(ctx, Duration::from_millis(500)).await?;
    ask_desk(ctx).await
}

async fn work_while_asking(ctx: &Ctx, _: ()) -> Result<String> {
    let (worked, desk) = tokio::join!(work(ctx, Duration::from_millis(300)), ask_desk(ctx));
    worked?;
    desk
}

/// Reports no progress for a while.
async fn count(ctx: &Ctx, _: ()) -> Result<String> {
    work(ctx, Duration::from_millis(700)).await?;
    ctx.progress(Progress::of(0.0, 4.0).message("counting"));
    ctx.progress(2.0);
    Ok("counted".into())
}

fn builder(policy: AskPolicy) -> ServerBuilder {
    Server::builder("onboarding", "1.0.0")
        .with_tasks(quick().with_retry(RetryPolicy::never()))
        .with_asking(policy)
        .with_state(Badges::default())
        .tool(Tool::new("onboard", "Prints a badge and asks", onboard))
        .tool(Tool::new("sign_in", "Asks the user to sign in", sign_in))
        .tool(Tool::new("sample_and_ask", "Asks a model and a user", sample_and_ask))
        .tool(Tool::new("limited", "Asks with a time limit", limited))
        .tool(Tool::new("remind", "Asks up to three times", remind))
        .tool(Tool::new("work_and_ask", "Works and asks", work_and_ask))
        .tool(Tool::new("work_while_asking", "Works and asks at the same time", work_while_asking))
        .tool(Tool::new("count", "Counts", count))
}

/// A policy for which every answer of a test client is quick.
fn all_quick() -> AskPolicy {
    AskPolicy::default().with_quick(Duration::from_secs(20))
}

/// The capabilities of a host that declares forms and apps.
fn forms_and_apps() -> Value {
    let mut capabilities = apps();
    capabilities["elicitation"] = json!({"form": {}, "url": {}});
    capabilities
}

fn accepted() -> Value {
    json!({"action": "accept", "content": {"desk": "4"}})
}

/// Returns the answers of clients that declare forms and do not show them.
fn unshown() -> [(&'static str, Answers); 5] {
    let of = |answer: Value| Answers::new().raw("approval", answer);
    [
        ("decline", of(json!({"action": "decline"}))),
        ("cancel", of(json!({"action": "cancel"}))),
        ("accept without content", of(json!({"action": "accept"}))),
        ("accept with empty content", of(json!({"action": "accept", "content": {}}))),
        ("error", Answers::new().error("approval", -32_603, "no screen")),
    ]
}

/// Checks that a call waits for the form, and returns the ID of its task.
fn waiting(talk: &Talk) -> String {
    assert!(talk.text().starts_with("NOT FINISHED") && !talk.is_error(), "{}", talk.text());
    talk.result["structuredContent"]["task"]["id"].as_str().unwrap().to_owned()
}

/// Answers the question of a run in the form, and returns the text of its result.
async fn answer_in_form(client: &mut Checked, id: &str) -> Result<String> {
    let view = view_key(client).await?;
    let open = form(client, "ask_open", json!({"view": view, "id": id})).await?;
    assert_eq!(open["questions"]["approval"]["message"], "May they start?", "{open}");
    let responses = json!({"approval": accepted()});
    let arguments = json!({"view": view, "id": id, "ticket": open["ticket"], "responses": responses});
    let done = form(client, "ask_answer", arguments).await?;
    assert_eq!(done["status"], "completed", "{done}");
    let result = client.call("task_result", json!({"id": id})).await?;
    assert!(!result.is_error() && result.asked.is_empty(), "{}", result.text());
    Ok(result.text())
}

/// Returns the next message of the server.
pub(crate) async fn next(client: &mut Checked) -> Result<Value> {
    client.send_raw(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#).await
}

pub(crate) async fn next_of(client: &mut Checked, method: &str) -> Result<Value> {
    loop {
        let message = next(client).await?;
        if message["method"] == method {
            return Ok(message);
        }
    }
}

#[tokio::test]
async fn answer_that_no_user_gave_leads_to_the_form() -> Result<()> {
    for revision in Revision::BOTH {
        for (what, answers) in unshown() {
            let server = builder(all_quick()).build()?;
            let mut client = connect_with(&server, revision, forms_and_apps()).await?.answering(answers);
            let talk = client.call("onboard", json!({})).await?;
            assert_eq!(talk.keys(), ["approval"], "{revision:?}, {what}");
            let id = waiting(&talk);
            assert_eq!(answer_in_form(&mut client, &id).await?, VIA_APP, "{revision:?}, {what}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn acceptance_without_required_content_leads_to_the_form_at_any_speed() -> Result<()> {
    for revision in Revision::BOTH {
        let server = builder(AskPolicy::default().with_quick(Duration::ZERO)).build()?;
        let answers = Answers::new().accept("approval", json!({}));
        let mut client = connect_with(&server, revision, forms_and_apps()).await?.answering(answers);
        let id = waiting(&client.call("onboard", json!({})).await?);
        assert_eq!(answer_in_form(&mut client, &id).await?, VIA_APP, "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn slow_decline_counts_and_the_client_is_asked_again() -> Result<()> {
    for revision in Revision::BOTH {
        let server = builder(AskPolicy::default().with_quick(Duration::from_millis(100))).build()?;
        let slow = Answers::new().otherwise(|_| {
            std::thread::sleep(Duration::from_millis(300));
            Some(json!({"action": "decline"}))
        });
        let mut client = connect_with(&server, revision, forms_and_apps()).await?.answering(slow);
        for _ in 0..2 {
            let talk = client.call("onboard", json!({})).await?;
            assert!(talk.is_error() && talk.text().contains("declined"), "{revision:?}: {}", talk.text());
            assert_eq!(talk.keys(), ["approval"], "{revision:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn quick_answer_with_content_counts() -> Result<()> {
    for revision in Revision::BOTH {
        let server = builder(all_quick()).build()?;
        let answers = Answers::new().raw("approval", accepted());
        let mut client = connect_with(&server, revision, forms_and_apps()).await?.answering(answers);
        let talk = client.call("onboard", json!({})).await?;
        assert_eq!((talk.text().as_str(), talk.keys()), (VIA_CLIENT, vec!["approval"]), "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn unresponsive_client_is_not_asked_in_its_next_call() -> Result<()> {
    for revision in Revision::BOTH {
        let server = builder(all_quick().with_joining(false)).build()?;
        let answers = || Answers::new().decline("approval");
        let mut client = connect_with(&server, revision, forms_and_apps()).await?.answering(answers());
        assert_eq!(client.call("onboard", json!({})).await?.keys(), ["approval"], "{revision:?}");
        let talk = client.call("onboard", json!({})).await?;
        assert!(talk.asked.is_empty(), "{revision:?}: {:?}", talk.asked);
        waiting(&talk);
        // The same program in a new session.
        let mut again = connect_with(&server, revision, forms_and_apps()).await?.answering(answers());
        let talk = again.call("onboard", json!({})).await?;
        assert!(talk.asked.is_empty(), "{revision:?}: {:?}", talk.asked);
        let id = waiting(&talk);
        assert_eq!(answer_in_form(&mut again, &id).await?, "badge 3, desk 4, App");
        // Another program.
        let other = Client::connect_as(&server, revision, HostProfile::Cursor).await?;
        let mut other = other.with_answers(Answers::new().raw("approval", accepted()));
        let talk = other.call("onboard", json!({})).await?;
        assert_eq!((talk.text().as_str(), talk.keys()), ("badge 4, desk 4, Client", vec!["approval"]));
    }
    Ok(())
}

#[tokio::test]
async fn quick_decline_of_a_url_stays_a_decline() -> Result<()> {
    for revision in Revision::BOTH {
        let server = builder(all_quick()).build()?;
        let answers = Answers::new().decline("url");
        let mut client = connect_with(&server, revision, forms_and_apps()).await?.answering(answers);
        for _ in 0..2 {
            let talk = client.call("sign_in", json!({})).await?;
            assert_eq!((talk.text().as_str(), talk.keys()), ("agreed: false", vec!["url"]), "{revision:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn client_whose_call_times_out_at_a_form_is_not_asked_in_its_next_call() -> Result<()> {
    let server = builder(AskPolicy::default()).build()?;
    let mut client = connect_with(&server, Revision::V2025_11_25, forms_and_apps()).await?;
    let call = client.start("tools/call", json!({"name": "onboard", "arguments": {}})).await?;
    let question = next_of(&mut client, "elicitation/create").await?;
    client.notify("notifications/cancelled", json!({"requestId": call, "reason": "timeout"})).await?;
    let withdrawn = next_of(&mut client, "notifications/cancelled").await?;
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    let talk = client.call("onboard", json!({})).await?;
    assert!(talk.asked.is_empty(), "{:?}", talk.asked);
    let id = waiting(&talk);
    assert_eq!(answer_in_form(&mut client, &id).await?, "badge 2, desk 4, App");
    Ok(())
}

#[tokio::test]
async fn quick_decline_counts_if_there_is_no_other_channel() -> Result<()> {
    for revision in Revision::BOTH {
        let server = builder(all_quick()).build()?;
        let forms = json!({"elicitation": {"form": {}}});
        let answers = Answers::new().decline("approval");
        let mut client = connect_with(&server, revision, forms).await?.answering(answers);
        for _ in 0..2 {
            let talk = client.call("onboard", json!({})).await?;
            assert!(talk.is_error() && talk.text().contains("declined"), "{revision:?}: {}", talk.text());
            assert_eq!(talk.keys(), ["approval"], "{revision:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn form_waits_while_the_model_of_the_client_answers() -> Result<()> {
    for revision in Revision::BOTH {
        for shows_forms in [false, true] {
            let server = builder(all_quick()).build()?;
            let mut capabilities = if shows_forms { forms_and_apps() } else { apps() };
            capabilities["sampling"] = json!({});
            let mut answers = Answers::new().sample("sample", "blue team");
            if shows_forms {
                answers = answers.decline("approval");
            }
            let mut client = connect_with(&server, revision, capabilities).await?.answering(answers);
            let talk = client.call("sample_and_ask", json!({})).await?;
            let asked: BTreeSet<&str> = talk.keys().into_iter().collect();
            let expected: &[&str] = if shows_forms { &["approval", "sample"] } else { &["sample"] };
            assert_eq!(asked.into_iter().collect::<Vec<_>>(), expected, "{revision:?}");
            assert_eq!(talk.asked.len(), expected.len(), "{revision:?}: each question is asked once");
            let id = waiting(&talk);
            assert_eq!(answer_in_form(&mut client, &id).await?, "blue team, desk 4, App", "{revision:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn time_limit_of_a_waiting_question_ends_it_before_its_expiry() -> Result<()> {
    let server = builder(AskPolicy::default()).build()?;
    for revision in Revision::BOTH {
        let mut client = connect_with(&server, revision, apps()).await?;
        let begun = Instant::now();
        let id = waiting(&client.call("limited", json!({})).await?);
        let result = client.call("task_result", json!({"id": id, "wait": 20})).await?;
        assert_eq!(result.text(), "no answer", "{revision:?}");
        let took = begun.elapsed();
        assert!(took.as_millis() > 1400 && took.as_secs() < 15, "{revision:?}: {took:?}");
        let view = view_key(&mut client).await?;
        let open = form(&mut client, "ask_open", json!({"view": view, "id": id})).await?;
        assert_eq!((&open["status"], open.get("questions")), (&json!("completed"), None));
    }
    Ok(())
}

/// Waits until three questions of a loop have expired, one after the other.
async fn expires_three_times(change: bool) -> Result<()> {
    let life = Duration::from_secs(1);
    let server = builder(AskPolicy::default().with_expiry(life)).build()?;
    let mut client = connect_with(&server, Revision::V2026_07_28, apps()).await?;
    let begun = Instant::now();
    let id = waiting(&client.call("remind", json!({"change": change})).await?);
    let result = client.call("task_result", json!({"id": id, "wait": 20})).await?;
    // The call returns at each new question.
    let mut text = result.text();
    while text.starts_with("NOT FINISHED") && begun.elapsed() < Duration::from_secs(25) {
        text = client.call("task_result", json!({"id": id, "wait": 20})).await?.text();
    }
    assert_eq!(text, "3 reminders");
    let took = begun.elapsed();
    assert!(took > life * 5 / 2, "each question must stay open for {life:?}, and all took {took:?}");
    let runs = server.runs().unwrap().list(None, None, 10).await?.runs;
    assert!(runs.len() == 1 && runs[0].legs <= 6, "{runs:?}");
    Ok(())
}

#[tokio::test]
async fn loop_asks_anew_after_a_question_has_expired() -> Result<()> {
    expires_three_times(true).await
}

#[tokio::test]
async fn loop_with_the_same_question_does_not_spin_after_it_has_expired() -> Result<()> {
    expires_three_times(false).await
}

#[tokio::test]
async fn silent_call_sends_heartbeats_and_then_its_own_progress() -> Result<()> {
    let server = builder(AskPolicy::default().with_heartbeat(Duration::from_millis(100))).build()?;
    for revision in Revision::BOTH {
        let token = json!({"progressToken": "p-7"});
        let mut client = connect_with(&server, revision, json!({})).await?.saying(token);
        let talk = client.call("count", json!({})).await?;
        assert_eq!(talk.text(), "counted");
        let notes: Vec<&Value> = talk.notifications.iter().map(|note| &note["params"]).collect();
        assert!(notes.iter().all(|note| note["progressToken"] == "p-7"), "{notes:?}");
        let values: Vec<f64> = notes.iter().map(|note| note["progress"].as_f64().unwrap()).collect();
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]), "{revision:?}: {values:?}");
        let [beats @ .., first, second] = notes.as_slice() else { panic!("{notes:?}") };
        assert!(beats.len() >= 3, "{revision:?}: {beats:?}");
        for beat in beats {
            assert!(beat["message"].as_str().unwrap().starts_with("working for "), "{beat}");
        }
        assert_eq!((&first["message"], &first["total"]), (&json!("counting"), &json!(4.0)));
        assert_eq!(second["progress"], json!(2.0), "{revision:?}: heartbeats do not change later progress");
    }
    Ok(())
}

#[tokio::test]
async fn call_without_a_progress_token_sends_no_heartbeats() -> Result<()> {
    let server = builder(AskPolicy::default().with_heartbeat(Duration::from_millis(100))).build()?;
    for revision in Revision::BOTH {
        let mut client = connect_with(&server, revision, json!({})).await?;
        let talk = client.call("count", json!({})).await?;
        assert_eq!((talk.text().as_str(), talk.notifications.len()), ("counted", 0), "{revision:?}");
    }
    Ok(())
}

/// Calls tools whose form stays open for much longer than a call can take.
async fn keeps_its_form(capabilities: Value) -> Result<()> {
    let policy = || AskPolicy::default().with_hand_over_after(Duration::from_millis(100));
    for (tool, expected) in [("onboard", VIA_CLIENT), ("work_while_asking", "desk 4, Client")] {
        let server = builder(policy()).build()?;
        let mut client = connect_with(&server, Revision::V2025_11_25, capabilities.clone()).await?;
        let call = client.start("tools/call", json!({"name": tool, "arguments": {}})).await?;
        let question = next_of(&mut client, "elicitation/create").await?;
        tokio::time::sleep(Duration::from_millis(700)).await;
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": accepted()});
        let mut message = client.send_raw(&answer.to_string()).await?;
        while message["id"] != call || message.get("method").is_some() {
            message = next(&mut client).await?;
        }
        assert_eq!(message["result"]["content"][0]["text"], expected, "{tool}: {message}");
    }
    Ok(())
}

#[tokio::test]
async fn call_is_not_handed_over_while_its_client_shows_a_form() -> Result<()> {
    keeps_its_form(forms_and_apps()).await
}

#[tokio::test]
async fn call_is_not_handed_over_while_a_client_without_apps_shows_a_form() -> Result<()> {
    keeps_its_form(json!({"elicitation": {"form": {}}})).await
}

#[tokio::test]
async fn client_shows_the_later_question_of_a_handed_over_run_in_task_result() -> Result<()> {
    let server = builder(AskPolicy::default().with_hand_over_after(Duration::from_millis(50))).build()?;
    for revision in Revision::BOTH {
        let forms = json!({"elicitation": {"form": {}}});
        let answers = Answers::new().raw("approval", accepted());
        let mut client = connect_with(&server, revision, forms).await?.answering(answers);
        let handed = client.call("work_and_ask", json!({})).await?;
        assert!(handed.text().starts_with("STILL WORKING: `work_and_ask`"), "{}", handed.text());
        assert!(handed.asked.is_empty(), "{revision:?}");
        let id = &handed.result["structuredContent"]["task"]["id"];
        let result = client.call("task_result", json!({"id": id, "wait": 20})).await?;
        assert_eq!(result.keys(), ["approval"], "{revision:?}: {}", result.text());
        assert_eq!(result.text(), "desk 4, Client", "{revision:?}");
    }
    Ok(())
}

#[tokio::test]
async fn form_shows_the_later_question_of_a_handed_over_run() -> Result<()> {
    let server = builder(AskPolicy::default().with_hand_over_after(Duration::from_millis(50))).build()?;
    for revision in Revision::BOTH {
        for capabilities in [apps(), forms_and_apps()] {
            let mut client = connect_with(&server, revision, capabilities).await?;
            let handed = client.call("work_and_ask", json!({})).await?;
            assert!(handed.text().starts_with("STILL WORKING: `work_and_ask`"), "{}", handed.text());
            let id = &handed.result["structuredContent"]["task"]["id"];
            let talk = client.call("task_result", json!({"id": id, "wait": 20})).await?;
            assert!(talk.asked.is_empty(), "{revision:?}: {:?}", talk.asked);
            let id = waiting(&talk);
            assert_eq!(answer_in_form(&mut client, &id).await?, "desk 4, App", "{revision:?}");
        }
    }
    Ok(())
}

#[cfg(feature = "http")]
mod over_http {
    use antiphon::http::HttpConfig;
    use axum::Router;
    use http_body_util::BodyExt as _;
    use tower::ServiceExt as _;

    use super::*;
    use crate::http::post_with;

    /// Calls `onboard`, or continues the call, as a client that declares forms and apps.
    async fn call(app: &Router, caller: Option<&str>, continued: Value) -> Result<Value> {
        let mut params = json!({"name": "onboard", "arguments": {}});
        params.as_object_mut().unwrap().extend(continued.as_object().unwrap().clone());
        let mut request = post_with(Revision::V2026_07_28, "tools/call", params, forms_and_apps());
        if let Some(caller) = caller {
            request.headers_mut().insert("x-caller", caller.parse()?);
        }
        let body = app.clone().oneshot(request).await?.into_body().collect().await?.to_bytes();
        let answer: Value = serde_json::from_slice(&body)?;
        assert!(answer["result"].is_object(), "{answer}");
        Ok(answer["result"].clone())
    }

    /// Returns whether the client of a caller is asked itself.
    async fn is_asked(app: &Router, caller: Option<&str>) -> Result<bool> {
        Ok(call(app, caller, json!({})).await?["resultType"] == "input_required")
    }

    /// Declines the question of a caller before a user could answer.
    async fn declines(app: &Router, caller: Option<&str>) -> Result<()> {
        let asked = call(app, caller, json!({})).await?;
        assert!(asked["inputRequests"]["approval"].is_object(), "{asked}");
        let responses = json!({"approval": {"action": "decline"}});
        let continued = json!({"requestState": asked["requestState"], "inputResponses": responses});
        let talk = call(app, caller, continued).await?;
        assert_eq!(talk["structuredContent"]["task"]["status"], "input_required", "{talk}");
        Ok(())
    }

    #[tokio::test]
    async fn caller_changes_only_its_own_channel() -> Result<()> {
        let server = builder(all_quick().with_joining(false))
            .with_principal(|parts| parts.headers.get("x-caller")?.to_str().ok().map(ToOwned::to_owned))
            .build()?;
        let app = server.router(HttpConfig::default());
        let (ada, eve) = (Some("ada"), Some("eve"));
        // Callers that are not known share no memory, not even with each other.
        declines(&app, None).await?;
        for caller in [None, ada, eve] {
            assert!(is_asked(&app, caller).await?, "{caller:?}");
        }
        declines(&app, eve).await?;
        assert!(!is_asked(&app, eve).await?);
        for caller in [None, ada] {
            assert!(is_asked(&app, caller).await?, "{caller:?}");
        }
        Ok(())
    }
}
