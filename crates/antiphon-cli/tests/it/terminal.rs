//! The command at a terminal, with a person who presses keys.

use std::time::Duration;

use antiphon::{prelude::*, sampling::ToolDefinition, task::TaskPolicy};
use serde_json::{Value, json};

use crate::{
    support::{serve, serve_router},
    talk,
    tmux::Pane,
};

const ARROWS: &str = "arrows or 1-9 move";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_form_is_filled_in_and_a_wrong_value_is_refused_in_place() {
    let url = serve(&talk::server()).await;
    for revision in crate::support::BOTH {
        let Some(pane) = Pane::run(&["call", "--revision", revision, &url, "order"]) else { return };
        pane.wait_for("What shall it be?");
        pane.wait_for("arrows select");
        pane.keep("form-select");
        pane.press(&["Down", "Enter"]);
        pane.wait_for("whole number, 1 to 9; Esc declines or cancels");
        pane.write("12");
        pane.press(&["Enter"]);
        pane.wait_for("# write a whole number, 1 to 9");
        pane.keep("form-refused");
        pane.press(&["BSpace", "BSpace"]);
        pane.write("2");
        pane.press(&["Enter"]);
        pane.wait_for("note (optional)");
        pane.write("no onions");
        pane.press(&["Enter"]);
        pane.wait_for("Send it?");
        pane.keep("form-sent");
        pane.press(&["Enter"]);
        pane.wait_for("Are you sure?");
        pane.press(&["Enter"]);
        let screen = pane.wait_for("[ended");
        assert!(screen.contains("2 x Large, no onions\n[ended 0]"), "{screen}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_form_is_declined_cancelled_or_left() {
    let url = serve(&talk::server()).await;
    let Some(pane) = Pane::run(&["call", &url, "order"]) else { return };
    pane.wait_for("arrows select");
    pane.press(&["Escape"]);
    pane.wait_for("Leave the form?");
    // Back, and out again.
    pane.press(&["Up", "Enter"]);
    pane.wait_until("back in the form", |screen| screen.matches("arrows select").count() == 1);
    pane.press(&["Escape"]);
    pane.wait_until("asked again", |screen| screen.matches("Leave the form?").count() == 2);
    pane.press(&["Enter"]);
    let screen = pane.wait_for("[ended");
    assert!(screen.contains("[ended 5]"), "{screen}");

    let Some(pane) = Pane::run(&["call", &url, "order"]) else { return };
    pane.wait_for("arrows select");
    pane.press(&["C-c"]);
    pane.wait_for("[ended 130]");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_terminal_is_given_back_when_a_question_is_interrupted_from_outside() {
    let url = serve(&talk::server()).await;
    let game = playing().await;
    for revision in crate::support::BOTH {
        let Some(pane) = Pane::run(&["call", "--revision", revision, &url, "order"]) else { return };
        pane.wait_for("arrows select");
        pane.interrupt();
        pane.wait_for("[ended 130]");
        let Some(pane) = Pane::run(&["call", "--revision", revision, &game, "play_ttt"]) else { return };
        pane.wait_for(ARROWS);
        pane.interrupt();
        pane.wait_for("[ended 130]");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn missing_arguments_are_asked_for() {
    let url = serve(&talk::server()).await;
    let Some(pane) = Pane::run(&["call", &url, "echo", "--count", "2"]) else { return };
    pane.wait_for("The arguments of echo");
    pane.write("Ada");
    pane.press(&["Enter"]);
    pane.wait_for("address city");
    pane.write("Bern");
    pane.press(&["Enter"]);
    pane.wait_for("Send it?");
    pane.press(&["Enter"]);
    let screen = pane.wait_for("[ended 0]");
    assert!(screen.contains(r#""name": "Ada""#) && screen.contains(r#""city": "Bern""#), "{screen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_person_looks_at_samples_and_pages_before_they_go_out() {
    let url = serve(&talk::server()).await;
    let model = serve_router(talk::model()).await + "/v1";
    let Some(pane) = Pane::run(&["call", "--model-url", &model, &url, "say"]) else { return };
    let screen = pane.wait_for("Send it to the model?");
    assert!(screen.contains(&format!("{url} asks the model `default`")), "{screen}");
    assert!(screen.contains("system: You are brief") && screen.contains("user: Say a word"), "{screen}");
    pane.keep("approval");
    pane.press(&["Enter"]);
    let screen = pane.wait_for("[ended");
    assert!(screen.contains("word\n[ended 0]"), "{screen}");

    let Some(pane) = Pane::run(&["call", &url, "sign_in"]) else { return };
    let screen = pane.wait_for("Go there?");
    assert!(screen.contains("https://example.com/sign-in\n  host: example.com"), "{screen}");
    pane.keep("page");
    pane.press(&["Down", "Enter"]);
    let screen = pane.wait_for("[ended");
    assert!(screen.contains("signed in\n[ended 0]"), "{screen}");
}

#[derive(Deserialize, JsonSchema)]
struct Weather {
    city: String,
    /// In degrees Celsius
    warmth: i32,
}

#[derive(Deserialize, JsonSchema)]
struct Look {
    /// Where to look
    place: String,
}

/// A tool that asks a model for text, data and a tool call.
async fn forecast(ctx: &Ctx, _: ()) -> Result<String> {
    let word = ctx.sample("Say a word").await?.text();
    let Weather { city, warmth } = ctx.sample_schema("How is the weather?").await?.parsed;
    let tools = [ToolDefinition::of::<Look>("look_up"), ToolDefinition::of::<Look>("look_down")];
    let looked = ctx.sample("Where do you look?").tools(tools).await?;
    let call = &looked.calls[0];
    let Look { place } = serde_json::from_value(call.arguments.clone().into())?;
    Ok(format!("{word}, {city} {warmth}, {} {place}", call.name))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_person_answers_samples_in_place_of_a_model() {
    let server = Server::builder("sky", "1.0.0").tool(Tool::new("forecast", "Forecasts", forecast));
    let url = serve(&server.build().unwrap()).await;
    for revision in crate::support::BOTH {
        let call = ["call", "--revision", revision, "--samples", "hand", &url, "forecast"];
        let Some(pane) = Pane::run(&call) else { return };
        let screen = pane.wait_for("Reply in place of the model:");
        assert!(screen.contains("asks a model") && screen.contains("user: Say a word"), "{screen}");
        pane.keep("hand");
        pane.write("hello");
        pane.press(&["Enter"]);
        pane.wait_for("The reply has these fields:");
        pane.write("Bern");
        pane.press(&["Enter"]);
        pane.wait_for("In degrees Celsius");
        pane.write("21");
        pane.press(&["Enter"]);
        pane.wait_for("Send it?");
        pane.press(&["Enter"]);
        let screen = pane.wait_for("What does the model do?");
        assert!(screen.contains("call look_up") && screen.contains("reply with text"), "{screen}");
        pane.press(&["Down", "Enter"]);
        pane.wait_for("The arguments of look_down:");
        pane.write("ground");
        pane.press(&["Enter"]);
        let screen = pane.wait_for("[ended");
        assert!(screen.contains("hello, Bern 21, look_down ground\n[ended 0]"), "{screen}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_person_can_reject_a_sample_and_needs_a_terminal_to_answer() {
    let url = serve(&talk::server()).await;
    let refused = crate::support::antiphon(&["call", "--samples", "hand", &url, "say"]).await.ended(2);
    assert!(refused.err.contains("needs a terminal"), "{}", refused.err);
    let Some(pane) = Pane::run(&["call", "--samples", "hand", &url, "say"]) else { return };
    pane.wait_for("Reply in place of the model:");
    pane.press(&["Escape"]);
    pane.wait_for("Leave the form?");
    pane.press(&["Enter"]);
    pane.wait_for("[ended 5]");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn progress_is_a_bar_and_a_task_that_is_left_goes_on() {
    let hang = async |ctx: &Ctx, _: ()| -> Result<String> {
        ctx.progress(Progress::of(1.0, 2.0).message("halfway"));
        tokio::time::sleep(Duration::from_hours(1)).await;
        Ok("late".into())
    };
    let server = Server::builder("slow", "1.0.0")
        .with_tasks(antiphon::task::TaskConfig::default())
        .tool(Tool::new("hang", "Never ends", hang).with_tasks(TaskPolicy::Never))
        .tool(Tool::new("later", "Never ends, as a task", hang).with_tasks(TaskPolicy::Always))
        .build()
        .unwrap();
    let url = serve(&server).await;
    let Some(pane) = Pane::run(&["call", &url, "hang"]) else { return };
    pane.wait_for("50% halfway");
    pane.keep("progress");
    pane.press(&["C-c"]);
    pane.wait_for("[ended 130]");

    let Some(pane) = Pane::run(&["call", &url, "later"]) else { return };
    pane.wait_for("following task ");
    pane.press(&["C-c"]);
    let screen = pane.wait_for("[ended 130]");
    let (_, line) = screen.split_once("wait for it with: antiphon ").unwrap();
    let line = line.split("[ended").next().unwrap().replace('\n', "");
    let id = line.trim().strip_prefix(&format!("tasks follow {url} ")).unwrap();
    let shown = crate::support::antiphon(&["tasks", "show", &url, id]).await.ended(0);
    assert!(shown.out.contains("working"), "{}", shown.out);
}

#[derive(Deserialize, JsonSchema)]
struct PickMove {
    /// Cell
    #[schemars(range(min = 0, max = 8))]
    cell: usize,
}

/// Tic-tac-toe as the studio and the terminal know it, with a model that takes the first free cell.
async fn play(ctx: &Ctx, _: ()) -> Result<String> {
    let mut board = [""; 9];
    let mut last = Value::Null;
    loop {
        let context =
            json!({"board": board, "you": "X", "model": "O", "lastMove": last, "strategy": "block"});
        let asked = ctx.elicit::<PickMove>("Your move").key("pickMove").context(&context).await?;
        let Some(PickMove { cell }) = asked.ok() else { return Ok("outcome: cancelled".into()) };
        assert_eq!(board[cell], "", "a cell that is taken cannot be picked");
        board[cell] = "X";
        let lines = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]];
        let won = |mark: &str| lines.iter().any(|line| line.iter().all(|cell| board[*cell] == mark));
        if won("X") {
            return Ok("outcome: you_win".into());
        }
        let Some(reply) = board.iter().position(|mark| mark.is_empty()) else {
            return Ok("outcome: draw".into());
        };
        board[reply] = "O";
        last = reply.into();
        if lines.iter().any(|line| line.iter().all(|cell| board[*cell] == "O")) {
            return Ok("outcome: model_wins".into());
        }
    }
}

/// Serves the game above, and says where.
async fn playing() -> String {
    let server = Server::builder("game", "1.0.0").tool(Tool::new("play_ttt", "Plays", play)).build().unwrap();
    serve(&server).await
}

/// The lowest board on the screen: its nine cells, three columns each.
fn board(screen: &str) -> Option<Vec<String>> {
    let lines: Vec<&str> = screen.lines().collect();
    let top = lines.iter().rposition(|line| line.contains('┌'))?;
    let rows = [top + 1, top + 3, top + 5].map(|row| lines.get(row).copied());
    let cells = rows.into_iter().flatten().flat_map(|row| row.trim().trim_matches('│').split('│'));
    Some(cells.map(str::to_owned).collect::<Vec<_>>()).filter(|cells| cells.len() == 9)
}

fn marks(screen: &str) -> usize {
    board(screen).map_or(0, |cells| cells.iter().filter(|cell| cell.contains(['X', 'O'])).count())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_board_is_played_with_the_arrows_to_the_end() {
    let game = playing().await;
    for revision in crate::support::BOTH {
        let Some(pane) = Pane::run(&["call", "--revision", revision, &game, "play_ttt"]) else { return };
        play_to_the_end(&pane, "board");
    }
}

#[test]
fn a_game_of_play_ttt_against_smollm_is_played_to_its_end() {
    const MODEL: &str = "ANTIPHON_TEST_SMOLLM_URL";
    if !cfg!(feature = "examples") {
        eprintln!("skipped: the feature `examples` is not enabled");
        return;
    }
    let Ok(model) = std::env::var(MODEL) else {
        assert!(std::env::var_os("CI").is_none(), "{MODEL} is not set; run `cargo xtask models`");
        eprintln!("skipped: {MODEL} is not set; run `cargo xtask models`");
        return;
    };
    let model = format!("{}/v1", model.trim_end_matches('/'));
    let server = shell_words::join([env!("CARGO_BIN_EXE_antiphon"), "serve", "play_ttt"]);
    let flags = ["call", "--model-url", &model, "--samples", "allow"];
    // The person has X, and so the first move.
    let Some(pane) = Pane::run(&[&flags[..], &[&server, "play_ttt", "--seed", "3"]].concat()) else { return };
    play_to_the_end(&pane.patient(), "game");
}

fn play_to_the_end(pane: &Pane, name: &str) {
    let mut screen =
        pane.wait_until("a board", |screen| screen.contains(ARROWS) || screen.contains("[ended"));
    let mut moves = 0;
    while !screen.contains("[ended") {
        let cells = board(&screen).unwrap();
        let at = cells.iter().position(|cell| cell.starts_with('[')).unwrap();
        // From the last cell down, against whoever takes the first.
        let to = cells.iter().rposition(|cell| !cell.contains(['X', 'O'])).unwrap();
        let down = (to / 3 + 3 - at / 3) % 3;
        let right = (to % 3 + 3 - at % 3) % 3;
        pane.press(
            &[vec!["Down"; down], vec!["Right"; right]]
                .concat()
                .into_iter()
                .chain(["Home"])
                .collect::<Vec<_>>(),
        );
        pane.wait_until("the cursor there", |screen| {
            board(screen).is_some_and(|cells| cells[to].starts_with('['))
        });
        moves += 1;
        pane.keep(&format!("{name}-{moves}"));
        let before = marks(&screen);
        pane.press(&["Enter"]);
        screen = pane.wait_until("the next move", |screen| {
            screen.contains("[ended") || (screen.contains(ARROWS) && marks(screen) >= before + 2)
        });
    }
    pane.keep(&format!("{name}-end"));
    assert!(screen.contains("[ended 0]") && moves >= 2, "{moves} moves\n{screen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_taken_cell_is_not_picked_and_a_game_can_be_left() {
    let game = playing().await;
    let Some(pane) = Pane::run(&["call", &game, "play_ttt"]) else { return };
    pane.wait_for(ARROWS);
    pane.press(&["Enter"]);
    let screen = pane.wait_until("the model's move", |screen| screen.contains(ARROWS) && marks(screen) == 2);
    assert!(screen.contains("You are X, the model is O.") && screen.contains("(O)"), "{screen}");
    pane.press(&["5", "Enter"]);
    pane.wait_for("that cell is taken");
    pane.press(&["q"]);
    let screen = pane.wait_for("[ended");
    assert!(screen.contains("outcome: cancelled\n[ended 0]"), "{screen}");
}
