//! Delivers the events of a server in the order in which the server sent them.
//!
//! The SDK handles each notification in a separate Tokio task. Without the transport `Ordered`, progress could
//! therefore arrive out of order, or after the result of its call. [`Ordered`] delivers each event when it receives the
//! event, so the order is preserved.

use rmcp::{
    RoleClient,
    model::{JsonRpcMessage, ServerNotification},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::Value;

use crate::{
    answering::token,
    event::{Event, Events, Progress},
    frame::Direction,
    task::TaskInfo,
};

/// A transport that delivers progress, log messages and task changes in the order in which the server sent them.
/// `Ordered` also reports each message to the function that observes messages.
pub(crate) struct Ordered<T> {
    pub(crate) inner: T,
    pub(crate) events: Events,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Ordered<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.events.taps().frame(Direction::Sent, &item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let Some(message) = self.inner.receive().await else {
            // Without this call, the SDK would wait for the user's answers before it reports the lost connection.
            self.events.lose();
            return None;
        };
        self.events.taps().frame(Direction::Received, &message);
        if let JsonRpcMessage::Notification(notification) = &message {
            match &notification.notification {
                ServerNotification::ProgressNotification(progress) => {
                    let params = &progress.params;
                    let (progress, total) = (params.progress, params.total);
                    let progress = Progress { progress, total, message: params.message.clone() };
                    self.events.progress(&token(&params.progress_token), progress);
                }
                ServerNotification::LoggingMessageNotification(line) => {
                    let params = &line.params;
                    let level = serde_json::to_value(params.level).ok();
                    let level = level.as_ref().and_then(Value::as_str).unwrap_or("info").to_owned();
                    let (logger, data) = (params.logger.clone(), params.data.clone());
                    self.events.tell(Event::Log { level, logger, data });
                }
                ServerNotification::TaskStatusNotification(task) => {
                    if let Some(info) =
                        serde_json::to_value(&task.params).ok().as_ref().and_then(TaskInfo::read)
                    {
                        self.events.task(info);
                    }
                }
                ServerNotification::CustomNotification(custom)
                    if custom.method == "notifications/tasks/status" =>
                {
                    if let Some(info) = custom.params.as_ref().and_then(TaskInfo::read) {
                        self.events.task(info);
                    }
                }
                _ => {}
            }
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
