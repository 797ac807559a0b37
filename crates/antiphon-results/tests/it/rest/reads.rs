//! How often a request reads the record of its set.

use std::sync::{Arc, atomic::Ordering};

use antiphon_results::{Access, PageOptions, store::SharedStore};
use antiphon_store::{Memory, QueueConfig};
use axum::body::Body;
use chrono::Utc;

use super::House;
use crate::support::{Counted, Counts};

/// Opening the set is one read, and counting the access is another.
const PER_PAGE: u64 = 2;

#[tokio::test]
async fn page_request_opens_its_set_once() {
    let counts = Arc::new(Counts::default());
    let backend = Counted::backend(Memory::default().backend(QueueConfig::default()), &counts);
    let house = House::with(|options| options.with_store(SharedStore::new(backend)).with_clock(Utc::now));
    let path = house.people(3).await;
    let reads = || counts.reads.swap(0, Ordering::SeqCst);

    reads();
    let id = path.rsplit('/').next().unwrap();
    house.server.page(id, &Access::Program, PageOptions::default()).await.unwrap();
    assert_eq!(reads(), PER_PAGE, "the API");
    house.server.read(id, &Access::Program).await.unwrap();
    assert_eq!(reads(), PER_PAGE, "resources/read");
    // A stream without a limit looks once more whether the set is still there before it ends.
    for (method, path, accept, expected) in [
        ("POST", path.clone(), "application/json", PER_PAGE),
        ("GET", format!("{path}/rows"), "application/json", PER_PAGE),
        ("GET", format!("{path}/rows?limit=2"), "application/x-ndjson", PER_PAGE),
        ("POST", path.clone(), "text/csv", PER_PAGE + 1),
        ("GET", format!("{path}/export?format=csv"), "*/*", PER_PAGE + 1),
    ] {
        let answer = house.ask_with(method, &path, &[("accept", accept)], Body::empty()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(reads(), expected, "{method} {path} as {accept}");
    }
}
