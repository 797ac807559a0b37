use std::{fmt, sync::Arc, time::Duration};

use antiphon_results::{
    DualResponseError, Owner, Rows,
    snapshot::{
        Aggregate, ColumnStats, Export, ExportFormat, ExportRequest, Manifest, RowSource,
        SnapshotCapabilities, SnapshotId, SnapshotPage, SnapshotStore, SnapshotWrite, SnapshotWriteOptions,
        Taken, View,
    },
};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::stream::BoxStream;
use url::Url;

use crate::{
    config::SnapshotConfig,
    error::Result,
    inner::{Inner, usage},
    store::{Bucket, Store},
};

/// Keeps snapshots on an object store.
///
/// Give it to [`with_snapshots`](antiphon_results::DualResponseServerOptions::with_snapshots), or use it by itself
/// through [`SnapshotStore`]; the [tour](crate) shows both. Cloning it clones the handle: clones share what is at hand,
/// the memory of queries and their turns, so a process has one.
#[derive(Clone)]
pub struct Snapshots {
    pub(crate) inner: Arc<Inner>,
}

impl Snapshots {
    /// Keeps snapshots at an address, with the defaults of [`SnapshotConfig`].
    ///
    /// | address | feature | |
    /// |---|---|---|
    /// | `memory:` | | as long as this handle and its clones; each call makes another store |
    /// | `file:///var/lib/antiphon` | | a folder, made if it is not there |
    /// | `s3://bucket/prefix` | `aws` | |
    /// | `gs://bucket/prefix` | `gcp` | |
    /// | `az://container/prefix` | `azure` | |
    ///
    /// Nothing is asked of a cloud yet: wrong credentials show when something is written or read. The
    /// [first example](crate) begins with it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`](crate::Error::InvalidUrl) when the address is none, is of a kind this was not built for, or names a
    /// folder that cannot be made.
    pub fn open(address: &str) -> Result<Self> {
        Self::open_with(address, [], SnapshotConfig::default())
    }

    /// The same, with what the store is to be told (credentials, endpoints, in `object_store`'s own names) and how
    /// snapshots are to be written.
    ///
    /// Where no credentials are given, those of the machine are used, as `object_store` finds them: its role, its
    /// service account, its managed identity. Variables like `AWS_ACCESS_KEY_ID` are not read.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and when the store knows no option of a name; `memory:` and `file:` know none at all.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use antiphon_snapshot::{SnapshotConfig, Snapshots};
    ///
    /// # fn open(key: &str, secret: &str) -> antiphon_snapshot::Result<Snapshots> {
    /// let options = [
    ///     ("endpoint", "https://minio.internal:9000"),
    ///     ("access_key_id", key),
    ///     ("secret_access_key", secret),
    /// ];
    /// let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    /// let mut config = SnapshotConfig::default();
    /// config.query_time = Duration::from_secs(30);
    /// Snapshots::open_with("s3://results/prod", options, config)
    /// # }
    /// ```
    pub fn open_with(
        address: &str,
        options: impl IntoIterator<Item = (String, String)>,
        config: SnapshotConfig,
    ) -> Result<Self> {
        Self::with(Store::open(address, options)?, config)
    }

    /// Keeps snapshots on a store that you have: an `Arc<dyn ObjectStore>`, or a [`Bucket`], which has an example.
    ///
    /// # Errors
    ///
    /// When the room for queries cannot be made, with the feature `sql`.
    pub fn on(bucket: impl Into<Bucket>, config: SnapshotConfig) -> Result<Self> {
        Self::with(bucket.into().into(), config)
    }

    fn with(store: Store, config: SnapshotConfig) -> Result<Self> {
        Ok(Self { inner: Arc::new(Inner::new(store, config)?) })
    }
}

#[async_trait]
impl SnapshotStore for Snapshots {
    fn capabilities(&self) -> SnapshotCapabilities {
        let formats = ExportFormat::ALL.into_iter();
        let written = |format: &ExportFormat| *format != ExportFormat::Xlsx || cfg!(feature = "xlsx");
        SnapshotCapabilities::new(cfg!(feature = "sql"), formats.filter(written))
    }

    async fn begin(
        &self,
        id: &SnapshotId,
        row_source: RowSource,
        options: SnapshotWriteOptions,
    ) -> Result<SnapshotWrite, DualResponseError> {
        Ok(crate::ingest::begin(&self.inner, id, row_source, options).await?)
    }

    async fn manifest(&self, id: &SnapshotId) -> Result<Manifest, DualResponseError> {
        Ok(self.inner.opened(id, &View::default()).await?.manifest())
    }

    async fn prepare(&self, id: &SnapshotId, view: &View) -> Result<u64, DualResponseError> {
        if view.is_whole() {
            return Ok(self.inner.opened(id, view).await?.manifest.rows);
        }
        #[cfg(feature = "sql")]
        return crate::sql::prepare(&self.inner, id, view).await;
        #[cfg(not(feature = "sql"))]
        Err(DualResponseError::Unsupported(
            "sorting and filtering need the feature `sql` of antiphon-snapshot".into(),
        ))
    }

    async fn page(&self, id: &SnapshotId, request: &SnapshotPage) -> Result<Rows, DualResponseError> {
        Ok(crate::read::page(&self.inner, id, request).await?)
    }

    async fn stats(&self, id: &SnapshotId) -> Result<Vec<ColumnStats>, DualResponseError> {
        Ok(crate::read::stats(&self.inner, id).await?)
    }

    async fn aggregate(&self, id: &SnapshotId, aggregate: &Aggregate) -> Result<Rows, DualResponseError> {
        #[cfg(feature = "sql")]
        return crate::sql::aggregate(&self.inner, id, aggregate).await;
        #[cfg(not(feature = "sql"))]
        {
            let _ = (id, aggregate);
            Err(DualResponseError::Unsupported(
                "grouping needs the feature `sql` of antiphon-snapshot".into(),
            ))
        }
    }

    async fn export(&self, id: &SnapshotId, request: &ExportRequest) -> Result<Export, DualResponseError> {
        crate::read::export(&self.inner, id, request).await
    }

    async fn sign(&self, id: &SnapshotId, life: Duration) -> Result<Option<Url>, DualResponseError> {
        Ok(crate::sweep::sign(&self.inner, id, life).await?)
    }

    async fn query(
        &self,
        tables: &[(String, SnapshotId)],
        sql: &str,
        owner: &Owner,
    ) -> Result<RowSource, DualResponseError> {
        #[cfg(feature = "sql")]
        return crate::sql::query(&self.inner, tables, sql, owner).await;
        #[cfg(not(feature = "sql"))]
        {
            let _ = (tables, sql, owner);
            Err(DualResponseError::Unsupported("queries need the feature `sql` of antiphon-snapshot".into()))
        }
    }

    async fn delete(&self, id: &SnapshotId) -> Result<(), DualResponseError> {
        Ok(crate::sweep::delete(&self.inner, id).await?)
    }

    fn ids(&self, before: DateTime<Utc>) -> BoxStream<'_, Result<SnapshotId, DualResponseError>> {
        crate::sweep::ids(&self.inner, before)
    }

    async fn usage(&self, tenant: Option<&str>) -> Result<u64, DualResponseError> {
        Ok(usage::of_tenant(&self.inner, tenant).await?)
    }

    async fn usage_of(&self, owner: &Owner) -> Result<Taken, DualResponseError> {
        Ok(usage::of(&self.inner, owner).await?)
    }
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshots").field("store", &self.inner.store).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use antiphon_results::Rows;
    use futures_util::stream;

    use super::*;

    /// A replica that reads sets which others remove does not keep their footers for good.
    #[tokio::test]
    async fn footers_that_nobody_reads_are_not_kept() {
        let config = SnapshotConfig { cache_idle: Duration::from_millis(200), ..SnapshotConfig::default() };
        let snapshots = Snapshots::open_with("memory:", [], config).unwrap();
        let cache = &snapshots.inner.cache;
        let id = SnapshotId::new(&Owner::nobody(), "rs_1");
        let rows = Rows::from_json_array(r#"[{"a":1}]"#).unwrap();
        let row_source = RowSource::rows(stream::iter([Ok(rows)]));
        snapshots.begin(&id, row_source, SnapshotWriteOptions::default()).await.unwrap().rest.await.unwrap();
        snapshots.manifest(&id).await.unwrap();
        cache.run_pending_tasks().await;
        assert_eq!(cache.entry_count(), 1);
        assert!(cache.weighted_size() > 1000, "{}", cache.weighted_size());
        tokio::time::sleep(Duration::from_millis(300)).await;
        cache.run_pending_tasks().await;
        assert_eq!(cache.entry_count(), 0);
        snapshots.manifest(&id).await.unwrap();
    }
}
