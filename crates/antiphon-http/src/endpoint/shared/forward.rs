//! Forwards answers of clients. An answer is forwarded if it arrives at another replica than the replica that sent the
//! question.

use std::{sync::Arc, time::Duration};

use antiphon_store::{Error, Event, Result, Subscription};
use bytes::Bytes;
use rmcp::model::ClientJsonRpcMessage;
use serde::{Deserialize, Serialize};

use super::{Replicas, ids::Numbered, random_name};
use antiphon_store::{PIECE, Pieces};

/// The maximum time for which a forwarded answer waits for the replica that sent the question. Usually, an answer
/// waits only some milliseconds. The answer waits longer if the replica that sent the question has stopped.
const WAITS: Duration = Duration::from_secs(60);

/// The maximum number of attempts to deliver an answer.
const ATTEMPTS: u32 = 6;
/// The pause before the second attempt to deliver an answer. Each further pause is twice as long as the pause before.
const PAUSE: Duration = Duration::from_millis(500);

/// The stored form of an answer that is being forwarded.
#[derive(Debug, Serialize, Deserialize)]
struct ForwardedAnswer {
    session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pieces: Option<Pieces>,
}

impl Replicas {
    fn own_topic(&self) -> String {
        format!("replicas/{}", self.id)
    }

    pub(super) async fn subscribe_answers(&self) -> Result<Subscription> {
        self.bus.subscribe(&self.own_topic()).await
    }

    /// Sends an answer to the replica that sent the question.
    pub(super) async fn forward(
        &self,
        session: &str,
        asked: &Numbered,
        message: &ClientJsonRpcMessage,
    ) -> Result<()> {
        let replica = &asked.part.replica;
        let mut forwarded = ForwardedAnswer { session: session.to_owned(), message: None, pieces: None };
        let message = serde_json::to_string(message).expect("an answer was JSON");
        if message.len() > PIECE / 2 {
            forwarded.pieces = Some(Pieces::put(&*self.store, &message.into(), WAITS).await?);
        } else {
            forwarded.message = Some(message);
        }
        let forwarded: Bytes = serde_json::to_vec(&forwarded).expect("a forwarded answer is JSON").into();
        let key = format!("answers/{replica}/{}{}", random_name(), random_name());
        self.store.create(&key, forwarded, Some(WAITS)).await?;
        self.bus.publish(&format!("replicas/{replica}"), key.into()).await
    }

    /// Delivers an answer to the request in this process that waits for the answer.
    pub(super) async fn deliver(&self, key: &str) -> Result<()> {
        // If a second notification arrives for the same answer, the record no longer exists.
        let Some(record) = self.store.get(key).await? else { return Ok(()) };
        let forwarded = serde_json::from_slice::<ForwardedAnswer>(&record.value).ok();
        let pieces = forwarded.as_ref().and_then(|forwarded| forwarded.pieces.clone());
        // The pieces are read before the record is deleted. If the pieces cannot be read, the record stays in the store
        // for another attempt.
        let read = match &pieces {
            Some(pieces) => pieces.get(&*self.store).await?,
            None => None,
        };
        match self.store.delete(key, record.revision).await {
            Ok(()) => {}
            // Another call has already delivered the answer.
            Err(Error::Conflict { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        if let Some(pieces) = pieces {
            // If the deletion of the pieces fails, the store removes the pieces when they expire.
            let _ = pieces.delete(&*self.store).await;
        }
        let forwarded = forwarded.map(|forwarded| {
            let read = read.and_then(|bytes| String::from_utf8(bytes.into()).ok());
            (forwarded.session, forwarded.message.or(read))
        });
        let message =
            forwarded.as_ref().and_then(|(_, message)| serde_json::from_str(message.as_deref()?).ok());
        let (Some((session, _)), Some(message)) = (forwarded, message) else {
            tracing::warn!("a client's answer from another replica was dropped: it cannot be parsed");
            return Ok(());
        };
        for sessions in self.sessions() {
            if let Some(part) = sessions.part(&session) {
                sessions.answer(&part, message).await;
                return Ok(());
            }
        }
        tracing::info!(
            "a client's answer from another replica was dropped: its session is no longer on this replica"
        );
        Ok(())
    }
}

pub(super) async fn hear(replicas: Arc<Replicas>, mut letters: Subscription) {
    loop {
        let event = tokio::select! {
            () = replicas.stopped.cancelled() => return,
            event = letters.next() => event,
        };
        match event {
            None => return,
            Some(Event::Message(key)) => {
                let Ok(key) = String::from_utf8(key.into()) else { continue };
                // Each answer is delivered in its own task, because a large answer must not delay a small answer.
                tokio::spawn(deliver(Arc::clone(&replicas), key));
            }
            Some(Event::Gap) => look_again(&replicas).await,
        }
    }
}

async fn deliver(replicas: Arc<Replicas>, key: String) {
    let mut pause = PAUSE;
    for _ in 0..ATTEMPTS {
        match replicas.deliver(&key).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(%error, "a client's answer from another replica could not be read from the store; trying again");
            }
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    tracing::error!(
        "a client's answer from another replica was lost: the store failed in every attempt to read it"
    );
}

/// Delivers all answers in the store that are addressed to this replica. A replica calls `look_again` if it may have
/// missed a notification.
async fn look_again(replicas: &Arc<Replicas>) {
    let prefix = format!("answers/{}/", replicas.id);
    let mut after = None;
    loop {
        match replicas.store.list(&prefix, after.as_ref(), 64).await {
            Ok(page) => {
                for record in page.items {
                    tokio::spawn(deliver(Arc::clone(replicas), record.key));
                }
                match page.next {
                    Some(next) => after = Some(next),
                    None => return,
                }
            }
            Err(error) => {
                tracing::warn!(%error, "clients' answers from other replicas could not be listed; some may not be delivered");
                return;
            }
        }
    }
}
