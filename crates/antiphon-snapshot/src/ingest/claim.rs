use std::sync::Arc;

use antiphon_results::snapshot::SnapshotId;
use chrono::{DateTime, Utc};
use object_store::{Error as StoreError, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    inner::{Inner, StoredManifest},
    layout::{SnapshotFolder, data_name, writer_name},
    store::ignore_missing,
    sweep,
};

/// The contents of `intent.json`, which is written before all other files.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Intent {
    /// The unique name of the writer.
    nonce: String,
    started: DateTime<Utc>,
}

/// A claim: the exclusive right to write a snapshot.
pub(super) struct Claim {
    inner: Arc<Inner>,
    pub(super) place: SnapshotFolder,
    pub(super) nonce: String,
}

impl Claim {
    /// Takes the claim on a snapshot, unless another writer has the claim or the snapshot exists.
    pub(super) async fn take(inner: &Arc<Inner>, id: &SnapshotId) -> Result<Self> {
        let place = SnapshotFolder::of(&inner.store.prefix, id);
        let nonce = writer_name()?;
        let intent = Intent { nonce: nonce.clone(), started: Utc::now() };
        let text = serde_json::to_vec(&intent).map_err(Error::Manifest)?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let objects = &inner.store.objects;
        let claim = Self { inner: Arc::clone(inner), place, nonce };
        let shared = inner.intents.read().await;
        let written = objects.put_opts(&claim.place.intent(), PutPayload::from(text), options).await;
        drop(shared);
        match written {
            Ok(_) => {}
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => return Err(taken()),
            Err(error) => {
                // The store possibly wrote the intent although the call returned an error.
                claim.undo().await;
                return Err(error.into());
            }
        }
        // Another writer removes its intent only after its manifest exists. So this check finds the manifest of every
        // complete snapshot.
        match objects.head(&claim.place.manifest()).await {
            Err(StoreError::NotFound { .. }) => {}
            Ok(_) => {
                claim.release().await;
                return Err(taken());
            }
            Err(error) => {
                claim.release().await;
                return Err(error.into());
            }
        }
        if id.share() != id.place {
            let owner = claim.place.owner(id.share(), &claim.nonce);
            if let Err(error) = objects.put(&owner, PutPayload::new()).await {
                claim.undo().await;
                return Err(error.into());
            }
        }
        Ok(claim)
    }

    /// Returns an error if the snapshot was removed, or if another writer has the claim.
    pub(super) async fn confirm(&self) -> Result<()> {
        if self.is_ours().await? {
            return Ok(());
        }
        Err(Error::Altered("the snapshot was removed before it was complete".into()))
    }

    async fn is_ours(&self) -> Result<bool> {
        let text = match self.inner.store.objects.get(&self.place.intent()).await {
            Err(StoreError::NotFound { .. }) => return Ok(false),
            found => found?.bytes().await?,
        };
        Ok(serde_json::from_slice::<Intent>(&text).is_ok_and(|intent| intent.nonce == self.nonce))
    }

    /// Removes the file `intent.json`. Call this method after the snapshot is complete. If the removal of
    /// `intent.json` fails, the snapshot is still valid. If `intent.json` remains, it is removed later, together with
    /// the snapshot.
    pub(super) async fn release(&self) {
        if let Err(error) = self.inner.store.objects.delete(&self.place.intent()).await {
            tracing::warn!(folder = %self.place.folder, %error, "the marker of a complete snapshot could not be removed; it is removed with the snapshot");
        }
    }

    /// Removes all files of this writer, but no file of a later writer. If the removal fails, a later sweep finds the
    /// files that remain.
    pub(super) async fn undo(&self) {
        if let Err(error) = self.withdraw().await {
            tracing::warn!(folder = %self.place.folder, %error, "the files of an unfinished snapshot could not be removed; a sweep removes them later");
        }
    }

    async fn withdraw(&self) -> Result<()> {
        // The manifest is removed first. The store possibly wrote the manifest although the call returned an error, so
        // this code reads the manifest.
        let objects = &self.inner.store.objects;
        let manifest = match objects.get(&self.place.manifest()).await {
            Err(StoreError::NotFound { .. }) => None,
            found => serde_json::from_slice::<StoredManifest>(&found?.bytes().await?).ok(),
        };
        if manifest.is_some_and(|manifest| manifest.data == data_name(&self.nonce)) {
            objects.delete(&self.place.manifest()).await.or_else(ignore_missing)?;
        }
        sweep::withdraw(&self.inner, &self.place, &self.nonce).await?;
        // The intent is removed last, because it announces the other files. All writers use the same file name for the
        // intent, so this code removes only an intent with its own nonce.
        let exclusive = self.inner.intents.write().await;
        if self.is_ours().await? {
            self.inner.store.objects.delete(&self.place.intent()).await.or_else(ignore_missing)?;
        }
        drop(exclusive);
        sweep::tidy(&self.inner, &self.place).await
    }
}

pub(super) fn taken() -> Error {
    Error::Invalid("this snapshot exists or is being written; use another ID for the new snapshot".into())
}
