//! What servers ask and tell while a call is under way, with nobody at a terminal.

use serde_json::{Value, json};

use crate::{
    support::{BOTH, Folder, antiphon, serve, serve_router},
    talk::{model, server},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_come_from_a_file_by_key_and_in_turn_in_both_revisions() {
    let url = serve(&server()).await;
    let folder = Folder::new();
    let call = async |revision: &str, answers: Value| {
        let file = folder.file("answers.json", &answers.to_string());
        antiphon(&["call", "--revision", revision, "--answers", &file, &url, "order"]).await
    };
    for revision in BOTH {
        let order = json!({"size": "large", "count": 2});
        let said = call(revision, json!({"order": [order], "sure": {"sure": true}})).await.ended(0);
        assert_eq!(said.out, "2 x Large, nothing\n", "{revision}");
        let said = call(revision, json!({"order": order, "*": {"sure": false}})).await.ended(4);
        assert_eq!((said.out.as_str(), said.err.trim()), ("", "the tool failed: then not"), "{revision}");
        // Declined on purpose: what became of it is said, and so is that it was declined.
        let said = call(revision, json!({"order": "decline"})).await.ended(5);
        assert!(said.err.contains("the tool failed"), "{revision}: {}", said.err);
        let said = call(revision, json!({"order": [order], "sure": []})).await.ended(5);
        assert!(said.err.contains("`sure`; the file has no further answer\n  Are you sure?"), "{}", said.err);
        assert!(said.err.contains(r#"{"sure":{"sure":true}}"#), "{revision}: {}", said.err);
    }
    let said = call(BOTH[0], json!({"order": 3})).await.ended(2);
    assert!(said.err.contains("write an object, \"decline\" or \"cancel\""), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_nobody_there_questions_are_declined_and_said() {
    let url = serve(&server()).await;
    for revision in BOTH {
        let said = antiphon(&["call", "--revision", revision, &url, "order"]).await.ended(5);
        insta::allow_duplicates! { insta::assert_snapshot!(said.err, @r#"
        the tool failed: the question `order` was declined
        not answered, so declined: `order`; no user is present to answer
          What shall it be?
        hint: answer with `--answers FILE`; the file contains for example
          {"order":{"size":"small","count":1,"note":"text"}}
        "#); }
        assert_eq!(said.out, "");
        let said = antiphon(&["call", "--revision", revision, &url, "sign_in"]).await.ended(5);
        assert!(
            said.err.contains("Sign in, please\n  https://example.com/sign-in"),
            "{revision}: {}",
            said.err
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_go_to_the_model_if_they_may() {
    let url = serve(&server()).await;
    let model = serve_router(model()).await + "/v1";
    for revision in BOTH {
        let call = async |samples: &str| {
            let words =
                ["call", "--revision", revision, "--model-url", &model, "--samples", samples, &url, "say"];
            antiphon(&words).await
        };
        assert_eq!(call("allow").await.ended(0).out, "word\n", "{revision}");
        call("refuse").await.ended(5);
        let asked = call("ask").await.ended(5);
        assert!(asked.err.contains("hint: allow sampling requests with `--samples allow`"), "{}", asked.err);
        // Without a model, sampling is not offered.
        let without = antiphon(&["call", "--revision", revision, &url, "say"]).await;
        assert!(matches!(without.code, Some(1 | 4)), "{}", without.err);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_and_logs_are_told_on_standard_error() {
    let url = serve(&server()).await;
    for revision in BOTH {
        let said = antiphon(&["call", "--revision", revision, &url, "long"]).await.ended(0);
        assert_eq!(said.out, "read\n");
        let mut lines: Vec<&str> = said.err.lines().collect();
        lines.sort_unstable();
        let expected = [
            "[warning] disk: {\"free\":3}",
            "progress 1/3 file 1",
            "progress 2/3 file 2",
            "progress 3/3 file 3",
        ];
        assert_eq!(lines, expected, "{revision}");
        let said =
            antiphon(&["call", "--revision", revision, "--log-level", "debug", &url, "long"]).await.ended(0);
        assert!(said.err.contains("[debug] too small to matter"), "{revision}: {}", said.err);
        let said =
            antiphon(&["call", "--revision", revision, "--log-level", "off", &url, "long"]).await.ended(0);
        assert!(!said.err.contains("disk"), "{revision}: {}", said.err);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_followed_or_left_and_picked_up_again() {
    let url = serve(&server()).await;
    let folder = Folder::new();
    let answers = json!({"order": {"size": "small", "count": 1, "note": "quick"}, "sure": {"sure": true}});
    let answers = folder.file("answers.json", &answers.to_string());
    for revision in BOTH {
        let with = ["--revision", revision, "--answers", &answers, &url];
        let followed = antiphon(&[&["call"][..], &with, &["later"]].concat()).await.ended(0);
        assert_eq!(followed.out, "1 x Small, quick\n", "{revision}");
        assert!(followed.err.contains("following task "), "{revision}: {}", followed.err);
        let left = antiphon(&[&["call", "--detach"][..], &with, &["later"]].concat()).await.ended(0);
        let id = left.out.trim();
        assert!(!id.is_empty() && !id.contains(char::is_whitespace), "{revision}: {id}");
        let shown = antiphon(&["tasks", "show", "--revision", revision, &url, id]).await.ended(0);
        assert!(shown.out.starts_with(id), "{revision}: {}", shown.out);
        let picked = antiphon(&[&["tasks", "follow"][..], &with, &[id]].concat()).await.ended(0);
        assert_eq!(picked.out, "1 x Small, quick\n", "{revision}: {}", picked.err);
        let left = antiphon(&[&["call", "--json", "--detach"][..], &with, &["later"]].concat())
            .await
            .ended(0)
            .json();
        let id = left["taskId"].as_str().unwrap();
        antiphon(&["tasks", "cancel", "--revision", revision, &url, id]).await.ended(0);
        antiphon(&["tasks", "show", "--revision", revision, &url, "no-such-task"]).await.ended(3);
    }
    // A 2025-11-25 server is asked for a task; one of 2026-07-28 decides for itself.
    let asked = antiphon(&["call", "--revision", "2025-11-25", "--task", &url, "long"]).await.ended(0);
    assert!(asked.out == "read\n" && asked.err.contains("task "), "{}", asked.err);
    let asked = antiphon(&["call", "--revision", "2026-07-28", &url, "long", "--task"]).await.ended(0);
    assert!(asked.err.contains("the server returned the result directly, without a task"), "{}", asked.err);
    // Nobody is known to this server, so it lists nothing; and 2026-07-28 has no list at all.
    for (revision, why) in
        [("2025-11-25", "the server does not list its tasks"), ("2026-07-28", "have no list of tasks")]
    {
        let list = antiphon(&["tasks", "list", "--revision", revision, &url]).await.ended(3);
        assert!(list.err.contains(why) && list.err.contains("hint: note the IDs"), "{}", list.err);
    }
}
