//! Pages and streams of rows.

use antiphon_results::{
    Access, ColumnDefinition, Consistency, CreateOptions, DualResponseError, DualResponseServer, ErrorCode,
    PageOptions, Query, ResultLimits, Rows, Sort, Source, source::PageRequest,
};
use futures_util::{StreamExt as _, TryStreamExt as _};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Clock, asked, columns, institution, institutions, kept, options, search, server};

async fn page(server: &DualResponseServer, id: &str, options: PageOptions) -> antiphon_results::Page {
    server.page(id, &Access::Program, options).await.unwrap()
}

#[tokio::test]
async fn pages_follow_each_other_to_the_last() {
    let server = server(&Clock::new());
    let id = search(&server).await.resource_id;
    let first = page(&server, &id, PageOptions::default()).await;
    assert_eq!((first.rows.len(), first.offset, first.next_offset()), (100, 0, Some(100)));
    let last = page(&server, &id, PageOptions::new(800, 100)).await;
    assert_eq!((last.rows.len(), last.has_next, last.next_offset()), (47, false, None));
    let beyond = page(&server, &id, PageOptions::new(10_000, 100)).await;
    assert_eq!((beyond.rows.len(), beyond.has_next, beyond.total_count), (0, false, 847));
}

#[tokio::test]
async fn source_is_asked_for_what_the_page_is() {
    let server = server(&Clock::new());
    let (source, requests, _) = asked(847);
    let response =
        server.create_response(CreateOptions::new("x", source).with_columns(columns())).await.unwrap();
    let sort = Sort::descending("enrollment");
    page(&server, &response.resource_id, PageOptions::new(200, 50).with_sort(sort.clone())).await;
    page(&server, &response.resource_id, PageOptions::new(0, 5)).await;
    let requests = requests.lock().unwrap();
    assert_eq!(requests[1], PageRequest::new(200, 50).with_sort(Some(sort)).with_max_bytes(16 << 20));
    assert_eq!(requests[2].sort, None);
}

#[tokio::test]
async fn rows_in_hand_are_sorted_and_stay_in_order_where_they_are_equal() {
    let server = server(&Clock::new());
    let rows = json!([
        {"id": 1, "x": 2}, {"id": 2, "x": null}, {"id": 3, "x": 10}, {"id": 4, "x": 2}, {"id": 5, "x": "a"}, {"id": 6},
    ]);
    let rows = Rows::from_json_array(&rows.to_string()).unwrap();
    let id = server.create_response(CreateOptions::new("x", Source::rows(rows))).await.unwrap().resource_id;
    let sorted = async |sort: Sort| {
        let page = page(&server, &id, PageOptions::new(0, 10).with_sort(sort)).await;
        page.rows.read::<Value>().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(sorted(Sort::ascending("x")).await, [1, 4, 3, 5, 2, 6]);
    assert_eq!(sorted(Sort::descending("x")).await, [2, 6, 5, 3, 1, 4]);
}

#[tokio::test]
async fn sort_must_be_by_a_column_and_possible() {
    let server = server(&Clock::new());
    let id = search(&server).await.resource_id;
    let options = PageOptions::default().with_sort(Sort::ascending("enrollment; drop table x"));
    let error = server.page(&id, &Access::Program, options).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidRequest);
    let unsorted = CreateOptions::new("x", asked(9).0.unsorted()).with_columns(columns());
    let id = server.create_response(unsorted).await.unwrap().resource_id;
    let options = PageOptions::default().with_sort(Sort::ascending("id"));
    let error = server.page(&id, &Access::Program, options).await.unwrap_err();
    assert_eq!(error.to_string(), "this result set does not support `sort`");
}

#[tokio::test]
async fn limits_are_clamped_in_rows_and_bytes() {
    let limits = ResultLimits::default().with_page_rows(50).with_page_bytes(1_000);
    let server = DualResponseServer::new(options(&Clock::new()).with_limits(limits)).unwrap();
    let id = kept(&server, 200).await.resource_id;
    let first = page(&server, &id, PageOptions::new(0, u64::MAX)).await;
    assert!(first.rows.bytes() <= 1_000 && first.rows.len() < 50, "{:?}", first.rows);
    // What was cut off is on the next page.
    let mut seen = 0;
    let mut offset = Some(0);
    while let Some(at) = offset {
        let next = page(&server, &id, PageOptions::new(at, 50)).await;
        seen += next.rows.len();
        offset = next.next_offset();
    }
    assert_eq!(seen, 200);
}

#[tokio::test]
async fn closures_end_with_their_process_and_failing_ones_say_so() {
    let server = server(&Clock::new());
    let fail = Source::closures(
        |page: PageRequest| async move {
            if page.offset > 0 { Err("the database is gone".into()) } else { Ok(institutions(1)) }
        },
        || async { Ok(10) },
    );
    let id = server.create_response(CreateOptions::new("x", fail)).await.unwrap().resource_id;
    let error = server.page(&id, &Access::Program, PageOptions::new(5, 5)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::QueryExecutionFailed);
}

#[tokio::test]
async fn live_data_that_became_fewer_end_the_pages() {
    let server = server(&Clock::new());
    let fewer = Source::closures(
        |page: PageRequest| async move {
            let left = 30_u64.saturating_sub(page.offset).min(page.limit);
            Ok(institutions(left))
        },
        || async { Ok(100) },
    );
    let id = server.create_response(CreateOptions::new("x", fewer)).await.unwrap().resource_id;
    let last = page(&server, &id, PageOptions::new(20, 20)).await;
    assert_eq!((last.rows.len(), last.has_next), (10, false));
    assert!(!page(&server, &id, PageOptions::new(40, 20)).await.has_next);
}

/// Numbers from 0 to 99 by key.
#[derive(Debug)]
struct Numbers {
    columns: Vec<ColumnDefinition>,
    key: Vec<String>,
}

#[async_trait::async_trait]
impl Query for Numbers {
    fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    fn key(&self) -> &[String] {
        &self.key
    }

    fn sorts(&self) -> bool {
        false
    }

    async fn count(&self, _: &Value) -> Result<u64, antiphon_results::BoxError> {
        Ok(100)
    }

    async fn page(&self, _: &Value, page: &PageRequest) -> Result<Rows, antiphon_results::BoxError> {
        let start = match &page.after {
            Some(after) => after[0].as_u64().ok_or("a key is a number")? + 1,
            None => page.offset,
        };
        let mut rows = Rows::new();
        for n in (start..100).take(usize::try_from(page.limit)?) {
            rows.push(&json!({"n": n}))?;
        }
        Ok(rows)
    }
}

fn numbers(key: &[&str]) -> Numbers {
    Numbers {
        columns: vec![ColumnDefinition::integer("n")],
        key: key.iter().map(|&name| name.to_owned()).collect(),
    }
}

#[tokio::test]
async fn named_queries_with_a_key_go_on_where_the_last_page_ended() {
    let options =
        options(&Clock::new()).with_query("keyed", numbers(&["n"])).with_query("counted", numbers(&[]));
    let server = DualResponseServer::new(options).unwrap();
    let id = async |name: &str| {
        server
            .create_response(CreateOptions::new(name, Source::query(name, json!({}))))
            .await
            .unwrap()
            .resource_id
    };
    let (keyed, counted) = (id("keyed").await, id("counted").await);
    let mut cursor = None;
    let mut seen = Vec::new();
    loop {
        let next = page(&server, &keyed, PageOptions::new(0, 7).with_cursor(cursor)).await;
        assert_eq!(next.consistency, Consistency::Keyset);
        assert_eq!(next.offset, seen.len() as u64);
        seen.extend(next.rows.read::<Value>().unwrap().iter().map(|row| row["n"].as_u64().unwrap()));
        cursor = next.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
    let other = page(&server, &counted, PageOptions::new(0, 7)).await;
    assert_eq!((other.consistency, other.cursor), (Consistency::Offset, None));
    for bad in ["", "x", "e30", &"a".repeat(100_000)] {
        let error =
            server.page(&keyed, &Access::Program, PageOptions::default().with_cursor(bad.to_owned())).await;
        assert_eq!(error.unwrap_err().code(), ErrorCode::InvalidRequest, "{bad:.20}");
    }
}

#[tokio::test]
async fn streams_bring_every_row_once() {
    let server =
        DualResponseServer::new(options(&Clock::new()).with_query("keyed", numbers(&["n"]))).unwrap();
    let whole = async |id: &str, options: PageOptions| {
        let stream = server.stream(id, &Access::Program, options).await.unwrap();
        let chunks: Vec<Rows> = stream.try_collect().await.unwrap();
        chunks.iter().flat_map(|rows| rows.read::<Value>().unwrap()).collect::<Vec<_>>()
    };
    let all: Vec<_> = (1..=2_500).map(institution).collect();
    let in_hand = kept(&server, 2_500).await.resource_id;
    assert_eq!(whole(&in_hand, PageOptions::default()).await, all);
    assert_eq!(whole(&in_hand, PageOptions::new(2_400, 50)).await, all[2_400..2_450]);
    let live = server
        .create_response(CreateOptions::new("x", asked(2_500).0).with_columns(columns()))
        .await
        .unwrap()
        .resource_id;
    assert_eq!(whole(&live, PageOptions::default()).await, all);
    let keyed =
        server.create_response(CreateOptions::new("x", Source::query("keyed", json!({})))).await.unwrap();
    assert_eq!(whole(&keyed.resource_id, PageOptions::default()).await.len(), 100);
    let sorted = whole(&in_hand, PageOptions::default().with_sort(Sort::descending("id"))).await;
    assert_eq!(sorted[0]["id"], 2_500);
    assert_eq!(server.get_resource(&in_hand).await.unwrap().unwrap().access_count, 3);
}

#[tokio::test]
async fn stream_of_a_set_that_is_deleted_breaks_off_with_an_error() {
    let server = server(&Clock::new());
    let id = kept(&server, 5_000).await.resource_id;
    let mut stream = Box::pin(server.stream(&id, &Access::Program, PageOptions::default()).await.unwrap());
    assert!(stream.next().await.unwrap().is_ok());
    server.delete_resource(&id).await.unwrap();
    let rest: Vec<_> = stream.collect().await;
    assert!(matches!(rest.last(), Some(Err(DualResponseError::NotFound))), "{rest:?}");
}

#[tokio::test]
async fn too_many_at_once_are_told_to_come_later() {
    tokio::time::pause();
    let limits = ResultLimits::default().with_concurrent_pages(1);
    let server = DualResponseServer::new(options(&Clock::new()).with_limits(limits)).unwrap();
    let source = Source::closures(
        |page: PageRequest| async move {
            if page.limit == 7 {
                tokio::time::sleep(std::time::Duration::from_secs(20)).await;
            }
            Ok(institutions(1))
        },
        || async { Ok(1) },
    );
    let id = server.create_response(CreateOptions::new("x", source)).await.unwrap().resource_id;
    let (slow, refused) = tokio::join!(
        server.page(&id, &Access::Program, PageOptions::new(0, 7)),
        server.page(&id, &Access::Program, PageOptions::new(0, 8)),
    );
    assert!(slow.is_ok());
    assert_eq!(refused.unwrap_err().code(), ErrorCode::TooManyRequests);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is asked for, what a page says of itself is so.
    #[test]
    fn page_says_what_it_has(total in 0_u64..60, offset in 0_u64..80, limit in 1_u64..30) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = server(&Clock::new());
            let id = kept(&server, total).await.resource_id;
            let page = page(&server, &id, PageOptions::new(offset, limit)).await;
            let returned = page.rows.len() as u64;
            prop_assert_eq!(returned, total.saturating_sub(offset).min(limit));
            prop_assert_eq!(page.has_next, returned > 0 && offset + returned < total);
            prop_assert_eq!(page.next_offset(), page.has_next.then_some(offset + returned));
            Ok(())
        })?;
    }
}
