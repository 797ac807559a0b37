use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::super::{
    ByteRange, ExportRequest, RowSource, SnapshotId, SnapshotPage, SnapshotStore, SnapshotWrite,
    SnapshotWriteOptions, View, Written,
};
use crate::{error::DualResponseError, owner::Owner, rows::Rows};

type Opening = Pin<Box<dyn Future<Output = Option<Arc<dyn SnapshotStore>>> + Send>>;

/// A test fixture that opens any number of handles to the same store.
pub struct Snapshots {
    space: String,
    open: Box<dyn Fn(String) -> Opening + Send + Sync>,
}

impl Snapshots {
    /// Creates a fixture with an empty namespace for one contract test. Returns `None` if the store is not available.
    pub async fn new<F>(law: &str, open: fn(String) -> F) -> Option<Self>
    where
        F: Future<Output = Option<Arc<dyn SnapshotStore>>> + Send + 'static,
    {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the operating system has random numbers");
        let law: String = law.chars().take(32).collect();
        let space = format!("{}-{:016x}", law.replace('_', "-"), u64::from_le_bytes(bytes));
        open(space.clone()).await?;
        Some(Self { space, open: Box::new(move |space| Box::pin(open(space)) as Opening) })
    }

    /// Opens a new handle to the store. The cache of the new handle is empty.
    pub async fn open(&self) -> Arc<dyn SnapshotStore> {
        (self.open)(self.space.clone()).await.expect("it opened before")
    }

    /// Returns a store with the snapshot `rs_set`, which has `count` [rows](row).
    pub(super) async fn filled(&self, count: u64) -> Arc<dyn SnapshotStore> {
        let store = self.open().await;
        assert_eq!(write(&*store, &id("rs_set"), count).await.rows, count);
        store
    }
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshots").field("space", &self.space).finish_non_exhaustive()
    }
}

pub(super) fn id(set: &str) -> SnapshotId {
    SnapshotId::new(&Owner::nobody(), set)
}

/// Returns the test row with this number. The test row has a column with unique values, a column with few distinct
/// values, and a column in which some values are null.
pub(super) fn row(number: u64) -> Value {
    let text = (!number.is_multiple_of(5)).then(|| format!("zeile {number} \"ü\""));
    json!({"id": number, "group": number * 7919 % 10, "text": text})
}

/// Returns the test rows with these numbers, in the form that a store returns.
pub(super) fn rows(numbers: impl IntoIterator<Item = u64>) -> Vec<Value> {
    numbers.into_iter().map(row).collect()
}

/// Returns `count` test rows, in batches of several sizes.
pub(super) fn parts(count: u64) -> Vec<Rows> {
    let (mut parts, mut next) = (Vec::new(), 0);
    for size in [1, 10, 333].into_iter().cycle() {
        let end = count.min(next + size);
        parts.push(Rows::try_from(&rows(next..end)[..]).unwrap());
        next = end;
        if next == count {
            return parts;
        }
    }
    unreachable!("the sizes have no end")
}

pub(super) fn row_source(parts: Vec<Rows>) -> RowSource {
    use crate::column::ColumnDefinition;
    RowSource::rows(stream::iter(parts.into_iter().map(Ok))).with_columns([
        ColumnDefinition::integer("id"),
        ColumnDefinition::integer("group"),
        ColumnDefinition::string("text").nullable(),
    ])
}

pub(super) async fn begin(store: &dyn SnapshotStore, id: &SnapshotId, count: u64) -> SnapshotWrite {
    store.begin(id, row_source(parts(count)), SnapshotWriteOptions::default()).await.unwrap()
}

pub(super) async fn write(store: &dyn SnapshotStore, id: &SnapshotId, count: u64) -> Written {
    begin(store, id, count).await.rest.await.unwrap()
}

pub(super) async fn page(store: &dyn SnapshotStore, request: SnapshotPage) -> Vec<Value> {
    store.page(&id("rs_set"), &request).await.unwrap().read().unwrap()
}

pub(super) async fn export(
    store: &dyn SnapshotStore,
    request: ExportRequest,
    range: Option<ByteRange>,
) -> Result<Vec<u8>, DualResponseError> {
    let export = store.export(&id("rs_set"), &request.with_range(range)).await?;
    let expected = export.length;
    let mut body = export.body;
    let mut bytes = Vec::new();
    while let Some(part) = body.next().await {
        bytes.extend_from_slice(&part?);
    }
    assert!(expected.is_none_or(|length| length == bytes.len() as u64), "another length than was said");
    Ok(bytes)
}

/// Prepares a view. Returns `None` if the store does not support views.
pub(super) async fn prepared(store: &dyn SnapshotStore, view: &View) -> Option<u64> {
    match store.prepare(&id("rs_set"), view).await {
        Err(DualResponseError::Unsupported(_)) => None,
        prepared => Some(prepared.unwrap()),
    }
}

/// Returns `true` if the snapshot does not exist.
pub(super) async fn is_gone(store: &dyn SnapshotStore, id: &SnapshotId) -> bool {
    let manifest = store.manifest(id).await;
    let page = store.page(id, &SnapshotPage::new(0, 1)).await;
    matches!((manifest, page), (Err(DualResponseError::NotFound), Err(DualResponseError::NotFound)))
}

/// Runs one contract test.
pub fn run(law: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        // A test that hangs must fail.
        let ended = tokio::time::timeout(Duration::from_secs(120), law).await;
        assert!(ended.is_ok(), "the contract test did not end within two minutes");
    });
}
