//! Writes the rows to one file, or to several files until the schema for all rows is known.

use std::{ops::Range, sync::Arc};

use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use bytes::Bytes;
use futures_util::{FutureExt as _, TryStreamExt as _, future::BoxFuture};
use object_store::{ObjectStore, ObjectStoreExt as _, path::Path};
use parquet::{
    arrow::{
        ParquetRecordBatchStreamBuilder, arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader,
    },
    errors::{ParquetError, Result as ParquetResult},
    file::metadata::{ParquetMetaData, ParquetMetaDataReader},
};
use tokio_util::sync::CancellationToken;

use super::json::widen;
use crate::{
    error::{Error, Result},
    inner::{Inner, Stored},
    layout::{SnapshotFolder, data_name},
    store::ignore_missing,
    writer::Writer,
};

/// A writer for batches. If a batch has a wider schema than the previous batches, the writer starts a new file. At the
/// end, the writer merges all files into one file.
pub(super) struct Parts {
    inner: Arc<Inner>,
    place: SnapshotFolder,
    /// The name of the writer, which is part of every file name.
    writer: String,
    /// Finished files of the writer, with the size of each file.
    done: Vec<(Path, u64)>,
    open: Option<(SchemaRef, Writer)>,
}

impl Parts {
    pub(super) fn new(inner: &Arc<Inner>, place: SnapshotFolder, writer: &str) -> Self {
        Self { inner: Arc::clone(inner), place, writer: writer.into(), done: Vec::new(), open: None }
    }

    /// Returns the path of the snapshot's file.
    fn data(&self) -> Path {
        self.place.data(&data_name(&self.writer))
    }

    pub(super) async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        let schema = batch.schema();
        if let Some((known, _)) = &self.open
            && *known != schema
        {
            self.close().await?;
        }
        if self.open.is_none() {
            let writer = Writer::create(&self.inner, self.path(), Arc::clone(&schema))?;
            self.open = Some((schema, writer));
        }
        let Some((_, writer)) = &mut self.open else { return Ok(()) };
        writer.write(batch).await
    }

    /// Returns the approximate number of bytes in all files so far.
    pub(super) fn made(&self) -> u64 {
        self.finished() + self.open.as_ref().map_or(0, |(_, writer)| writer.made())
    }

    /// Returns the number of bytes that are on the object store.
    pub(super) fn sent(&self) -> u64 {
        self.finished() + self.open.as_ref().map_or(0, |(_, writer)| writer.sent())
    }

    fn finished(&self) -> u64 {
        self.done.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns the path of the next file. The first file has the final path of the snapshot's file, because the first
    /// file can stay the only file.
    fn path(&self) -> Path {
        match self.done.len() {
            0 => self.data(),
            number => {
                let name = format!("{}-{number}.parquet", self.writer);
                self.place.folder.clone().join("parts").join(name)
            }
        }
    }

    async fn close(&mut self) -> Result<Option<Stored>> {
        let path = self.path();
        let Some((_, writer)) = self.open.take() else { return Ok(None) };
        let stored = writer.finish().await?;
        self.done.push((path, stored.bytes));
        Ok(Some(stored))
    }

    /// Finishes the file with all rows of the snapshot.
    pub(super) async fn finish(&mut self, schema: SchemaRef) -> Result<Stored> {
        if self.open.is_none() && self.done.is_empty() {
            let writer = Writer::create(&self.inner, self.data(), Arc::clone(&schema))?;
            self.open = Some((Arc::clone(&schema), writer));
        }
        let last = self.close().await?;
        match last {
            Some(stored) if self.done.len() == 1 => Ok(stored),
            _ => self.rewrite(schema).await,
        }
    }

    /// Merges all files into one new file. The new file replaces the first file when the new file is complete. All
    /// files have been read before the new file replaces the first file.
    async fn rewrite(&mut self, schema: SchemaRef) -> Result<Stored> {
        let writer = Writer::create(&self.inner, self.data(), Arc::clone(&schema))?;
        let stop = CancellationToken::new();
        let _guard = stop.clone().drop_guard();
        let (inner, done) = (Arc::clone(&self.inner), self.done.clone());
        let runtime = tokio::runtime::Handle::current();
        let copying = tokio::task::spawn_blocking(move || {
            runtime.block_on(async move {
                tokio::select! {
                    stored = copy(&inner, &done, writer, schema) => stored,
                    () = stop.cancelled() => Err(Error::Broken("the snapshot was cancelled".into())),
                }
            })
        });
        let stored = copying.await.map_err(|error| Error::Broken(error.into()))??;
        for (path, _) in self.done.drain(..).skip(1) {
            self.inner.store.objects.delete(&path).await.or_else(ignore_missing)?;
        }
        Ok(stored)
    }

    pub(super) async fn give_up(self) {
        if let Some((_, writer)) = self.open {
            writer.give_up().await;
        }
    }
}

async fn copy(inner: &Inner, done: &[(Path, u64)], mut writer: Writer, schema: SchemaRef) -> Result<Stored> {
    for (path, bytes) in done {
        let reader = Part { objects: Arc::clone(&inner.store.objects), path: path.clone(), bytes: *bytes };
        let mut batches =
            ParquetRecordBatchStreamBuilder::new(reader).await?.with_batch_size(4096).build()?;
        while let Some(batch) = batches.try_next().await? {
            writer.write(widen(&batch, &schema)?).await?;
        }
    }
    writer.finish().await
}

/// A finished file that is read again for the merge.
struct Part {
    objects: Arc<dyn ObjectStore>,
    path: Path,
    bytes: u64,
}

impl AsyncFileReader for Part {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        let read = self.objects.get_range(&self.path, range);
        read.map(|bytes| bytes.map_err(|error| ParquetError::External(error.into()))).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        let bytes = self.bytes;
        async move { Ok(Arc::new(ParquetMetaDataReader::new().load_and_finish(self, bytes).await?)) }.boxed()
    }
}
