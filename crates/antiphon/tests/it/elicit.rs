//! Asking people.

use antiphon::{
    Capability, ErrorKind,
    elicitation::{ElicitKey, URL_ELICITATION_REQUIRED, UrlElicitation, UrlElicitationRequired},
    prelude::*,
    testing::{Answers, Failed, Question, Revision},
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

/// Without `preserve_order` of `serde_json` they come in alphabetical order.
#[tokio::test]
async fn fields_of_a_form_come_in_the_order_of_their_declaration() -> Result<()> {
    #[derive(Debug, Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only the form is looked at")]
    struct Order {
        size: u8,
        colour: String,
        note: Option<String>,
        count: u32,
    }
    async fn order(ctx: &Ctx, _: ()) -> Result<String> {
        Ok(format!("{:?}", ctx.elicit::<Order>("What shall it be?").await?))
    }
    let server = Server::builder("shop", "1.0.0").tool(Tool::new("order", "Orders", order)).build()?;
    for revision in Revision::BOTH {
        let mut client = connect(&server, revision).await?.answering(Answers::new().decline("order"));
        let talk = client.call("order", json!({})).await?;
        let fields = talk.asked[0].params["requestedSchema"]["properties"].as_object();
        let fields: Vec<_> = fields.into_iter().flat_map(|fields| fields.keys()).collect();
        assert_eq!(fields, ["size", "colour", "note", "count"]);
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
            talk.text().ends_with("is not valid: cell: 9 is greater than the maximum of 8"),
            "{}",
            talk.text()
        );
        assert_eq!(talk.asked.len(), 2);
    }
    Ok(())
}

/// Some clients accept a form that they cannot show.
#[tokio::test]
async fn client_that_accepts_without_the_required_values_is_named_as_the_reason() -> Result<()> {
    for revision in Revision::BOTH {
        let answers = Answers::new().accept("pick_move", json!({}));
        let mut client = connect(&game()?, revision).await?.answering(answers);
        let talk = client.call("turn", json!({})).await?;
        assert!(talk.is_error());
        assert!(talk.text().ends_with("the client returned no value for `cell`"), "{}", talk.text());
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
                assert_eq!(
                    talk.text(),
                    "the client has not declared `elicitation`, so it cannot receive this question"
                );
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
        assert_eq!(
            talk.text(),
            "the tool has not declared the question `pick_card` with `Tool::elicits`; it has declared: pick_move"
        );
        assert!(talk.asked.is_empty());
        let listed = client.request("tools/list", json!({})).await?;
        assert_eq!(
            listed["tools"][0]["_meta"]["antiphon/elicits"]["pick_move"]["properties"]["cell"]["maximum"],
            8
        );
    }
    Ok(())
}

const PICK_MOVE: ElicitKey<PickMove> = ElicitKey::new("pickMove");

/// Some cells are taken, which no form can say.
async fn checked_turn(ctx: &Ctx, retries: Retries) -> Result<String> {
    let taken = [4, 5, 6];
    let check = |picked: &PickMove| {
        if taken.contains(&picked.cell) { Err(format!("cell {} is taken", picked.cell)) } else { Ok(()) }
    };
    let mut asking = ctx.elicit_as(PICK_MOVE, "Your turn").check(check);
    if let Some(retries) = retries.retries {
        asking = asking.retries(retries);
    }
    Ok(format!("you play {}", asking.await?.accepted()?.cell))
}

#[derive(Deserialize, JsonSchema)]
struct Retries {
    retries: Option<u32>,
}

fn checked_game() -> Result<Server> {
    let tool = Tool::new("turn", "Takes a turn", checked_turn).elicits_as(PICK_MOVE);
    Ok(Server::builder("game", "1.0.0").tool(tool).build()?)
}

#[tokio::test]
async fn an_answer_that_is_refused_by_its_check_is_asked_for_again_with_the_reason() -> Result<()> {
    for revision in Revision::BOTH {
        let answers = [4, 9, 6, 7]
            .iter()
            .fold(Answers::new(), |answers, cell| answers.accept("pickMove", json!({"cell": cell})));
        let mut client = connect(&checked_game()?, revision).await?.answering(answers);
        let talk = client.call("turn", json!({"retries": 3})).await?;
        assert_eq!(talk.text(), "you play 7", "{revision:?}");
        let messages: Vec<&str> = talk.asked.iter().map(Question::message).collect();
        assert_eq!(messages.len(), 4);
        assert_eq!(messages[0], "Your turn");
        assert_eq!(messages[1], "Your turn\n\nThat answer does not fit: cell 4 is taken");
        assert!(messages[2].contains("maximum of 8"), "{}", messages[2]);
        assert_eq!(messages[3], "Your turn\n\nThat answer does not fit: cell 6 is taken");
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_is_asked_for_as_often_as_the_tool_says() -> Result<()> {
    for (retries, asked) in [(json!({"retries": 0}), 1), (json!({}), 2), (json!({"retries": 4}), 5)] {
        for revision in Revision::BOTH {
            let mut client = connect(&checked_game()?, revision)
                .await?
                .answering(Answers::new().accept("pickMove", json!({"cell": 4})));
            let talk = client.call("turn", retries.clone()).await?;
            assert_eq!((talk.is_error(), talk.asked.len()), (true, asked), "{revision:?}, {retries}");
            assert!(talk.text().contains("cell 4 is taken"), "{}", talk.text());
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_typed_key_is_declared_and_asked_under_its_own_name() -> Result<()> {
    let by_name = Tool::new("turn", "Takes a turn", checked_turn).elicits_as::<PickMove>("pickMove");
    let by_name = Server::builder("game", "1.0.0").tool(by_name).build()?;
    for server in [checked_game()?, by_name] {
        for revision in Revision::BOTH {
            let mut client = connect(&server, revision)
                .await?
                .answering(Answers::new().accept("pickMove", json!({"cell": 1})));
            let listed = client.request("tools/list", json!({})).await?;
            let declared = listed["tools"][0]["_meta"]["antiphon/elicits"].as_object().unwrap();
            assert_eq!(declared.keys().collect::<Vec<_>>(), ["pickMove"]);
            assert_eq!(declared["pickMove"]["properties"]["cell"]["maximum"], 8);
            let talk = client.call("turn", json!({})).await?;
            assert_eq!((talk.text().as_str(), talk.keys()), ("you play 1", vec!["pickMove"]));
            assert_eq!(talk.asked[0].params["_meta"]["antiphon/key"], "pickMove");
        }
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

/// Sends the person to a page that knows which elicitation it is for.
async fn pay(ctx: &Ctx, _: ()) -> Result<String> {
    let visited = ctx.elicit_url_with("Pay", |id| format!("https://shop.example/pay/{id}")).await?;
    Ok(visited.id)
}

#[tokio::test]
async fn a_page_is_complete_when_the_server_is_told_outside_of_any_run() -> Result<()> {
    let server = Server::builder("shop", "1.0.0").tool(Tool::new("pay", "Pays", pay)).build()?;
    let accepting = || Answers::new().otherwise(|_| Some(json!({"action": "accept"})));
    for revision in Revision::BOTH {
        let mut payer = connect(&server, revision).await?.answering(accepting());
        let mut other = connect(&server, revision).await?.answering(accepting());
        let talk = payer.call("pay", json!({})).await?;
        let id = talk.text();
        assert_eq!(talk.asked[0].params["url"], format!("https://shop.example/pay/{id}"));
        other.call("pay", json!({})).await?;
        // The run is over. The page's handler has the server, and no context.
        server.elicitation_complete("nobody was sent this one");
        server.elicitation_complete(&id);
        server.changes().tools();
        if revision == Revision::V2026_07_28 {
            continue;
        }
        let told = payer.notification().await?;
        assert_eq!(told["method"], "notifications/elicitation/complete");
        assert_eq!(told["params"], json!({"elicitationId": id}));
        assert_eq!(payer.notification().await?["method"], "notifications/tools/list_changed");
        let told = other.notification().await?;
        assert_eq!(told["method"], "notifications/tools/list_changed", "it is none of the other's business");
    }
    Ok(())
}

#[tokio::test]
async fn a_page_that_was_demanded_first_is_complete_when_the_server_is_told() -> Result<()> {
    let server = Server::builder("s", "1").tool(Tool::new("needs_visit", "Needs", needs_visit)).build()?;
    let mut client = connect(&server, Revision::V2025_11_25).await?;
    let error = client.call("needs_visit", json!({})).await.expect_err("the page comes first");
    assert_eq!(failed(error).code, -32042);
    server.elicitation_complete("test-elicitation-123");
    let told = client.notification().await?;
    assert_eq!(told["params"], json!({"elicitationId": "test-elicitation-123"}));
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

#[tokio::test]
async fn a_question_of_another_server_is_forwarded_and_its_answer_is_not_changed() -> Result<()> {
    async fn relay(ctx: &Ctx, _: ()) -> Result<String> {
        let schema = json!({"type": "object", "properties": {"cell": {"type": "integer"}}});
        let form = json!({"mode": "form", "message": "Cell?", "requestedSchema": schema});
        let cell = ctx.forward("cell", "elicitation/create", form).await?;
        let page = json!({"mode": "url", "message": "Pay", "url": "https://example.com/pay"});
        let paid = ctx.forward("pay", "elicitation/create", page).await?;
        let wrong = ctx.forward("list", "tools/list", json!({})).await.unwrap_err();
        let shapeless = ctx.forward("cell", "elicitation/create", json!("?")).await.unwrap_err();
        assert!(matches!((wrong.kind(), shapeless.kind()), (ErrorKind::Misuse(_), ErrorKind::Misuse(_))));
        let capabilities = ctx.question_capabilities();
        assert_eq!(capabilities["elicitation"], json!({"form": {}, "url": {}}));
        Ok(format!("{cell} {}", paid["action"]))
    }
    let server = Server::builder("proxy", "1.0.0").tool(Tool::new("relay", "Asks", relay)).build()?;
    for revision in Revision::BOTH {
        // The answer does not match the schema, which only the other server checks.
        let answers =
            Answers::new().accept("cell", json!({"cell": "four"})).raw("pay", json!({"action": "decline"}));
        let mut client = connect(&server, revision).await?.answering(answers);
        let talk = client.call("relay", json!({})).await?;
        let text = talk.text();
        assert!(text.contains(r#""content":{"cell":"four"}"#) && text.ends_with(r#""decline""#), "{text}");
        let page = &talk.asked[1].params;
        assert_eq!((&page["mode"], page["elicitationId"].is_string()), (&json!("url"), true));
    }
    Ok(())
}
