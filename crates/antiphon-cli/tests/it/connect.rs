//! `antiphon connect`.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::ground::{Folder, Served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_is_looked_at_and_kept_under_a_name() {
    let (folder, served) = (Folder::new(), Served::start().await);
    let looked = folder.run(&["connect", "school", &served.mcp, "--dry-run"]).await;
    assert_snapshot!(looked.whole(), @"
    exit 0
    --- out
    school 1.2.3
      supports  2026-07-28
      offers    2 tools, 0 resources, 1 resource template
      also      sends log messages, reports resource changes, reports tool changes, dual responses
    --- err
    ");
    assert_eq!(
        folder.run(&["connect"]).await.err,
        "no servers are saved yet\nnext: antiphon connect NAME URL\n"
    );

    let kept = folder.run(&["connect", "school", &served.mcp]).await;
    assert_snapshot!(kept.err, @"
    saved as `school` in [folder]/config/servers.json
    next: antiphon tools school
    ");
    let listed = folder.run(&["connect", "--json"]).await.json();
    assert_eq!(
        listed,
        json!([{"name": "school", "where": served.mcp, "file": "[folder]/config/servers.json"}])
    );
    let again = folder.run(&["connect", "copy", "school", "--json"]).await.json();
    assert_eq!((&again["server"]["name"], &again["counts"]["tools"]), (&json!("school"), &json!(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn name_that_is_taken_is_not_given_away_silently() {
    let (folder, served) = (Folder::new(), Served::start().await);
    folder.run(&["connect", "school", &served.mcp]).await;
    let taken = folder.run(&["connect", "school", &served.mcp]).await;
    assert_eq!(taken.code, Some(2));
    assert!(taken.err.contains("is taken") && taken.err.contains("--replace"), "{}", taken.err);
    let replaced =
        folder.run(&["connect", "school", &served.mcp, "--replace", "--revision", "2025-11-25"]).await;
    assert!(replaced.out.contains("supports  2025-11-25"), "{replaced:?}");
    let removed = folder.run(&["connect", "--remove", "school"]).await;
    assert_eq!(removed.err, "deleted `school` from [folder]/config/servers.json\n");
    assert_eq!(folder.run(&["connect", "--remove", "school"]).await.code, Some(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_kept_and_not_shown() {
    let (folder, served) = (Folder::new(), Served::start().await);
    let header = "Authorization: Bearer sesame";
    let url = format!("{}?key=sesame", served.mcp);
    let kept = folder.run(&["connect", "school", &url, "--header", header, "--token", "sesame"]).await;
    assert_eq!(kept.code, Some(0), "{kept:?}");
    assert!(kept.err.contains("the token was not saved"), "{kept:?}");
    let listed = folder.run(&["connect"]).await;
    assert!(!format!("{kept:?}{listed:?}").contains("sesame"), "{kept:?}{listed:?}");
    assert!(listed.out.contains("key=***"), "{listed:?}");

    let path = folder.path().join("config/servers.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(file["mcpServers"]["school"]["headers"], json!({"Authorization": "Bearer sesame"}));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let wrong = folder.run(&["connect", "x", &url, "--header", "sesame"]).await;
    assert_eq!(wrong.err, "error: a header or variable is not valid; write it as `Name: value`\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folder_that_came_from_elsewhere_does_not_take_over_a_name() {
    let (folder, served) = (Folder::new(), Served::start().await);
    folder.run(&["connect", "school", &served.mcp]).await;
    let theirs = json!({"mcpServers": {"school": {"command": "evil"}, "theirs": {"command": "tool"}}});
    folder.write(".mcp.json", &theirs.to_string());
    let listed = folder.run(&["connect"]).await.out;
    assert!(
        listed.contains(&served.mcp) && listed.contains("theirs") && !listed.contains("evil"),
        "{listed}"
    );
    let removed = folder.run(&["connect", "--remove", "theirs"]).await;
    assert_eq!(removed.code, Some(2));
    assert!(removed.err.contains(".mcp.json"), "{removed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_use_says_what_to_do() {
    let folder = Folder::new();
    for (arguments, part) in [
        (&["connect", "alone"][..], "required"),
        (&["connect", "a b", "http://127.0.0.1:1/mcp"], "is not a valid server name"),
        (&["connect", "x", "http://127.0.0.1:1/mcp", "--env", "A=b"], "`--env` is for programs"),
        (&["connect", "x", "--header", "A: b", "--", "cat", "-"], "`--header` is for URLs"),
        (&["connect", "x", "nine"], "antiphon connect NAME URL"),
    ] {
        let ended = folder.run(arguments).await;
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(part), "{arguments:?}: {ended:?}");
    }
    let away = folder.run(&["connect", "x", "http://127.0.0.1:1/mcp"]).await;
    assert_eq!(away.code, Some(6), "{away:?}");
    assert!(!folder.path().join("config/servers.json").exists(), "what cannot be reached is not kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_of_the_working_folder_cannot_stand_for_what_a_person_types() {
    let (folder, served) = (Folder::new(), Served::start().await);
    let trap = json!({"command": "touch", "args": ["trapped"]});
    let mut servers = json!({"mcpServers": {"true yes": trap, "true": trap, "fine": {"url": served.mcp}}});
    servers["mcpServers"][&served.mcp] = trap;
    folder.write(".mcp.json", &servers.to_string());
    let tools = folder.run(&["tools", &served.mcp]).await;
    assert_eq!(tools.code, Some(0), "{tools:?}");
    folder.run(&["tools", "true yes"]).await;
    folder.run(&["tools", "true"]).await;
    assert!(!folder.path().join("trapped").exists(), "its program was run");
    assert!(tools.err.contains("`true` in .mcp.json is ignored: a program has this name"), "{tools:?}");
    assert_eq!(folder.run(&["tools", "fine"]).await.code, Some(0));
}

#[tokio::test]
async fn broken_files_are_said_and_stop_nobody_who_does_not_need_them() {
    let folder = Folder::new();
    folder.write(".mcp.json", r#"{"mcpServers": {"x": {"env": {"PORT": 8080}}}} // a comment"#);
    let listed = folder.run(&["connect"]).await;
    assert!(listed.code == Some(0) && listed.err.contains("warning: .mcp.json cannot be read"), "{listed:?}");
    std::fs::create_dir_all(folder.path().join("config")).unwrap();
    for broken in ["[]", r#"{"mcpServers": []}"#] {
        folder.write("config/servers.json", broken);
        let kept = folder.run(&["connect", "x", "http://127.0.0.1:1/mcp"]).await;
        assert!(kept.code == Some(6) || kept.err.contains("fix the file"), "{kept:?}");
    }
}

/// A server that remembers the `Authorization` of what it is sent, and answers nothing.
async fn listening() -> (String, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    use tokio::io::AsyncReadExt as _;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = std::sync::Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 8192];
            let length = stream.read(&mut head).await.unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..length]).to_lowercase();
            let sent = head.lines().filter_map(|line| line.strip_prefix("authorization: "));
            heard.lock().unwrap().push(sent.collect::<Vec<_>>().join(" and "));
        }
    });
    (url, seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_of_the_environment_goes_nowhere_it_was_not_meant_for() {
    let folder = Folder::new();
    let (url, seen) = listening().await;
    let own = json!({"url": url, "headers": {"Authorization": "Bearer own"}});
    std::fs::create_dir_all(folder.path().join("config")).unwrap();
    folder.write("config/servers.json", &json!({"mcpServers": {"mine": own}}).to_string());
    folder.write(".mcp.json", &json!({"mcpServers": {"theirs": {"url": url}}}).to_string());
    let env = [("ANTIPHON_TOKEN", "ambient")];
    for (arguments, sent) in [
        (vec!["tools", &url], "bearer ambient"),
        (vec!["tools", "mine"], "bearer own"),
        (vec!["tools", "theirs"], ""),
        (vec!["tools", "mine", "--token", "said"], "bearer said"),
    ] {
        seen.lock().unwrap().clear();
        folder.run_with(&arguments, &env, "").await;
        let seen = seen.lock().unwrap().clone();
        assert!(!seen.is_empty() && seen.iter().all(|one| one == sent), "{arguments:?}: {seen:?}");
    }
    let dropped = folder.run(&["tools", "ws://127.0.0.1:1/ws", "--token", "said"]).await;
    assert!(dropped.code == Some(2) && dropped.err.contains("not over WebSocket"), "{dropped:?}");
}
