//! Games that outlast the rounds of 2026-07-28 become tasks.

use antiphon_host::{Lifecycle, TaskStatus};
use play_ttt::Mark;
use serde_json::json;

use crate::script::{End, Script, endpoint};

#[tokio::test]
async fn every_ending_is_reached_in_rounds_that_become_a_task() {
    let server = play_ttt::server().build().unwrap();
    for script in Script::all() {
        let (host, shows) = script.host(Lifecycle::Modern);
        let host = host.with_model(script.scripted()).build();
        let connection = host.connect(endpoint(&server)).await.unwrap();
        // It comes back when the call has become a task; until then the questions were asked in rounds.
        let task = connection.call("play_ttt", script.arguments()).as_task().await.unwrap();
        let in_rounds = shows.count();
        assert!(in_rounds >= 2, "{script:?}: {in_rounds} moves were made before it was a task");
        let id = task.id().expect("a long game becomes a task").to_owned();
        let result = task.wait().await.unwrap();
        script.check(&json!(result));
        assert!(shows.count() > in_rounds, "the game went on in the task");
        let info = connection.task(&id).status().await.unwrap();
        assert_eq!(info.status, TaskStatus::Completed, "it ended there");
    }
}

#[tokio::test]
async fn call_that_becomes_a_task_is_one_call_to_whoever_makes_it() {
    let server = play_ttt::server().build().unwrap();
    let script = Script::new(Mark::O, End::YouWin);
    let (host, _) = script.host(Lifecycle::Modern);
    let connection = host.with_model(script.scripted()).build().connect(endpoint(&server)).await.unwrap();
    script.check(&json!(connection.call("play_ttt", script.arguments()).await.unwrap()));
}

#[tokio::test]
async fn session_may_ask_for_a_task_from_the_start() {
    let server = play_ttt::server().build().unwrap();
    for script in [Script::new(Mark::X, End::ModelWins), Script::new(Mark::O, End::Closed)] {
        let (host, shows) = script.host(Lifecycle::Legacy);
        let connection = host.with_model(script.scripted()).build().connect(endpoint(&server)).await.unwrap();
        let task = connection.call("play_ttt", script.arguments()).as_task().await.unwrap();
        assert_eq!((task.id().is_some(), shows.count()), (true, 0));
        script.check(&json!(task.wait().await.unwrap()));
    }
}

#[tokio::test]
async fn client_that_cannot_sample_plays_against_the_servers_model() {
    for (script, lifecycle) in Script::all()
        .into_iter()
        .flat_map(|script| [(script.clone(), Lifecycle::Legacy), (script, Lifecycle::Modern)])
    {
        let server = play_ttt::server().with_model(script.scripted()).build().unwrap();
        let connection = script.host(lifecycle).0.build().connect(endpoint(&server)).await.unwrap();
        script.check(&json!(connection.call("play_ttt", script.arguments()).await.unwrap()));
    }
}
