//! The list of a caller's runs that wait for users.
//!
//! A run is listed if it waits for an answer and its result is read with a tool. Its record in the list is
//! `waits/<audience>/<owner>/<call>`, and contains the ID of the task. All unauthenticated callers have the same
//! owner. So their records have the names `waits/<audience>/<owner>/<connection>/<call>`. Runs of unauthenticated
//! callers over streamable HTTP are not listed, because the server cannot distinguish these callers. The record
//! expires together with the questions of the run.
//!
//! The record is only a hint. Readers also check the run itself, so an old record causes no error. If the record is
//! missing, a repeated call starts a second run, and a form that has no task ID does not find the question.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use antiphon_store::Error as StoreError;
use bytes::Bytes;

use super::{NewTask, Owner, TaskStatus, TaskView, Tasks, record::TaskRecord, unavailable};
use crate::{
    base::now_millis,
    durable::WAITS,
    error::{Error, ErrorKind, Result},
};

/// A form without a task ID shows only questions that were asked within this time, in milliseconds.
const LATELY: u64 = 10 * 60 * 1000;

/// The number of records that are read at once. The next constant is the maximum number of records that are searched
/// for the question of a form without a task ID.
const PAGE: usize = 200;
const SEARCHED: usize = 2000;

/// How long a run is listed if its questions do not expire.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Tasks {
    fn owner_prefix(&self, owner: &Owner) -> String {
        format!("{WAITS}{}/{}/", self.audience, owner.0)
    }

    /// Returns the name prefix of a caller's records in the list. Returns `None` for unauthenticated callers over
    /// streamable HTTP, because the server cannot distinguish these callers.
    fn caller_prefix(&self, principal: Option<&str>, connection: Option<&str>) -> Option<String> {
        let owner = self.owner_prefix(&Self::owner(principal));
        if principal.is_some() {
            return Some(owner);
        }
        connection.map(|connection| format!("{owner}{connection}/"))
    }

    /// Returns the record names under which a run can be listed. The first name contains the call. The second name
    /// contains the task ID instead. It is used if another run of the same call already has the first name.
    fn waits_keys(&self, record: &TaskRecord) -> Vec<String> {
        let prefix = self.caller_prefix(record.principal.as_deref(), record.connection.as_deref());
        let Some(prefix) = prefix else { return Vec::new() };
        let names = [record.call.as_ref(), Some(&record.id)];
        names.into_iter().flatten().map(|name| format!("{prefix}{name}")).collect()
    }

    /// Lists a run that is about to wait for its user. If a client follows the run, this method does nothing.
    pub(super) async fn list_waiting(&self, record: &TaskRecord) {
        if !record.is_read_with_a_tool {
            return;
        }
        let life = record.question_life.map_or(LONGEST, Duration::from_millis);
        for key in self.waits_keys(record) {
            match self.list_as(&key, record, life).await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(%error, task = record.id, "a waiting run could not be listed; a repeated call starts a second run");
                    return;
                }
            }
        }
    }

    /// Lists a run under the record name `key`. Returns `false` if another run already has this name.
    async fn list_as(&self, key: &str, record: &TaskRecord, life: Duration) -> Result<bool, StoreError> {
        let (store, id) = (&self.backend.store, Bytes::from(record.id.clone()));
        match store.create(key, id.clone(), Some(life)).await {
            Ok(_) => return Ok(true),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        match store.get(key).await? {
            Some(found) if found.value == id => {
                store.update(key, id, Some(life), found.revision).await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Removes a run from the list, because it no longer waits for its user. Call this method before the next leg can
    /// start. Otherwise, it could remove an entry that the next leg has added.
    pub(super) async fn unlist_waiting(&self, record: &TaskRecord) {
        if !record.is_read_with_a_tool || record.put.is_empty() {
            return;
        }
        let store = &self.backend.store;
        for key in self.waits_keys(record) {
            let removed = match store.get(&key).await {
                Ok(Some(found)) if *found.value == *record.id.as_bytes() => {
                    store.delete(&key, found.revision).await
                }
                Ok(_) => continue,
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                tracing::debug!(%error, task = record.id, "a run could not be removed from the list of waiting runs");
            }
            return;
        }
    }

    /// Removes a run from the list if all its questions have answers.
    pub(super) async fn unlist_answered(&self, record: &TaskRecord) {
        if record.asks.is_empty() {
            self.unlist_waiting(record).await;
        }
    }

    /// Returns the IDs of the listed tasks. If `most` IDs were found, no further page is read.
    async fn listed(&self, prefix: &str, most: usize) -> Result<BTreeSet<String>> {
        let mut after = None;
        let mut ids = BTreeSet::new();
        while ids.len() < most {
            let page = self.backend.store.list(prefix, after.as_ref(), PAGE).await;
            let page = page.map_err(|error| unavailable(&error))?;
            let found = page.items.iter().filter_map(|item| std::str::from_utf8(&item.value).ok());
            ids.extend(found.map(ToOwned::to_owned));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(ids)
    }

    /// Returns the owner's tasks that wait for an answer through a channel, and that began to wait recently. The newest
    /// task is first.
    pub(crate) async fn waiting(self: &Arc<Self>, owner: &Owner) -> Result<Vec<TaskView>> {
        let since = now_millis().saturating_sub(LATELY);
        let mut views = Vec::new();
        for id in self.listed(&self.owner_prefix(owner), SEARCHED).await? {
            let view = self.get(owner, &id).await?;
            views.extend(view.filter(|view| waits(view) && view.channels.any() && view.updated >= since));
        }
        views.sort_by_key(|view| std::cmp::Reverse(view.updated));
        Ok(views)
    }

    /// Returns the waiting run of an earlier equal call, which the call of `new` can join.
    pub(crate) async fn joined(self: &Arc<Self>, new: &NewTask) -> Option<TaskView> {
        let call = new.call.as_ref()?;
        let prefix = self.caller_prefix(new.principal.as_deref(), new.connection.as_deref())?;
        let key = format!("{prefix}{call}");
        let found = match self.backend.store.get(&key).await {
            Ok(found) => found?,
            Err(error) => {
                // The call must not fail here, because it may not need the store.
                tracing::warn!(%error, "the search for a waiting run of the same call failed; a new run starts");
                return None;
            }
        };
        self.begin();
        let owner = Self::owner(new.principal.as_deref());
        let key = Self::key(&owner, std::str::from_utf8(&found.value).ok()?)?;
        let (record, revision) = self.load(&key).await.ok()??;
        self.heal(&key, &record).await;
        // The list is not authenticated, but the record of the run is. So the record is checked.
        let view = record.view(revision.0);
        (record.call == new.call && waits(&view)).then_some(view)
    }

    /// Returns an error if too many runs of the caller already wait for users. Unauthenticated callers over streamable
    /// HTTP have no limit, because one of them could use up the limit of all others.
    pub(crate) async fn check_waiting(&self, new: &NewTask) -> Result<()> {
        let prefix = self.caller_prefix(new.principal.as_deref(), new.connection.as_deref());
        let (Some(most), Some(prefix)) = (new.max_waiting, prefix) else { return Ok(()) };
        if self.listed(&prefix, most).await?.len() < most {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Limit(format!(
            "the call cannot wait for an answer of the user: {most} runs of this caller already wait; answer one of them, cancel one with `task_cancel`, or raise `AskPolicy::with_max_waiting`"
        )))
        .terminal())
    }
}

/// Returns whether a run waits for its user.
fn waits(view: &TaskView) -> bool {
    let is_open = view.questions_end.is_none_or(|end| end > now_millis());
    view.status == TaskStatus::InputRequired && view.is_read_with_a_tool && is_open
}
