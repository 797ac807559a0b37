//! Attacks with answers: shapes that do not fit, several answers at once, replays, and forged channels.

use std::collections::BTreeMap;

use antiphon::{
    prelude::*,
    testing::{Answers, Revision},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{ADA, Tally, Target, Waiting, approve, is_refused, send};
use crate::{
    asking::apps,
    checked::connect_with,
    tasks::{answer, begin, everything, until},
};

/// Returns 500 answers that do not fit the question.
fn misfits() -> Vec<Value> {
    const ABSENT: &str = "absent";
    let desks = json!(["4", ABSENT, null, 4, -1, 1.5, true, [], ["4"], {}, {"desk": "4"}]);
    let floors = json!([
        3, ABSENT, null, "3", "", 0, 10, 255, 256, 4_294_967_299_u64, -1, 1.5, 1e300, true, [], [3], {},
        {"floor": 3},
    ]);
    let (desks, floors) = (desks.as_array().unwrap(), floors.as_array().unwrap());
    let mut answers = Vec::new();
    for wrapping in 0..3 {
        let pairs = desks.iter().flat_map(|desk| floors.iter().map(move |floor| (desk, floor)));
        // The first pair fits.
        for (desk, floor) in pairs.skip(1) {
            let mut answer = json!({"action": "accept", "content": {}});
            for (field, value) in [("desk", desk), ("floor", floor)] {
                if value != ABSENT {
                    answer["content"][field] = value.clone();
                }
            }
            match wrapping {
                0 => {}
                1 => answer["_meta"] = json!({"antiphon/channel": "client"}),
                _ => {
                    answer["content"]["approved"] = json!(true);
                    answer["approved"] = json!(true);
                }
            }
            answers.push(answer);
        }
    }
    answers.truncate(500);
    answers
}

#[tokio::test]
async fn answers_that_do_not_fit_use_nothing_up() {
    let target = Target::onboarding().await;
    let mut tally = Tally::default();
    let run = target.park(ADA, "onboard").await;
    let before = target.stored(&run.id).await;
    for misfit in misfits() {
        let response = target.answer(ADA, &run.id, &run.ticket, json!({"approval": misfit})).await;
        tally.has_status("answers that do not fit", "invalid", &response);
    }
    let content = approve("5")["approval"]["content"].take();
    let mut shapes: Vec<Value> = Vec::new();
    for action in ["Accept", "ACCEPT", "accept ", "approve", "yes", "", "accepted", "submit"] {
        shapes.push(json!({"approval": {"action": action, "content": content}}));
    }
    for action in [json!(null), json!(1), json!(true), json!([]), json!(["accept"]), json!({})] {
        shapes.push(json!({"approval": {"action": action, "content": content}}));
    }
    for content in [json!([]), json!("x"), json!(4), json!(true), json!([content])] {
        shapes.push(json!({"approval": {"action": "accept", "content": content}}));
    }
    for response in [json!(null), json!("accept"), json!(4), json!(true), json!([]), content.clone()] {
        shapes.push(json!({"approval": response}));
    }
    shapes.extend([json!(null), json!("approval"), json!(4), json!(true), json!([]), json!([approve("5")])]);
    shapes.push(json!({"approval": {"content": content}}));
    for responses in shapes {
        let response = target.answer(ADA, &run.id, &run.ticket, responses).await;
        tally.count("answers in other shapes", is_refused(&response), &response);
    }
    assert_eq!(target.stored(&run.id).await, before);
    target.finish(ADA, &run).await;

    println!("{}", tally.report());
    let counts = BTreeMap::from([("answers that do not fit", 500), ("answers in other shapes", 32)]);
    assert_eq!(tally.tried, counts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_several_answers_at_the_same_time_is_taken() {
    const ROUNDS: usize = 100;
    const ANSWERS: usize = 4;
    let target = Target::onboarding().await;
    let mut tally = Tally::default();
    for round in 0..ROUNDS {
        let Waiting { id, ticket } = target.park(ADA, "pick").await;
        let mut sent = JoinSet::new();
        for answer in 0..ANSWERS {
            let desk = format!("{round}-{answer}");
            let arguments =
                json!({"view": target.view, "id": id, "ticket": ticket, "responses": approve(&desk)});
            let params = json!({"name": "ask_answer", "arguments": arguments});
            let app = target.app.clone();
            sent.spawn(async move { (desk, send(app, ADA, apps(), "tools/call", params).await) });
        }
        let mut taken = Vec::new();
        for (desk, response) in sent.join_all().await {
            if response["result"]["structuredContent"]["status"] == "completed" {
                taken.push(desk);
            } else {
                tally.has_status("second answers", "used", &response);
            }
        }
        assert_eq!(taken.len(), 1, "{taken:?}");
        assert_eq!(target.result(ADA, &id).await, format!("desk {}, App", taken[0]));
    }
    println!("{}", tally.report());
    assert_eq!(tally.tried, BTreeMap::from([("second answers", ROUNDS * (ANSWERS - 1))]));
}

#[tokio::test]
async fn replays_after_the_end_change_nothing() {
    let target = Target::onboarding().await;
    let mut tally = Tally::default();
    let Waiting { id, ticket } = target.park(ADA, "pick").await;
    let done = target.answer(ADA, &id, &ticket, approve("4")).await;
    assert_eq!(done["result"]["structuredContent"]["status"], "completed", "{done}");
    let (before, result) = (target.stored(&id).await, target.result(ADA, &id).await);
    assert_eq!(result, "desk 4, App");
    for _ in 0..3 {
        // The form sends its answer again if it got no response.
        tally.has_status("same answers", "completed", &target.answer(ADA, &id, &ticket, approve("4")).await);
    }
    let refusals = ["decline", "cancel"].map(|action| json!({"approval": {"action": action}}));
    for responses in refusals.clone().into_iter().chain([approve("5"), approve("")]) {
        let response = target.answer(ADA, &id, &ticket, responses).await;
        tally.has_status("other answers", "used", &response);
    }
    let open = target.call(ADA, "ask_open", json!({"view": target.view, "id": id})).await;
    let is_over = open["result"]["structuredContent"].get("ticket").is_none();
    tally.count("forms of a finished run", is_over, &open);
    let cancelled = target.call(ADA, "task_cancel", json!({"id": id})).await;
    let is_late = cancelled["result"]["content"][0]["text"].as_str().unwrap().contains("has already ended");
    tally.count("cancellations of a finished run", is_late, &cancelled);
    assert_eq!((target.stored(&id).await, target.result(ADA, &id).await), (before, result));

    // A cancelled run takes no answer.
    let Waiting { id, ticket } = target.park(ADA, "pick").await;
    assert!(!is_refused(&target.call(ADA, "task_cancel", json!({"id": id})).await));
    for responses in refusals.into_iter().chain([approve("4")]) {
        let response = target.answer(ADA, &id, &ticket, responses).await;
        tally.has_status("answers to a cancelled run", "used", &response);
    }
    assert!(target.result(ADA, &id).await.contains("was cancelled"));

    println!("{}", tally.report());
    let counts = BTreeMap::from([
        ("same answers", 3),
        ("other answers", 4),
        ("forms of a finished run", 1),
        ("cancellations of a finished run", 1),
        ("answers to a cancelled run", 3),
    ]);
    assert_eq!(tally.tried, counts);
}

/// Returns an answer that names its own channel.
fn marked(mark: &Value) -> Value {
    let mut answer = approve("4")["approval"].take();
    answer["_meta"] = json!({"antiphon/channel": mark});
    answer
}

#[tokio::test]
async fn answer_does_not_choose_its_channel() -> Result<()> {
    let target = Target::onboarding().await;
    let mut tally = Tally::default();
    let forms = json!({"elicitation": {"form": {}}});
    let marks = json!(["app", "page", "client", "unknown", null, 1, ["app"], {"app": true}]);
    for mark in marks.as_array().unwrap() {
        let answers = || Answers::new().raw("approval", marked(mark));
        for revision in Revision::BOTH {
            let client = connect_with(&target.server, revision, forms.clone()).await?;
            let mut client = client.answering(answers());
            let talk = client.call("pick", json!({})).await?;
            tally.count("marks in a call", talk.text() == "desk 4, Client", &talk.result);
            // The client shows the question while `task_result` waits.
            let begun = client.call("pick_later", json!({})).await?;
            let id = &begun.result["structuredContent"]["task"]["id"];
            let talk = client.call("task_result", json!({"id": id, "wait": 20})).await?;
            tally.count("marks in `task_result`", talk.text() == "desk 4, Client", &talk.result);
        }
        let mut client = connect_with(&target.server, Revision::V2026_07_28, everything()).await?;
        let id = begin(&mut client, "pick_later", json!({})).await;
        until(&mut client, &id, "input_required").await;
        answer(&mut client, &id, json!({"approval": marked(mark)})).await;
        let ended = until(&mut client, &id, "completed").await;
        let text = &ended["result"]["content"][0]["text"];
        tally.count("marks in `tasks/update`", text == "desk 4, Client", &ended);

        let client = connect_with(&target.server, Revision::V2025_11_25, everything()).await?;
        let mut client = client.answering(answers());
        let call = json!({"name": "pick_later", "arguments": {}, "task": {}});
        let id = client.request("tools/call", call).await?["task"]["taskId"].take();
        let talk = client.converse("tasks/result", json!({"taskId": id})).await?;
        tally.count("marks in `tasks/result`", talk.text() == "desk 4, Client", &talk.result);

        // A client of the caller answers a run that waits for the form.
        let run = target.park(ADA, "pick").await;
        let params =
            json!({"taskId": run.id.trim_start_matches("t_"), "inputResponses": {"approval": marked(mark)}});
        send(target.app.clone(), ADA, everything(), "tasks/update", params).await;
        let text = target.result(ADA, &run.id).await;
        tally.count("marks in `tasks/update` of a waiting run", text == "desk 4, Client", &json!(text));

        let run = target.park(ADA, "pick").await;
        target.answer(ADA, &run.id, &run.ticket, json!({"approval": marked(mark)})).await;
        let text = target.result(ADA, &run.id).await;
        tally.count("marks in the form", text == "desk 4, App", &json!(text));
    }
    println!("{}", tally.report());
    let counts = BTreeMap::from([
        ("marks in a call", 16),
        ("marks in `task_result`", 16),
        ("marks in `tasks/update`", 8),
        ("marks in `tasks/result`", 8),
        ("marks in `tasks/update` of a waiting run", 8),
        ("marks in the form", 8),
    ]);
    assert_eq!(tally.tried, counts);
    Ok(())
}
