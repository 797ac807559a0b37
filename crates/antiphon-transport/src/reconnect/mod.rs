//! A client that reconnects after it has lost the connection to a server.

mod exit;

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use rmcp::{
    RoleClient,
    model::{
        CancelledNotification, CancelledNotificationParam, ErrorCode, ErrorData, JsonRpcMessage,
        ProtocolVersion, RequestId, ServerNotification, ServerResult,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
};
use serde_json::json;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout},
};

use self::exit::{Exit, Open, Shared};
use crate::{
    Error, Result,
    inbox::{Inbox, TRANSPORT_ERROR, Verdict, answered, write},
};

/// The settings with which a client reconnects after it has lost the connection to a server.
///
/// After a reconnect, the server no longer has the state of the old connection. The documentation of the crate
/// describes the effects of a reconnect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reconnect {
    /// The number of attempts to reconnect before the client gives up. Default: 5.
    pub attempts: u32,
    /// The delay before the first attempt to reconnect. The delay doubles with each further attempt. To spread the
    /// reconnects of many clients, each delay is shortened by a random part of up to one half. Default: 250 ms.
    pub first_delay: Duration,
    /// The longest delay between two attempts to reconnect. If a connection lasted at least as long as this delay, the
    /// client counts attempts from zero again. Default: 10 seconds.
    pub max_delay: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { attempts: 5, first_delay: Duration::from_millis(250), max_delay: Duration::from_secs(10) }
    }
}

impl Reconnect {
    /// Sets the number of attempts to reconnect before the client gives up. Default: 5.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the delay before the first attempt to reconnect, and the longest delay between two attempts. Default: 250
    /// ms and 10 seconds.
    #[must_use]
    pub fn with_delays(mut self, first: Duration, max: Duration) -> Self {
        self.first_delay = first;
        self.max_delay = max;
        self
    }

    fn delay(&self, attempt: u32) -> Duration {
        let full = self.first_delay.saturating_mul(1 << attempt.min(20)).min(self.max_delay);
        // If no random number is available, the wait is not shortened, which is harmless.
        let cut = getrandom::u32().map_or(0.0, |random| f64::from(random) / f64::from(u32::MAX) / 2.0);
        full.mul_f64(1.0 - cut)
    }
}

/// One connection of a client.
pub(crate) trait Link: Send + Sized + 'static {
    type Outbox: Outbox;

    fn outbox(&self) -> Self::Outbox;
    /// Returns the next message, or `None` after the connection has ended. The method `next` is cancel safe.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// The sending side of a client's connection.
pub(crate) trait Outbox: Clone + Send + Sync + 'static {
    fn send(&self, text: String) -> impl Future<Output = Result<()>> + Send;
}

/// A type that opens connections to one server.
pub(crate) trait Dial: Send + Sync + 'static {
    type Link: Link;

    fn dial(&self) -> impl Future<Output = Result<Self::Link>> + Send;
}

/// The transport of a client, over any kind of connection.
pub(crate) struct Client<D: Dial> {
    dial: Arc<D>,
    settings: Settings,
    state: State<D::Link>,
    /// Messages that the service receives before any other message: the errors for the open requests of the service.
    news: VecDeque<RxJsonRpcMessage<RoleClient>>,
    inbox: Inbox,
    /// The Tokio task that sends an error to the server, because the server has too many open requests.
    refusing: Option<JoinHandle<Result<()>>>,
    shared: Arc<Shared<<D::Link as Link>::Outbox>>,
    connections: watch::Sender<u64>,
    attempts: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) max_message_bytes: usize,
    pub(crate) max_open_requests: usize,
    pub(crate) reconnect: Option<Reconnect>,
    pub(crate) connect_timeout: Duration,
}

enum State<L> {
    Up(L, Instant),
    /// The connection is lost, and a Tokio task reconnects.
    Looking(JoinHandle<Result<L>>),
    Over,
}

impl<D: Dial> Client<D> {
    /// Makes one attempt to connect. The caller decides whether to try again.
    pub(crate) async fn connect(dial: D, settings: Settings) -> Result<Self> {
        let link = in_time(settings.connect_timeout, dial.dial()).await?;
        let shared = Shared {
            outbox: watch::Sender::new(Exit::Up(link.outbox(), 1)),
            open: Mutex::new(Open { number: 1, ..Open::default() }),
        };
        Ok(Self {
            dial: Arc::new(dial),
            inbox: Inbox::new(settings.max_open_requests, true),
            refusing: None,
            settings,
            state: State::Up(link, Instant::now()),
            news: VecDeque::new(),
            shared: Arc::new(shared),
            connections: watch::Sender::new(1),
            attempts: 0,
        })
    }

    pub(crate) fn connections(&self) -> watch::Receiver<u64> {
        self.connections.subscribe()
    }

    pub(crate) fn send(
        &self,
        mut message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<()>> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        let (inbox, limit) = (self.inbox.clone(), self.settings.max_message_bytes);
        async move {
            let answered = answered::<RoleClient>(&message).cloned();
            if let Some(alias) = &answered {
                // The connection of this question is lost, so the answer cannot be sent.
                let Some(original) = inbox.original(alias) else { return Ok(()) };
                match &mut message {
                    JsonRpcMessage::Response(response) => response.id = original,
                    JsonRpcMessage::Error(error) => error.id = Some(original),
                    JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
                }
            }
            let sent = match write::<RoleClient>(&message, limit) {
                Ok(text) => shared.send(&message, text).await,
                Err(error) => Err(error),
            };
            if let Some(alias) = answered {
                inbox.settle(&alias);
            }
            sent
        }
    }

    pub(crate) async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.news.pop_front() {
                return Some(message);
            }
            // Do not read further messages while the server does not read its responses.
            if let Some(task) = &mut self.refusing {
                let _ = task.await;
                self.refusing = None;
            }
            match &mut self.state {
                State::Up(link, _) => match link.next().await {
                    Some(text) => match self.inbox.judge::<RoleClient>(&text) {
                        Verdict::Deliver(message) => {
                            self.note(&message);
                            return Some(message);
                        }
                        Verdict::Answer(refusal) => {
                            let outbox = link.outbox();
                            let text = refusal.to_json();
                            self.refusing = Some(tokio::spawn(async move { outbox.send(text).await }));
                        }
                        Verdict::Ignore => {}
                    },
                    None => self.lose(),
                },
                State::Looking(task) => {
                    let found = task.await.unwrap_or_else(|error| Err(Error::connection(error)));
                    self.find(found);
                }
                State::Over => return None,
            }
        }
    }

    pub(crate) async fn close(&mut self) {
        self.shared.outbox.send_replace(Exit::Over);
        match std::mem::replace(&mut self.state, State::Over) {
            State::Up(link, _) => link.close().await,
            State::Looking(task) => task.abort(),
            State::Over => {}
        }
    }

    /// Stores the information from a message that the client needs for a new handshake.
    fn note(&self, message: &RxJsonRpcMessage<RoleClient>) {
        let (id, version) = match message {
            JsonRpcMessage::Response(response) => match &response.result {
                ServerResult::InitializeResult(result) => {
                    (&response.id, Some(result.protocol_version.clone()))
                }
                _ => (&response.id, None),
            },
            JsonRpcMessage::Error(error) => match &error.id {
                Some(id) => (id, None),
                None => return,
            },
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return,
        };
        let mut open = self.shared.open();
        open.requests.remove(id);
        if version.is_some() {
            open.version = version;
        }
    }

    /// Handles a lost connection: reports an error for all open requests, and starts to reconnect.
    fn lose(&mut self) {
        let State::Up(_, since) = std::mem::replace(&mut self.state, State::Over) else { return };
        let (handshake, began) = {
            let mut open = self.shared.open();
            open.number += 1;
            self.news.extend(self.inbox.renew(open.number).into_iter().map(withdrawn));
            let began = open.initialize.is_none() || open.initialized.is_some();
            let handshake = open.initialize.clone().zip(open.initialized.clone());
            if self.settings.reconnect.is_some() && began {
                self.news.extend(open.requests.drain().map(lost));
            }
            (handshake, began)
        };
        // If the connection ends before the handshake is complete, the attempt to connect has failed.
        let Some(reconnect) = self.settings.reconnect.clone().filter(|_| began) else {
            self.shared.outbox.send_replace(Exit::Over);
            return;
        };
        self.shared.outbox.send_replace(Exit::Down);
        if since.elapsed() >= reconnect.max_delay {
            self.attempts = 0;
        }
        self.look(&reconnect, handshake);
    }

    fn look(&mut self, reconnect: &Reconnect, handshake: Option<((RequestId, String), String)>) {
        if self.attempts >= reconnect.attempts {
            tracing::warn!(attempts = self.attempts, "reconnecting to the server failed in every attempt");
            self.shared.outbox.send_replace(Exit::Over);
            return;
        }
        let delay = reconnect.delay(self.attempts);
        self.attempts += 1;
        tracing::info!(
            attempt = self.attempts,
            ?delay,
            "the connection to the server was lost; reconnecting"
        );
        let (dial, limit) = (Arc::clone(&self.dial), self.settings.connect_timeout);
        let version = self.shared.open().version.clone();
        self.state = State::Looking(tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            in_time(limit, async {
                let mut link = dial.dial().await?;
                if let Some((initialize, initialized)) = handshake {
                    greet(&mut link, initialize, initialized, version).await?;
                }
                Ok(link)
            })
            .await
        }));
    }

    fn find(&mut self, found: Result<D::Link>) {
        self.state = State::Over;
        match found {
            Ok(link) => {
                let number = self.shared.open().number;
                self.shared.outbox.send_replace(Exit::Up(link.outbox(), number));
                self.state = State::Up(link, Instant::now());
                self.connections.send_replace(number);
            }
            Err(Error::Changed(why)) => {
                tracing::warn!(why, "the server changed during a reconnect; the connection is closed");
                self.shared.outbox.send_replace(Exit::Over);
            }
            Err(error) => {
                tracing::debug!(%error, "an attempt to reconnect failed");
                let handshake = {
                    let open = self.shared.open();
                    open.initialize.clone().zip(open.initialized.clone())
                };
                if let Some(reconnect) = self.settings.reconnect.clone() {
                    self.look(&reconnect, handshake);
                }
            }
        }
    }
}

/// Repeats the MCP handshake on a new connection.
async fn greet<L: Link>(
    link: &mut L,
    (id, initialize): (RequestId, String),
    initialized: String,
    version: Option<ProtocolVersion>,
) -> Result<()> {
    let outbox = link.outbox();
    outbox.send(initialize).await?;
    loop {
        let text = link.next().await.ok_or(Error::Closed)?;
        match serde_json::from_slice::<RxJsonRpcMessage<RoleClient>>(&text) {
            Ok(JsonRpcMessage::Response(response)) if response.id == id => {
                let ServerResult::InitializeResult(result) = response.result else {
                    return Err(Error::Changed("its answer to `initialize` is not valid".into()));
                };
                if version.is_some_and(|version| version != result.protocol_version) {
                    return Err(Error::Changed(format!(
                        "it now uses protocol revision {}",
                        result.protocol_version
                    )));
                }
                return outbox.send(initialized).await;
            }
            Ok(JsonRpcMessage::Error(error)) if error.id.as_ref() == Some(&id) => {
                return Err(Error::Changed(error.error.message.into_owned()));
            }
            // Ignore other messages before the handshake is complete.
            _ => {}
        }
    }
}

/// Returns a notification that cancels a question whose connection is lost. The user then does not have to answer the
/// question.
fn withdrawn(id: RequestId) -> RxJsonRpcMessage<RoleClient> {
    let params = CancelledNotificationParam::new(Some(id), Some("the connection was lost".into()));
    JsonRpcMessage::notification(ServerNotification::CancelledNotification(CancelledNotification::new(
        params,
    )))
}

/// Returns the error response for a request whose connection is lost.
fn lost(id: RequestId) -> RxJsonRpcMessage<RoleClient> {
    let error = ErrorData::new(
        ErrorCode(TRANSPORT_ERROR),
        "the connection was lost before the answer came: the server may have executed the request",
        Some(json!({ "reason": "connection lost" })),
    );
    JsonRpcMessage::error(error, Some(id))
}

async fn in_time<T>(limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(limit, work).await.unwrap_or(Err(Error::TimedOut(limit)))
}

/// Converts an unexpected response of a server to an error.
pub(crate) async fn refused(mut response: reqwest::Response) -> Error {
    let status = response.status().as_u16();
    let mut said = Vec::new();
    while said.len() < 512
        && let Ok(Some(chunk)) = response.chunk().await
    {
        said.extend_from_slice(&chunk);
    }
    said.truncate(512);
    Error::Refused { status, reason: String::from_utf8_lossy(&said).into_owned() }
}

impl<D: Dial> Drop for Client<D> {
    fn drop(&mut self) {
        if let State::Looking(task) = &self.state {
            task.abort();
        }
    }
}

impl<D: Dial> fmt::Debug for Client<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Up(..) => "up",
            State::Looking(_) => "looking",
            State::Over => "over",
        };
        f.debug_struct("Client").field("state", &state).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_are_never_cut_by_more_than_half() {
        let reconnect = Reconnect::default();
        for attempt in 0..64 {
            let full =
                Duration::from_millis(250).saturating_mul(1 << attempt.min(20)).min(Duration::from_secs(10));
            let delay = reconnect.delay(attempt);
            assert!(delay <= full && delay + Duration::from_millis(1) >= full / 2, "{attempt}: {delay:?}");
        }
    }
}
