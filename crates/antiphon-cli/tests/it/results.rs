//! `antiphon results`.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::ground::{Folder, Served};

async fn set(served: &Served) -> (Value, String) {
    let answer = served.answer().await;
    let url = answer["structuredContent"]["resource"]["url"].as_str().unwrap().to_owned();
    (answer, url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_paged_and_sorted_in_a_table() {
    let (folder, served) = (Folder::new(), Served::start().await);
    let (_, url) = set(&served).await;
    let page = folder.run(&["results", &url, "--sort", "id:desc", "--limit", "3", "--offset", "1"]).await;
    assert_snapshot!(page.whole(), @"
    exit 0
    --- out
       id  name              size
     2499  School, no. 2499  null
     2498  School, no. 2498   334
     2497  School, no. 2497   297
    --- err
    rows 2 to 4 of 2,500
    next: --offset 4
    ");
    let page = folder.run(&["results", &url, "--limit", "2", "--columns", "size,id", "--json"]).await.json();
    assert_eq!((&page["total"], &page["next"]), (&json!(2500), &json!(2)));
    assert_eq!(page["rows"][0], json!({"id": 1, "name": "School, no. 1", "size": 37}));
    let beyond = folder.run(&["results", &url, "--offset", "9000"]).await;
    assert!(beyond.err.contains("no rows from 9,000 on; there are 2,500"), "{beyond:?}");
    for (arguments, part) in [
        (&["--columns", "zebra"][..], "column `zebra` does not exist; the columns are id, name, size"),
        (&["--sort", "id:up"], "`up` is not a sort order"),
    ] {
        let wrong = folder.run(&[&["results", &url], arguments].concat()).await;
        assert_eq!(wrong.code, Some(2), "{wrong:?}");
        assert!(wrong.err.contains(part), "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn address_that_a_server_chose_is_gone_to_only_with_leave() {
    let (folder, served) = (Folder::new(), Served::start().await);
    let (answer, _) = set(&served).await;
    let file = folder.write("answer.json", &answer.to_string());
    let refused = folder.run(&["results", file.to_str().unwrap()]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains(&format!("add `--origin {}`", served.origin)), "{refused:?}");
    let arguments = ["results", "-", "--origin", &served.origin, "--limit", "1"];
    let shown = folder.run_with(&arguments, &[], &answer.to_string()).await;
    assert!(shown.err.contains("rows 1 to 1 of 2,500"), "{shown:?}");
    let none = folder.run_with(&["results", "-"], &[], r#"{"content": []}"#).await;
    assert!(none.code == Some(2) && none.err.contains("antiphon call --json"), "{none:?}");
    let missing = folder.run(&["results", "nowhere.json"]).await;
    assert!(missing.code == Some(2) && missing.err.contains("neither a URL nor a file"), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_is_away_or_lets_nobody_in_ends_with_six() {
    let folder = Folder::new();
    let away = folder.run(&["results", "http://127.0.0.1:1/resources/abc"]).await;
    assert_eq!(away.code, Some(6), "{away:?}");
    assert!(away.err.contains("check that the server is running at this address"), "{away:?}");
    let closed = axum::Router::new().fallback(|| async { axum::http::StatusCode::UNAUTHORIZED });
    let origin = crate::support::serve_router(closed).await;
    let closed = folder.run(&["results", "export", &format!("{origin}/resources/abc")]).await;
    assert_eq!(closed.code, Some(6), "{closed:?}");
    assert!(closed.err.contains("ANTIPHON_TOKEN"), "{closed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_is_exported_in_each_format() {
    let (folder, served) = (Folder::new(), Served::start().await);
    let (_, url) = set(&served).await;
    let export = |file: &'static str| {
        let (folder, url) = (&folder, url.clone());
        async move {
            let ended = folder.run(&["results", "export", &url, "--output", file]).await;
            assert_eq!(ended.err, format!("2,500 rows are in {file}\n"));
            std::fs::read_to_string(folder.path().join(file)).unwrap()
        }
    };
    let csv = export("all.csv").await;
    let mut lines = csv.split("\r\n");
    assert_eq!(lines.next(), Some("id,name,size"));
    assert_eq!(lines.next(), Some("1,\"School, no. 1\",37"));
    assert_eq!(lines.nth(5), Some("7,\"School, no. 7\","));
    assert_eq!(csv.matches("\r\n").count(), 2_501);
    let array: Vec<Value> = serde_json::from_str(&export("all.json").await).unwrap();
    assert_eq!(array.len(), 2_500);
    let lines = export("all.ndjson").await;
    assert_eq!(lines.lines().count(), 2_500);
    let piped = folder.run(&["results", "export", &url]).await;
    assert_eq!(piped.out, lines);

    let there = folder.run(&["results", "export", &url, "--output", "all.csv"]).await;
    assert!(there.code == Some(2) && there.err.contains("--force"), "{there:?}");
    let forced =
        folder.run(&["results", "export", &url, "-o", "all.csv", "--force", "--format", "json"]).await;
    assert_eq!(forced.code, Some(0));
    assert!(std::fs::read_to_string(folder.path().join("all.csv")).unwrap().starts_with('['));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_is_described_pinned_and_deleted() {
    let (folder, served) = (Folder::new(), Served::start().await);
    let (_, url) = set(&served).await;
    assert_eq!(folder.run(&["results", "pin", &url]).await.err, "pinned\n");
    let info = folder.run(&["results", "info", &url]).await.out;
    assert!(info.contains("rows     2,500") && info.contains("expires  never"), "{info}");
    assert_eq!(folder.run(&["results", "unpin", &url, "--json"]).await.json(), json!({"unpinned": true}));
    assert_eq!(folder.run(&["results", "delete", &url]).await.err, "deleted\n");
    assert_eq!(folder.run(&["results", "delete", &url]).await.code, Some(3));
    let gone = folder.run(&["results", &url]).await;
    assert_eq!(gone.code, Some(3));
    assert!(gone.err.contains("call the tool again"), "{gone:?}");
    let broken = folder.run(&["results", "export", &url, "--output", "gone.csv"]).await;
    assert_eq!(broken.code, Some(3), "{broken:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing half is left behind");
}
