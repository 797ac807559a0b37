//! Asking people.

use antiphon::{
    Capability, ErrorKind,
    elicitation::{URL_ELICITATION_REQUIRED, UrlElicitation, UrlElicitationRequired},
    prelude::*,
    testing::{Answers, Failed, Revision},
};
use serde_json::{Value, json};

use crate::checked::{connect, connect_with};

#[derive(Debug, Deserialize, JsonSchema)]
struct PickMove {
    /// Where to play.
    #[schemars(range(min = 0, max = 8))]
    cell: u8,
}

async fn turn(ctx: &Ctx, _: ()) -> Result<String> {
    let board = json!({"cells": "XO......."});
    Ok(match ctx.elicit::<PickMove>("Your turn").context(&board).await? {
        Elicited::Accept(answer) => format!("cell {}", answer.value.cell),
        Elicited::Decline(key) => format!("{key} declined"),
        Elicited::Cancel(key) => format!("{key} cancelled"),
    })
}

fn game() -> Result<Server> {
    Ok(Server::builder("game", "1.0.0").tool(Tool::new("turn", "Asks for a move", turn)).build()?)
}

#[tokio::test]
async fn a_typed_answer_is_parsed() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&game()?, revision)
            .await?
            .answering(Answers::new().accept("pick_move", json!({"cell": 4})));
        let talk = client.call("turn", json!({})).await?;
        assert_eq!(talk.text(), "cell 4");
        assert_eq!(talk.keys(), ["pick_move"]);
    }
    Ok(())
}

#[tokio::test]
async fn a_question_is_an_elicitation_in_form_mode() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&game()?, revision)
            .await?
            .answering(Answers::new().accept("pick_move", json!({"cell": 4})));
        let talk = client.call("turn", json!({})).await?;
        let question = &talk.asked[0];
        assert_eq!(question.method, "elicitation/create");
        assert_eq!(question.params["mode"], "form");
        assert_eq!(question.params["message"], "Your turn");
        assert_eq!(
            question.params["requestedSchema"],
            json!({
                "type": "object",
                "properties": {"cell": {"type": "integer", "description": "Where to play.", "minimum": 0, "maximum": 8}},
                "required": ["cell"],
            })
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_context_for_a_form_of_the_clients_own_travels_in_meta() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&game()?, revision)
            .await?
            .answering(Answers::new().accept("pick_move", json!({"cell": 4})));
        let talk = client.call("turn", json!({})).await?;
        assert_eq!(talk.asked[0].context(), Some(&json!({"cells": "XO......."})));
        assert!(!talk.asked[0].message().contains("XO"), "it is not part of what a person reads");
    }
    Ok(())
}

#[tokio::test]
async fn declining_and_cancelling_are_values() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&game()?, revision).await?.answering(Answers::new().decline("pick_move"));
        assert_eq!(client.call("turn", json!({})).await?.text(), "pick_move declined");
        let mut client = connect(&game()?, revision).await?.answering(Answers::new().cancel("pick_move"));
        assert_eq!(client.call("turn", json!({})).await?.text(), "pick_move cancelled");
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_once_more_with_the_reason() -> Result<()> {
    for revision in Revision::BOTH {
        let answers =
            Answers::new().accept("pick_move", json!({"cell": 9})).accept("pick_move", json!({"cell": 8}));
        let mut client = connect(&game()?, revision).await?.answering(answers);
        let talk = client.call("turn", json!({})).await?;
        assert_eq!(talk.text(), "cell 8");
        assert_eq!(talk.asked.len(), 2);
        assert_eq!(
            talk.asked[1].message(),
            "Your turn\n\nThat answer does not fit: cell: 9 is greater than the maximum of 8"
        );
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_that_does_not_fit_twice_is_an_error() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&game()?, revision)
            .await?
            .answering(Answers::new().accept("pick_move", json!({"cell": 9})));
        let talk = client.call("turn", json!({})).await?;
        assert!(talk.is_error());
        assert!(
            talk.text().ends_with("does not fit: cell: 9 is greater than the maximum of 8"),
            "{}",
            talk.text()
        );
        assert_eq!(talk.asked.len(), 2);
    }
    Ok(())
}

#[tokio::test]
async fn a_client_without_forms_is_never_asked() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect_with(&game()?, revision, json!({"sampling": {}})).await?;
        let talk = client.call("turn", json!({})).await;
        match revision {
            Revision::V2025_11_25 => {
                let talk = talk?;
                assert!(talk.is_error());
                assert_eq!(talk.text(), "the client has not declared `elicitation`, so it cannot be asked");
            }
            Revision::V2026_07_28 => {
                let failed = failed(talk.unwrap_err());
                assert_eq!(failed.code, -32021);
                assert_eq!(failed.data, json!({"requiredCapabilities": {"elicitation": {}}}));
            }
        }
        let asked = client.frames().iter().any(|frame| frame.message["method"] == "elicitation/create");
        assert!(!asked, "nothing was sent to it");
    }
    Ok(())
}

fn failed(error: Error) -> Failed {
    error
        .source()
        .and_then(|source| source.downcast_ref::<Failed>())
        .cloned()
        .unwrap_or_else(|| panic!("{error:#}"))
}

async fn lenient(ctx: &Ctx, _: ()) -> Result<String> {
    match ctx.elicit::<PickMove>("Your turn").await {
        Ok(_) => Ok("asked".into()),
        Err(error) => match error.kind() {
            ErrorKind::Unsupported(Capability::Elicitation) => Ok("played for you".into()),
            _ => Err(error),
        },
    }
}

#[tokio::test]
async fn a_tool_may_do_without_an_answer_it_cannot_have() -> Result<()> {
    let server =
        Server::builder("game", "1.0.0").tool(Tool::new("turn", "Asks if it can", lenient)).build()?;
    for revision in Revision::BOTH {
        let mut client = connect_with(&server, revision, json!({})).await?;
        assert_eq!(client.call("turn", json!({})).await?.text(), "played for you");
    }
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct Ask {
    key: String,
}

async fn ask_by_key(ctx: &Ctx, args: Ask) -> Result<String> {
    let schema = json!({"type": "object", "properties": {"cell": {"type": "integer"}}});
    let answer = ctx.elicit_value(&args.key, "Your turn", schema).await?.accepted()?;
    Ok(answer.to_string())
}

#[tokio::test]
async fn a_key_the_tool_has_not_declared_is_refused() -> Result<()> {
    let tool = Tool::new("ask", "Asks under a key", ask_by_key).elicits::<PickMove>();
    let server = Server::builder("game", "1.0.0").tool(tool).build()?;
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision)
            .await?
            .answering(Answers::new().accept("pick_move", json!({"cell": 1})));
        assert_eq!(client.call("ask", json!({"key": "pick_move"})).await?.text(), r#"{"cell":1}"#);
        let talk = client.call("ask", json!({"key": "pick_card"})).await?;
        assert!(talk.is_error());
        assert_eq!(talk.text(), "this tool does not say that it asks `pick_card`; it says: pick_move");
        assert!(talk.asked.is_empty());
        let listed = client.request("tools/list", json!({})).await?;
        assert_eq!(
            listed["tools"][0]["_meta"]["antiphon/elicits"]["pick_move"]["properties"]["cell"]["maximum"],
            8
        );
    }
    Ok(())
}

async fn sign_in(ctx: &Ctx, _: ()) -> Result<String> {
    let visit = ctx.elicit_url("Sign in to the bank", "https://bank.example/login");
    let id = visit.id();
    let visited = visit.await?;
    assert_eq!(visited.id, id);
    if !visited.agreed {
        return Ok("not signed in".into());
    }
    ctx.elicitation_complete(&visited.id);
    Ok("signed in".into())
}

fn bank() -> Result<Server> {
    Ok(Server::builder("bank", "1.0.0").tool(Tool::new("sign_in", "Signs you in", sign_in)).build()?)
}

#[tokio::test]
async fn a_person_is_sent_to_a_page_on_both_revisions() -> Result<()> {
    for revision in Revision::BOTH {
        let mut client = connect(&bank()?, revision).await?.answering(Answers::new().otherwise(|question| {
            assert_eq!(question.params["mode"], "url");
            assert_eq!(question.params["url"], "https://bank.example/login");
            Some(json!({"action": "accept"}))
        }));
        let talk = client.call("sign_in", json!({})).await?;
        assert_eq!(talk.text(), "signed in");
        let completions: Vec<_> = talk
            .notifications
            .iter()
            .filter(|note| note["method"] == "notifications/elicitation/complete")
            .collect();
        match revision {
            Revision::V2025_11_25 => {
                let id = &talk.asked[0].params["elicitationId"];
                assert!(id.is_string());
                assert_eq!(completions.len(), 1);
                assert_eq!(completions[0]["params"], json!({"elicitationId": id}));
            }
            Revision::V2026_07_28 => assert!(completions.is_empty(), "2026-07-28 has no such notification"),
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_client_without_url_mode_is_never_sent_a_page() -> Result<()> {
    let mut client = connect_with(&bank()?, Revision::V2025_11_25, json!({"elicitation": {}})).await?;
    let talk = client.call("sign_in", json!({})).await?;
    assert!(talk.is_error());
    assert!(talk.text().contains("URL elicitation mode is not supported"), "{}", talk.text());
    assert!(talk.text().contains("form mode (default)"));
    assert!(
        talk.text().contains("https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation")
    );
    assert!(talk.asked.is_empty());
    Ok(())
}

async fn needs_visit(_: &Ctx, _: ()) -> Result<String> {
    Err(Error::url_elicitation_required([UrlElicitation::new(
        "test-elicitation-123",
        "https://example.com/auth",
        "Authorization required",
    )]))
}

#[tokio::test]
async fn a_tool_may_demand_a_visit_first() -> Result<()> {
    let server = Server::builder("bank", "1.0.0").tool(Tool::new("pay", "Pays", needs_visit)).build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    let failed = failed(client.call("pay", json!({})).await.unwrap_err());
    assert_eq!(failed.code, i64::from(URL_ELICITATION_REQUIRED));
    assert_eq!(failed.code, -32042);
    assert_eq!(failed.message, "This request requires more information.");
    let expected = json!({"elicitations": [{
        "mode": "url",
        "elicitationId": "test-elicitation-123",
        "url": "https://example.com/auth",
        "message": "Authorization required",
    }]});
    assert_eq!(failed.data, expected);
    let read = UrlElicitationRequired::from_error_data(-32042, &failed.data).unwrap();
    assert_eq!(read.elicitations[0].url, "https://example.com/auth");
    Ok(())
}

#[test]
fn an_entry_that_is_no_url_elicitation_makes_the_error_none() {
    let form = json!({"elicitations": [{"mode": "form", "elicitationId": "1", "url": "u", "message": "m"}]});
    assert_eq!(UrlElicitationRequired::from_error_data(-32042, &form), None);
    let nameless = json!({"elicitations": [{"mode": "url", "url": "u", "message": "m"}]});
    assert_eq!(UrlElicitationRequired::from_error_data(-32042, &nameless), None);
    let other = json!({"elicitations": []});
    assert_eq!(UrlElicitationRequired::from_error_data(-32602, &other), None);
}

async fn remember(ctx: &Ctx, _: ()) -> Result<Json<Value>> {
    let answer = ctx.elicit::<PickMove>("Your turn").await?.into_answer()?;
    let exchange = answer.exchange();
    let shown =
        exchange.clone().with_arguments(serde_json::Map::from_iter([("board".to_owned(), json!("XO"))]));
    Ok(Json(json!({"messages": exchange.messages, "shown": shown.request})))
}

#[tokio::test]
async fn an_answer_makes_an_exchange_of_two_messages() -> Result<()> {
    let server = Server::builder("game", "1.0.0").tool(Tool::new("turn", "Remembers", remember)).build()?;
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision)
            .await?
            .answering(Answers::new().accept("pick_move", json!({"cell": 4})));
        let talk = client.call("turn", json!({})).await?;
        let messages = talk.result["structuredContent"]["messages"].as_array().unwrap().clone();
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[0]["role"], "assistant");
        let call = &messages[0]["content"][0];
        assert_eq!((call["type"].as_str(), call["name"].as_str()), (Some("tool_use"), Some("pick_move")));
        assert_eq!(call["input"]["message"], "Your turn");
        assert_eq!(
            messages[1],
            json!({"role": "user", "content": [{
                "type": "tool_result",
                "toolUseId": call["id"],
                "content": [{"type": "text", "text": r#"{"cell":4}"#}],
            }]})
        );
        let shown = &talk.result["structuredContent"]["shown"];
        assert_eq!(shown["content"][0]["input"], json!({"board": "XO"}));
        let text = talk.result.to_string();
        assert!(
            !text.contains("tool_calls")
                && !text.contains("tool_call_id")
                && !text.contains("\"role\":\"tool\"")
        );
    }
    Ok(())
}
