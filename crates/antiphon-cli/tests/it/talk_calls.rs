//! Calls: their arguments, and what becomes of them.

use antiphon::prelude::*;
use antiphon_results::{
    CreateOptions, DualResponse, DualResponseServer, DualResponseServerOptions, Rows, Source,
};
use serde_json::json;

use crate::{
    support::{BOTH, Folder, antiphon, antiphon_with, plain, serve},
    talk::server,
};

async fn report(ctx: &Ctx, _: ()) -> Result<DualResponse> {
    let mut rows = Rows::new();
    for id in 1..=40 {
        rows.push(&json!({"id": id, "name": format!("Institution\u{1b}[31m {id}"), "open": id % 2 == 0}))?;
    }
    ctx.dual_response(CreateOptions::new("Report", Source::rows(rows))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flags_are_made_from_the_schema() {
    let url = serve(&server()).await;
    let flags =
        "--name Ada --count 3 --dry-run --tag a --tag=b --mood glad --address.city Bern --address.zip 3000";
    let words: Vec<&str> = ["call", &url, "echo"]
        .into_iter()
        .chain(flags.split(' '))
        .chain(["--rest", r#"{"a":[1]}"#])
        .collect();
    let said = antiphon(&words).await.ended(0);
    let expected = json!({"name": "Ada", "count": 3, "dryRun": true, "tag": ["a", "b"], "mood": "glad",
        "address": {"city": "Bern", "zip": 3000}, "rest": {"a": [1]}});
    assert_eq!(said.json(), expected);
    // What follows the tool is the tool's, also where we have a flag of that name.
    let said =
        antiphon(&["call", &url, "echo", "--task", "mine", "--name=x", "--address.city=y"]).await.ended(0);
    assert_eq!(said.json()["task"], "mine");
    // Where we have the only one, it is ours.
    let said = antiphon(&["call", &url, "echo", "--name=x", "--address.city=y", "--json"]).await.ended(0);
    assert_eq!(said.json()["structuredContent"]["name"], "x");
    let said =
        antiphon(&["call", &url, "echo", "--", "--name=x", "--address.city=y", "--dry-run=false"]).await;
    assert_eq!(said.ended(0).json()["dryRun"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_are_json_from_the_line_a_file_or_standard_input_and_flags_go_over_them() {
    let url = serve(&server()).await;
    let json = r#"{"name": "Ada", "address": {"city": "Bern"}, "odd name": "yes"}"#;
    let folder = Folder::new();
    let file = format!("@{}", folder.file("arguments.json", json));
    for said in [json, &file, "-"] {
        let said =
            antiphon_with(json, &["call", "--arguments", said, &url, "echo", "--name", "Eve"]).await.ended(0);
        assert_eq!(said.json(), json!({"name": "Eve", "address": {"city": "Bern"}, "odd name": "yes"}));
    }
    let wrong = antiphon(&["call", &url, "echo", "--arguments", "[1]"]).await.ended(2);
    insta::assert_snapshot!(wrong.err, @r#"error: `--arguments` must be a JSON object: '{"name": "Ada"}'"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_use_says_what_is_wanted() {
    let url = serve(&server()).await;
    let error = async |words: &[&str]| {
        let words: Vec<&str> = [&["call", &url], words].concat();
        plain(&antiphon(&words).await.ended(2).err, &url)
    };
    insta::assert_snapshot!(error(&["echo"]).await, @"
    error: `echo` needs arguments that you did not pass:
      --name <TEXT>
      --address.city <TEXT>
    ");
    insta::assert_snapshot!(error(&["echo", "--count", "many"]).await, @"
    error: invalid value 'many' for '--count <INTEGER>': write a whole number, 1 to 9

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(error(&["echo", "--count", "10"]).await, @"
    error: invalid value '10' for '--count <INTEGER>': write a whole number, 1 to 9

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(error(&["echo", "--nam", "Ada"]).await, @"
    error: unexpected argument '--nam' found

      tip: a similar argument exists: '--name'

    Usage: antiphon call [OPTIONS] URL echo [ARGUMENTS]

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(error(&["echo", "--mood", "gladd"]).await, @"
    error: invalid value 'gladd' for '--mood <CHOICE>'
      [possible values: glad, sad]

      tip: a similar value exists: 'glad'

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(error(&["echo", "--samples", "allow"]).await, @"error: `--samples` must come before the server: antiphon call --samples …");
    insta::assert_snapshot!(error(&["echo", "--name=a", "--address.city=b", "--tag=1", "--tag=2", "--tag=3", "--tag=4"]).await, @"error: `tag`: at most 3 are wanted");
    let help = antiphon(&["call", &url, "echo", "--help"]).await.ended(0);
    insta::assert_snapshot!(plain(&help.out, &url), @"
    Says what it was told

    Usage: antiphon call [OPTIONS] URL echo [ARGUMENTS]

    Arguments:
          --name <TEXT>             Who it is [required]
          --count <INTEGER>         How often [whole number, 1 to 9]
          --dry-run [<true|false>]  [yes or no]
          --tag <TEXT>              [can be given more than once]
          --mood <CHOICE>           [possible values: glad, sad]
          --task <TEXT>             A flag we have as well
          --address.city <TEXT>     [required]
          --address.zip <INTEGER>   [whole number, 0 or more]
          --rest <JSON>             [JSON]

    Options:
          --json               Print JSON instead of text
          --arguments <JSON>   Pass the arguments as JSON: an object, `@file.json`, or `-` for standard
                               input. Flags override it
          --form               Ask for all arguments that you did not pass, not only for the required
                               ones
          --detach             Run the call as a task, print its ID, and do not wait for the result
          --timeout <TIME>     Set the maximum time for each response of the server, for example 500ms,
                               30s or 5m [default: none]
          --log-level <LEVEL>  Show log messages of this severity or higher [default: info, or debug
                               with --verbose] [possible values: debug, info, notice, warning, error,
                               critical, alert, emergency, off]
          --save <FOLDER>      Save images, audio and other files of the result in this folder
      -h, --help               Show this

    Only with --arguments: odd name
    ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tools_error_is_cleaned_and_ends_with_4() {
    let url = serve(&server()).await;
    for revision in BOTH {
        let said = antiphon(&["call", "--revision", revision, &url, "fail"]).await.ended(4);
        assert_eq!(
            (said.out.as_str(), said.err.as_str()),
            ("", "the tool failed: out of\u{fffd}[31m paper\n")
        );
        let said = antiphon(&["call", "--revision", revision, "--json", &url, "fail"]).await.ended(4);
        assert_eq!(said.json()["isError"], true);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_end_a_call_and_say_what_to_do() {
    let url = serve(&server()).await;
    let folder = Folder::new();
    let answers = json!({"order": {"size": "small", "count": 1}, "sure": {"sure": true}});
    let answers = folder.file("answers.json", &answers.to_string());
    let said = antiphon(&["call", "--rounds", "2", "--answers", &answers, &url, "order"]).await.ended(1);
    assert!(said.err.contains("more rounds of questions than `--rounds` allows"), "{}", said.err);
    let said = antiphon(&["call", &url, "sleep", "--timeout", "50ms"]).await.ended(1);
    assert!(said.err.contains("within 50ms"), "{}", said.err);
    let said = antiphon(&["call", "http://127.0.0.1:1/mcp", "sleep"]).await.ended(6);
    assert!(said.err.contains("hint: no server listens at this address"), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_that_wants_a_model_where_there_is_none_says_how_to_choose_one() {
    let url = serve(&server()).await;
    let said = antiphon(&["call", &url, "say"]).await.ended(1);
    insta::assert_snapshot!(said.err, @"
    hint: the tool needs a model; set one with `--model` or `--model-url`, or answer yourself with `--samples hand`
    error: the server answered with error -32021: the client has not declared `sampling`, and the server has no model; add one with `ServerBuilder::with_model`
    ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_are_named_and_saved_and_nothing_is_written_over() {
    let url = serve(&server()).await;
    let said = antiphon(&["call", &url, "picture"]).await.ended(0);
    assert_eq!(said.out, "look\n[image/png, 10 B]\n");
    let folder = Folder::new();
    let into = folder.path().to_str().unwrap();
    for _ in 0..2 {
        antiphon(&["call", &url, "picture", "--save", into]).await.ended(0);
    }
    for name in ["picture-1.png", "picture-2.png"] {
        assert_eq!(std::fs::read(folder.path().join(name)).unwrap(), b"not really");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dual_response_is_a_table_and_a_hint() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let results = DualResponseServerOptions::new(format!("{base}/resources"));
    let results = DualResponseServer::new(results).unwrap();
    let server = Server::builder("s", "1").with_results(results).tool(Tool::new("report", "Reports", report));
    let router = server.build().unwrap().router(antiphon::http::HttpConfig::default());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let url = format!("{base}/mcp");
    let said = antiphon(&["call", &url, "report"]).await.ended(0);
    let top: Vec<&str> = said.out.lines().take(5).collect();
    insta::assert_snapshot!(top.join("\n"), @"
    ─────────────────────────────────
     id   name                 open
    ═════════════════════════════════
     1    Institution[31m 1    false
    ─────────────────────────────────
    ");
    let hint = format!("15 of 40 rows; all of them: antiphon results {base}/resources/");
    assert!(said.err.contains(&hint), "{}", said.err);
}
