//! Notifications between replicas about sessions.

use std::sync::Arc;

use antiphon_store::{Event, MAX_EVENT, Result, Subscription};
use rmcp::{
    model::{
        CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification,
        RequestId,
    },
    transport::streamable_http_server::session::SessionManager as _,
};
use serde::{Deserialize, Serialize};

use super::{LocalSession, Replicas, Sessions};

/// A notification about a session, to all replicas. Most replicas have no part of the session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum News {
    /// The session has ended.
    Ended { session: String },
    /// The client has changed a setting of the session.
    Settings { session: String },
    /// The client listens at the replica that sent this notification.
    Listens { session: String },
    /// The client has cancelled a call. The replica that sends the notification cannot determine which replica runs
    /// the call.
    Cancelled { session: String, request: RequestId },
}

#[derive(Debug, Serialize, Deserialize)]
struct Said {
    from: String,
    news: News,
}

const TOPIC: &str = "sessions";

impl Replicas {
    pub(super) async fn tell(&self, news: &News) -> Result<()> {
        #[derive(Serialize)]
        struct Said<'a> {
            from: &'a str,
            news: &'a News,
        }
        let said = Said { from: &self.id, news };
        let event = serde_json::to_vec(&said).expect("news are JSON");
        if event.len() > MAX_EVENT {
            tracing::warn!("a cancellation was not sent to the other replicas: it is too large");
            return Ok(());
        }
        self.bus.publish(TOPIC, event.into()).await
    }

    pub(super) async fn subscribe_news(&self) -> Result<Subscription> {
        self.bus.subscribe(TOPIC).await
    }

    fn parts(&self) -> Vec<(Arc<Sessions>, Arc<LocalSession>)> {
        let all = self.sessions();
        all.into_iter()
            .flat_map(|sessions| sessions.parts().into_iter().map(move |part| (Arc::clone(&sessions), part)))
            .collect()
    }

    /// Closes all session parts of this replica.
    pub(super) async fn close_parts(&self) {
        for (sessions, part) in self.parts() {
            sessions.close(&part).await;
        }
    }
}

pub(super) async fn hear(replicas: Arc<Replicas>, mut news: Subscription) {
    loop {
        let event = tokio::select! {
            () = replicas.stopped.cancelled() => return,
            event = news.next() => event,
        };
        match event {
            None => return,
            Some(Event::Gap) => look_again(&replicas).await,
            Some(Event::Message(message)) => match serde_json::from_slice::<Said>(&message) {
                Ok(said) if said.from == replicas.id => {}
                Ok(said) => take(&replicas, &said.news).await,
                Err(error) => {
                    tracing::debug!(%error, "a session announcement of another replica cannot be parsed");
                }
            },
        }
    }
}

async fn take(replicas: &Replicas, news: &News) {
    let (News::Ended { session }
    | News::Settings { session }
    | News::Listens { session }
    | News::Cancelled { session, .. }) = news;
    for sessions in replicas.sessions() {
        let Some(part) = sessions.part(session) else { continue };
        match news {
            News::Ended { .. } => end(&sessions, &part).await,
            News::Settings { .. } => reload(&part).await,
            News::Listens { .. } => part.listens_elsewhere(),
            News::Cancelled { request, .. } => {
                let params = CancelledNotificationParam::new(Some(request.clone()), None);
                let cancelled = ClientNotification::CancelledNotification(CancelledNotification::new(params));
                let message = ClientJsonRpcMessage::notification(cancelled);
                let _ = part.local.accept_message(&part.session, message).await;
            }
        }
    }
}

/// Checks the state of all session parts of this replica. A replica calls `look_again` if it may have missed a
/// notification.
async fn look_again(replicas: &Replicas) {
    for (sessions, part) in replicas.parts() {
        match part.log.place.load().await {
            Ok(None) => end(&sessions, &part).await,
            Ok(Some(_)) => reload(&part).await,
            Err(error) => tracing::warn!(%error, "the record of a session could not be read"),
        }
    }
}

async fn reload(part: &LocalSession) {
    if let Err(error) = part.reload().await {
        tracing::warn!(%error, "session settings from another replica could not be read");
    }
}

async fn end(sessions: &Sessions, part: &Arc<LocalSession>) {
    sessions.close(part).await;
    // The session may have written entries after another replica had deleted the log.
    let segment = part.log.tip().await.segment;
    if let Err(error) = part.log.place.delete_events(segment).await {
        tracing::warn!(%error, "the events of an ended session could not be deleted");
    }
}
