use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    bus::{Bus, Feed, Subscription, check_event},
    error::Result,
    name,
};

/// A [`Bus`] in the memory of this process. Clones of a `MemoryBus` share the topics.
#[derive(Clone, Debug, Default)]
pub struct MemoryBus {
    topics: Arc<Mutex<HashMap<String, Vec<Feed>>>>,
}

impl MemoryBus {
    fn topics(&self) -> MutexGuard<'_, HashMap<String, Vec<Feed>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Bus for MemoryBus {
    async fn publish(&self, topic: &str, event: Bytes) -> Result<()> {
        check_event(topic, &event)?;
        let mut topics = self.topics();
        if let Some(feeds) = topics.get_mut(topic) {
            feeds.retain(|feed| feed.send(event.clone()));
            if feeds.is_empty() {
                topics.remove(topic);
            }
        }
        Ok(())
    }

    async fn subscribe(&self, topic: &str) -> Result<Subscription> {
        name::check(topic)?;
        let (feed, subscription) = Subscription::channel();
        let mut topics = self.topics();
        let feeds = topics.entry(topic.to_owned()).or_default();
        // Remove closed feeds here too. Otherwise, closed feeds would accumulate on a topic with many subscriptions
        // and no events.
        feeds.retain(|feed| !feed.is_closed());
        feeds.push(feed);
        Ok(subscription)
    }
}
