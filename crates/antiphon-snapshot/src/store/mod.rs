//! Opens object stores by address, or uses an existing `ObjectStore`.

mod address;
mod retry;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
#[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
use object_store::signer::Signer;
use object_store::{ObjectStore, multipart::MultipartStore, path::Path};
use url::Url;

use self::retry::Retrying;
pub(crate) use self::retry::again;

/// A function that signs the address of a file for a limited duration. Only cloud stores support signed addresses, and
/// the trait `Signer` exists only with the features for cloud stores.
pub(crate) type Sign =
    Arc<dyn Fn(Path, Duration) -> BoxFuture<'static, object_store::Result<Url>> + Send + Sync>;

/// An existing object store, and its optional interfaces for multipart uploads and signed URLs.
///
/// ```
/// use std::sync::Arc;
///
/// use antiphon_snapshot::{Bucket, SnapshotConfig, Snapshots, object_store::memory::InMemory};
///
/// let bucket = Bucket::new(Arc::new(InMemory::new())).with_prefix("snapshots");
/// let snapshots = Snapshots::on(bucket, SnapshotConfig::default())?;
/// # Ok::<(), antiphon_snapshot::Error>(())
/// ```
#[derive(Clone)]
pub struct Bucket {
    objects: Arc<dyn ObjectStore>,
    prefix: Path,
    multipart: Option<Arc<dyn MultipartStore>>,
    sign: Option<Sign>,
    folder: Option<PathBuf>,
    /// Whether the object store lists names in order.
    ordered: bool,
}

impl Bucket {
    /// Creates a bucket that uses the whole object store, without a prefix.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        let prefix = Path::default();
        Self { objects, prefix, multipart: None, sign: None, folder: None, ordered: false }
    }

    /// Sets the path prefix of all files. Default: none. Without a prefix, the files are at the root of the object
    /// store.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<Path>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the interface for multipart uploads to this object store. Default: none.
    ///
    /// With the interface for multipart uploads, a failed part is sent again. If a process is killed during an upload,
    /// any other process can remove the unfinished upload. Without the interface for multipart uploads, only the
    /// lifecycle rules of the object store remove unfinished uploads.
    #[must_use]
    pub fn with_multipart(mut self, multipart: Arc<dyn MultipartStore>) -> Self {
        self.multipart = Some(multipart);
        self
    }

    /// Sets the interface that signs URLs for files in this object store. Default: none. Without the signing interface,
    /// the store cannot sign URLs.
    #[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
    #[must_use]
    pub fn with_signer(mut self, signer: Arc<dyn Signer>) -> Self {
        self.sign = Some(Arc::new(move |path, life| {
            let signer = Arc::clone(&signer);
            Box::pin(async move {
                let invalid = |source| object_store::Error::Generic { store: "signer", source };
                let method = "GET".parse().map_err(|error| invalid(Box::new(error) as _))?;
                signer.signed_url(method, &path, life).await
            })
        }));
        self
    }
}

impl From<Arc<dyn ObjectStore>> for Bucket {
    fn from(objects: Arc<dyn ObjectStore>) -> Self {
        Self::new(objects)
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("objects", &self.objects)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// An object store with its prefix and its optional interfaces.
#[derive(Clone)]
pub(crate) struct Store {
    /// The object store. Calls that fail temporarily are retried.
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) prefix: Path,
    /// The interface for multipart uploads, in which each upload has an ID.
    pub(crate) multipart: Option<Arc<dyn MultipartStore>>,
    pub(crate) sign: Option<Sign>,
    /// The folder of the store, if the store is on this machine. The folder can contain staged files, which the store
    /// does not list.
    pub(crate) folder: Option<PathBuf>,
}

impl From<Bucket> for Store {
    fn from(bucket: Bucket) -> Self {
        let Bucket { objects, prefix, multipart, sign, folder, ordered } = bucket;
        Self { objects: Arc::new(Retrying::new(objects, ordered)), prefix, multipart, sign, folder }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("objects", &self.objects)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Converts the error of a deletion to a success if the object does not exist.
pub(crate) fn ignore_missing(error: object_store::Error) -> object_store::Result<()> {
    match error {
        object_store::Error::NotFound { .. } => Ok(()),
        error => Err(error),
    }
}
