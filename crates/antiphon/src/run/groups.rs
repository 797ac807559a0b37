//! The groups of tools that a session has enabled. For requests without a session, the principal has the enabled
//! groups.

use std::{collections::BTreeSet, time::Duration};

use antiphon_store::{Error as StoreError, Revision as RecordRevision, Store};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Run, Runtime};
use crate::{
    base::digest,
    durable::{GROUPS, unavailable},
    error::{Error, Result},
    protocol::Revision,
};

/// How long the groups of a principal stay enabled after the principal last enabled or disabled a group.
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// The stored record of a principal's enabled groups.
#[derive(Debug, Default, Serialize, Deserialize)]
struct GroupRecord {
    #[serde(default)]
    groups: BTreeSet<String>,
}

/// Returns the name of a principal's groups. The store and the announcements of changed groups identify the groups by
/// this name.
pub(crate) fn principal_name(runtime: &Runtime, principal: &str) -> String {
    digest(&["groups", &runtime.audience, principal])
}

/// Returns the groups that are enabled for a principal.
pub(crate) async fn enabled_groups(runtime: &Runtime, principal: &str) -> Result<BTreeSet<String>> {
    let Some(store) = runtime.store() else { return Ok(BTreeSet::new()) };
    let key = key(&principal_name(runtime, principal));
    Ok(load(store, &key).await?.map(|(groups, _)| groups).unwrap_or_default())
}

/// Enables or disables a group for the run's session. Without a session, the change applies to the run's principal.
pub(crate) async fn set_group(run: &Run, group: &str, enabled: bool) -> Result<()> {
    let runtime = &run.runtime;
    // The model receives only the reason. The log contains the reason and the advice for the author. The log does not
    // contain the name of the group, because a caller may have chosen the name.
    let refuse = |reason: &str, advice: &str| {
        let action = if enabled { "enabled" } else { "disabled" };
        tracing::error!(reason, "a group of tools cannot be {action}; {advice}");
        Err(Error::misuse(format!("the group `{group}` cannot be {action}: {reason}")).terminal())
    };
    if !(runtime.is_group)(group) {
        return refuse("no tool of the server is in this group", "add one with `Tool::in_group`");
    }
    if let Some(session) = run.client.session() {
        let changed = session.set_group(group, enabled).await;
        return announce(runtime, session.name(), changed);
    }
    if run.client.is_of_task() && run.client.revision() == Revision::Session {
        return refuse(
            "a task of MCP 2025-11-25 has no session",
            "enable groups in a tool with `TaskPolicy::Never`",
        );
    }
    let Some(principal) = &run.principal else {
        return refuse(
            "the request has no session and no authenticated caller",
            "authenticate callers with `ServerBuilder::with_auth` or `ServerBuilder::with_principal`",
        );
    };
    let Some(store) = runtime.store() else {
        return refuse(
            "the request has no session, and the groups of a caller need a backend",
            "add one with `ServerBuilder::with_backend`",
        );
    };
    let name = principal_name(runtime, principal);
    let changed = change(store, &key(&name), group, enabled).await;
    announce(runtime, &name, changed)
}

/// Notifies the clients of a session or a principal that their groups have changed. This function notifies clients even
/// after an error, because the store may contain the change. A repeated call would find no difference and would not
/// notify clients.
fn announce(runtime: &Runtime, name: &str, changed: Result<bool>) -> Result<()> {
    if !matches!(changed, Ok(false)) {
        runtime.changes.tools_of(name);
    }
    changed.map(drop)
}

fn key(name: &str) -> String {
    format!("{GROUPS}{name}")
}

async fn load(store: &dyn Store, key: &str) -> Result<Option<(BTreeSet<String>, RecordRevision)>> {
    let Some(found) = store.get(key).await.map_err(unavailable)? else { return Ok(None) };
    let record: GroupRecord = serde_json::from_slice(&found.value)?;
    Ok(Some((record.groups, found.revision)))
}

/// Enables or disables a group in the stored groups of a principal. Returns `true` if the stored groups have changed.
async fn change(store: &dyn Store, key: &str, group: &str, enabled: bool) -> Result<bool> {
    loop {
        let (mut groups, revision) = load(store, key).await?.unzip();
        let groups = groups.get_or_insert_default();
        if groups.contains(group) == enabled {
            return Ok(false);
        }
        if enabled {
            groups.insert(group.to_owned());
        } else {
            groups.remove(group);
        }
        let record = GroupRecord { groups: std::mem::take(groups) };
        let value = Bytes::from(serde_json::to_vec(&record)?);
        let written = match revision {
            Some(revision) => store.update(key, value, Some(LIFE), revision).await,
            None => store.create(key, value, Some(LIFE)).await,
        };
        match written {
            Ok(_) => return Ok(true),
            // Another request has changed the groups at the same time.
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(unavailable(error)),
        }
    }
}
