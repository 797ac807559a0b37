//! Moves that will not do.

use antiphon::{
    Result,
    testing::{Answers, Client, Question, Revision, Talk},
};
use play_ttt::Mark;
use serde_json::{Value, json};

use crate::script::arguments;

/// A game in which the person calls off what the test does not look at.
async fn game(you: Mark, answers: Answers) -> Result<Talk> {
    let server = play_ttt::server().build()?;
    let answers = answers.calls("strategy", &[("play_offensive", json!({"reasoning": "win"}))]);
    let client = Client::connect(&server, Revision::V2025_11_25).await?;
    client.with_answers(answers).call("play_ttt", arguments(you)).await
}

fn cells(key: &str, cells: &[i64]) -> Answers {
    let give = |answers: Answers, cell: &i64| match key {
        "move" => answers.data(key, json!({"cell": cell})),
        _ => answers.accept(key, json!({"cell": cell})),
    };
    cells.iter().fold(Answers::new(), give)
}

fn asked<'a>(talk: &'a Talk, name: &str) -> Vec<&'a Question> {
    talk.asked.iter().filter(|question| question.name() == name).collect()
}

fn last(question: &Question) -> String {
    question.params["messages"].as_array().unwrap().last().unwrap().to_string()
}

#[tokio::test]
async fn cells_9_and_minus_1_of_the_model_are_refused_and_asked_for_again() -> Result<()> {
    let talk = game(Mark::O, cells("move", &[9, -1, 4]).decline("pickMove")).await?;
    let moves = asked(&talk, "move");
    assert_eq!(moves.len(), 3);
    assert!(last(moves[1]).contains("maximum of 8") && last(moves[1]).contains('9'), "{}", last(moves[1]));
    assert!(last(moves[2]).contains("minimum of 0") && last(moves[2]).contains("-1"), "{}", last(moves[2]));
    let board = &talk.result["structuredContent"]["board"];
    assert_eq!(board, &json!(["", "", "", "", "X", "", "", "", ""]));
    Ok(())
}

#[tokio::test]
async fn taken_cell_of_the_model_is_refused_with_the_reason() -> Result<()> {
    let talk =
        game(Mark::X, cells("move", &[4, 0]).accept("pickMove", json!({"cell": 4})).decline("pickMove"))
            .await?;
    let moves = asked(&talk, "move");
    assert_eq!(moves.len(), 2);
    assert!(last(moves[1]).contains("cell 4 is taken; pick one of 0, 1, 2, 3, 5"), "{}", last(moves[1]));
    let board = &talk.result["structuredContent"]["board"];
    assert_eq!(board, &json!(["O", "", "", "", "X", "", "", "", ""]));
    Ok(())
}

#[tokio::test]
async fn model_that_knows_no_tools_plays_without_a_strategy() -> Result<()> {
    let server = play_ttt::server().build()?;
    let answers = cells("move", &[4]).sample("strategy", "I shall win!").decline("pickMove");
    let client = Client::connect(&server, Revision::V2025_11_25).await?;
    let talk = client.with_answers(answers).call("play_ttt", arguments(Mark::O)).await?;
    assert_eq!(asked(&talk, "strategy").len(), 4);
    let context = asked(&talk, "pickMove")[0].context().unwrap();
    assert_eq!((&context["strategy"], &context["lastMove"]), (&Value::Null, &json!(4)));
    Ok(())
}

/// What was refused is not the model's to remember.
#[tokio::test]
async fn model_that_never_learns_plays_the_first_free_cell() -> Result<()> {
    let person =
        [0, 3, 5].iter().fold(Answers::new(), |all, cell| all.accept("pickMove", json!({"cell": cell})));
    let talk = game(Mark::X, person.decline("pickMove").data("move", json!({"cell": 0}))).await?;
    assert_eq!(asked(&talk, "move").len(), 3 * 4, "four attempts a move: {:?}", talk.keys());
    let board = &talk.result["structuredContent"]["board"];
    assert_eq!(board, &json!(["X", "O", "O", "X", "O", "X", "", "", ""]), "{}", talk.text());
    let fitted = &talk.result["structuredContent"]["fitted"];
    assert_eq!(fitted, &json!({"strategies": 3, "moves": 0}), "what was replaced is not the model's");
    assert!(!last(asked(&talk, "strategy")[1]).contains("is taken"));
    Ok(())
}

#[tokio::test]
async fn person_who_picks_a_taken_cell_is_told_why_and_asked_again() -> Result<()> {
    let person = cells("pickMove", &[0, 0, 4, 8]).decline("pickMove").data("move", json!({"cell": 4}));
    let talk = game(Mark::X, person).await?;
    let messages: Vec<&str> = asked(&talk, "pickMove").iter().map(|form| form.message()).collect();
    assert_eq!(messages[0], "Your turn. You play X.");
    assert!(messages[2].contains("does not fit: cell 0 is taken; pick one of 1, 2"), "{}", messages[2]);
    assert!(messages[3].contains("does not fit: cell 4 is taken"), "{}", messages[3]);
    assert_eq!(talk.result["structuredContent"]["board"][8], "X", "{}", talk.text());
    Ok(())
}

#[tokio::test]
async fn cells_9_and_minus_1_of_the_person_are_refused_and_asked_for_again() -> Result<()> {
    for wrong in [9, -1] {
        let talk = game(
            Mark::X,
            cells("pickMove", &[wrong, 4]).decline("pickMove").data("move", json!({"cell": 0})),
        )
        .await?;
        let forms = asked(&talk, "pickMove");
        assert!(forms[1].message().contains("does not fit"), "{}", forms[1].message());
        let expected: Value = json!(["O", "", "", "", "X", "", "", "", ""]);
        assert_eq!(talk.result["structuredContent"]["board"], expected, "{}", talk.text());
    }
    Ok(())
}
