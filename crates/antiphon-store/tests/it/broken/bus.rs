//! A bus with a fault.

use std::{collections::HashMap, sync::Mutex};

use antiphon_store::{BUFFER, Bus, Feed, MAX_EVENT, Result, Subscription, check_event};
use async_trait::async_trait;
use bytes::Bytes;

use super::{
    backend::{Broken, lock},
    fault::Fault,
};

/// What faults remember of a bus.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Who listens to a topic, and how many events they were sent; for faults that tell them by themselves.
    listeners: Mutex<HashMap<String, Vec<(Feed, usize)>>>,
    /// The last event of a topic.
    last: Mutex<HashMap<String, Bytes>>,
    /// An event that is about to be overtaken.
    held: Mutex<Option<Bytes>>,
}

impl Broken {
    /// What becomes of a topic.
    fn topic(&self, topic: &str) -> String {
        if self.has(Fault::OpeningsAreAlone) {
            return format!("{topic}/{:p}", &raw const self.own);
        }
        self.name(topic)
    }

    /// Whether the fault is in who is told.
    fn tells_by_itself(&self) -> bool {
        matches!(
            self.fault,
            Some(
                Fault::ListenersShareEvents
                    | Fault::EventsAreKept
                    | Fault::OneLeavesForAll
                    | Fault::OverflowIsSilent
            )
        )
    }

    fn tell(&self, topic: &str, event: &Bytes) {
        let mut topics = lock(&self.space.bus.listeners);
        let listeners = topics.entry(topic.to_owned()).or_default();
        match self.fault {
            Some(Fault::OneLeavesForAll) if listeners.iter().any(|(feed, _)| feed.is_closed()) => {
                listeners.clear();
            }
            Some(Fault::ListenersShareEvents) if !listeners.is_empty() => {
                listeners.rotate_left(1);
                listeners[0].0.send(event.clone());
                return;
            }
            _ => {}
        }
        for (number, (feed, sent)) in listeners.iter_mut().enumerate() {
            // The law's slow listener comes first; the others listen.
            let full = number == 0 && *sent == BUFFER;
            if !(full && self.has(Fault::OverflowIsSilent)) {
                feed.send(event.clone());
                *sent += 1;
            }
        }
    }
}

#[async_trait]
impl Bus for Broken {
    async fn publish(&self, topic: &str, event: Bytes) -> Result<()> {
        let (topic, event) = (&self.topic(topic), self.bytes(event, MAX_EVENT)?);
        let bus = self.space.memory.bus();
        if self.tells_by_itself() {
            check_event(topic, &event)?;
            lock(&self.space.bus.last).insert(topic.clone(), event.clone());
            self.tell(topic, &event);
            return Ok(());
        }
        match self.fault {
            Some(Fault::EmptyIsNothing) if event.is_empty() => Ok(()),
            Some(Fault::EventsOvertake) => {
                let held = lock(&self.space.bus.held).take();
                let Some(held) = held else {
                    *lock(&self.space.bus.held) = Some(event);
                    return Ok(());
                };
                bus.publish(topic, event).await?;
                bus.publish(topic, held).await
            }
            Some(Fault::TopicsAreTrees) => {
                for (end, _) in topic.match_indices('/') {
                    bus.publish(&topic[..end], event.clone()).await?;
                }
                bus.publish(topic, event).await
            }
            _ => bus.publish(topic, event).await,
        }
    }

    async fn subscribe(&self, topic: &str) -> Result<Subscription> {
        let topic = &self.topic(topic);
        if !self.tells_by_itself() {
            return self.space.memory.bus().subscribe(topic).await;
        }
        let (feed, subscription) = Subscription::channel();
        if self.has(Fault::EventsAreKept)
            && let Some(last) = lock(&self.space.bus.last).get(topic)
        {
            feed.send(last.clone());
        }
        lock(&self.space.bus.listeners).entry(topic.clone()).or_default().push((feed, 0));
        Ok(subscription)
    }
}
