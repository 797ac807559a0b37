//! Creates the manifests of result sets.

use std::time::Duration;

use chrono::{DateTime, Utc};
use url::Url;

use super::{SILENT, key};
use crate::{
    error::{DualResponseError, Result},
    server::{Access, Action, Consistency, DualResponseServer, Inner, LinkAccess, create::after},
    snapshot::{Capabilities, ExportFormat, Phase, RetrievalMode, SetManifest, SetStatus},
    store::{Origin, Resource},
};

/// Export formats of rows that are not saved.
pub(super) const PLAIN: [ExportFormat; 2] = [ExportFormat::Ndjson, ExportFormat::Csv];

impl DualResponseServer {
    /// Returns the manifest of a result set (its metadata and its chunks), if `access` allows reading the metadata.
    /// The call counts as an access to the rows only if the manifest contains a signed URL of the stored file.
    pub async fn manifest(&self, id: &str, access: &Access) -> Result<SetManifest> {
        let manifest = self.inner.manifest(id, access).await;
        let refused = manifest.as_ref().err().map(DualResponseError::code);
        self.inner.audit(access, Action::Describe, id, (0, 0), refused);
        manifest
    }

    /// Returns a signed URL of the stored file at the object store, and the time at which the URL expires. Returns
    /// `None` if [`RetrievalMode`] is `Proxy`, or if the object store does not sign URLs.
    ///
    /// Every holder of the signed URL can download the file until the URL expires, even if the result set is deleted.
    /// Keep the signed URL out of logs and prompts.
    pub async fn sign(&self, id: &str, access: &Access) -> Result<Option<(Url, DateTime<Utc>)>> {
        let resource = self.inner.open_rows(id, access, Action::Export).await?;
        self.sign_of(&resource, access).await
    }

    /// Signs a URL for a result set that is already open for export.
    pub(crate) async fn sign_of(
        &self,
        resource: &Resource,
        access: &Access,
    ) -> Result<Option<(Url, DateTime<Utc>)>> {
        let signed = self.inner.sign(resource, access).await;
        let refused = signed.as_ref().err().map(DualResponseError::code);
        self.inner.audit(access, Action::Export, &resource.id, (0, 0), refused);
        signed
    }
}

impl Inner {
    async fn manifest(&self, id: &str, access: &Access) -> Result<SetManifest> {
        let resource = self.open(id, access, Action::Describe).await?;
        let mut manifest = self.described(&resource);
        if resource.query != Origin::Snapshot || manifest.status != SetStatus::Ready {
            return Ok(manifest);
        }
        let stored = match self.asked(&resource, self.snapshots()?.manifest(&key(&resource))).await {
            Ok(stored) => stored,
            // The stored rows are lost, so the manifest reports the state `failed` instead of an error.
            Err(DualResponseError::Failed(reason)) => {
                manifest.status = SetStatus::Failed;
                manifest.failure = Some(reason);
                return Ok(manifest);
            }
            Err(error) => return Err(error),
        };
        manifest.bytes = Some(stored.bytes);
        manifest.digest = Some(stored.digest);
        manifest.chunks = stored.chunks;
        manifest.truncated = manifest.truncated.or(stored.truncated);
        // The URL gives access to the rows, so only callers that are allowed to export get the URL.
        if self.options.retrieval == RetrievalMode::Direct
            && self.permit(&resource, access, Action::Export).await.is_ok()
            && let Some((url, end)) = self.signed(&resource, access).await?
        {
            self.count_access(&resource).await?;
            self.audit(access, Action::Export, id, (0, 0), None);
            manifest.url = Some(url.into());
            manifest.url_expires_at = Some(end);
        }
        Ok(manifest)
    }

    /// Returns the manifest of a result set without the data that only the snapshot store has.
    fn described(&self, resource: &Resource) -> SetManifest {
        let status = self.status(resource);
        let state = resource.snapshot.as_ref();
        let saved = resource.query == Origin::Snapshot;
        let capabilities =
            self.options.snapshots.as_ref().filter(|_| saved).map(|store| store.capabilities());
        let queries = capabilities.as_ref().is_some_and(|capabilities| capabilities.queries);
        SetManifest {
            id: resource.id.clone(),
            name: resource.name.clone(),
            status,
            rows: resource.total_count,
            exact: status == SetStatus::Ready && Consistency::of(resource) == Consistency::Fixed,
            bytes: resource.bytes,
            digest: state.and_then(|state| state.digest.clone()),
            columns: resource.columns.clone(),
            chunks: Vec::new(),
            truncated: state.and_then(|state| state.truncated),
            lineage: state.and_then(|state| state.lineage.clone()),
            formats: capabilities.map_or_else(|| PLAIN.to_vec(), |capabilities| capabilities.formats),
            can: Capabilities {
                sort: if saved { queries } else { resource.sorts },
                filter: queries,
                aggregate: queries,
                query: queries,
                stats: saved,
            },
            retrieval: if saved { self.options.retrieval } else { RetrievalMode::Proxy },
            url: None,
            url_expires_at: None,
            created_at: resource.created_at,
            expires_at: resource.expires_at,
            failure: state.and_then(|state| match &state.phase {
                Phase::Failed { reason } => Some(reason.clone()),
                Phase::Writing if status == SetStatus::Failed => Some(SILENT.into()),
                _ => None,
            }),
        }
    }

    async fn sign(&self, resource: &Resource, access: &Access) -> Result<Option<(Url, DateTime<Utc>)>> {
        if resource.query != Origin::Snapshot || self.options.retrieval == RetrievalMode::Proxy {
            return Ok(None);
        }
        self.check_ready(resource).await?;
        let signed = self.signed(resource, access).await?;
        if signed.is_some() {
            self.count_access(resource).await?;
        }
        Ok(signed)
    }

    /// Signs a URL that expires no later than the result set, and no later than the link of the request.
    async fn signed(&self, resource: &Resource, access: &Access) -> Result<Option<(Url, DateTime<Utc>)>> {
        let now = self.now();
        let link = match access {
            Access::Link(LinkAccess(grant)) => DateTime::from_timestamp(grant.end, 0),
            _ => None,
        };
        let ends =
            after(now, self.options.limits.link_life).into_iter().chain(resource.expires_at).chain(link);
        let end = ends.min().ok_or(DualResponseError::NotFound)?;
        let life = (end - now).to_std().unwrap_or_default().max(Duration::from_secs(1));
        let signed = self.asked(resource, self.snapshots()?.sign(&key(resource), life)).await?;
        Ok(signed.map(|url| (url, end)))
    }
}
