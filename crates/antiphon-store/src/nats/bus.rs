use std::{sync::Arc, time::Duration};

use async_nats::Subscriber;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::{sync::watch, time::sleep};

use super::link::{Link, failed, round_trip};
use crate::{
    bus::{Bus, Feed, Subscription, check_event},
    error::Result,
    name,
};

/// The time that the servers of a cluster need to exchange a new subscription. NATS does not confirm that all servers
/// have received a new subscription.
const SETTLING: Duration = Duration::from_millis(100);

/// A [`Bus`] that sends events as plain NATS messages.
#[derive(Clone, Debug)]
pub struct NatsBus {
    link: Arc<Link>,
}

impl NatsBus {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self { link }
    }
}

#[async_trait]
impl Bus for NatsBus {
    async fn publish(&self, topic: &str, event: Bytes) -> Result<()> {
        check_event(topic, &event)?;
        self.link
            .run(async {
                self.link.client.publish(self.link.topic(topic), event).await.map_err(failed)?;
                // The round trip confirms the connection. Without it, the event may have been written to a connection
                // that is already dead.
                round_trip(&self.link).await
            })
            .await
    }

    async fn subscribe(&self, topic: &str) -> Result<Subscription> {
        name::check(topic)?;
        let subscription = self
            .link
            .run(async {
                let mut interrupted = self.link.interrupted.clone();
                interrupted.mark_unchanged();
                let subscriber = self.link.client.subscribe(self.link.topic(topic)).await.map_err(failed)?;
                round_trip(&self.link).await?;
                let (feed, subscription) = Subscription::channel();
                tokio::spawn(forward(Arc::clone(&self.link), subscriber, interrupted, feed));
                Ok(subscription)
            })
            .await?;
        settle(&self.link).await;
        Ok(subscription)
    }
}

/// Forwards events to a listener, and keeps the connection open until the listener is dropped. After a lost connection,
/// the client subscribes to the topic again.
async fn forward(
    link: Arc<Link>,
    mut subscriber: Subscriber,
    mut interrupted: watch::Receiver<u64>,
    feed: Feed,
) {
    loop {
        let listened = tokio::select! {
            message = subscriber.next() => match message {
                Some(message) => feed.send(message.payload),
                None => false,
            },
            Ok(()) = interrupted.changed() => {
                settle(&link).await;
                feed.gap()
            }
            () = feed.closed() => false,
        };
        if !listened {
            return;
        }
    }
}

/// Waits until a new subscription also receives events from clients of the other servers in the cluster.
async fn settle(link: &Link) {
    if link.client.server_info().cluster.is_some() {
        sleep(SETTLING).await;
    }
}
