//! `antiphon doctor`.

use std::time::Duration;

use antiphon::{
    prelude::*,
    task::{TaskConfig, TaskPolicy},
};
use axum::http::StatusCode;
use insta::assert_snapshot;
use serde_json::json;
use tokio::net::TcpListener;

use crate::ground::{Ended, Folder, Served};

async fn work(_: &Ctx, _: ()) -> Result<String> {
    Ok("done".to_owned())
}

/// Without what differs from run to run.
fn settled(ended: &Ended, url: &str) -> String {
    let mut text = ended.whole().replace(url, "[server]");
    while let Some((before, after)) = text.split_once(" (connected in ") {
        let rest = after.split_once(')').unwrap().1;
        text = format!("{before}{rest}");
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_is_well_is_described_with_what_works() {
    let folder = Folder::new();
    let served = Served::start_with(|server| {
        server
            .with_tasks(TaskConfig::default())
            .with_instructions("Ask for schools.")
            .tool(Tool::new("work", "Works for long", work).with_tasks(TaskPolicy::WhenLong))
    })
    .await;
    let seen = folder.run(&["doctor", &served.mcp]).await;
    assert_snapshot!(settled(&seen, &served.mcp), @"
    exit 0
    --- out
    [server]
      school 1.2.3
      ok       supports 2026-07-28 and 2025-11-25
      ok       offers 3 tools, 0 resources, 1 resource template
      ok       declares: sends log messages, reports resource changes, reports tool changes, tasks, dual responses
      ok       has instructions: Ask for schools.
      ok       runs tasks on 2026-07-28 and 2025-11-25
               hint: a call continues after you disconnect; `antiphon tasks` shows it
      ok       returns result sets (dual responses)
               hint: `antiphon results` pages, sorts and exports them
      ok       1 of 3 tools have an output schema
      ok       rejects requests from other web pages (status 403)
      ok       supports sessions of 2025-11-25

    --- err
    ");
    let value = &folder.run(&["doctor", &served.mcp, "--json"]).await.json()[0];
    assert_eq!(value["usable"], true);
    assert_eq!(value["attempts"][0]["spoken"], "2026-07-28");
    assert_eq!(value["declared"]["tools"][0], "greet");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_is_described_as_users_of_a_host_see_it() {
    let folder = Folder::new();
    let served = Served::start().await;
    let seen = folder.run(&["doctor", "--as", "gemini-cli", &served.mcp]).await;
    assert_eq!(seen.code, Some(0), "{seen:?}");
    for part in [
        "note     as Gemini CLI 0.61.0: uses 2025-11-25 and declares roots\n",
        "ok       the model can call 2 tools\n",
        "warning  questions do not reach the user: the host does not declare forms\n",
        "warning  the host ends a call after about 60s\n",
        "ok       the model reads only the text of a result",
        "note     the host removes the middle of results with more than 40000 characters\n",
        "THE MODEL CAN CALL IT",
    ] {
        assert!(seen.out.contains(part), "{part:?} is missing: {seen:?}");
    }
    let value = &folder.run(&["doctor", "--as", "cursor", "--json", &served.mcp]).await.json()[0];
    assert_eq!((&value["as"]["host"], &value["usable"]), (&json!("cursor"), &json!(true)));
    assert_eq!(value["as"]["tools"][0], json!({"name": "greet", "callable": "yes", "remark": ""}));
    let unknown = folder.run(&["doctor", "--as", "mosaic", &served.mcp]).await;
    assert!(unknown.code == Some(2) && unknown.err.contains("the host is unknown"), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_cannot_be_used_ends_with_one_and_says_what_to_do() {
    let folder = Folder::new();
    let away = folder.run(&["doctor", "http://127.0.0.1:1/mcp"]).await;
    assert_eq!(away.code, Some(1));
    assert!(away.out.contains("problem  the connection failed"), "{away:?}");
    assert!(away.out.contains("hint: no server listens at this address"), "{away:?}");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let challenge = [("WWW-Authenticate", "Bearer")];
    let app = axum::Router::new().fallback(move || async move { (StatusCode::UNAUTHORIZED, challenge) });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let refused = folder.run(&["doctor", &url]).await;
    assert!(refused.out.contains("the server requires authentication"), "{refused:?}");
    assert!(refused.out.contains("ANTIPHON_TOKEN"), "{refused:?}");

    let program = tokio::time::timeout(Duration::from_secs(30), folder.run(&["doctor", "false"])).await;
    let program = program.unwrap();
    assert!(program.out.contains("(exit status: 1)"), "{program:?}");
    assert!(program.out.contains("hint: run the program in a terminal"), "{program:?}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_that_stops_is_shown_with_its_exit_status_and_standard_error() {
    let folder = Folder::new();
    let broken = "sh -c 'echo error: could not compile >&2; echo 3 errors >&2; exit 101'";
    let doctor = folder.run(&["doctor", broken]).await;
    assert!(doctor.out.contains("(exit status: 101); its standard error ends with:"), "{doctor:?}");
    assert!(doctor.out.contains("|    error: could not compile\n"), "{doctor:?}");
    assert!(doctor.out.contains("|    3 errors\n"), "{doctor:?}");
    for command in ["tools", "prompts", "resources"] {
        let said = folder.run(&[command, broken]).await;
        assert_eq!(said.code, Some(6), "{said:?}");
        assert!(said.err.contains("(exit status: 101); its standard error ends with:\n"), "{said:?}");
        assert!(said.err.ends_with("    error: could not compile\n    3 errors\n"), "{said:?}");
    }
    // Reports are shared, so passwords and tokens of the program are hidden.
    let secret =
        "sh -c 'echo cannot reach \"postgres://u:sesame@h/db\": refused, --api-key=sesame >&2; exit 1'";
    for command in ["doctor", "tools"] {
        let said = folder.run(&[command, secret]).await;
        let text = format!("{}{}", said.out, said.err);
        assert!(text.contains("cannot reach") && text.contains("refused"), "{text}");
        let shown = text.lines().filter(|line| !line.contains("sh -c"));
        assert!(!shown.collect::<String>().contains("sesame"), "{text}");
    }
    // A program can stop without a reason.
    let silent = folder.run(&["tools", "sh -c 'exit 3'"]).await;
    assert!(silent.err.contains("(exit status: 3)\nhint: run the program in a terminal"), "{silent:?}");
    // Only the end of a long text is shown.
    let long = folder.run(&["tools", "sh -c 'seq 100000 >&2; exit 1'"]).await;
    assert!(long.err.contains("\n    99981\n") && long.err.ends_with("    100000\n"), "{long:?}");
    assert!(!long.err.contains("99980\n"), "{long:?}");
}

/// A server that prints, written by hand. It returns an error from its tool.
#[cfg(unix)]
const PRINTS: &str = r#"
echo 'connected with --token sesame'
read x
echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"prints","version":"1"}}}'
read x
read x
echo '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"work","description":"Works","inputSchema":{"type":"object"}}]}}'
read x
echo '{"jsonrpc":"2.0","id":2,"result":{"isError":true,"content":[{"type":"text","text":"the tool failed unexpectedly: its code panicked; the standard error output of the server contains the panic message"}]}}'
cat > /dev/null
"#;

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_on_standard_output_is_shown_without_secrets() {
    let folder = Folder::new();
    folder.write("prints.sh", PRINTS);
    let line = "standard output that is not an MCP message: `connected with --token ***";
    let old = ["sh prints.sh", "--revision", "2025-11-25"];
    let tools = folder.run(&[&["tools"][..], &old].concat()).await;
    assert_eq!(tools.code, Some(0), "{tools:?}");
    assert!(tools.err.contains(&format!("warning: the program wrote a line to {line}")), "{tools:?}");
    let doctor = folder.run(&[&["doctor"][..], &old].concat()).await;
    assert!(doctor.out.contains(&format!("warning  wrote a line to {line}")), "{doctor:?}");
    assert!(doctor.out.contains("hint: a server must write logs to standard error"), "{doctor:?}");
    let call = folder.run(&["call", "--revision", "2025-11-25", "sh prints.sh", "work"]).await;
    assert!(call.code == Some(4) && call.err.contains(line), "{call:?}");
    assert!(call.err.contains("hint: `--verbose` shows the standard error output"), "{call:?}");
    assert!(!format!("{tools:?}{doctor:?}{call:?}").contains("sesame"), "{tools:?}{doctor:?}{call:?}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_that_is_not_a_server_is_named_as_such() {
    let folder = Folder::new();
    // With long lines, the limit in bytes is reached after fewer lines.
    let yes = format!("yes {}", "y".repeat(2000));
    for (program, part, hint) in [
        ("cat", "sent the host's own request back", "hint: with Docker, use `docker run -i`"),
        (yes.as_str(), "which begins with `yyy", "hint: the server may need another argument"),
    ] {
        for (command, code) in [("tools", 6), ("doctor", 1)] {
            let ended =
                tokio::time::timeout(Duration::from_secs(30), folder.run(&[command, program])).await.unwrap();
            assert_eq!(ended.code, Some(code), "{ended:?}");
            assert!(ended.whole().contains(part) && ended.whole().contains(hint), "{ended:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_error_names_its_cause_and_what_to_do() {
    let (folder, served) = (Folder::new(), Served::start().await);
    let with = |from: &str, to: &str| served.mcp.replace(from, to);
    let (tls, path) = (with("http://", "https://"), with("/mcp", "/mpc"));
    for (url, cause, hint) in [
        ("http://127.0.0.1:1/mcp", "Connection refused", "no server listens"),
        ("http://no-such-host.invalid/mcp", "failed to lookup address", "the host name cannot be resolved"),
        (&tls, "InvalidContentType", "Try `http://`"),
        (&path, "HTTP 404 Not Found", "check the path of the URL"),
    ] {
        for command in ["tools", "doctor"] {
            let said = folder.run(&[command, url]).await;
            let text = format!("{}{}", said.out, said.err);
            assert!(text.contains(cause) && text.contains(hint), "{command} {url}: {text}");
        }
    }
    let said = folder.run(&["tools", &served.mcp, "--header", "Host: mcp.example.com"]).await;
    assert!(said.err.contains("with_allowed_hosts"), "{said:?}");
    let address = served.mcp.trim_start_matches("http://");
    let said = folder.run(&["tools", address]).await;
    assert!(said.err.contains(&format!("write `http://{address}`")), "{said:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_servers_are_looked_at_and_one_that_is_not_well_is_named() {
    let (folder, served) = (Folder::new(), Served::start().await);
    let both = folder.run(&["doctor", &served.mcp, "http://127.0.0.1:1/mcp"]).await;
    assert_eq!(both.code, Some(1));
    assert!(both.out.contains("ok       supports 2026-07-28 and 2025-11-25"), "{both:?}");
    assert!(both.err.starts_with("error: `http://127.0.0.1:1/mcp` cannot be used"), "{both:?}");
    let unknown = folder.run(&["doctor", &served.mcp, "nosuch", "--json"]).await;
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    let values = unknown.json();
    assert_eq!((&values[0]["usable"], &values[1]["usable"]), (&true.into(), &false.into()));
    assert!(values[1]["findings"][0]["message"].as_str().unwrap().starts_with("there is no server `nosuch`"));
}

#[tokio::test]
async fn key_in_an_address_is_in_no_report() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path().join("config")).unwrap();
    let server = json!({"url": "http://127.0.0.1:9/mcp?api_key=${KEY_OF_A_TEST}"});
    folder.write("config/servers.json", &json!({"mcpServers": {"kept": server}}).to_string());
    for arguments in [&["doctor", "kept", "--json"][..], &["doctor", "kept"], &["tools", "kept"]] {
        let said = folder.run_with(arguments, &[("KEY_OF_A_TEST", "sekret")], "").await;
        assert!(!said.whole().contains("sekret"), "{arguments:?}: {said:?}");
    }
}
