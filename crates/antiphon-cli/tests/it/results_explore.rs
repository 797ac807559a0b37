//! `antiphon results` against the example `explore`: a real server, with snapshots and SQL.

use std::{path::PathBuf, process::Stdio};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::ground::Folder;

/// A server with one set of 5,000 sales.
pub(crate) struct Explore {
    _child: Child,
    pub(crate) url: String,
    link: String,
    view: String,
    pub(crate) mcp: String,
}

impl Explore {
    /// Starts the example. Where only this crate is tested, it may not have been built: then nothing is tested, and CI
    /// says so.
    #[expect(clippy::print_stderr, reason = "a test that does not run says so")]
    pub(crate) async fn start() -> Option<Self> {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_antiphon")).with_file_name("explore");
        if !program.exists() {
            assert!(std::env::var_os("CI").is_none(), "{} is not built", program.display());
            eprintln!("skipped: {} is not built; `cargo build -p explore` does it", program.display());
            return None;
        }
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0", "--rows", "5000", "--data", "memory:"]);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        let mcp = text("mcp");
        let url = format!("{}/resources/{}", mcp.strip_suffix("/mcp").unwrap(), text("id"));
        Some(Self { _child: child, url, link: text("link"), view: text("view"), mcp })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_filtered_and_sorted_by_several_columns() {
    let Some(explore) = Explore::start().await else { return };
    let folder = Folder::new();
    let arguments = ["results", &explore.url, "--filter", "state in (NJ, NY)", "--filter", "quantity>=2"];
    let sorted = [&arguments[..], &["--sort", "state,-amount", "--limit", "500", "--json"]].concat();
    let page = folder.run(&sorted).await.json();
    let rows = page["rows"].as_array().unwrap();
    assert!(!rows.is_empty() && page["total"].as_u64().unwrap() < 5_000, "{page}");
    let key = |row: &Value| (row["state"].as_str().unwrap().to_owned(), -row["amount"].as_f64().unwrap());
    assert!(rows.is_sorted_by(|a, b| key(a) <= key(b)), "{page}");
    assert!(rows.iter().all(|row| row["quantity"].as_u64().unwrap() >= 2), "{page}");
    let wrong = folder.run(&["results", &explore.url, "--sort", "zebra"]).await;
    assert!(wrong.code == Some(2) && wrong.err.contains("zebra"), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_in_sql_is_answered_with_a_set_of_its_own() {
    let Some(explore) = Explore::start().await else { return };
    let folder = Folder::new();
    let sql = "SELECT state, count(*) AS n FROM result GROUP BY state ORDER BY n DESC, state";
    let answer = folder.run(&["results", "query", &explore.url, sql, "--name", "By state"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.trim_start().starts_with("state") && answer.out.contains("CA"), "{answer:?}");
    let url = answer.err.lines().find_map(|line| line.strip_prefix("all rows: ")).unwrap().to_owned();
    let info = folder.run(&["results", "info", &url]).await.out;
    assert!(info.contains("made of  result = ") && info.contains("by       SELECT"), "{info}");

    let id = url.rsplit('/').next().unwrap();
    let joined = "SELECT count(*) AS n FROM result JOIN states USING (state)";
    let table = format!("states={id}");
    let arguments = ["results", "query", &explore.url, joined, "--table", &table, "--json"];
    let joined = folder.run(&arguments).await.json();
    assert_eq!(joined["data"], json!([{"n": 5_000}]));
    let hostile = folder.run(&["results", "query", &explore.url, "COPY result TO '/tmp/out.csv'"]).await;
    assert!(hostile.code == Some(2) && hostile.err.contains("(rule `"), "{hostile:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_are_described_with_pictures() {
    let Some(explore) = Explore::start().await else { return };
    let folder = Folder::new();
    let stats = folder.run(&["results", "stats", &explore.url]).await;
    assert_eq!(stats.code, Some(0), "{stats:?}");
    let line =
        |name: &str| stats.out.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
    assert!(line("amount").contains(['▁', '▂', '▃', '▅', '▇']), "{}", stats.out);
    assert!(line("id").contains("5000") && !stats.out.contains('\u{1b}'), "{}", stats.out);
    let stats = folder.run(&["results", "stats", &explore.url, "--json"]).await.json();
    assert_eq!(stats["columns"].as_array().unwrap().len(), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_format_is_exported_and_says_what_it_is() {
    let Some(explore) = Explore::start().await else { return };
    let folder = Folder::new();
    for (file, begin) in [
        ("all.ndjson", &b"{\"id\":1,"[..]),
        ("all.csv", b"id,customer,state,"),
        ("all.json", b"[\n{\"id\":1,"),
        ("all.parquet", b"PAR1"),
        ("all.arrow", b"\xff\xff\xff\xff"),
        ("all.xlsx", b"PK\x03\x04"),
    ] {
        let ended = folder.run(&["results", "export", &explore.url, "-o", file]).await;
        assert_eq!(ended.err, format!("5,000 rows are in {file}\n"));
        let bytes = std::fs::read(folder.path().join(file)).unwrap();
        assert!(bytes.starts_with(begin), "{file}: {:?}", &bytes[..bytes.len().min(40)]);
    }
    let parquet = std::fs::read(folder.path().join("all.parquet")).unwrap();
    // Half of it, as an interrupted export leaves it, becomes the same.
    let info = folder.run(&["results", "info", &explore.url, "--json"]).await.json();
    let digest = info["manifest"]["digest"].as_str().unwrap().to_owned();
    assert!(digest.starts_with("sha-256:"), "{digest}");
    let head = reqwest::Client::builder().no_proxy().build().unwrap();
    let head = head.head(format!("{}/export?format=parquet", explore.url)).send().await.unwrap();
    let etag = head.headers()["etag"].to_str().unwrap();
    let note = json!({"set": explore.url, "request": "format=parquet", "etag": etag, "total": parquet.len()});
    std::fs::write(folder.path().join("again.parquet.part"), &parquet[..parquet.len() / 2]).unwrap();
    folder.write("again.parquet.part.json", &note.to_string());
    let resumed = folder.run(&["results", "export", &explore.url, "-o", "again.parquet", "--resume"]).await;
    assert_eq!(resumed.err, "5,000 rows are in again.parquet\n");
    assert!(std::fs::read(folder.path().join("again.parquet")).unwrap() == parquet, "not the same bytes");

    let filter = ["--filter", "state=NJ", "--columns", "state,id", "--sort=-id"];
    let some = [&["results", "export", &explore.url, "--format", "csv"][..], &filter].concat();
    let some = folder.run(&some).await.out;
    let mut lines = some.split("\r\n");
    assert_eq!(lines.next(), Some("state,id"));
    assert!(lines.filter(|line| !line.is_empty()).all(|line| line.starts_with("NJ,")), "{some}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn viewer_is_opened_at_a_signed_link() {
    let Some(explore) = Explore::start().await else { return };
    let folder = Folder::new();
    let opened = folder.run(&["results", "open", &explore.url, "--print"]).await;
    let url = opened.out.trim().to_owned();
    assert!(url.starts_with(&format!("{}/view?link=", explore.url)), "{opened:?}");
    let page = reqwest::Client::builder().no_proxy().build().unwrap().get(&url).send().await.unwrap();
    assert!(page.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
    // Whoever has a link already needs no other.
    let same = folder.run(&["results", "open", &explore.link, "--print"]).await;
    assert_eq!(same.out.trim(), explore.view);
    let gone = folder.run(&["results", "open", &format!("{}x", explore.url), "--print"]).await;
    assert_eq!(gone.code, Some(3), "{gone:?}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn browser_is_led_to_the_viewer_without_telling_others_the_link() {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    let Some(explore) = Explore::start().await else { return };
    let folder = Folder::new();
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let browser = folder.write(program, "#!/bin/sh\necho \"$@\" > \"$NOTED\"\n");
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let noted = folder.path().join("noted");
    assert!(Command::new("mkfifo").arg(&noted).status().await.unwrap().success());
    let place = folder.path().to_str().unwrap().to_owned();
    let env = [("PATH", &*place), ("NOTED", noted.to_str().unwrap()), ("TMPDIR", &place)];
    let reading = {
        let noted = noted.clone();
        tokio::task::spawn_blocking(move || fs::read_to_string(noted).unwrap())
    };
    let opened = folder.run_with(&["results", "open", &explore.url], &env, "").await;
    assert!(opened.code == Some(0) && opened.out.is_empty(), "{opened:?}");
    let given = reading.await.unwrap();
    assert!(!given.contains("link="), "the link is on a command line: {given}");
    let page = fs::read_to_string(given.trim()).unwrap();
    assert!(page.contains(&format!("url={}/view?link=", explore.url)), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_that_answers_with_a_set_is_piped_into_the_command() {
    let Some(explore) = Explore::start().await else { return };
    let folder = Folder::new();
    let answer = folder.run(&["call", &explore.mcp, "search_sales", "--rows", "300", "--json"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let origin = explore.mcp.strip_suffix("/mcp").unwrap();
    let arguments = ["results", "-", "--origin", origin, "--limit", "1"];
    let shown = folder.run_with(&arguments, &[], &answer.out).await;
    assert!(shown.err.contains("rows 1 to 1 of 300"), "{shown:?}");
}
