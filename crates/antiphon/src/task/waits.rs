//! For each caller, a list of the runs that wait for the user.
//!
//! The list contains a run if the run waits for an answer and a model reads the result with a tool. The list entry is
//! the record `waits/<audience>/<owner>/<call>`, which contains the ID of the task. All unauthenticated callers have
//! the same owner, so their list entries are `waits/<audience>/<owner>/<connection>/<call>`. The list does not contain
//! runs of unauthenticated callers over streamable HTTP, because the server cannot distinguish these callers. An entry
//! expires when the questions of the run expire.
//!
//! A list entry is only a hint. Readers of the list also check the record of the run, so an old entry causes no error.
//! If the entry is missing, a repeated call starts a second run, and a form without a task ID does not find the
//! question.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use antiphon_store::Error as StoreError;
use bytes::Bytes;

use super::{NewTask, Owner, TaskStatus, TaskView, Tasks, record::TaskRecord, unavailable};
use crate::{
    base::now_millis,
    durable::WAITS,
    error::{Error, ErrorKind, Result},
};

/// A form without a task ID shows only questions that a run asked within this time, in milliseconds.
const LATELY: u64 = 10 * 60 * 1000;

/// The number of list entries that a process reads in one page. A search for the question of a form without a task ID
/// reads at most [`SEARCHED`] entries.
const PAGE: usize = 200;
const SEARCHED: usize = 2000;

/// How long the list contains a run whose questions do not expire.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Tasks {
    fn owner_prefix(&self, owner: &Owner) -> String {
        format!("{WAITS}{}/{}/", self.audience, owner.0)
    }

    /// Returns the prefix with which the names of a caller's list entries begin. Returns `None` for unauthenticated
    /// callers over streamable HTTP, because the server cannot distinguish these callers.
    fn caller_prefix(&self, principal: Option<&str>, connection: Option<&str>) -> Option<String> {
        let owner = self.owner_prefix(&Self::owner(principal));
        if principal.is_some() {
            return Some(owner);
        }
        connection.map(|connection| format!("{owner}{connection}/"))
    }

    /// Returns the two record names that a run's list entry can have. The first name contains the name of the call. The
    /// second name contains the task ID instead. The list uses the second name if another run of an equal call already
    /// has the first name.
    fn waits_keys(&self, record: &TaskRecord) -> Vec<String> {
        let prefix = self.caller_prefix(record.principal.as_deref(), record.connection.as_deref());
        let Some(prefix) = prefix else { return Vec::new() };
        let names = [record.call.as_ref(), Some(&record.id)];
        names.into_iter().flatten().map(|name| format!("{prefix}{name}")).collect()
    }

    /// Adds a run to the list, because the run is about to wait for the user. If a client reads the task of the run,
    /// this method does nothing.
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

    /// Adds a run to the list under the record name `key`. Returns `false` if another run already has this name.
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

    /// Removes a run from the list, because the run no longer waits for the user. Call this method before the next leg
    /// can start. Otherwise, this method could remove a list entry that the next leg has added.
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

    /// Removes a run from the list if the user has answered all questions of the run.
    pub(super) async fn unlist_answered(&self, record: &TaskRecord) {
        if record.asks.is_empty() {
            self.unlist_waiting(record).await;
        }
    }

    /// Returns the IDs of the tasks in the list. When this method has found `most` IDs, the method does not read
    /// another page.
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

    /// Returns the owner's tasks that wait for an answer through a channel. The returned list contains only tasks whose
    /// status changed within the time [`LATELY`], newest first.
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

    /// Returns the waiting run of an earlier call that is equal to the call of `new`. The new call can join this run.
    pub(crate) async fn joined(self: &Arc<Self>, new: &NewTask) -> Option<TaskView> {
        let call = new.call.as_ref()?;
        let prefix = self.caller_prefix(new.principal.as_deref(), new.connection.as_deref())?;
        let key = format!("{prefix}{call}");
        let found = match self.backend.store.get(&key).await {
            Ok(found) => found?,
            Err(error) => {
                // A failed search must not end the call, because the call may not need the store.
                tracing::warn!(%error, "the search for a waiting run of the same call failed; a new run starts");
                return None;
            }
        };
        self.begin();
        let owner = Self::owner(new.principal.as_deref());
        let key = Self::key(&owner, std::str::from_utf8(&found.value).ok()?)?;
        let (record, revision) = self.load(&key).await.ok()??;
        self.heal(&key, &record).await;
        // The list entries are not authenticated, but the record of the run is authenticated. So this code checks the
        // record.
        let view = record.view(revision.0);
        (record.call == new.call && waits(&view)).then_some(view)
    }

    /// Returns an error if too many runs of the caller already wait for users. Unauthenticated callers over streamable
    /// HTTP have no limit, because one of these callers could use up the limit of all others.
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

/// Returns `true` if a run waits for the user.
fn waits(view: &TaskView) -> bool {
    let is_open = view.questions_end.is_none_or(|end| end > now_millis());
    view.status == TaskStatus::InputRequired && view.is_read_with_a_tool && is_open
}
