//! A model asks what it never saw; a person pages all of it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use antiphon::results::{Access, DualResponseServer, PageOptions};
use antiphon::snapshot::{
    Snapshots,
    arrow::{
        array::{Array as _, AsArray as _},
        compute::concat_batches,
        datatypes::{Decimal128Type, Float64Type, Int64Type, TimestampMicrosecondType},
    },
};
use antiphon::{
    Result, Server,
    results::RESULT_META,
    testing::{Client, Revision},
};
use explore::sales::{made, schema};
use serde_json::{Value, json};

const BASE: &str = "http://127.0.0.1:3002/resources";

fn served() -> (DualResponseServer, Server) {
    let results = explore::results(BASE, Snapshots::open("memory:").unwrap()).unwrap();
    let server = explore::server(&results).unwrap();
    (results, server)
}

/// The set an answer is about.
fn id(result: &Value) -> String {
    result["_meta"][RESULT_META]["id"].as_str().unwrap_or_else(|| panic!("no set in {result}")).to_owned()
}

async fn host(server: &Server, revision: Revision) -> Result<Client> {
    let apps =
        json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}});
    Client::connect_with(server, revision, apps).await
}

#[test]
fn sales_are_the_same_however_they_are_cut() {
    let whole = made(0..10_000, 10_000).unwrap();
    let parts: Vec<_> = [0..1, 1..4_097, 4_097..10_000].map(|part| made(part, 10_000).unwrap()).into();
    assert_eq!(whole, concat_batches(&schema(), &parts).unwrap());
}

#[test]
fn sales_have_seasons_a_long_tail_and_gaps() {
    const ROWS: u32 = 50_000;
    const DAY: i64 = 86_400_000_000;
    let batch = made(0..u64::from(ROWS), u64::from(ROWS)).unwrap();
    let column = |name: &str| batch.column_by_name(name).unwrap();
    let share = |count: usize| f64::from(u32::try_from(count).unwrap()) / f64::from(ROWS);
    assert!((0.02..0.06).contains(&share(column("channel").null_count())));
    assert!((0.30..0.45).contains(&share(column("rating").null_count())));
    let ratings = column("rating").as_primitive::<Float64Type>();
    assert!(ratings.iter().flatten().all(|rating| (1.0..=5.0).contains(&rating)));

    let mut amounts: Vec<i128> = column("amount").as_primitive::<Decimal128Type>().values().to_vec();
    amounts.sort_unstable();
    let (half, top) = (amounts[amounts.len() / 2], amounts[amounts.len() - 1]);
    assert!(amounts[0] > 0 && top > 100 * half, "the largest is {top}, the middle {half}");

    let moments = column("sold_at").as_primitive::<TimestampMicrosecondType>().values();
    assert!(moments.is_sorted());
    let first = moments[0] / DAY;
    assert!((545..=548).contains(&(moments[moments.len() - 1] / DAY - first)));
    let of_days = |days: std::ops::Range<i64>| {
        moments.iter().filter(|moment| days.contains(&(**moment / DAY - first))).count()
    };
    // As many days of each.
    assert!(2 * of_days(325..358) > 3 * of_days(280..313), "December sells more than October");

    let ids = column("id").as_primitive::<Int64Type>();
    assert_eq!((ids.value(0), ids.value(ids.len() - 1)), (1, i64::from(ROWS)));
}

/// The whole of it: the model gets fifteen rows, asks all of them, and asks what it was answered; a person pages both sets.
#[tokio::test]
async fn model_goes_on_from_rows_it_never_saw_and_a_person_pages_all_of_them() -> Result<()> {
    const ROWS: u64 = 20_000;
    let (results, server) = served();
    for revision in Revision::BOTH {
        let mut model = Client::connect(&server, revision).await?;
        let found = model.call("search_sales", json!({"rows": ROWS})).await?;
        assert!(found.text().contains("15 of 20000 follow"), "{}", found.text());
        let sales = id(&found.result);

        let described = model.call("describe_result", json!({"result": sales})).await?;
        assert!(!described.is_error(), "{}", described.text());
        assert!(described.text().starts_with("20000 rows."), "{}", described.text());
        assert!(
            described.text().contains("\nid integer | 20000 different | 1 to 20000"),
            "{}",
            described.text()
        );
        assert!(described.text().contains("'CA'"), "{}", described.text());

        let sql = "SELECT state, count(*) AS n, sum(amount) AS total FROM result GROUP BY state ORDER BY n DESC, state";
        let ask = json!({"sql": sql, "result": format!("resource://{sales}"), "name": "Sales by state"});
        let grouped = model.call("query_result", ask).await?;
        assert!(!grouped.is_error(), "{}", grouped.text());
        let structured = &grouped.result["structuredContent"];
        assert_eq!(
            (&structured["results"][0]["state"], &structured["metadata"]["total_count"]),
            (&json!("CA"), &json!(50))
        );
        assert_eq!(structured["metadata"]["lineage"], json!({"sources": [["result", sales]], "query": sql}));
        assert_eq!(structured["resource"]["name"], "Sales by state");

        let states = id(&grouped.result);
        assert_ne!(states, sales);
        let ask = json!({"sql": "SELECT sum(n) AS n, count(*) AS states FROM result", "result": states});
        let summed = model.call("query_result", ask).await?;
        assert_eq!(summed.result["structuredContent"]["results"], json!([{"n": ROWS, "states": 50}]));

        let ask = json!({
            "sql": "SELECT count(*) AS n FROM result JOIN states ON result.state = states.state WHERE states.n < 100",
            "result": sales,
            "tables": {"states": format!("{BASE}/{states}")},
        });
        let joined = model.call("query_result", ask).await?;
        assert!(!joined.is_error(), "{}", joined.text());

        let page = results.page(&sales, &Access::Program, PageOptions::new(ROWS - 10, 100)).await?;
        assert_eq!((page.rows.len(), page.total_count, page.has_next), (10, ROWS, false));
        let last: Value = serde_json::from_str(page.rows.iter().last().unwrap())?;
        assert_eq!(last["id"], ROWS);
        let page = results.page(&states, &Access::Program, PageOptions::new(0, 100)).await?;
        assert_eq!(page.rows.len(), 50);
    }
    Ok(())
}

#[tokio::test]
async fn model_that_asks_wrongly_is_told_what_there_is() -> Result<()> {
    let (_, server) = served();
    for revision in Revision::BOTH {
        let mut model = Client::connect(&server, revision).await?;
        let sales = id(&model.call("search_sales", json!({"rows": 100})).await?.result);
        let mut refused = async |sql: &str| -> Result<String> {
            let talk = model.call("query_result", json!({"sql": sql, "result": sales})).await?;
            assert!(talk.is_error(), "{sql}: {}", talk.text());
            Ok(talk.text())
        };
        let unknown = refused("SELECT revenue FROM result").await?;
        assert!(unknown.contains("revenue"), "{unknown}");
        assert!(
            unknown.contains("Columns of `result`: id integer, customer string, state string"),
            "{unknown}"
        );
        let writes = refused("DROP TABLE result").await?;
        assert!(writes.contains("refused ("), "{writes}");
        let foreign = refused("SELECT * FROM rs_other").await?;
        assert!(foreign.contains("refused (") && foreign.contains("rs_other"), "{foreign}");
        assert!(!refused("SELEKT 1").await?.is_empty());
    }
    Ok(())
}

/// What a person sees in a host: pages, statistics and charts come through tools that no model has.
#[tokio::test]
async fn person_looks_at_all_of_it_through_the_host() -> Result<()> {
    const ROWS: u64 = 20_000;
    let (_, server) = served();
    for revision in Revision::BOTH {
        let mut host = host(&server, revision).await?;
        let sales = id(&host.call("search_sales", json!({"rows": ROWS})).await?.result);
        let mut look = async |tool: &str, mut ask: Value| -> Result<Value> {
            ask["id"] = sales.clone().into();
            loop {
                let talk = host.call(tool, ask.clone()).await?;
                let body = talk.result["structuredContent"].clone();
                if body["error"]["code"] == "RESOURCE_NOT_READY" {
                    tokio::task::yield_now().await;
                    continue;
                }
                assert!(!talk.is_error(), "{tool}: {}", talk.text());
                return Ok(body);
            }
        };
        let manifest = look("result_manifest", json!({})).await?;
        assert_eq!((&manifest["rows"], &manifest["status"]), (&json!(ROWS), &json!("ready")));
        assert!(manifest["digest"].as_str().unwrap().starts_with("sha-256:"));
        let page = look("result_page", json!({"offset": ROWS - 1, "limit": 200})).await?;
        assert_eq!((&page["data"][0]["id"], &page["has_next"]), (&json!(ROWS), &json!(false)));
        let ask = json!({
            "limit": 5,
            "columns": ["id", "amount"],
            "sort": [{"field": "amount", "order": "desc"}, {"field": "id"}],
            "filter": [{"column": "state", "op": "eq", "value": "VT"}],
        });
        let largest = look("result_page", ask).await?;
        let amounts: Vec<f64> =
            largest["data"].as_array().unwrap().iter().map(|row| row["amount"].as_f64().unwrap()).collect();
        assert!(amounts.len() == 5 && amounts.is_sorted_by(|a, b| a >= b), "{amounts:?}");
        assert!(largest["total_count"].as_u64().unwrap() < ROWS / 20);
        let stats = look("result_stats", json!({})).await?;
        assert_eq!(stats["columns"].as_array().unwrap().len(), 8);
        let ask = json!({
            "groups": [{"column": "sold_at", "bucket": "month"}],
            "measures": [{"op": "count"}, {"op": "sum", "column": "amount"}],
        });
        let months = look("result_aggregate", ask).await?;
        let counted = months["data"].as_array().unwrap().iter().map(|month| month["m0"].as_u64().unwrap());
        assert_eq!((months["groups"].as_u64(), counted.sum::<u64>()), (Some(18), ROWS));
    }
    Ok(())
}

/// The program itself: a set at start-up, the line that says where it is, and the link that opens it.
#[test]
fn program_prints_where_to_look_when_all_rows_are_written() {
    struct Stopped(Child);
    impl Drop for Stopped {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_explore"));
    command.args(["--listen", "127.0.0.1:0", "--rows", "70_000", "--data"]).arg(folder.path());
    let mut program = Stopped(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(program.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let shown: Value = serde_json::from_str(&line).unwrap();
    let id = shown["id"].as_str().unwrap();
    let link = shown["link"].as_str().unwrap();
    assert!(shown["mcp"].as_str().unwrap().ends_with("/mcp"));
    assert!(shown["view"].as_str().unwrap().contains(&format!("/resources/{id}/view?link=")), "{shown}");
    let (set, token) = link.split_once("?link=").unwrap();
    let page = get(&format!("{set}/rows?offset=69999&link={token}"));
    assert!(page.starts_with("HTTP/1.1 200") && page.contains(r#""id":70000"#), "{page}");
    let viewer = get(shown["view"].as_str().unwrap());
    assert!(viewer.starts_with("HTTP/1.1 200") && viewer.contains("text/html"), "{viewer}");
}

/// The answer to a request, head and all.
fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
