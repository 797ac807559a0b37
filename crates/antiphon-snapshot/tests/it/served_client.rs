//! The client of this house, on rows that are saved.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use antiphon_results::{
    BoxError,
    client::{
        DualResponseClient, DualResponseClientError, DualResponseClientOptions, ExportOptions, Fetch,
        FetchOptions, FetchRequest, FetchResponse, HttpFetch, QueryRequest,
    },
    snapshot::{ExportFormat, SetStatus},
};
use antiphon_snapshot::Snapshots;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::served::{House, batch, numbers, quick, sent};

fn options(house: &House) -> DualResponseClientOptions {
    DualResponseClientOptions::new().with_base_url(&house.base)
}

async fn bytes(download: antiphon_results::client::Download) -> Vec<u8> {
    download.map_ok(|bytes| bytes.to_vec()).try_concat().await.unwrap()
}

#[tokio::test]
async fn the_client_waits_for_rows_that_are_still_being_saved() {
    let house =
        House::with(&Snapshots::open("memory:").unwrap(), |options| options.with_limits(quick())).await;
    let (tx, source) = sent();
    tx.send(Ok(batch(0, 20))).unwrap();
    let response = house.make(source).await;
    let client = DualResponseClient::new(options(&house)).unwrap();
    let set = client.parse(&response.to_mcp_tool_result()).unwrap();
    assert_eq!(set.manifest().await.unwrap().status, SetStatus::Writing);

    let hasty = DualResponseClient::new(options(&house).with_patience(Duration::from_millis(10))).unwrap();
    let early = hasty.parse(&response.to_mcp_tool_result()).unwrap().fetch(FetchOptions::new()).await;
    assert!(matches!(early, Err(DualResponseClientError::NotReady(_))), "{early:?}");

    let fetching = tokio::spawn(async move { set.fetch(FetchOptions::new()).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    tx.send(Ok(batch(20, 5))).unwrap();
    drop(tx);
    assert_eq!(fetching.await.unwrap().unwrap().total_count, 25);
}

#[tokio::test]
async fn the_client_reads_manifests_statistics_and_queries() {
    let house = House::open().await;
    let response = house.make(numbers(300)).await;
    let client = DualResponseClient::new(options(&house)).unwrap();
    let set = client.parse(&response.to_mcp_tool_result()).unwrap();
    let manifest = set.manifest().await.unwrap();
    assert_eq!((manifest.rows, manifest.exact), (300, true));
    let stats = set.stats().await.unwrap();
    assert_eq!((stats[0].name.as_str(), &stats[0].max), ("id", &serde_json::json!(299)));
    let derived =
        set.query(&QueryRequest::new("SELECT count(*) AS n FROM result WHERE id < 10")).await.unwrap();
    let page = set.derived(&derived).fetch(FetchOptions::new()).await.unwrap();
    assert_eq!(page.data[0]["n"], 10);
    let refused = set.query(&QueryRequest::new("DELETE FROM result")).await.unwrap_err();
    assert_eq!(refused.fetch_error().unwrap().code.as_deref(), Some("QUERY_REFUSED"));
}

/// Breaks every connection after some bytes, a few times.
#[derive(Debug)]
struct Breaking {
    http: HttpFetch,
    left: Arc<AtomicUsize>,
}

#[async_trait]
impl Fetch for Breaking {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, BoxError> {
        let mut answer = self.http.fetch(request).await?;
        let breaks =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if breaks {
            let mut left = 5000_usize;
            let body = answer.body.map(move |part| {
                let mut part: Bytes = part?;
                if left == 0 {
                    return Err("the line went dead".into());
                }
                part.truncate(left);
                left -= part.len();
                Ok(part)
            });
            answer.body = Box::pin(body) as Pin<Box<_>>;
        }
        Ok(answer)
    }
}

#[tokio::test]
async fn a_download_that_breaks_off_is_gone_on_with() {
    let house = House::open().await;
    let response = house.make(numbers(5000)).await;
    for format in [ExportFormat::Parquet, ExportFormat::Ndjson, ExportFormat::Csv, ExportFormat::Arrow] {
        let plain = DualResponseClient::new(options(&house)).unwrap();
        let set = plain.parse(&response.to_mcp_tool_result()).unwrap();
        let whole = bytes(set.export(format, &ExportOptions::new()).await.unwrap()).await;
        let breaking = Breaking { http: HttpFetch::new(), left: Arc::new(AtomicUsize::new(3)) };
        let left = Arc::clone(&breaking.left);
        let client = DualResponseClient::new(options(&house).with_fetch(breaking)).unwrap();
        let broken = client.parse(&response.to_mcp_tool_result()).unwrap();
        let download = broken.export(format, &ExportOptions::new()).await.unwrap();
        let tag = download.tag().unwrap().to_owned();
        assert!(bytes(download).await == whole, "{format:?}");
        assert_eq!(left.load(Ordering::SeqCst), 0, "{format:?}: it did break");

        let rest = set.export(format, &ExportOptions::new().resuming(1234, &tag)).await.unwrap();
        assert_eq!(rest.start(), 1234);
        assert!(bytes(rest).await == whole[1234..], "{format:?}");
        let other = set.export(format, &ExportOptions::new().resuming(1234, "\"other\"")).await;
        assert!(other.is_err(), "{format:?}: bytes of something else are not gone on with");
    }
}
