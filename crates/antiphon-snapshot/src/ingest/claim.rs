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

/// What is noted before anything is written.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Intent {
    /// Who writes: nobody else has this.
    nonce: String,
    started: DateTime<Utc>,
}

/// The right to write a snapshot. One has it at a time.
pub(super) struct Claim {
    inner: Arc<Inner>,
    pub(super) place: SnapshotFolder,
    pub(super) nonce: String,
}

impl Claim {
    /// Takes it, unless somebody has it or the snapshot is there.
    pub(super) async fn take(inner: &Arc<Inner>, id: &SnapshotId) -> Result<Self> {
        let place = SnapshotFolder::of(&inner.store.prefix, id);
        let nonce = writer_name()?;
        let intent = Intent { nonce: nonce.clone(), started: Utc::now() };
        let text = serde_json::to_vec(&intent).map_err(Error::Manifest)?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let objects = &inner.store.objects;
        let claim = Self { inner: Arc::clone(inner), place, nonce };
        match objects.put_opts(&claim.place.intent(), PutPayload::from(text), options).await {
            Ok(_) => {}
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => return Err(taken()),
            Err(error) => {
                // It may be there all the same.
                claim.undo().await;
                return Err(error.into());
            }
        }
        // Whoever was first removes the intent only when the manifest is there, so this cannot miss it.
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

    /// Fails if the snapshot was removed, or is somebody else's by now.
    pub(super) async fn confirm(&self) -> Result<()> {
        if self.is_ours().await? {
            return Ok(());
        }
        Err(Error::Altered("the snapshot was removed while it was written".into()))
    }

    async fn is_ours(&self) -> Result<bool> {
        let text = match self.inner.store.objects.get(&self.place.intent()).await {
            Err(StoreError::NotFound { .. }) => return Ok(false),
            found => found?.bytes().await?,
        };
        Ok(serde_json::from_slice::<Intent>(&text).is_ok_and(|intent| intent.nonce == self.nonce))
    }

    /// All is there. The snapshot counts whether or not this goes well: what is left is removed with it.
    pub(super) async fn release(&self) {
        if let Err(error) = self.inner.store.objects.delete(&self.place.intent()).await {
            tracing::warn!(folder = %self.place.folder, %error, "an intent could not be removed yet");
        }
    }

    /// Removes all that this writer wrote, and nothing of one that came after it. What cannot be removed is found
    /// later.
    pub(super) async fn undo(&self) {
        if let Err(error) = self.withdraw().await {
            tracing::warn!(folder = %self.place.folder, %error, "an unfinished snapshot could not be removed yet");
        }
    }

    async fn withdraw(&self) -> Result<()> {
        // First what makes it a snapshot, if it is ours: its answer may have been lost.
        let objects = &self.inner.store.objects;
        let manifest = match objects.get(&self.place.manifest()).await {
            Err(StoreError::NotFound { .. }) => None,
            found => serde_json::from_slice::<StoredManifest>(&found?.bytes().await?).ok(),
        };
        if manifest.is_some_and(|manifest| manifest.data == data_name(&self.nonce)) {
            objects.delete(&self.place.manifest()).await.or_else(ignore_missing)?;
        }
        sweep::withdraw(&self.inner, &self.place, &self.nonce).await?;
        // Last, for it says that there is something. It has no name of its own, so it is compared.
        if self.is_ours().await? {
            self.inner.store.objects.delete(&self.place.intent()).await.or_else(ignore_missing)?;
        }
        sweep::tidy(&self.inner, &self.place).await
    }
}

pub(super) fn taken() -> Error {
    Error::Invalid(
        "this snapshot is written already, or somebody writes it; give the new one another id".into(),
    )
}
