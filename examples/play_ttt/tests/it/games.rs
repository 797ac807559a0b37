//! All endings with either mark, in a session and over replicas.

use antiphon::{
    Result,
    testing::{Client, Replicas, Revision},
};
use play_ttt::{Mark, toss};
use serde_json::json;

use crate::script::{End, Script};

#[tokio::test]
async fn every_ending_is_reached_with_either_mark_in_a_session() -> Result<()> {
    let server = play_ttt::server().build()?;
    for script in Script::all() {
        let client = Client::connect(&server, Revision::V2025_11_25).await?;
        let talk = client.with_answers(script.answers()).call("play_ttt", script.arguments()).await?;
        assert_eq!(talk.rounds, 0, "one call is one game");
        script.check(&talk.result);
    }
    Ok(())
}

#[tokio::test]
async fn every_ending_is_reached_on_a_fresh_replica_at_every_question() -> Result<()> {
    for script in Script::all() {
        let report = Replicas::new(play_ttt::server)
            .schedules(3)
            .run("play_ttt", script.arguments(), || script.answers())
            .await?;
        script.check(&report.result);
        assert!(report.rounds >= 9, "{script:?}: {report:?}");
    }
    Ok(())
}

#[test]
fn toss_gives_both_marks_over_seeds_and_the_same_for_one_seed() {
    let marks: Vec<Mark> = (0..32).map(|seed| toss(Some(seed))).collect();
    assert_eq!(marks, (0..32).map(|seed| toss(Some(seed))).collect::<Vec<_>>());
    let x = marks.iter().filter(|mark| **mark == Mark::X).count();
    assert!((8..=24).contains(&x), "X came {x} times of 32");
    assert!(toss(Some(-1)) == toss(Some(-1)) && (0..64).any(|_| toss(None) != toss(None)));
}

/// Without a seed the toss is nobody's to know, and made once: all rounds of a game agree on it.
#[tokio::test]
async fn toss_without_a_seed_is_made_once_a_game() -> Result<()> {
    let script = Script::new(Mark::X, End::Declined);
    let report = Replicas::new(play_ttt::server)
        .allow_different_results()
        .run("play_ttt", json!({}), || {
            let cells = [0, 1, 2, 3, 4, 5, 6, 7, 8].into_iter().fold(script.answers(), |answers, cell| {
                answers.accept("pickMove", json!({"cell": cell})).data("move", json!({"cell": cell}))
            });
            cells.decline("pickMove")
        })
        .await?;
    assert!(report.result["structuredContent"]["outcome"].is_string(), "{}", report.result);
    Ok(())
}
