//! Exports the stored Parquet file of a snapshot unchanged.

use antiphon_results::{
    DualResponseError,
    snapshot::{ByteRange, Export},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use object_store::{GetOptions, GetRange, ObjectStore as _};
use sha2::{Digest as _, Sha256};

use super::{Job, part};
use crate::{
    error::{Error, Result},
    inner::digest,
};

pub(super) async fn export(job: &Job, range: Option<ByteRange>) -> Result<Export, DualResponseError> {
    let manifest = &job.opened.manifest;
    let total = manifest.bytes;
    let wanted = range.map(|range| part(range, total)).transpose()?.unwrap_or(0..total);
    let whole = wanted == (0..total);
    let options =
        GetOptions { range: (!whole).then(|| GetRange::Bounded(wanted.clone())), ..GetOptions::default() };
    let found = job.inner.store.objects.get_opts(&job.opened.data, options).await.map_err(Error::from)?;
    if found.meta.size != total {
        return Err(Error::Altered(
            "the Parquet file is damaged: its length is not the length in the manifest".into(),
        )
        .into());
    }
    let length = wanted.end - wanted.start;
    // If the whole file is read, its digest is checked. A mismatch is returned as an error at the end of the
    // stream.
    let expected = whole.then(|| (Sha256::new(), manifest.digest.clone()));
    let bytes = found.into_stream();
    let checked = stream::unfold(Some((bytes, length, expected)), |state| async move {
        let (mut bytes, left, mut expected) = state?;
        match bytes.next().await {
            Some(Ok(part)) if part.len() as u64 <= left => {
                if let Some((hash, _)) = &mut expected {
                    hash.update(&part);
                }
                let left = left - part.len() as u64;
                Some((Ok(part), Some((bytes, left, expected))))
            }
            Some(Err(error)) => Some((Err(Error::from(error)), None)),
            None if left == 0 => {
                let same = expected.is_none_or(|(hash, written)| digest(hash) == written);
                let error = || Error::Altered("the stored file does not match its digest".into());
                (!same).then(|| (Err(error()), None))
            }
            _ => Some((
                Err(Error::Altered("the length of the stored file does not match its manifest".into())),
                None,
            )),
        }
    });
    let body = checked.map(|part: Result<Bytes>| part.map_err(DualResponseError::from)).boxed();
    Ok(Export::new(&job.tag, Some(total), body).with_part(wanted.start, Some(length)))
}
