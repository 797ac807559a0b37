//! Uploads bytes to the object store in parts. If an upload does not finish, its sent parts are removed.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, future::try_join_all};
use object_store::{
    MultipartUpload, ObjectStore, ObjectStoreExt as _, PutPayload,
    multipart::{MultipartStore, PartId},
    path::Path,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio_util::sync::CancellationToken;

use super::Gauge;
use crate::{
    error::{Error, Result},
    inner::{Stored, digest},
    store::{Store, again, ignore_missing},
};

/// The suffix in the name of the file that contains the ID of an unfinished upload. The suffix follows the name of the
/// uploaded file.
pub(crate) const UPLOAD: &str = ".upload";

/// The number of parts of an upload that are sent concurrently.
const AT_ONCE: usize = 2;

/// The maximum time for removing a cancelled upload. If data of the upload remains, a later sweep finds the data.
const REMOVAL: Duration = Duration::from_secs(30);

/// A part of a file for the upload. The file is created only when the last part arrives.
#[derive(Debug)]
pub(super) enum Part {
    More(Bytes),
    Last(Bytes),
}

/// A file that is being uploaded.
pub(super) struct Upload {
    objects: Arc<dyn ObjectStore>,
    multipart: Option<Arc<dyn MultipartStore>>,
    path: Path,
    begun: Option<Multipart>,
}

/// A started upload that consists of several parts.
enum Multipart {
    /// An upload with an ID. The upload ID is stored in a file, so that any process can abort the upload.
    Known {
        id: String,
        parts: Vec<(usize, PartId)>,
        sent: usize,
    },
    Opaque(Box<dyn MultipartUpload>),
}

impl Upload {
    pub(super) fn new(store: &Store, path: Path) -> Self {
        Self { objects: Arc::clone(&store.objects), multipart: store.multipart.clone(), path, begun: None }
    }

    /// Sends all parts of the file. If the upload fails or is cancelled, removes the sent data.
    pub(super) async fn run(
        mut self,
        mut parts: mpsc::Receiver<Part>,
        stop: CancellationToken,
        gauge: Arc<Gauge>,
    ) -> Result<Stored> {
        let outcome = tokio::select! {
            outcome = self.send(&mut parts, &gauge) => outcome,
            () = stop.cancelled() => Err(Error::Broken("the snapshot was cancelled".into())),
        };
        drop(parts);
        if outcome.is_err() && tokio::time::timeout(REMOVAL, self.remove()).await.is_err() {
            tracing::warn!(path = %self.path, "an unfinished upload could not be removed in time; a sweep removes it later");
        }
        outcome
    }

    async fn send(&mut self, parts: &mut mpsc::Receiver<Part>, gauge: &Gauge) -> Result<Stored> {
        let mut hash = Sha256::new();
        let mut bytes = 0;
        loop {
            let (batch, ended) = gather(parts, self.begun.is_some()).await?;
            let length: usize = batch.iter().map(Bytes::len).sum();
            let hashing = tokio::task::spawn_blocking({
                let batch = batch.clone();
                move || {
                    for part in &batch {
                        hash.update(part);
                    }
                    hash
                }
            });
            if ended && self.begun.is_none() && batch.len() == 1 {
                // A small file is sent in one request.
                let payload = PutPayload::from_iter(batch);
                self.objects.put(&self.path, payload).await?;
            } else {
                self.send_parts(batch).await?;
            }
            hash = hashing.await.map_err(|error| Error::Broken(error.into()))?;
            bytes += length as u64;
            gauge.sent.store(bytes, Ordering::Relaxed);
            if ended {
                break;
            }
        }
        let digest = digest(hash);
        self.complete(&digest).await?;
        Ok(Stored { rows: 0, bytes, digest })
    }

    async fn send_parts(&mut self, batch: Vec<Bytes>) -> Result<()> {
        let begun = match &mut self.begun {
            Some(begun) => begun,
            None => self.begun.insert(begin(&self.objects, self.multipart.as_ref(), &self.path).await?),
        };
        match (begun, &self.multipart) {
            (Multipart::Known { id, parts, sent }, Some(store)) => {
                let first = *sent;
                *sent += batch.len();
                let sending = batch.into_iter().enumerate().map(|(at, part)| {
                    let (id, path, index) = (&*id, &self.path, first + at);
                    async move {
                        again(|| store.put_part(path, id, index, PutPayload::from(part.clone())))
                            .await
                            .map(|part| (index, part))
                    }
                });
                parts.extend(try_join_all(sending).await?);
            }
            (Multipart::Opaque(upload), _) => {
                try_join_all(batch.into_iter().map(|part| upload.put_part(PutPayload::from(part)))).await?;
            }
            (Multipart::Known { .. }, None) => return Err(Error::Broken("the upload has no store".into())),
        }
        Ok(())
    }

    /// Completes the upload, which creates the object.
    async fn complete(&mut self, digest: &str) -> Result<()> {
        match (&mut self.begun, &self.multipart) {
            (None, _) => return Ok(()),
            (Some(Multipart::Opaque(upload)), _) => {
                upload.complete().await?;
            }
            (Some(Multipart::Known { id, parts, .. }), Some(store)) => {
                parts.sort_by_key(|(index, _)| *index);
                let parts: Vec<_> = parts.iter().map(|(_, part)| part.clone()).collect();
                let done = again(|| store.complete_multipart(&self.path, id, parts.clone())).await;
                if let Err(error) = done {
                    // The store possibly completed the upload although the call returned an error. If so, the stored
                    // object has the expected digest.
                    if !matches!(Self::stored_digest(&self.objects, &self.path).await, Ok(found) if found == digest)
                    {
                        return Err(error.into());
                    }
                }
            }
            (Some(Multipart::Known { .. }), None) => {
                return Err(Error::Broken("the upload has no store".into()));
            }
        }
        self.objects.delete(&note(&self.path)).await.or_else(ignore_missing)?;
        self.begun = None;
        Ok(())
    }

    async fn stored_digest(objects: &Arc<dyn ObjectStore>, path: &Path) -> Result<String> {
        let mut body = objects.get(path).await?.into_stream();
        let mut hash = Sha256::new();
        while let Some(bytes) = body.next().await {
            hash.update(&bytes?);
        }
        Ok(digest(hash))
    }

    /// Removes the sent data of the upload. If the removal fails, the `.upload` file stays.
    async fn remove(&mut self) {
        let aborted = match (&mut self.begun, &self.multipart) {
            (Some(Multipart::Known { id, .. }), Some(store)) => {
                again(|| store.abort_multipart(&self.path, id)).await.or_else(ignore_missing)
            }
            (Some(Multipart::Opaque(upload)), _) => upload.abort().await,
            _ => Ok(()),
        };
        let removed = match aborted {
            Ok(()) => self.objects.delete(&self.path).await.or_else(ignore_missing),
            error => error,
        };
        let noted = match removed {
            Ok(()) if self.begun.is_some() => {
                self.objects.delete(&note(&self.path)).await.or_else(ignore_missing)
            }
            done => done,
        };
        if let Err(error) = noted {
            tracing::warn!(path = %self.path, %error, "an unfinished upload could not be removed; a sweep removes it later");
        }
    }
}

/// Receives one or more parts, and returns whether the last part is among them.
async fn gather(parts: &mut mpsc::Receiver<Part>, begun: bool) -> Result<(Vec<Bytes>, bool)> {
    let mut batch = Vec::new();
    while batch.len() < AT_ONCE {
        // The first part waits for a second part, because the first part can be the only part.
        let next = if batch.is_empty() || !begun {
            parts.recv().await.ok_or(TryRecvError::Disconnected)
        } else {
            parts.try_recv()
        };
        match next {
            Ok(Part::More(part)) => batch.push(part),
            Ok(Part::Last(part)) => {
                batch.push(part);
                return Ok((batch, true));
            }
            Err(TryRecvError::Empty) => break,
            Err(TryRecvError::Disconnected) => return Err(Error::Broken("the rows ended early".into())),
        }
    }
    Ok((batch, false))
}

/// Starts an upload in parts, and stores its ID.
async fn begin(
    objects: &Arc<dyn ObjectStore>,
    multipart: Option<&Arc<dyn MultipartStore>>,
    path: &Path,
) -> Result<Multipart> {
    let Some(store) = multipart else {
        return Ok(Multipart::Opaque(objects.put_multipart(path).await?));
    };
    let id = again(|| store.create_multipart(path)).await?;
    let noted = objects.put(&note(path), PutPayload::from(id.clone().into_bytes())).await;
    if let Err(error) = noted {
        // Without the stored ID, no process could find the upload again, so the upload is aborted.
        let _ = again(|| store.abort_multipart(path, &id)).await;
        return Err(error.into());
    }
    Ok(Multipart::Known { id, parts: Vec::new(), sent: 0 })
}

fn note(path: &Path) -> Path {
    Path::from(format!("{path}{UPLOAD}"))
}
