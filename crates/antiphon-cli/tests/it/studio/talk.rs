//! What a server asks, and what the page is told of it.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::world::{BOTH, Studio, kitchen, model};

#[tokio::test]
async fn form_is_answered_on_both_revisions() {
    let (studio, kitchen) = (Studio::start(&[]).await, kitchen().await);
    for revision in BOTH {
        let session = studio.connect(&kitchen, revision).await;
        let mut events = studio.events(&session, 0).await;
        let call = studio.call(&session, "order").await;
        assert_eq!(events.until("call").await["tool"], "order");
        let ask = events.until("ask").await;
        assert_eq!((&ask["kind"], &ask["message"]), (&json!("form"), &json!("Which size?")), "{revision}");
        assert_eq!((&ask["key"], &ask["context"]["menu"][1]), (&json!("pickSize"), &json!("L")));
        assert_eq!(ask["schema"]["required"], json!(["size"]));
        let again = studio.post(&format!("/api/session/{session}/call"), json!({"tool": "order"})).await;
        assert_eq!(again.0, StatusCode::CONFLICT, "{}", again.1);
        let given = json!({"action": "accept", "content": {"size": "L"}});
        assert_eq!(studio.answer(&ask, given.clone()).await, StatusCode::NO_CONTENT);
        let settled = events.until("settled").await;
        assert_eq!((&settled["ask"], &settled["how"]), (&ask["ask"], &json!("accept")));
        assert!(settled.get("content").is_none(), "what was typed is told: {settled}");
        let ended = events.until("result").await;
        assert_eq!(
            (&ended["call"], &ended["result"]["content"][0]["text"]),
            (&json!(call), &json!("a L pizza"))
        );
        assert_eq!(studio.answer(&ask, given).await, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn rounds_and_the_log_are_told_as_they_come() {
    let (studio, kitchen) = (Studio::start(&[]).await, kitchen().await);
    let session = studio.connect(&kitchen, BOTH[0]).await;
    let mut events = studio.events(&session, 0).await;
    studio.call(&session, "order").await;
    assert_eq!(events.until("log").await["data"], "the kitchen is open");
    let round = events.until("round").await;
    assert_eq!((&round["number"], &round["asks"].as_array().unwrap().len()), (&json!(1), &1));
    let ask = events.until("ask").await;
    studio.answer(&ask, json!({"action": "decline"})).await;
    let round = events.until("round").await;
    assert_eq!((&round["number"], &round["asks"]), (&json!(2), &json!([])));
    assert_eq!(events.until("result").await["result"]["isError"], true);
}

#[tokio::test]
async fn task_is_followed_to_its_end_on_both_revisions() {
    let (studio, kitchen) = (Studio::start(&[]).await, kitchen().await);
    for revision in BOTH {
        let session = studio.connect(&kitchen, revision).await;
        let mut events = studio.events(&session, 0).await;
        studio.call(&session, "deliver").await;
        // What it asks and how it comes along are told in either order.
        let mut last = Value::Null;
        let ended = loop {
            let event = events.next().await.unwrap();
            match event["type"].as_str().unwrap() {
                "ask" => {
                    let given = json!({"action": "accept", "content": {"size": "S"}});
                    assert_eq!(studio.answer(&event, given).await, StatusCode::NO_CONTENT);
                }
                "task" => last = event["status"].clone(),
                "result" => break event,
                "failed" => panic!("{event}"),
                _ => {}
            }
        };
        assert_eq!(ended["result"]["content"][0]["text"], "a S pizza", "{revision}");
        assert_eq!(last, "completed", "{revision}");
    }
}

#[tokio::test]
async fn page_is_shown_and_opened_only_if_the_person_agrees() {
    let (studio, kitchen) = (Studio::start(&[]).await, kitchen().await);
    for revision in BOTH {
        let session = studio.connect(&kitchen, revision).await;
        let mut events = studio.events(&session, 0).await;
        for (action, said) in [("accept", "paid"), ("decline", "not paid")] {
            studio.call(&session, "pay").await;
            let ask = events.until("ask").await;
            let shown = (&ask["kind"], &ask["url"], &ask["message"]);
            assert_eq!(shown, (&json!("page"), &json!("https://pay.example/order/1"), &json!("Pay first")));
            studio.answer(&ask, json!({"action": action})).await;
            assert_eq!(events.until("result").await["result"]["content"][0]["text"], said, "{revision}");
        }
    }
}

#[tokio::test]
async fn sample_is_shown_approved_looked_at_and_refused() {
    let (kitchen, model) = (kitchen().await, model().await);
    let studio = Studio::start(&["--model-url", &model, "--model", "poet"]).await;
    for revision in BOTH {
        let session = studio.connect(&kitchen, revision).await;
        let mut events = studio.events(&session, 0).await;
        studio.call(&session, "rhyme").await;
        let ask = events.until("ask").await;
        assert_eq!(ask["kind"], "sample");
        assert_eq!(ask["request"]["messages"][0]["content"]["text"], "A word that rhymes with day?", "{ask}");
        studio.answer(&ask, json!({"action": "accept", "review": true})).await;
        let sampled = events.until("sampled").await;
        assert_eq!((&sampled["ask"], &sampled["reply"]["content"]["text"]), (&ask["ask"], &json!("may")));
        let reply = events.until("ask").await;
        assert_eq!((&reply["kind"], &reply["of"]), (&json!("reply"), &ask["ask"]));
        studio.answer(&reply, json!({"action": "accept"})).await;
        assert_eq!(events.until("result").await["result"]["content"][0]["text"], "may", "{revision}");

        studio.call(&session, "rhyme").await;
        let ask = events.until("ask").await;
        studio.answer(&ask, json!({"action": "accept", "all": true})).await;
        assert_eq!(events.until("result").await["result"]["content"][0]["text"], "may", "{revision}");

        // What was allowed for one call is not for the next.
        studio.call(&session, "rhyme").await;
        let ask = events.until("ask").await;
        assert!(ask.get("unseen").is_none(), "{ask}");
        studio.answer(&ask, json!({"action": "decline"})).await;
        loop {
            let event = events.next().await.unwrap();
            match event["type"].as_str().unwrap() {
                "sampled" => panic!("a refused sample went to the model: {event}"),
                "failed" => break,
                "result" => {
                    assert_eq!(event["result"]["isError"], true, "{event}");
                    break;
                }
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn call_is_cancelled_its_question_withdrawn_and_another_may_begin() {
    let (studio, kitchen) = (Studio::start(&[]).await, kitchen().await);
    for revision in BOTH {
        for tool in ["order", "deliver"] {
            let session = studio.connect(&kitchen, revision).await;
            let mut events = studio.events(&session, 0).await;
            let call = studio.call(&session, tool).await;
            let ask = events.until("ask").await;
            let path = format!("/api/call/{call}/cancel");
            assert_eq!(studio.post(&path, json!({})).await.0, StatusCode::ACCEPTED);
            let settled = events.until("settled").await;
            assert_eq!((&settled["ask"], &settled["how"]), (&ask["ask"], &json!("withdrawn")), "{revision}");
            assert_eq!(events.until("cancelled").await["call"], json!(call));
            assert_eq!(studio.post(&path, json!({})).await.0, StatusCode::NOT_FOUND);
            studio.call(&session, "order").await;
            events.until("ask").await;
        }
    }
}

#[tokio::test]
async fn call_that_wants_a_model_and_has_none_says_how_to_give_it_one() {
    let (studio, kitchen) = (Studio::start(&[]).await, kitchen().await);
    // On 2025-11-25 the tool's own words are its result.
    let session = studio.connect(&kitchen, BOTH[0]).await;
    let mut events = studio.events(&session, 0).await;
    studio.call(&session, "rhyme").await;
    let failed = loop {
        let event = events.next().await.unwrap();
        if event["type"] == "failed" {
            break event;
        }
        assert_ne!(event["type"], "result", "{event}");
    };
    assert!(failed["hint"].as_str().is_some_and(|hint| hint.contains("--model")), "{failed}");
}

#[tokio::test]
async fn person_replies_to_a_sample_in_place_of_a_model() {
    let (studio, kitchen) = (Studio::start(&["--samples", "hand"]).await, kitchen().await);
    assert_eq!(studio.get("/api/servers").await.1["hand"], true);
    for revision in BOTH {
        let session = studio.connect(&kitchen, revision).await;
        let mut events = studio.events(&session, 0).await;
        studio.call(&session, "rhyme").await;
        let ask = events.until("ask").await;
        assert_eq!((&ask["kind"], &ask["byHand"]), (&json!("sample"), &json!(true)), "{ask}");
        studio.answer(&ask, json!({"action": "accept", "content": {"text": "ray"}})).await;
        let sampled = events.until("sampled").await;
        assert_eq!((&sampled["ask"], &sampled["reply"]["content"]["text"]), (&ask["ask"], &json!("ray")));
        assert_eq!(events.until("result").await["result"]["content"][0]["text"], "ray", "{revision}");

        studio.call(&session, "rhyme").await;
        let ask = events.until("ask").await;
        studio.answer(&ask, json!({"action": "decline"})).await;
        loop {
            let event = events.next().await.unwrap();
            match event["type"].as_str().unwrap() {
                "sampled" => panic!("a rejected sample has a reply: {event}"),
                "failed" => break,
                "result" => {
                    assert_eq!(event["result"]["isError"], true, "{event}");
                    break;
                }
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn prompts_and_resources_are_listed_and_read() {
    let studio = Studio::start(&[]).await;
    let url = crate::support::serve(&crate::talk::server()).await;
    for revision in BOTH {
        let (_, session) = studio.post("/api/connect", json!({"server": url, "revision": revision})).await;
        let path = |what: &str| format!("/api/session/{}/{what}", session["session"].as_str().unwrap());
        let (_, prompts) = studio.get(&path("prompts")).await;
        assert_eq!(
            (&prompts[0]["name"], &prompts[0]["arguments"][0]["name"]),
            (&json!("review"), &json!("code"))
        );
        let wanted = json!({"name": "review", "arguments": {"code": "1 + 1"}});
        let (_, got) = studio.post(&path("prompt"), wanted).await;
        assert_eq!(got["messages"][0]["content"]["text"], "Review this: 1 + 1", "{revision}");
        let (_, resources) = studio.get(&path("resources")).await;
        assert_eq!(resources["resources"][0]["uri"], "talk://motto");
        assert_eq!(resources["templates"], json!([]));
        let (_, read) = studio.post(&path("resource"), json!({"uri": "talk://motto"})).await;
        assert_eq!(read["contents"][0]["text"], "call and response", "{revision}");
        let (status, refused) = studio.post(&path("resource"), json!({"uri": "talk://nothing"})).await;
        assert_eq!(status, StatusCode::BAD_GATEWAY, "{refused}");
    }
    // A server without prompts and resources has empty lists.
    let session = studio.connect(&kitchen().await, BOTH[0]).await;
    assert_eq!(studio.get(&format!("/api/session/{session}/prompts")).await.1, json!([]));
    let (_, none) = studio.get(&format!("/api/session/{session}/resources")).await;
    assert_eq!(none, json!({"resources": [], "templates": []}));
}

#[tokio::test]
async fn messages_and_standard_error_of_a_program_are_shown() {
    let studio = Studio::start(&[]).await;
    let server = format!("{} serve hello", env!("CARGO_BIN_EXE_antiphon"));
    for (revision, first) in BOTH.into_iter().zip(["server/discover", "initialize"]) {
        let (_, session) = studio.post("/api/connect", json!({"server": server, "revision": revision})).await;
        let session = session["session"].as_str().unwrap();
        let mut traffic = studio.traffic(session).await;
        let (mut sent, mut received, mut said) = (Vec::new(), 0, String::new());
        // The page lists the tools when it connects.
        while said.is_empty() || !sent.contains(&json!("tools/list")) || received < 2 {
            let event = traffic.next().await.unwrap();
            match event["type"].as_str().unwrap() {
                "frame" if event["sent"] == true => sent.push(event["message"]["method"].clone()),
                "frame" => received += u32::from(event["message"]["result"].is_object()),
                "stderr" => said += event["line"].as_str().unwrap(),
                other => panic!("{other}"),
            }
        }
        assert_eq!(sent[0], first, "{sent:?}");
        assert!(said.contains("serving hello"), "{said}");
    }
}
