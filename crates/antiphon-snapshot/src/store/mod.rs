//! An object store by its address, or as somebody has it already.

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

/// Signs the address of a file for so long. Only the stores of clouds can, and only with their features is there the
/// trait of those that do.
pub(crate) type Sign =
    Arc<dyn Fn(Path, Duration) -> BoxFuture<'static, object_store::Result<Url>> + Send + Sync>;

/// An object store that somebody has, and what of it can do more than all stores can.
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
    /// Whether it lists names in their order.
    ordered: bool,
}

impl Bucket {
    /// This store, from its root on.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        let prefix = Path::default();
        Self { objects, prefix, multipart: None, sign: None, folder: None, ordered: false }
    }

    /// Keeps everything below this.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<Path>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Says how the same store names unfinished uploads. Then a part that failed is sent again, and an upload whose
    /// writer was killed can be removed by anybody; without it only the store's own rules remove that.
    #[must_use]
    pub fn with_multipart(mut self, multipart: Arc<dyn MultipartStore>) -> Self {
        self.multipart = Some(multipart);
        self
    }

    /// Says how addresses in the same store are signed. Without it none are.
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

/// A store, where in it to begin, and what of it can do more than all stores can.
#[derive(Clone)]
pub(crate) struct Store {
    /// What fails for a moment is asked again.
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) prefix: Path,
    /// Uploads by their id.
    pub(crate) multipart: Option<Arc<dyn MultipartStore>>,
    pub(crate) sign: Option<Sign>,
    /// Where it lies, if on this machine: what is staged there is not listed.
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

/// What is gone already need not be removed.
pub(crate) fn ignore_missing(error: object_store::Error) -> object_store::Result<()> {
    match error {
        object_store::Error::NotFound { .. } => Ok(()),
        error => Err(error),
    }
}
