//! Gives the readers of the `parquet` crate access to the bytes of a stored file.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use object_store::{ObjectStore, path::Path};
use parquet::{
    arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
    errors::{ParquetError, Result},
    file::metadata::ParquetMetaData,
};

use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::guard;
use crate::inner::{Inner, Opened};

/// A stored file with a cached footer.
#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    objects: Arc<dyn ObjectStore>,
    path: Path,
    bytes: u64,
    metadata: Arc<ParquetMetaData>,
    /// The runtime for requests to the object store. A query can block the threads and the connections of the reader's
    /// runtime. So the requests run on a different runtime than the reader.
    requests: Handle,
}

impl StoredFile {
    /// Creates a reader of a snapshot's file that sends its requests on the runtime `requests`.
    pub(crate) fn new(inner: &Inner, opened: &Opened, requests: Handle) -> Self {
        Self {
            objects: Arc::clone(&inner.store.objects),
            path: opened.data.clone(),
            bytes: opened.manifest.bytes,
            metadata: Arc::clone(opened.metadata.metadata()),
            requests,
        }
    }
}

impl AsyncFileReader for StoredFile {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move {
            let mut parts = self.get_byte_ranges(vec![range]).await?;
            parts.pop().ok_or_else(|| ParquetError::General("the object store returned no data".into()))
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        if ranges.iter().any(|range| range.start > range.end || range.end > self.bytes) {
            let error = ParquetError::General("the footer has an invalid position of a data page".into());
            return future::ready(Err(error)).boxed();
        }
        async move {
            let (objects, path, wanted) = (Arc::clone(&self.objects), self.path.clone(), ranges.clone());
            let request = self.requests.spawn(async move { objects.get_ranges(&path, &wanted).await });
            let parts = AbortOnDropHandle::new(request).await;
            let parts = parts.map_err(|error| ParquetError::External(Box::new(error)))?;
            let parts = parts.map_err(|error| ParquetError::External(Box::new(error)))?;
            let all = 0..self.metadata.num_row_groups();
            let checked = guard::pages(&self.metadata, &all, &ranges, &parts);
            checked.map_err(|error| ParquetError::External(Box::new(error)))?;
            Ok(parts)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        future::ready(Ok(Arc::clone(&self.metadata))).boxed()
    }
}
