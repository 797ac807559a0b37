//! Deletes snapshots, finds old snapshots, and signs the addresses of stored files.

mod local;

use std::{sync::Arc, time::Duration};

use antiphon_results::{DualResponseError, snapshot::SnapshotId};
use chrono::{DateTime, Utc};
use futures_util::{
    FutureExt as _, StreamExt as _, TryStreamExt as _, future,
    stream::{self, BoxStream},
};
use object_store::{Error as StoreError, ObjectMeta, ObjectStore as _, ObjectStoreExt as _, path::Path};
use url::Url;

use crate::{
    error::{Error, Result},
    inner::Inner,
    layout::SnapshotFolder,
    store::{again, ignore_missing},
    writer::UPLOAD,
};

/// Returns a signed address of the stored rows. A client needs no other credential to use the signed address.
pub(crate) async fn sign(inner: &Arc<Inner>, id: &SnapshotId, life: Duration) -> Result<Option<Url>> {
    let Some(sign) = &inner.store.sign else { return Ok(None) };
    // The address of a missing snapshot must not be signed, so open the snapshot first.
    let opened = inner.opened(id, &antiphon_results::snapshot::View::default()).await?;
    Ok(Some(sign(opened.data.clone(), life).await?))
}

pub(crate) async fn delete(inner: &Arc<Inner>, id: &SnapshotId) -> Result<()> {
    // With an empty ID, this call would delete the folder of the whole tenant.
    if id.place.is_empty() || id.set.is_empty() {
        return Ok(());
    }
    clear(inner, &SnapshotFolder::of(&inner.store.prefix, id)).await
}

/// Removes a complete or partial snapshot: the manifest first, and the intent last.
pub(crate) async fn clear(inner: &Inner, place: &SnapshotFolder) -> Result<()> {
    let objects = &inner.store.objects;
    objects.delete(&place.manifest()).await.or_else(ignore_missing)?;
    let mut found = objects.list(Some(&place.folder));
    while let Some(meta) = found.try_next().await? {
        if meta.location != place.intent() {
            abort(inner, &meta.location).await?;
            objects.delete(&meta.location).await.or_else(ignore_missing)?;
        }
    }
    objects.delete(&place.intent()).await.or_else(ignore_missing)?;
    if let Some(root) = inner.store.folder.clone() {
        let folder = place.folder.clone();
        let work = tokio::task::spawn_blocking(move || local::remove(&root, &folder));
        work.await.map_err(broken)?.map_err(local::failed)?;
    }
    // In the cache, the key of each view is the folder of the view.
    let below = format!("{}/", place.folder);
    let exact = place.folder.to_string();
    inner.cache.invalidate(&exact).await;
    let views: Vec<_> =
        inner.cache.iter().map(|(key, _)| key).filter(|key| key.starts_with(&below)).collect();
    for key in views {
        inner.cache.invalidate(&*key).await;
    }
    Ok(())
}

/// Removes the files of one writer of a snapshot.
pub(crate) async fn withdraw(inner: &Inner, place: &SnapshotFolder, writer: &str) -> Result<()> {
    let objects = &inner.store.objects;
    let mut found = objects.list(Some(&place.folder));
    while let Some(meta) = found.try_next().await? {
        if meta.location.filename().is_some_and(|name| name.contains(writer)) {
            abort(inner, &meta.location).await?;
            objects.delete(&meta.location).await.or_else(ignore_missing)?;
        }
    }
    let Some(root) = inner.store.folder.clone() else { return Ok(()) };
    let (folder, writer) = (place.folder.clone(), writer.to_owned());
    let work = tokio::task::spawn_blocking(move || local::withdraw(&root, &folder, &writer));
    work.await.map_err(broken)?.map_err(local::failed)
}

/// Removes the empty folders of a snapshot, if the store has folders.
pub(crate) async fn tidy(inner: &Inner, place: &SnapshotFolder) -> Result<()> {
    let Some(root) = inner.store.folder.clone() else { return Ok(()) };
    let folder = place.folder.clone();
    tokio::task::spawn_blocking(move || local::tidy(&root, &folder)).await.map_err(broken)
}

/// Aborts the upload that an `.upload` file names.
pub(crate) async fn abort(inner: &Inner, path: &Path) -> Result<()> {
    let (Some(store), Some(file)) = (&inner.store.multipart, path.as_ref().strip_suffix(UPLOAD)) else {
        return Ok(());
    };
    let id = match inner.store.objects.get(path).await {
        Err(StoreError::NotFound { .. }) => return Ok(()),
        note => note?.bytes().await?,
    };
    let (file, id) = (Path::from(file), String::from_utf8_lossy(&id).into_owned());
    match again(|| store.abort_multipart(&file, &id)).await.or_else(ignore_missing) {
        // If the store no longer has the upload, no upload is left to abort.
        Err(StoreError::Generic { source, .. }) if source.to_string().contains("No upload") => Ok(()),
        done => Ok(done?),
    }
}

/// Lists all snapshots with a file that is older than `before`. The files of a snapshot are consecutive in the
/// listing. So a comparison of each ID with the previous ID is enough to return each ID once.
pub(crate) fn ids(
    inner: &Arc<Inner>,
    before: DateTime<Utc>,
) -> BoxStream<'_, Result<SnapshotId, DualResponseError>> {
    if let Some(root) = &inner.store.folder {
        return local::ids(root.clone(), inner.store.prefix.clone(), before)
            .map_err(|error| local::failed(error).into())
            .boxed();
    }
    let prefix = &inner.store.prefix;
    let old = async move {
        // `before` is a time by this process's clock, and the times of files are by the store's clock.
        let before = before + inner.skew().await;
        let shown = (!prefix.as_ref().is_empty()).then_some(prefix);
        let list = inner.store.objects.list(shown);
        list.map_err(|error| DualResponseError::from(Error::from(error))).try_filter_map(move |meta| {
            future::ready(Ok(if meta.last_modified < before { id_of(prefix, &meta) } else { None }))
        })
    };
    let old = old.flatten_stream();
    let state = (old.boxed(), None::<SnapshotId>);
    stream::try_unfold(state, async |(mut old, last)| {
        while let Some(id) = old.try_next().await? {
            if last.as_ref() != Some(&id) {
                return Ok(Some((id.clone(), (old, Some(id)))));
            }
        }
        Ok(None)
    })
    .boxed()
}

/// Returns the ID of the snapshot to which a file belongs.
fn id_of(prefix: &Path, meta: &ObjectMeta) -> Option<SnapshotId> {
    let mut parts = meta.location.prefix_match(prefix)?;
    let (place, set) = (parts.next()?, parts.next()?);
    // A file outside the folders of snapshots belongs to no snapshot.
    parts.next()?;
    Some(SnapshotId::found(place.as_ref(), set.as_ref()))
}

fn broken(error: impl Into<antiphon_results::BoxError>) -> Error {
    Error::Broken(error.into())
}
