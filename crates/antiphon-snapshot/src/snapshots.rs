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

/// A store of snapshots on an object store.
///
/// Pass a `Snapshots` to [`with_snapshots`](antiphon_results::DualResponseServerOptions::with_snapshots), or call its
/// methods directly, through the trait [`SnapshotStore`]. The [crate documentation](crate) shows how to use
/// `Snapshots` with and without a server. Clones share the cache, the memory for queries and the query limits, so
/// create one `Snapshots` per process and clone it.
#[derive(Clone)]
pub struct Snapshots {
    pub(crate) inner: Arc<Inner>,
}

impl Snapshots {
    /// Opens a store at an address, with the default [`SnapshotConfig`].
    ///
    /// | address | feature | description |
    /// |---|---|---|
    /// | `memory:` | | a new store in memory, which exists until the last clone of `Snapshots` is dropped |
    /// | `file:///var/lib/antiphon` | | a folder on the local disk, which is created if the folder does not exist |
    /// | `s3://bucket/prefix` | `aws` | a bucket of S3 or of a compatible store |
    /// | `gs://bucket/prefix` | `gcp` | a bucket of Google Cloud Storage |
    /// | `az://container/prefix` | `azure` | a container of Azure Blob Storage |
    ///
    /// `open` does not connect to a cloud service. So wrong credentials cause an error only at the first write or
    /// read. The first example in the [crate documentation](crate) starts with a call of `open`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::InvalidUrl`](crate::Error::InvalidUrl) if the address is invalid, needs a feature that is
    /// not enabled, or names a folder that cannot be created.
    pub fn open(address: &str) -> Result<Self> {
        Self::open_with(address, [], SnapshotConfig::default())
    }

    /// Opens a store at an address, with options for the object store and a configuration.
    ///
    /// The options of the object store are credentials, endpoints and other settings, with the names that
    /// `object_store` uses. Without credentials in the options, `object_store` uses the identity of the machine: its
    /// role, its service account or its managed identity. Environment variables such as `AWS_ACCESS_KEY_ID` are not
    /// read.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`open`](Self::open). Returns [`Error::InvalidUrl`](crate::Error::InvalidUrl) if the
    /// store does not support an option. Stores at `memory:` and `file:` addresses support no options. Returns
    /// [`Error::Config`](crate::Error::Config) if a setting of `config` is invalid.
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
    /// let config = SnapshotConfig::default().with_query_time(Duration::from_secs(30));
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

    /// Opens a store on an existing object store: an `Arc<dyn ObjectStore>` or a [`Bucket`]. The documentation of
    /// [`Bucket`] has an example.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Config`](crate::Error::Config) if a setting of `config` is invalid. With the feature `sql`,
    /// returns an error if the query engine cannot be created.
    pub fn on(bucket: impl Into<Bucket>, config: SnapshotConfig) -> Result<Self> {
        Self::with(bucket.into().into(), config)
    }

    fn with(store: Store, config: SnapshotConfig) -> Result<Self> {
        config.check()?;
        Ok(Self { inner: Arc::new(Inner::new(store, config)?) })
    }
}

#[async_trait]
impl SnapshotStore for Snapshots {
    fn capabilities(&self) -> SnapshotCapabilities {
        let written = |format: &ExportFormat| match format {
            ExportFormat::Ndjson | ExportFormat::Csv | ExportFormat::Arrow | ExportFormat::Parquet => true,
            ExportFormat::Xlsx => cfg!(feature = "xlsx"),
        };
        SnapshotCapabilities::new(cfg!(feature = "sql"), ExportFormat::ALL.into_iter().filter(written))
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

    #[test]
    fn settings_that_no_write_could_use_are_rejected() {
        for config in [
            SnapshotConfig::default().with_chunk_rows(0),
            SnapshotConfig::default().with_page_rows(0),
            SnapshotConfig::default().with_compression(23),
        ] {
            let opened = Snapshots::open_with("memory:", [], config);
            assert!(matches!(opened, Err(crate::Error::Config(_))));
        }
    }

    /// Tests that this replica does not keep the footer of a snapshot if another replica removes the result set.
    #[tokio::test]
    async fn footers_that_nobody_reads_are_not_kept() {
        let config = SnapshotConfig::default().with_cache_idle(Duration::from_millis(200));
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
