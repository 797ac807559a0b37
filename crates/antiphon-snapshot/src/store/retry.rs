//! An object store that repeats calls after temporary failures.

use std::{fmt, ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, Result, path::Path,
};

/// The maximum number of attempts for one call of the object store.
const ATTEMPTS: u32 = 5;

/// The pause before the second attempt. The pause doubles before each further attempt.
const PAUSE: Duration = Duration::from_millis(20);

/// An object store that retries temporary failures if the call can safely be repeated.
#[derive(Clone, Debug)]
pub(super) struct Retrying {
    inner: Arc<dyn ObjectStore>,
    ordered: bool,
}

impl Retrying {
    pub(super) fn new(inner: Arc<dyn ObjectStore>, ordered: bool) -> Self {
        Self { inner, ordered }
    }
}

impl fmt::Display for Retrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Returns `true` if a retry of a call would return the same error again.
fn is_lasting(error: &Error) -> bool {
    !matches!(error, Error::Generic { .. } | Error::JoinError { .. })
}

/// Repeats a call until the call succeeds, fails permanently, or has used all attempts.
pub(crate) async fn again<T, F: Future<Output = Result<T>>>(mut call: impl FnMut() -> F) -> Result<T> {
    let mut attempt = 0;
    loop {
        match call().await {
            Err(error) if attempt + 1 < ATTEMPTS && !is_lasting(&error) => pause(attempt).await,
            answer => return answer,
        }
        attempt += 1;
    }
}

async fn pause(attempt: u32) {
    tokio::time::sleep(PAUSE * 2_u32.pow(attempt)).await;
}

#[async_trait]
impl ObjectStore for Retrying {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let mut attempt = 0;
        loop {
            match self.inner.put_opts(location, payload.clone(), opts.clone()).await {
                // The object store possibly applied an earlier attempt although the attempt returned an error.
                Err(error @ (Error::AlreadyExists { .. } | Error::Precondition { .. }))
                    if attempt > 0 && opts.mode == PutMode::Create =>
                {
                    let there = self.get(location).await?;
                    let (e_tag, version) = (there.meta.e_tag.clone(), there.meta.version.clone());
                    let same = there.bytes().await? == Bytes::from(payload);
                    return if same { Ok(PutResult { e_tag, version }) } else { Err(error) };
                }
                Err(error) if attempt + 1 < ATTEMPTS && !is_lasting(&error) => pause(attempt).await,
                done => return done,
            }
            attempt += 1;
        }
    }

    /// Starts a multipart upload without retries, because `MultipartUpload` cannot send a failed part again. To repeat
    /// parts, use `MultipartStore`.
    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut result = again(|| self.inner.get_opts(location, options.clone())).await?;
        if let GetResultPayload::Stream(body) = result.payload {
            let rest = Rest {
                store: Arc::clone(&self.inner),
                location: location.clone(),
                range: result.range.clone(),
                options: GetOptions { if_match: result.meta.e_tag.clone(), range: None, ..options },
                attempts: 0,
            };
            let body = if rest.options.head { body } else { rest.read(body) };
            result.payload = GetResultPayload::Stream(body);
        }
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        again(|| async {
            let found = self.inner.get_ranges(location, ranges).await?;
            let is_whole =
                |(bytes, range): (&Bytes, &Range<u64>)| bytes.len() as u64 == range.end - range.start;
            if found.len() == ranges.len() && found.iter().zip(ranges).all(is_whole) {
                return Ok(found);
            }
            Err(short())
        })
        .await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let inner = Arc::clone(&self.inner);
        let delete = move |location: Result<Path>| {
            let inner = Arc::clone(&inner);
            async move {
                let location = location?;
                again(|| inner.delete(&location)).await?;
                Ok(location)
            }
        };
        locations.map(delete).buffered(8).boxed()
    }

    /// If the store lists names in order, continues an interrupted listing at its position. If the store does not list
    /// names in order, restarts the listing, but only if no name was returned yet.
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (inner, ordered, prefix) = (Arc::clone(&self.inner), self.ordered, prefix.cloned());
        let first = inner.list(prefix.as_ref());
        let state = (first, None::<Path>, 0_u32);
        stream::unfold(state, move |(mut list, mut last, mut attempt)| {
            let (inner, prefix) = (Arc::clone(&inner), prefix.clone());
            async move {
                loop {
                    match list.next().await? {
                        Ok(meta) => {
                            last = Some(meta.location.clone());
                            return Some((Ok(meta), (list, last, 0)));
                        }
                        Err(error)
                            if attempt + 1 < ATTEMPTS
                                && !is_lasting(&error)
                                && (ordered || last.is_none()) =>
                        {
                            pause(attempt).await;
                            attempt += 1;
                            list = match &last {
                                Some(last) => inner.list_with_offset(prefix.as_ref(), last),
                                None => inner.list(prefix.as_ref()),
                            };
                        }
                        Err(error) => return Some((Err(error), (stream::empty().boxed(), last, 0))),
                    }
                }
            }
        })
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        again(|| self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

/// The part of an object that is still to be read.
struct Rest {
    store: Arc<dyn ObjectStore>,
    location: Path,
    range: Range<u64>,
    options: GetOptions,
    attempts: u32,
}

impl Rest {
    /// Reads the rest of an object. Continues at the current position if the body fails or ends too early.
    fn read(self, body: BoxStream<'static, Result<Bytes>>) -> BoxStream<'static, Result<Bytes>> {
        stream::try_unfold((self, body), async |(mut rest, mut body)| {
            loop {
                if rest.range.is_empty() {
                    return Ok(None);
                }
                let error = match body.next().await {
                    Some(Ok(bytes)) => {
                        rest.range.start += bytes.len() as u64;
                        if rest.range.start > rest.range.end {
                            return Err(short());
                        }
                        return Ok(Some((bytes, (rest, body))));
                    }
                    Some(Err(error)) => error,
                    None => short(),
                };
                if rest.attempts + 1 >= ATTEMPTS || is_lasting(&error) {
                    return Err(error);
                }
                pause(rest.attempts).await;
                rest.attempts += 1;
                let range = Some(GetRange::Bounded(rest.range.clone()));
                match rest.store.get_opts(&rest.location, GetOptions { range, ..rest.options.clone() }).await
                {
                    Ok(result) => body = result.into_stream(),
                    Err(error) if is_lasting(&error) => return Err(error),
                    Err(error) => body = stream::once(async { Err(error) }).boxed(),
                }
            }
        })
        .boxed()
    }
}

fn short() -> Error {
    Error::Generic { store: "snapshots", source: "the object store returned a wrong byte range".into() }
}
