//! What a client sees of a game.

use antiphon::{
    Result,
    elicitation::KEY_META,
    testing::{Client, Question, Revision, Talk},
};
use play_ttt::Mark;
use serde_json::{Value, json};

use crate::script::{End, Script};

async fn game(you: Mark) -> Result<Talk> {
    let (server, script) = (play_ttt::server().build()?, Script::new(you, End::Draw));
    let client = Client::connect(&server, Revision::V2025_11_25).await?;
    client.with_answers(script.answers()).call("play_ttt", script.arguments()).await
}

fn asked<'a>(talk: &'a Talk, name: &str) -> Vec<&'a Question> {
    talk.asked.iter().filter(|question| question.name() == name).collect()
}

#[tokio::test]
async fn strategy_is_asked_for_with_the_two_tools() -> Result<()> {
    let talk = game(Mark::X).await?;
    let strategies = asked(&talk, "strategy");
    assert_eq!(strategies.len(), 4, "one for each move of the model's");
    for question in strategies {
        assert_eq!(question.method, "sampling/createMessage");
        assert_eq!(question.params["toolChoice"], json!({"mode": "required"}));
        let tools = question.params["tools"].as_array().unwrap();
        assert_eq!(tools.len(), 2);
        for (tool, name, argument) in
            [(&tools[0], "play_offensive", "reasoning"), (&tools[1], "play_defensive", "threat")]
        {
            let schema = &tool["inputSchema"];
            assert_eq!((&tool["name"], &schema["type"]), (&json!(name), &json!("object")));
            assert_eq!(schema["properties"][argument]["type"], "string");
            assert_eq!(schema["properties"].as_object().unwrap().len(), 1);
            assert_eq!(schema["required"], json!([argument]));
        }
    }
    Ok(())
}

#[tokio::test]
async fn move_is_asked_for_by_the_reserved_tool_after_each_strategy() -> Result<()> {
    let talk = game(Mark::O).await?;
    let names: Vec<&str> = talk.asked.iter().map(Question::name).collect();
    let turn = ["strategy", "move", "pickMove"];
    assert_eq!(names, turn.repeat(5)[..14], "X moves first, and that is the model");
    for question in asked(&talk, "move") {
        let tools = question.params["tools"].as_array().unwrap();
        assert_eq!((tools.len(), &tools[0]["name"]), (1, &json!("__schema__")));
        let cell = &tools[0]["inputSchema"]["properties"]["cell"];
        assert_eq!(
            (&cell["type"], &cell["minimum"], &cell["maximum"]),
            (&json!("integer"), &json!(0), &json!(8))
        );
    }
    Ok(())
}

#[tokio::test]
async fn person_is_asked_with_the_board_as_context() -> Result<()> {
    let talk = game(Mark::X).await?;
    let forms = asked(&talk, "pickMove");
    assert_eq!((forms.len(), talk.asked[0].name()), (5, "pickMove"), "X moves first");
    for form in &forms {
        assert_eq!(form.method, "elicitation/create");
        assert_eq!(form.params["_meta"][KEY_META], "pickMove");
        let schema = &form.params["requestedSchema"];
        assert_eq!(schema["required"], json!(["cell"]));
        let cell = &schema["properties"]["cell"];
        assert_eq!(
            (&cell["type"], &cell["minimum"], &cell["maximum"], &cell["title"]),
            (&json!("integer"), &json!(0), &json!(8), &json!("Cell"))
        );
    }
    let first = json!({
        "board": ["", "", "", "", "", "", "", "", ""], "you": "X", "model": "O", "lastMove": null, "strategy": null,
    });
    assert_eq!(forms[0].context(), Some(&first));
    let third = json!({
        "board": ["X", "O", "X", "", "O", "", "", "", ""], "you": "X", "model": "O", "lastMove": 4,
        "strategy": "play_offensive: 4 is mine",
    });
    assert_eq!(forms[2].context(), Some(&third));
    Ok(())
}

/// What was asked and answered, by both sides, is in what the model is next asked.
#[tokio::test]
async fn second_strategy_is_asked_for_with_the_history_in_blocks() -> Result<()> {
    let talk = game(Mark::X).await?;
    let second = asked(&talk, "strategy")[1];
    let messages = second.params["messages"].as_array().unwrap();
    let blocks = messages.iter().flat_map(|message| match &message["content"] {
        Value::Array(blocks) => blocks.clone(),
        block => vec![block.clone()],
    });
    let blocks: Vec<Value> = blocks.filter(|block| block["type"] != "text").collect();
    let used: Vec<&Value> = blocks.iter().filter(|block| block["type"] == "tool_use").collect();
    let names: Vec<&str> = used.iter().map(|block| block["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["pickMove", "play_defensive", "__schema__", "pickMove"]);
    assert_eq!(used[0]["input"], json!({"board": ["", "", "", "", "", "", "", "", ""]}));
    assert_eq!(used[2]["input"], json!({"cell": 1}));
    let results: Vec<&Value> = blocks.iter().filter(|block| block["type"] == "tool_result").collect();
    assert_eq!(results.len(), 4, "{blocks:#?}");
    for (used, result) in used.iter().zip(&results) {
        assert_eq!(used["id"], result["toolUseId"]);
    }
    assert_eq!(results[0]["content"][0]["text"], r#"{"cell":0}"#);
    assert!(second.message().contains(" X | O | X \n"), "{}", second.message());
    Ok(())
}

#[tokio::test]
async fn person_hears_that_the_model_is_thinking() -> Result<()> {
    let (server, script) = (play_ttt::server().build()?, Script::new(Mark::X, End::Draw));
    let mut client = Client::connect(&server, Revision::V2025_11_25).await?.with_answers(script.answers());
    client.request("logging/setLevel", json!({"level": "info"})).await?;
    client.set_meta(json!({"progressToken": 7}));
    let talk = client.call("play_ttt", script.arguments()).await?;
    let of =
        |method: &str| talk.notifications.iter().filter(|note| note["method"] == method).collect::<Vec<_>>();
    let logs = of("notifications/message");
    assert_eq!((logs.len(), &logs[0]["params"]["data"]), (4, &json!("the model is thinking")));
    let progress: Vec<f64> = of("notifications/progress")
        .iter()
        .map(|note| note["params"]["progress"].as_f64().unwrap())
        .collect();
    assert_eq!(progress, [1.0, 3.0, 5.0, 7.0]);
    assert_eq!(of("notifications/progress")[0]["params"]["message"], "The model is thinking");
    Ok(())
}

#[tokio::test]
async fn result_is_described_by_the_tool() -> Result<()> {
    let server = play_ttt::server().build()?;
    let mut client = Client::connect(&server, Revision::V2025_11_25).await?;
    let tools = client.request("tools/list", json!({})).await?;
    assert_eq!(tools["tools"].as_array().unwrap().len(), 1);
    let tool = &tools["tools"][0];
    assert_eq!((&tool["name"], &tool["execution"]["taskSupport"]), (&json!("play_ttt"), &json!("optional")));
    assert_eq!(tool["_meta"]["antiphon/elicits"]["pickMove"]["properties"]["cell"]["maximum"], 8);
    assert_eq!(tool["inputSchema"].get("required"), None, "a seed is nobody's duty");
    let required = tool["outputSchema"]["required"].as_array().unwrap();
    for name in ["outcome", "board", "you", "model", "message"] {
        assert!(required.contains(&json!(name)), "{name}: {tool}");
    }
    Ok(())
}
