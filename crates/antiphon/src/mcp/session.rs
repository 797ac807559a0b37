//! The settings of an MCP 2025-11-25 session, and the notifications that report changes to this session.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use antiphon_transport::session::{OfSession, Setting, Settings, SharedSession};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CancelledNotificationParam, Extensions, LoggingLevel, PromptListChangedNotification,
        ResourceListChangedNotification, ResourceUpdatedNotification, ResourceUpdatedNotificationParam,
        ServerNotification, ToolListChangedNotification,
    },
    service::{Peer, SubscriptionContext},
};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    base::{lock, random_id},
    changes::{Change, ChangeNotice, Changes},
    error::{Error, Result},
    protocol::elicitation_complete,
    run::{Pending, client},
    url_elicitation::MAX_ELICITATION_ID,
};

/// The maximum number of tasks for which the server sends status changes to one session. For all further tasks, the
/// client must read the status itself.
const FOLLOWED: usize = 256;

/// A session of MCP 2025-11-25 in this process.
#[derive(Debug)]
pub(super) struct Session {
    shared: SharedSettings,
    forwards: AtomicBool,
    followed: Followed,
    closed: CancellationToken,
    _close: DropGuard,
}

/// The settings of a session. If several replicas serve the session, these replicas share the settings.
#[derive(Clone, Debug)]
pub(crate) struct SharedSettings {
    local: Arc<Settings>,
    /// The part of the session that this replica serves. The value is `None` if replicas do not share sessions. The
    /// reference is weak, because this part of the session owns the settings.
    part: Option<Weak<dyn SharedSession>>,
    /// The requests during which the server sent a form to the client. Each key is a request ID. Each value is the name
    /// under which the server remembers the client.
    forms: Arc<Mutex<HashMap<String, String>>>,
    /// The name of the session, which is the same on all replicas.
    name: Arc<str>,
}

/// The IDs of the tasks for which the server sends status changes to a session.
#[derive(Debug, Default)]
struct Followed(Arc<Mutex<HashSet<String>>>);

impl Followed {
    /// Adds a task to the followed tasks. Returns `None` if the session already follows the task, or if the session
    /// follows too many tasks.
    fn place(&self, id: &str) -> Option<FollowGuard> {
        let mut followed = lock(&self.0);
        if followed.len() >= FOLLOWED || !followed.insert(id.to_owned()) {
            return None;
        }
        Some(FollowGuard { followed: Arc::clone(&self.0), id: id.to_owned() })
    }
}

/// The entry of a task in [`Followed`]. If you drop this guard, the entry is removed.
pub(super) struct FollowGuard {
    followed: Arc<Mutex<HashSet<String>>>,
    id: String,
}

impl FollowGuard {
    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for FollowGuard {
    fn drop(&mut self) {
        lock(&self.followed).remove(&self.id);
    }
}

impl Session {
    /// Creates the session for a request.
    pub(super) fn of(extensions: &Extensions) -> Self {
        let closed = CancellationToken::new();
        let part = extensions.get::<OfSession>().map(|of| &of.0);
        let local = part.map_or_else(Arc::default, |part| Arc::clone(part.settings()));
        let name = part.map_or_else(|| random_id().into(), |part| part.name().into());
        Self {
            shared: SharedSettings { local, part: part.map(Arc::downgrade), forms: Arc::default(), name },
            forwards: AtomicBool::new(false),
            followed: Followed::default(),
            _close: closed.clone().drop_guard(),
            closed,
        }
    }

    pub(super) fn level(&self) -> LoggingLevel {
        self.shared.local.level()
    }

    /// Returns the number of resources to which the session is subscribed.
    pub(super) fn subscriptions(&self) -> usize {
        self.shared.local.subscriptions().len()
    }

    /// Starts to send status changes of a task to the session. Returns `None` if the session already follows the task,
    /// or if the session follows too many tasks.
    pub(super) fn follow(&self, task: &str) -> Option<FollowGuard> {
        self.followed.place(task)
    }

    /// Returns a token that is cancelled when the session ends.
    pub(super) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Returns the settings of the session. These settings also contain the elicitations that the server has sent in
    /// the session.
    pub(super) fn shared(&self) -> &SharedSettings {
        &self.shared
    }

    /// Checks whether the client cancelled a request because the user did not answer a form in time. If so, returns the
    /// name of the client.
    pub(super) fn gave_up(&self, cancelled: &CancelledNotificationParam) -> Option<String> {
        let client = lock(&self.shared.forms).remove(&cancelled.request_id.as_ref()?.to_string())?;
        // If the user stopped the call, the client can have shown the form. So only cancellations because of a timeout
        // count.
        cancelled.reason.as_deref().is_some_and(is_timeout).then_some(client)
    }

    /// Changes a setting of the session. All replicas of the session receive the change.
    pub(super) async fn set(&self, setting: Setting) -> Result<(), ErrorData> {
        self.shared.set(setting).await
    }

    /// Sends change notifications to the client until the session ends. `is_conditional` returns `true` if a resource
    /// is not visible to all clients.
    pub(super) fn forward(
        &self,
        changes: &Changes,
        peer: Peer<RoleServer>,
        is_conditional: impl Fn(&str) -> bool + Send + 'static,
    ) {
        // A client can send the notification `initialized` twice.
        if self.forwards.swap(true, Ordering::AcqRel) {
            return;
        }
        let part = self.shared.part.clone();
        // If replicas share sessions, only the replica to which the client is connected sends the notifications.
        let tells = move || match &part {
            Some(part) => part.upgrade().is_some_and(|part| part.tells_of_changes()),
            None => true,
        };
        let (changes, shared, closed) = (changes.subscribe(), self.shared.clone(), self.closed.clone());
        tokio::spawn(forward(changes, shared, peer, tells, is_conditional, closed));
    }
}

impl SharedSettings {
    async fn set(&self, setting: Setting) -> Result<(), ErrorData> {
        if let Some(part) = self.part.as_ref().and_then(Weak::upgrade) {
            return part.set(&setting).await.map_err(|error| {
                tracing::error!(%error, "a session setting of a client could not be stored");
                ErrorData::internal_error("the session setting could not be stored; try again later", None)
            });
        }
        self.local.set(setting);
        Ok(())
    }

    /// Returns the tool groups that are enabled in the session.
    pub(super) async fn groups(&self) -> Result<BTreeSet<String>> {
        match self.part.as_ref().and_then(Weak::upgrade) {
            Some(part) => part.groups().await.map_err(|error| {
                tracing::error!(%error, "the groups of tools of a session could not be read");
                Error::tool("the session could not be read; try again later")
            }),
            None => Ok(self.local.groups().clone()),
        }
    }

    /// Records that the server sends the URL elicitation `id` in this session. Call this method before you send the
    /// elicitation.
    ///
    /// If the server cannot store the record, this method logs the failure and returns. Without the record, the user
    /// can still open the web page, but the client receives no notification when the user has finished.
    async fn remember(&self, id: &str) {
        if id.len() > MAX_ELICITATION_ID {
            tracing::warn!(
                length = id.len(),
                "an elicitation ID is longer than {MAX_ELICITATION_ID} bytes: its client will not be notified of the completion"
            );
            return;
        }
        // If `set` fails, `set` itself logs the reason.
        let _ = self.set(Setting::Elicitation(id.to_owned())).await;
    }
}

impl client::SessionMemory for SharedSettings {
    fn elicited<'a>(&'a self, id: &'a str) -> Pending<'a, ()> {
        Box::pin(self.remember(id))
    }

    fn watch_form(&self, id: &str, client: Option<&str>) {
        let mut forms = lock(&self.forms);
        match client {
            Some(client) => forms.insert(id.to_owned(), client.to_owned()),
            None => forms.remove(id),
        };
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn set_group<'a>(&'a self, group: &'a str, enabled: bool) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            if self.groups().await?.contains(group) == enabled {
                return Ok(false);
            }
            let group = group.to_owned();
            let setting = if enabled { Setting::GroupEnabled(group) } else { Setting::GroupDisabled(group) };
            self.set(setting).await.map_err(|error| Error::tool(error.message))?;
            Ok(true)
        })
    }
}

/// Returns `true` if the reason for a cancellation is a time limit of the client. MCP has no code for such a
/// cancellation. The official SDKs write "Request timed out" and "request timeout".
fn is_timeout(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    reason.contains("timed out") || reason.contains("timeout")
}

/// Returns the next change. Returns [`Change::Any`] if the channel has dropped changes. Returns `None` if the channel
/// is closed.
pub(super) async fn next_change(changes: &mut Receiver<ChangeNotice>) -> Option<ChangeNotice> {
    match changes.recv().await {
        Ok(told) => Some(told),
        Err(RecvError::Lagged(missed)) => {
            tracing::debug!(missed, "a client reads change notifications too slowly; some were skipped");
            Some(ChangeNotice { change: Change::Any, id: None })
        }
        Err(RecvError::Closed) => None,
    }
}

/// Sends change notifications to an MCP 2025-11-25 session until the session ends.
async fn forward(
    mut changes: Receiver<ChangeNotice>,
    session: SharedSettings,
    peer: Peer<RoleServer>,
    tells: impl Fn() -> bool,
    is_conditional: impl Fn(&str) -> bool,
    closed: CancellationToken,
) {
    loop {
        let told = tokio::select! {
            () = closed.cancelled() => return,
            told = next_change(&mut changes) => told,
        };
        let Some(told) = told else { return };
        if !tells() {
            continue;
        }
        for notification in notifications(&told, &session.local, &session.name, &is_conditional) {
            if peer.send_notification(notification).await.is_err() {
                return;
            }
        }
    }
}

/// Notifies an MCP 2026-07-28 client of a change. The SDK drops changes to which the client has not subscribed. `name`
/// is the principal of the client. If a change concerns only one principal, only the clients of this principal receive
/// the notification.
pub(super) async fn tell(context: &SubscriptionContext, change: Change, name: Option<&str>) {
    let sink = context.sink();
    let _ = match change {
        Change::ToolsOf(of) if name != Some(&of) => return,
        Change::Tools | Change::ToolsOf(_) => sink.notify_tool_list_changed().await,
        Change::Prompts => sink.notify_prompt_list_changed().await,
        Change::Resources => sink.notify_resource_list_changed().await,
        Change::Resource(uri) => sink.notify_resource_updated(uri).await,
        // MCP 2026-07-28 has no notification for a completed elicitation.
        Change::ElicitationComplete(_) => return,
        Change::Any => {
            let _ = sink.notify_tool_list_changed().await;
            let _ = sink.notify_prompt_list_changed().await;
            for uri in context.accepted().resource_subscriptions.iter().flatten() {
                let _ = sink.notify_resource_updated(uri.clone()).await;
            }
            sink.notify_resource_list_changed().await
        }
    };
}

/// Returns the notifications that the server sends to the session `name` because of a change.
fn notifications(
    told: &ChangeNotice,
    settings: &Settings,
    name: &str,
    is_conditional: &impl Fn(&str) -> bool,
) -> Vec<ServerNotification> {
    // Several replicas can notify the client of the same change. This ID identifies the duplicates.
    let mut extensions = Extensions::new();
    if let Some(id) = &told.id {
        extensions.insert(id.clone());
    }
    let list = |change: &Change, extensions: Extensions| match change {
        Change::Tools | Change::ToolsOf(_) => {
            ToolListChangedNotification { extensions, ..ToolListChangedNotification::default() }.into()
        }
        Change::Prompts => {
            PromptListChangedNotification { extensions, ..PromptListChangedNotification::default() }.into()
        }
        _ => ResourceListChangedNotification { extensions, ..ResourceListChangedNotification::default() }
            .into(),
    };
    let resource = |uri: String, extensions: Extensions| {
        let mut updated = ResourceUpdatedNotification::new(ResourceUpdatedNotificationParam::new(uri));
        updated.extensions = extensions;
        ServerNotification::ResourceUpdatedNotification(updated)
    };
    let subscriptions = settings.subscriptions();
    match &told.change {
        // When the client subscribed, the client could see the resource, or the resource is visible to every client.
        Change::Resource(uri) if subscriptions.get(uri).is_some_and(|sees| *sees || !is_conditional(uri)) => {
            vec![resource(uri.clone(), extensions)]
        }
        Change::ElicitationComplete(id) if settings.has_elicitation(id) => {
            vec![elicitation_complete(id, extensions)]
        }
        Change::Resource(_) | Change::ElicitationComplete(_) => Vec::new(),
        Change::ToolsOf(of) if of != name => Vec::new(),
        Change::Any => {
            let lists = [Change::Tools, Change::Prompts, Change::Resources];
            let lists = lists.iter().map(|change| list(change, Extensions::new()));
            // The client can receive a notification for a hidden resource here. The client can also receive a
            // notification for a URI that does not exist. So the notification does not reveal that the resource exists.
            let uris = subscriptions.keys().cloned();
            lists.chain(uris.map(|uri| resource(uri, Extensions::new()))).collect()
        }
        change => vec![list(change, extensions)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(change: Change, settings: &Settings) -> Vec<String> {
        let sent =
            notifications(&ChangeNotice { change, id: None }, settings, "mine", &|uri| uri != "test://open");
        sent.iter().map(|sent| serde_json::to_value(sent).unwrap()["method"].to_string()).collect()
    }

    #[test]
    fn change_of_another_session_is_not_sent() {
        let settings = Settings::default();
        let changed = [r#""notifications/tools/list_changed""#];
        assert_eq!(methods(Change::ToolsOf("mine".into()), &settings), changed);
        assert_eq!(methods(Change::ToolsOf("other".into()), &settings), [""; 0]);
        assert_eq!(methods(Change::Tools, &settings), changed);
    }

    #[test]
    fn subscription_to_a_hidden_resource_is_notified_only_of_unknown_changes() {
        let settings = Settings::default();
        settings.set(Setting::Subscribed { uri: "test://a".into(), is_visible: false });
        assert_eq!(methods(Change::Resource("test://a".into()), &settings), [""; 0]);
        let unknown =
            notifications(&ChangeNotice { change: Change::Any, id: None }, &settings, "mine", &|_| true);
        let sent: Vec<_> = unknown.iter().map(|sent| serde_json::to_value(sent).unwrap()).collect();
        assert_eq!(sent.len(), 4);
        assert_eq!(sent[3]["params"]["uri"], "test://a", "as for an unknown URI");
        settings.set(Setting::Subscribed { uri: "test://a".into(), is_visible: true });
        assert_eq!(methods(Change::Resource("test://a".into()), &settings).len(), 1);
        settings.set(Setting::Unsubscribed("test://a".into()));
        assert_eq!(methods(Change::Resource("test://a".into()), &settings), [""; 0]);
        // A client can subscribe to a resource before the resource exists.
        settings.set(Setting::Subscribed { uri: "test://open".into(), is_visible: false });
        assert_eq!(methods(Change::Resource("test://open".into()), &settings).len(), 1);
    }

    #[tokio::test]
    async fn client_that_missed_changes_is_notified_of_an_unknown_change() {
        let sender = tokio::sync::broadcast::Sender::new(1);
        let mut changes = sender.subscribe();
        for change in [Change::ToolsOf("mine".into()), Change::Prompts] {
            sender.send(ChangeNotice { change, id: None }).unwrap();
        }
        drop(sender);
        assert_eq!(next_change(&mut changes).await.unwrap().change, Change::Any);
        assert_eq!(next_change(&mut changes).await.unwrap().change, Change::Prompts);
        assert!(next_change(&mut changes).await.is_none());
    }

    #[test]
    fn session_hears_of_so_many_tasks_and_of_each_once() {
        let followed = Followed::default();
        let mut places: Vec<_> = (0..FOLLOWED).map(|task| followed.place(&task.to_string())).collect();
        assert!(places.iter().all(Option::is_some));
        assert!(followed.place("more").is_none());
        places.truncate(FOLLOWED - 1);
        assert!(followed.place("0").is_none());
        assert!(followed.place("more").is_some());
    }
}
