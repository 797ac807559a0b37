//! A store of the application's own.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use antiphon_results::{
    DualResponseServer, MemoryStore, ResourceStore, Result, Rows,
    store::{Removal, Resource, ResourceUpdate, TombstoneEntry},
};
use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::support::{Clock, options, search};

/// Keeps what it is given in memory, and counts.
#[derive(Debug, Default)]
struct OwnStore {
    inner: MemoryStore,
    saved: Mutex<Vec<String>>,
    closed: AtomicUsize,
}

#[async_trait]
impl ResourceStore for OwnStore {
    async fn save(&self, resource: Resource) -> Result<String> {
        let id = self.inner.save(resource).await?;
        self.saved.lock().unwrap().push(id.clone());
        Ok(id)
    }

    async fn get(&self, id: &str) -> Result<Option<Resource>> {
        self.inner.get(id).await
    }

    async fn update(&self, id: &str, update: ResourceUpdate) -> Result<Option<Resource>> {
        self.inner.update(id, update).await
    }

    async fn delete(&self, id: &str, removal: Removal) -> Result<bool> {
        self.inner.delete(id, removal).await
    }

    async fn find_expired(&self, at: DateTime<Utc>) -> Result<Vec<String>> {
        self.inner.find_expired(at).await
    }

    async fn tombstone(&self, id: &str) -> Result<Option<TombstoneEntry>> {
        self.inner.tombstone(id).await
    }

    async fn put_rows(&self, id: &str, rows: Rows) -> Result<()> {
        self.inner.put_rows(id, rows).await
    }

    async fn rows(&self, id: &str, offset: u64, limit: u64) -> Result<Rows> {
        self.inner.rows(id, offset, limit).await
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn close(&self) -> Result<()> {
        self.closed.fetch_add(1, Ordering::SeqCst);
        self.inner.close().await
    }
}

#[tokio::test]
async fn store_of_the_application_is_used_and_closed() {
    let store = Arc::new(OwnStore::default());
    let server = DualResponseServer::new(options(&Clock::new()).with_store(Arc::clone(&store))).unwrap();
    let id = search(&server).await.resource_id;
    assert_eq!(*store.saved.lock().unwrap(), std::slice::from_ref(&id));
    assert!(server.get_resource(&id).await.unwrap().is_some());
    assert!(store.inner.get(&id).await.unwrap().is_some(), "it is nowhere else");
    assert_eq!(store.closed.load(Ordering::SeqCst), 0);
    server.shutdown().await.unwrap();
    assert!(store.closed.load(Ordering::SeqCst) >= 1, "shutdown closes the store");
}
