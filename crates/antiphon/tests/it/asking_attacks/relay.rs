//! Attacks with relayed answers: a model that answers without its user.

use std::{collections::BTreeMap, time::Duration};

use antiphon::{elicitation::AskPolicy, http::HttpConfig, prelude::*, seal::SealConfig, task::RetryPolicy};
use serde_json::{Value, json};

use super::{ADA, EVE, Tally, Target, is_refused, keys, send};
use crate::{
    asking::{apps, key_in},
    tasks::{everything, quick},
};

#[derive(Deserialize, JsonSchema)]
struct Colour {
    name: String,
}

/// Asks a question that the model can relay.
async fn paint(ctx: &Ctx, _: ()) -> Result<String> {
    let colour = ctx.elicit::<Colour>("Which colour?").relayed().await?.into_answer()?;
    Ok(format!("{}, {:?}", colour.value.name, colour.via()))
}

/// Asks a question that only the user can answer.
async fn demolish(ctx: &Ctx, _: ()) -> Result<String> {
    let colour = ctx.elicit::<Colour>("Which wall?").await?.into_answer()?;
    Ok(format!("{}, {:?}", colour.value.name, colour.via()))
}

async fn target(policy: AskPolicy) -> Target {
    let server = Server::builder("painter", "1.0.0")
        .with_tasks(quick().with_retry(RetryPolicy::never()))
        .with_seal(SealConfig::default().with_keys(keys(1)))
        .with_asking(policy)
        .with_principal(|parts| parts.headers.get("x-caller")?.to_str().ok().map(ToOwned::to_owned))
        .tool(Tool::new("paint", "Paints a wall", paint))
        .tool(Tool::new("demolish", "Tears a wall down", demolish))
        .build()
        .unwrap();
    let app = server.router(HttpConfig::default());
    let uri = json!({"uri": "ui://antiphon/form/0"});
    let read = send(app.clone(), None, apps(), "resources/read", uri).await;
    let view = key_in(read["result"]["contents"][0]["text"].as_str().unwrap());
    Target { server, app, view }
}

/// Calls a tool as a client that shows neither forms nor apps.
async fn call(target: &Target, caller: Option<&str>, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    send(target.app.clone(), caller, json!({}), "tools/call", params).await
}

async fn relay(target: &Target, caller: Option<&str>, id: &str, answers: Value) -> Value {
    call(target, caller, "task_answer", json!({"id": id, "answers": answers})).await
}

/// Calls `paint`, which waits for a relayed answer, and returns the ID of its task.
async fn park(target: &Target, caller: Option<&str>) -> String {
    let called = call(target, caller, "paint", json!({})).await;
    let id = called["result"]["structuredContent"]["task"]["id"].as_str();
    id.unwrap_or_else(|| panic!("{called}")).to_owned()
}

fn named(name: &str) -> Value {
    json!({"colour": {"action": "accept", "content": {"name": name}}})
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

/// Counts a relayed answer, which must be rejected with a text that begins so.
fn refused(tally: &mut Tally, kind: &'static str, begins: &str, response: &Value) {
    let rejected = response["result"]["isError"] == true && text(response).starts_with(begins);
    tally.count(kind, rejected, response);
}

const CLOSED: &str = "the question is not open: ";

#[tokio::test]
async fn model_answers_only_questions_that_allow_it() {
    let target = target(AskPolicy::default().with_relay(true)).await;
    let mut tally = Tally::default();
    let only_user = "the answer to this question cannot be relayed: ";
    // The run waits for the form of another client of the same caller.
    let run = target.park(ADA, "demolish").await;
    let before = target.stored(&run.id).await;
    for answers in [named("north"), json!({"colour": {"action": "decline"}})] {
        let response = relay(&target, ADA, &run.id, answers.clone()).await;
        refused(&mut tally, "questions without relay", only_user, &response);
        // A client with apps has the form.
        let arguments = json!({"id": run.id, "answers": answers});
        let response = target.call(ADA, "task_answer", arguments).await;
        refused(&mut tally, "questions without relay", only_user, &response);
    }
    assert_eq!(target.stored(&run.id).await, before);

    let form_first = target.park(ADA, "paint").await;
    let before = target.stored(&form_first.id).await;
    let arguments = json!({"id": form_first.id, "answers": named("teal")});
    let response = target.call(ADA, "task_answer", arguments).await;
    refused(&mut tally, "questions with a form", "the answer was not relayed: ", &response);
    assert_eq!(target.stored(&form_first.id).await, before);

    println!("{}", tally.report());
    let counts = BTreeMap::from([("questions without relay", 4), ("questions with a form", 1)]);
    assert_eq!(tally.tried, counts);
}

#[tokio::test]
async fn answers_of_others_are_not_relayed() {
    let target = target(AskPolicy::default().with_relay(true)).await;
    let mut tally = Tally::default();
    let id = park(&target, ADA).await;
    let before = target.stored(&id).await;
    let unknown = format!("t_{}", "0".repeat(32));
    for caller in [EVE, None] {
        let expected = relay(&target, caller, &unknown, named("teal")).await;
        assert!(is_refused(&expected) && text(&expected).contains("no such task"), "{expected}");
        let hers = park(&target, caller).await;
        for foreign in [id.as_str(), id.trim_start_matches("t_"), &format!(" {id} ")] {
            let response = relay(&target, caller, foreign, named("teal")).await;
            tally.count("questions of another caller", response == expected, &response);
        }
        // The own question of the same name is another one.
        assert_eq!(text(&relay(&target, caller, &hers, named("grey")).await), "grey, Relay");
    }
    assert_eq!(target.stored(&id).await, before);
    assert_eq!(text(&relay(&target, ADA, &id, named("teal")).await), "teal, Relay");

    // Without the policy, the tool is hidden.
    let without = Target::onboarding().await;
    let run = without.park(ADA, "pick").await;
    let answers = json!({"approval": {"action": "accept", "content": {"desk": "4", "floor": 3}}});
    for capabilities in [json!({}), apps(), everything()] {
        let arguments = json!({"id": run.id, "answers": answers});
        let params = json!({"name": "task_answer", "arguments": arguments});
        let response = send(without.app.clone(), ADA, capabilities, "tools/call", params).await;
        let is_hidden = response["error"]["message"] == "there is no tool `task_answer`";
        tally.count("servers without relay", is_hidden, &response);
    }
    println!("{}", tally.report());
    let counts = BTreeMap::from([("questions of another caller", 6), ("servers without relay", 3)]);
    assert_eq!(tally.tried, counts);
}

#[tokio::test]
async fn relayed_answer_counts_once_and_in_time() {
    let target = target(AskPolicy::default().with_relay(true)).await;
    let mut tally = Tally::default();
    let id = park(&target, ADA).await;
    let before = target.stored(&id).await;
    let content = json!({"name": "teal"});
    for answers in [
        json!({}),
        json!({"Colour": named("teal")["colour"]}),
        json!({"colour@2": named("teal")["colour"]}),
        json!({"colour": named("teal")["colour"], "wall": named("teal")["colour"]}),
    ] {
        refused(&mut tally, "other questions", CLOSED, &relay(&target, ADA, &id, answers).await);
    }
    for answer in [
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {}}),
        json!({"action": "accept", "content": {"name": 4}}),
    ] {
        let response = relay(&target, ADA, &id, json!({"colour": answer})).await;
        refused(&mut tally, "answers that do not fit", "the answer does not match the form: ", &response);
    }
    let yes = json!({"action": "yes", "content": content});
    for answer in [json!(null), json!("teal"), content, yes] {
        let response = relay(&target, ADA, &id, json!({"colour": answer})).await;
        tally.count("answers in other shapes", is_refused(&response), &response);
    }
    assert_eq!(target.stored(&id).await, before);
    // An answer does not choose its channel.
    let mut marked = named("teal");
    marked["colour"]["_meta"] = json!({"antiphon/channel": "app"});
    let taken = relay(&target, ADA, &id, marked).await;
    tally.count("forged channels", text(&taken) == "teal, Relay", &taken);
    let stored = target.stored(&id).await;
    for answers in [named("teal"), named("grey"), json!({"colour": {"action": "decline"}})] {
        refused(&mut tally, "second answers", CLOSED, &relay(&target, ADA, &id, answers).await);
    }
    assert_eq!(target.stored(&id).await, stored);

    // The replies do not tell what the user has answered in the form.
    let run = target.park(ADA, "paint").await;
    target.answer(ADA, &run.id, &run.ticket, named("teal")).await;
    let right = relay(&target, ADA, &run.id, named("teal")).await;
    let wrong = relay(&target, ADA, &run.id, named("grey")).await;
    tally.count("guesses", is_refused(&right) && right == wrong, &right);
    assert_eq!(target.result(ADA, &run.id).await, "teal, App");

    let policy = AskPolicy::default().with_relay(true).with_expiry(Duration::from_secs(1));
    let short = self::target(policy).await;
    let id = park(&short, ADA).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    refused(&mut tally, "expired questions", CLOSED, &relay(&short, ADA, &id, named("teal")).await);
    let result = call(&short, ADA, "task_result", json!({"id": id, "wait": 20})).await;
    assert!(text(&result).contains("not answered in time"), "{result}");
    refused(&mut tally, "expired questions", CLOSED, &relay(&short, ADA, &id, named("teal")).await);
    let id = park(&target, ADA).await;
    assert!(!is_refused(&call(&target, ADA, "task_cancel", json!({"id": id})).await));
    refused(&mut tally, "cancelled runs", CLOSED, &relay(&target, ADA, &id, named("teal")).await);

    println!("{}", tally.report());
    let counts = BTreeMap::from([
        ("other questions", 4),
        ("answers that do not fit", 3),
        ("answers in other shapes", 4),
        ("forged channels", 1),
        ("second answers", 3),
        ("guesses", 1),
        ("expired questions", 2),
        ("cancelled runs", 1),
    ]);
    assert_eq!(tally.tried, counts);
}
