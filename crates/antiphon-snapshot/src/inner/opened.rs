//! An opened snapshot: its manifest and its footer, which are read once.

use std::sync::Arc;

use antiphon_results::{
    ColumnDefinition,
    snapshot::{Chunk, ColumnStats, Manifest, SnapshotId, Truncation, View},
};
use arrow::datatypes::SchemaRef;
use chrono::{DateTime, Utc};
use futures_util::TryStreamExt as _;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, path::Path};
use parquet::{arrow::arrow_reader::ArrowReaderMetadata, file::metadata::RowGroupMetaData};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use super::{Inner, Known, footer};
use crate::{
    error::{Error, Result},
    layout::{SnapshotFolder, hex},
};

/// The maximum size of a manifest, which lists the columns.
const MAX_MANIFEST: u64 = 16 * 1024 * 1024;

/// The maximum size of a file whose digest is checked when the file is first opened. The digest check of a larger file
/// would delay the first page too much. The digest of a larger file is checked when the whole file is read.
const COMPARED: u64 = 64 * 1024 * 1024;

/// A stored file.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Digest of the file: `sha-256:`, followed by hexadecimal digits.
    pub(crate) digest: String,
}

/// The manifest of a snapshot. The manifest is written after all other files of the snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredManifest {
    /// The version of the file layout, which is 1.
    pub(crate) version: u32,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) digest: String,
    pub(crate) written_at: DateTime<Utc>,
    pub(crate) columns: Vec<ColumnDefinition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) truncated: Option<Truncation>,
    /// The name of the file with the rows. Each writer uses a different name for the file with the rows.
    pub(crate) data: String,
}

impl StoredManifest {
    /// Creates the manifest of a file that was just written.
    pub(crate) fn new(
        stored: &Stored,
        columns: Vec<ColumnDefinition>,
        truncated: Option<Truncation>,
        data: String,
    ) -> Self {
        Self {
            version: 1,
            rows: stored.rows,
            bytes: stored.bytes,
            digest: stored.digest.clone(),
            written_at: Utc::now(),
            columns,
            truncated,
            data,
        }
    }
}

/// A snapshot or a view whose footer has been read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) place: SnapshotFolder,
    pub(crate) data: Path,
    pub(crate) manifest: StoredManifest,
    /// The footer, with the page index.
    pub(crate) metadata: ArrowReaderMetadata,
    /// The row number at which each chunk starts, followed by the total number of rows. Invariant: the list is never
    /// empty, and its numbers never decrease.
    pub(crate) starts: Vec<u64>,
    /// The byte positions and lengths of exports that were already encoded.
    pub(crate) known: Known,
    /// The statistics of the columns, which are read at the first request.
    pub(crate) stats: OnceCell<Vec<ColumnStats>>,
}

impl Opened {
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Returns the approximate size of the `Opened` value in memory. The size includes the footer and, for each
    /// column, a definition, a field and their names.
    pub(crate) fn weight(&self) -> usize {
        const EACH: usize = 512;
        self.metadata.metadata().memory_size() + EACH * (2 + self.manifest.columns.len())
    }

    /// Returns the chunks of the snapshot or view, in order.
    pub(crate) fn chunks(&self) -> Vec<Chunk> {
        let groups = self.metadata.metadata().row_groups().iter().zip(self.starts.windows(2)).enumerate();
        let chunk = |(index, (group, rows)): (usize, (&RowGroupMetaData, &[u64]))| {
            let bytes = u64::try_from(group.compressed_size()).unwrap_or(0);
            Chunk { index: index as u64, row_offset: rows[0], row_count: rows[1] - rows[0], bytes }
        };
        groups.map(chunk).collect()
    }

    pub(crate) fn manifest(&self) -> Manifest {
        let stored = &self.manifest;
        let mut manifest = Manifest::new(stored.columns.clone(), stored.digest.clone(), stored.written_at);
        manifest.rows = stored.rows;
        manifest.bytes = stored.bytes;
        manifest.chunks = self.chunks();
        manifest.truncated = stored.truncated;
        manifest
    }
}

impl Inner {
    /// Returns the snapshot or the view, from the cache or from the store.
    pub(crate) async fn opened(&self, id: &SnapshotId, view: &View) -> Result<Arc<Opened>> {
        let place = SnapshotFolder::of(&self.store.prefix, id).view(view);
        let read = self.cache.try_get_with(place.folder.to_string(), self.open(place));
        read.await.map_err(|error: Arc<Error>| again(&error))
    }

    /// Opens a snapshot or a view for reading. If a view was removed, the error is [`Error::Evicted`].
    pub(crate) async fn at_hand(&self, id: &SnapshotId, view: &View) -> Result<Arc<Opened>> {
        match self.opened(id, view).await {
            Err(error) if error.is_missing() && !view.is_whole() => self.reopened(id, view).await,
            opened => opened,
        }
    }

    /// Opens a snapshot or a view again after its rows were not found. Another replica possibly removed the snapshot
    /// or view, or created it again.
    pub(crate) async fn reopened(&self, id: &SnapshotId, view: &View) -> Result<Arc<Opened>> {
        let whole = SnapshotFolder::of(&self.store.prefix, id);
        self.cache.invalidate(whole.view(view).folder.as_ref()).await;
        match self.opened(id, view).await {
            Err(error) if error.is_missing() && !view.is_whole() => {
                self.cache.invalidate(whole.folder.as_ref()).await;
                // If the snapshot does not exist, the view cannot exist. If the snapshot exists, the view can be
                // created again.
                self.opened(id, &View::default()).await?;
                Err(Error::Evicted)
            }
            opened => opened,
        }
    }

    async fn open(&self, place: SnapshotFolder) -> Result<Arc<Opened>> {
        let manifest = self.stored_manifest(&place).await?;
        let data = place.data(&manifest.data);
        // Invariant: after this check, the file has the length that the manifest contains.
        self.compare(&place, &data, &manifest).await?;
        let metadata = footer::load(self, &data, &manifest).await?;
        let starts = footer::starts(&self.config, &metadata, &manifest)?;
        let (known, stats) = (Known::default(), OnceCell::new());
        Ok(Arc::new(Opened { place, data, manifest, metadata, starts, known, stats }))
    }

    /// Writes the manifest of a snapshot. The snapshot exists when the manifest is written. Only the first manifest of
    /// a snapshot is valid, so this method returns `false` if a manifest already exists.
    pub(crate) async fn publish(&self, place: &SnapshotFolder, manifest: &StoredManifest) -> Result<bool> {
        footer::verify(self, &place.data(&manifest.data), manifest).await?;
        let text = PutPayload::from(serde_json::to_vec(manifest).map_err(Error::Manifest)?);
        let create = PutOptions::from(PutMode::Create);
        match self.store.objects.put_opts(&place.manifest(), text, create).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn stored_manifest(&self, place: &SnapshotFolder) -> Result<StoredManifest> {
        let found = self.store.objects.get(&place.manifest()).await?;
        if found.meta.size > MAX_MANIFEST {
            return Err(Error::Altered(format!(
                "the manifest of the snapshot has {} bytes, which is more than Antiphon writes",
                found.meta.size
            )));
        }
        let manifest: StoredManifest =
            serde_json::from_slice(&found.bytes().await?).map_err(Error::Manifest)?;
        match manifest.version {
            1 => Ok(manifest),
            other => Err(Error::Altered(format!(
                "the snapshot has format version {other}, and version 1 is supported; upgrade the program"
            ))),
        }
    }

    /// Checks that the stored file is the file that was written. The check compares the length and, if the file is not
    /// too large, the digest.
    async fn compare(&self, place: &SnapshotFolder, data: &Path, manifest: &StoredManifest) -> Result<()> {
        let meta = match self.store.objects.head(data).await {
            Err(object_store::Error::NotFound { .. }) => {
                // A deletion removes the manifest first. If the manifest exists without the rows, the snapshot was not
                // deleted but is damaged.
                self.store.objects.head(&place.manifest()).await?;
                return Err(Error::Altered(
                    "the Parquet file of the snapshot is missing in the object store".into(),
                ));
            }
            found => found?,
        };
        if meta.size != manifest.bytes {
            return Err(Error::Altered(format!(
                "the Parquet file is damaged: it has {} bytes, but the manifest lists {} bytes",
                meta.size, manifest.bytes
            )));
        }
        if meta.size > COMPARED {
            return Ok(());
        }
        let bytes = self.store.objects.get(data).await?.into_stream();
        let hash = bytes.try_fold(Sha256::new(), async |mut hash, part| {
            hash.update(&part);
            Ok(hash)
        });
        if digest(hash.await?) == manifest.digest {
            return Ok(());
        }
        Err(Error::Altered("the stored file was changed: its digest differs from the manifest".into()))
    }
}

/// Formats a SHA-256 digest for manifests: `sha-256:`, followed by hexadecimal digits.
pub(crate) fn digest(hash: Sha256) -> String {
    hex("sha-256:", &hash.finalize())
}

/// Copies an error, so that each waiting caller gets a copy. The copy keeps the error variant if callers can handle
/// this variant.
fn again(error: &Arc<Error>) -> Error {
    match &**error {
        Error::Store(object_store::Error::NotFound { path, .. }) => {
            Error::Store(object_store::Error::NotFound { path: path.clone(), source: "not found".into() })
        }
        Error::Altered(text) => Error::Altered(text.clone()),
        Error::Invalid(text) => Error::Invalid(text.clone()),
        _ => Error::Broken(Box::new(Arc::clone(error))),
    }
}
