//! Subscribes to changes on MCP 2026-07-28, where a client must request notifications of changes.

use rmcp::{
    model::{ServerNotification, ServerPeerInfo, SubscriptionFilter},
    service::Subscription,
};
use tokio::task::AbortHandle;

use super::is_modern;
use crate::{answering::Answering, endpoint::Running, event::Event};

/// The stream on which a server sends notifications of changes. Dropping a `Watching` ends the stream.
#[derive(Debug, Default)]
pub(super) struct Watching(Option<AbortHandle>);

impl Watching {
    /// Requests notifications of the changes that have a listener. In a session, the server sends notifications of
    /// changes without a request.
    pub(super) async fn begin(running: &Running, answering: &Answering) -> Self {
        if !is_modern(running.peer()) {
            return Self(None);
        }
        let filter = filter(running.peer().peer_info().as_deref(), answering);
        if filter == SubscriptionFilter::default() {
            return Self(None);
        }
        match running.peer().listen(filter).await {
            Ok(subscription) => {
                let answering = answering.clone();
                Self(Some(tokio::spawn(forward(subscription, answering)).abort_handle()))
            }
            Err(error) => {
                tracing::info!(%error, "the subscription to change notifications of the server failed");
                Self(None)
            }
        }
    }
}

fn filter(server: Option<&ServerPeerInfo>, answering: &Answering) -> SubscriptionFilter {
    let mut filter = SubscriptionFilter::default();
    let Some(server) = server else { return filter };
    let capabilities = &server.capabilities;
    let changes =
        |declared: Option<bool>| (declared == Some(true) && answering.watches_lists()).then_some(true);
    filter.tools_list_changed = changes(capabilities.tools.as_ref().and_then(|tools| tools.list_changed));
    filter.prompts_list_changed =
        changes(capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed));
    filter.resources_list_changed =
        changes(capabilities.resources.as_ref().and_then(|resources| resources.list_changed));
    let watched = answering.events.watched();
    filter.resource_subscriptions = (!watched.is_empty()).then_some(watched);
    filter
}

async fn forward(mut subscription: Subscription, answering: Answering) {
    while let Ok(Some(notification)) = subscription.next().await {
        match notification {
            ServerNotification::ToolListChangedNotification(_) => answering.events.tell(Event::ToolsChanged),
            ServerNotification::PromptListChangedNotification(_) => {
                answering.events.tell(Event::PromptsChanged);
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                answering.events.tell(Event::ResourcesChanged);
            }
            ServerNotification::ResourceUpdatedNotification(updated) => {
                answering.events.updated(&updated.params.uri);
            }
            _ => {}
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}
