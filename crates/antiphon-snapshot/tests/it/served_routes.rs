//! The routes to rows that are saved.

use antiphon_results::{Rows, Source};
use antiphon_snapshot::Snapshots;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::served::{House, numbers};

#[tokio::test]
async fn pages_go_on_by_a_cursor_that_is_good_for_its_set_only() {
    let house = House::open().await;
    let (id, other) = (house.numbers(250).await, house.numbers(250).await);
    let mut path = format!("{id}/rows?limit=100&columns=name,id");
    let mut seen = Vec::new();
    loop {
        let answer = house.get(&path).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.headers()["antiphon-consistency"], "fixed");
        let next = answer.headers().get("link").map(|link| link.to_str().unwrap().to_owned());
        let page: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(page["total_count"], 250);
        seen.extend(page["data"].as_array().unwrap().clone());
        let Some(next) = next else { break };
        let url = next.strip_prefix('<').unwrap().split_once('>').unwrap().0;
        path = url.strip_prefix(&format!("{}/", house.base)).unwrap().to_owned();
    }
    assert_eq!(seen.len(), 250);
    assert_eq!(seen[249], json!({"name": "row 249", "id": 249}));

    let answer = house.get(&format!("{id}/rows?limit=100")).send().await.unwrap();
    let link = answer.headers()["link"].to_str().unwrap().to_owned();
    let cursor = link.split_once("cursor=").unwrap().1.split(['&', '>']).next().unwrap();
    assert_eq!(house.json(&format!("{other}/rows?cursor={cursor}")).await.0, 400, "another set's");
    assert_eq!(house.json(&format!("{id}/rows?cursor={cursor}A")).await.0, 400, "changed");
    assert_eq!(house.json(&format!("{id}/rows?cursor={cursor}&sort=id")).await.0, 400, "another order");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_sentence() {
    let house = House::open().await;
    let id = house.numbers(10).await;
    for (path, status) in [
        ("rows?columns=nobody", 400),
        ("rows?columns=", 400),
        ("rows?sort=nobody", 400),
        ("rows?sort=a,b,c,d,e", 400),
        ("rows?filter=x", 400),
        ("rows?filter=[[\"id\",\"eq\",1]]", 400),
        ("rows?filter=[{\"column\":\"nobody\",\"op\":\"eq\",\"value\":1}]", 400),
        ("export?format=pdf", 400),
        ("export?format=csv&format=csv", 400),
        ("export?format=csv&columns=nobody", 400),
        ("chunks/99", 400),
        ("chunks/x", 400),
        ("chunks/0?format=xlsx", 400),
    ] {
        let (found, body) = house.json(&format!("{id}/{path}")).await;
        assert_eq!(found, status, "{path}: {body}");
        assert!(body["message"].as_str().unwrap().len() > 10);
    }
    for body in [
        json!({"sql": ""}),
        json!({"sql": "SELECT 1", "tables": {"result": "rs_x"}}),
        json!({"sql": "SELECT 1", "tables": {"a b": "rs_x"}}),
        json!({"nobody": 1}),
        json!([]),
    ] {
        assert_eq!(house.post(&format!("{id}/query"), &body).await.0, 400, "{body}");
    }
    let body = json!({"sql": "SELECT 1", "tables": {"other": "rs_nobody"}});
    assert_eq!(house.post(&format!("{id}/query"), &body).await.0, 404);
    assert_eq!(
        house.post(&format!("{id}/aggregate"), &json!({"groups": [{"column": "nobody"}]})).await.0,
        400
    );
}

#[tokio::test]
async fn rows_in_hand_have_a_manifest_and_two_formats() {
    let house = House::open().await;
    let rows = Rows::try_from(&[json!({"a": 1}), json!({"a": 2})][..]).unwrap();
    let id = house.make(Source::rows(rows)).await.resource_id;
    let (_, manifest) = house.json(&format!("{id}/manifest")).await;
    assert_eq!(
        (&manifest["rows"], &manifest["exact"], &manifest["digest"]),
        (&json!(2), &json!(true), &Value::Null)
    );
    assert_eq!(manifest["formats"], json!(["ndjson", "csv"]));
    assert_eq!(manifest["can"]["query"], false);
    let answer = house.get(&format!("{id}/export")).send().await.unwrap();
    assert!(answer.headers()["etag"].to_str().unwrap().starts_with('"'), "strong");
    assert!(answer.headers()["content-disposition"].to_str().unwrap().contains(".ndjson"));
    assert_eq!(answer.text().await.unwrap(), "{\"a\":1}\n{\"a\":2}\n");
    for path in ["export?format=parquet", "stats", "chunks/0"] {
        assert_eq!(house.json(&format!("{id}/{path}")).await.0, 409, "{path}");
    }
    assert_eq!(house.post(&format!("{id}/query"), &json!({"sql": "SELECT 1"})).await.0, 409);
    assert_eq!(house.json(&format!("{id}/rows?columns=a")).await.0, 409);
}

#[tokio::test]
async fn every_format_has_a_strong_tag_and_is_the_same_twice() {
    let house = House::open().await;
    let id = house.numbers(3000).await;
    let (_, manifest) = house.json(&format!("{id}/manifest")).await;
    for format in manifest["formats"].as_array().unwrap() {
        let path = format!("{id}/export?format={}", format.as_str().unwrap());
        let answer = house.get(&path).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        let headers = answer.headers().clone();
        let tag = headers["etag"].to_str().unwrap();
        assert!(tag.starts_with('"'), "{path}: {tag}");
        assert_eq!(headers["accept-ranges"], "bytes");
        assert_eq!(headers["antiphon-consistency"], "fixed");
        assert!(headers["content-disposition"].to_str().unwrap().starts_with("attachment"));
        let body = answer.bytes().await.unwrap();
        if let Some(length) = headers.get("content-length") {
            assert_eq!(length.to_str().unwrap(), body.len().to_string());
        }
        assert_eq!(house.get(&path).send().await.unwrap().bytes().await.unwrap(), body, "{path}");
        let known = house.get(&path).header("if-none-match", tag).send().await.unwrap();
        assert_eq!(known.status(), 304, "{path}");
        let head = house.http.head(format!("{}/{path}", house.base)).send().await.unwrap();
        assert_eq!((head.status().as_u16(), head.headers()["etag"].to_str().unwrap()), (200, tag));
        assert!(head.bytes().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn parts_of_every_format_are_parts_of_the_whole() {
    let house = House::open().await;
    let id = house.numbers(3000).await;
    for format in ["parquet", "ndjson", "csv", "arrow"] {
        let path = format!("{id}/export?format={format}");
        let whole = house.get(&path).send().await.unwrap();
        let tag = whole.headers()["etag"].to_str().unwrap().to_owned();
        let whole = whole.bytes().await.unwrap();
        let length = whole.len();
        for (range, expected) in [
            ("bytes=0-99".to_owned(), &whole[..100]),
            (format!("bytes={}-", length - 100), &whole[length - 100..]),
            ("bytes=1000-1999".to_owned(), &whole[1000..2000]),
            ("bytes=-1".to_owned(), &whole[length - 1..]),
            (format!("bytes=5-{}", length * 2), &whole[5..]),
        ] {
            let request = house.get(&path).header("range", &range).header("accept-encoding", "gzip");
            let part = request.header("if-range", &tag).send().await.unwrap();
            assert_eq!(part.status(), 206, "{format} {range}");
            assert!(part.headers().get("content-encoding").is_none(), "a part is never compressed");
            let said = part.headers()["content-range"].to_str().unwrap().to_owned();
            assert!(said.ends_with(&format!("/{length}")) || said.ends_with("/*"), "{format} {said}");
            assert_eq!(part.bytes().await.unwrap(), expected, "{format} {range}");
        }
        let other = house
            .get(&path)
            .header("range", "bytes=0-9")
            .header("if-range", "\"other\"")
            .send()
            .await
            .unwrap();
        assert_eq!((other.status().as_u16(), other.bytes().await.unwrap().len()), (200, length), "{format}");
        let beyond = house.get(&path).header("range", format!("bytes={}-", length + 5)).send().await.unwrap();
        assert_eq!(beyond.status(), 416, "{format}");
        assert_eq!(beyond.headers()["content-range"], format!("bytes */{length}"), "{format}");
        let several = house.get(&path).header("range", "bytes=0-1,4-5").send().await.unwrap();
        assert_eq!(several.status(), 200, "{format}");
    }
}

#[tokio::test]
async fn the_stored_file_has_its_digest_and_is_not_compressed_again() {
    let house = House::open().await;
    let id = house.numbers(3000).await;
    let (_, manifest) = house.json(&format!("{id}/manifest")).await;
    let request = house.get(&format!("{id}/export?format=parquet")).header("accept-encoding", "gzip");
    let answer = request.send().await.unwrap();
    assert!(answer.headers().get("content-encoding").is_none());
    let digest = answer.headers()["repr-digest"].to_str().unwrap().to_owned();
    let bytes = answer.bytes().await.unwrap();
    let found = Sha256::digest(&bytes);
    assert_eq!(digest, format!("sha-256=:{}:", STANDARD.encode(found)));
    let hex = found.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    assert_eq!(manifest["digest"], format!("sha-256:{hex}"));

    let request = house.get(&format!("{id}/export?format=ndjson")).header("accept-encoding", "gzip");
    let answer = request.send().await.unwrap();
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    assert!(answer.headers()["etag"].to_str().unwrap().starts_with("W/"), "other bytes, no strong tag");
}

#[tokio::test]
async fn chunks_together_are_the_set_and_streams_are_exports() {
    let config = antiphon_snapshot::SnapshotConfig::default().with_chunk_rows(1000);
    let house = House::with(&Snapshots::open_with("memory:", [], config).unwrap(), |options| options).await;
    let id = house.make(numbers(3500)).await.resource_id;
    let (_, manifest) = house.json(&format!("{id}/manifest")).await;
    let chunks = manifest["chunks"].as_array().unwrap().len();
    assert!(chunks >= 3, "{manifest}");
    let mut lines = String::new();
    for chunk in 0..chunks {
        let answer = house.get(&format!("{id}/chunks/{chunk}?format=ndjson")).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        lines.push_str(&answer.text().await.unwrap());
    }
    let export = house.get(&format!("{id}/export?format=ndjson")).send().await.unwrap().text().await.unwrap();
    assert_eq!(lines, export);
    let streamed = house.get(&format!("{id}/rows")).header("accept", "application/x-ndjson");
    assert_eq!(streamed.send().await.unwrap().text().await.unwrap(), export);
    let some = house.get(&format!("{id}/rows?offset=10&limit=2&columns=id")).header("accept", "text/csv");
    assert_eq!(some.send().await.unwrap().text().await.unwrap(), "id\r\n10\r\n11\r\n");
}

#[tokio::test]
async fn views_are_paged_like_sets_and_have_counts_of_their_own() {
    let house = House::open().await;
    let id = house.numbers(3000).await;
    let body = json!({
        "sort": [{"field": "id", "order": "desc"}],
        "filter": [{"column": "id", "op": "lt", "value": 100}],
        "limit": 3
    });
    let (mut status, mut page) = house.post(&id, &body).await;
    while status == 202 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        (status, page) = house.post(&id, &body).await;
    }
    assert_eq!((status, &page["total_count"]), (200, &json!(100)), "{page}");
    assert_eq!(page["data"][0], json!({"id": 99, "name": "row 99"}));
    let path =
        format!("{id}/export?format=csv&sort=-id&filter=[{{\"column\":\"id\",\"op\":\"lt\",\"value\":3}}]");
    let mut answer = house.get(&path).send().await.unwrap();
    while answer.status() == 202 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        answer = house.get(&path).send().await.unwrap();
    }
    assert_eq!(answer.text().await.unwrap(), "id,name\r\n2,row 2\r\n1,row 1\r\n0,row 0\r\n");
}

#[tokio::test]
async fn a_query_makes_a_new_set_that_says_what_it_was_made_from() {
    let house = House::open().await;
    let (id, other) = (house.numbers(300).await, house.numbers(10).await);
    let sql = "SELECT r.id, o.name FROM result r JOIN other o ON r.id = o.id ORDER BY r.id DESC";
    let (status, derived) =
        house.post(&format!("{id}/query"), &json!({"sql": sql, "tables": {"other": other}})).await;
    assert_eq!(status, 201, "{derived}");
    assert_eq!((&derived["total_count"], &derived["exact"]), (&json!(10), &json!(true)));
    assert_eq!(derived["lineage"], json!({"sources": [["result", id], ["other", other]], "query": sql}));
    let new = derived["id"].as_str().unwrap();
    let (_, page) = house.json(&format!("{new}/rows?limit=1")).await;
    assert_eq!(page["data"][0], json!({"id": 9, "name": "row 9"}));
    assert_eq!(house.json(&format!("{new}/manifest")).await.1["lineage"], derived["lineage"]);

    let (status, refused) = house.post(&format!("{id}/query"), &json!({"sql": "DROP TABLE result"})).await;
    assert_eq!((status, &refused["code"]), (400, &json!("QUERY_REFUSED")), "{refused}");
    assert!(refused["rule"].is_string(), "{refused}");
}

#[tokio::test]
async fn a_link_queries_only_what_it_opens_and_gets_a_link_to_the_answer() {
    let house = House::open().await;
    let (id, other) = (house.numbers(300).await, house.numbers(10).await);
    let link = |scopes: Value| {
        let house = &house;
        let id = id.clone();
        async move {
            let (_, link) = house.post(&format!("{id}/links"), &json!({"scopes": scopes})).await;
            link["url"].as_str().unwrap().split_once('?').unwrap().1.to_owned()
        }
    };
    let (reads, queries) = (link(json!(["read"])).await, link(json!(["read", "query"])).await);
    let body = json!({"sql": "SELECT max(id) AS most FROM result"});
    assert_eq!(house.post(&format!("{id}/query?{reads}"), &body).await.0, 403);
    let with_other = json!({"sql": "SELECT 1 AS one FROM o", "tables": {"o": other}});
    assert_eq!(house.post(&format!("{id}/query?{queries}"), &with_other).await.0, 403);
    assert_eq!(house.json(&format!("{id}/rows?{queries}")).await.0, 200);
    let (status, derived) = house.post(&format!("{id}/query?{queries}"), &body).await;
    assert_eq!(status, 201, "{derived}");
    let url = derived["url"].as_str().unwrap();
    let path = url.strip_prefix(&format!("{}/", house.base)).unwrap().replacen('?', "/rows?", 1);
    assert_eq!(house.json(&path).await.1["data"], json!([{"most": 299}]));

    house.pass(16 * 60);
    assert_eq!(house.json(&format!("{id}/export?{reads}")).await.0, 401, "an expired link");
}
