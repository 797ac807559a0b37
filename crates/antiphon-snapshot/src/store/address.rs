use std::sync::Arc;

use object_store::{local::LocalFileSystem, memory::InMemory};
use url::Url;

use super::{Bucket, Store};
use crate::error::{Error, Result};

impl Store {
    /// Opens the store at an address: `memory:`, `file:///var/lib/…`, `s3://bucket/prefix`, `gs://…` or `az://…`.
    pub(crate) fn open(address: &str, options: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let url = Url::parse(address).map_err(|error| {
            Error::InvalidUrl(format!(
                "`{address}` is not the URL of an object store: {error}; use `memory:`, `file:///path`, `s3://bucket/prefix`, `gs://…` or `az://…`"
            ))
        })?;
        let options: Vec<_> = options.into_iter().collect();
        let bucket = match url.scheme() {
            "memory" | "file" => {
                if let Some((key, _)) = options.first() {
                    return Err(Error::InvalidUrl(format!(
                        "the option `{key}` does not exist for `{}:` stores; remove it",
                        url.scheme()
                    )));
                }
                if url.scheme() == "memory" { memory() } else { folder(&url)? }
            }
            "s3" | "s3a" => aws(&url, options)?,
            "gs" => gcp(&url, options)?,
            "az" | "azure" | "adl" | "abfs" | "abfss" => azure(&url, options)?,
            other => {
                return Err(Error::InvalidUrl(format!(
                    "`{other}:` is not a supported object store; use `memory:`, `file:`, `s3:`, `gs:` or `az:`"
                )));
            }
        };
        Ok(bucket.into())
    }
}

fn memory() -> Bucket {
    // `multipart` is not set, because `InMemory` does not accept a repeated part in uploads by ID. The plain uploads
    // of `InMemory` never fail, and end with the process.
    Bucket { ordered: true, ..Bucket::new(Arc::new(InMemory::new())) }
}

fn folder(url: &Url) -> Result<Bucket> {
    let folder = url.to_file_path().map_err(|()| {
        Error::InvalidUrl(format!("`{url}` is not a local folder; use `file:///path`, with three slashes"))
    })?;
    let made = |error: std::io::Error| {
        Error::InvalidUrl(format!("the folder `{}` cannot be created: {error}", folder.display()))
    };
    std::fs::create_dir_all(&folder).map_err(made)?;
    let folder = folder.canonicalize().map_err(made)?;
    let objects = LocalFileSystem::new_with_prefix(&folder)?.with_automatic_cleanup(true);
    Ok(Bucket { folder: Some(folder), ..Bucket::new(Arc::new(objects)) })
}

/// Returns the path after the bucket in the address of a store.
#[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
fn prefix(url: &Url) -> Result<object_store::path::Path> {
    object_store::path::Path::from_url_path(url.path()).map_err(|error| {
        Error::InvalidUrl(format!("`{}` is not a valid path in a bucket: {error}", url.path()))
    })
}

/// Returns the retry settings for cloud stores.
#[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
fn patience() -> object_store::RetryConfig {
    object_store::RetryConfig {
        max_retries: 6,
        retry_timeout: std::time::Duration::from_mins(1),
        ..object_store::RetryConfig::default()
    }
}

macro_rules! cloud {
    ($feature:literal, $open:ident, $builder:path, $kind:literal) => {
        #[cfg(feature = $feature)]
        fn $open(url: &Url, options: Vec<(String, String)>) -> Result<Bucket> {
            let mut builder = <$builder>::new().with_url(url.to_string()).with_retry(patience());
            for (key, value) in options {
                let known = key.to_ascii_lowercase().parse().map_err(|_| {
                    Error::InvalidUrl(format!(
                        "unknown option `{key}` for {}; the crate `object_store` documents the options",
                        $kind
                    ))
                })?;
                builder = builder.with_config(known, value);
            }
            let store = builder
                .build()
                .map_err(|error| Error::InvalidUrl(format!("`{url}` cannot be opened: {error}")))?;
            let store = Arc::new(store);
            let bucket = Bucket::new(Arc::clone(&store) as _)
                .with_multipart(Arc::clone(&store) as _)
                .with_signer(store)
                .with_prefix(prefix(url)?);
            Ok(Bucket { ordered: true, ..bucket })
        }

        #[cfg(not(feature = $feature))]
        fn $open(url: &Url, _options: Vec<(String, String)>) -> Result<Bucket> {
            Err(Error::InvalidUrl(format!(
                "`{}:` needs the feature `{}` of antiphon-snapshot; enable the feature, and build again",
                url.scheme(),
                $feature
            )))
        }
    };
}

cloud!("aws", aws, object_store::aws::AmazonS3Builder, "S3");
cloud!("gcp", gcp, object_store::gcp::GoogleCloudStorageBuilder, "Google Cloud Storage");
cloud!("azure", azure, object_store::azure::MicrosoftAzureBuilder, "Azure Blob Storage");
