use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;

use super::{Inner, wakes::notify};
use crate::{
    bus::{Bus, Subscription, check_event},
    error::Result,
    name,
};

/// A [`Bus`] that uses PostgreSQL notifications.
#[derive(Clone)]
pub struct PostgresBus {
    inner: Arc<Inner>,
}

impl PostgresBus {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }
}

impl fmt::Debug for PostgresBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresBus").field("space", &self.inner.config.space).finish_non_exhaustive()
    }
}

#[async_trait]
impl Bus for PostgresBus {
    async fn publish(&self, topic: &str, event: Bytes) -> Result<()> {
        check_event(topic, &event)?;
        let channels = &self.inner.channels;
        notify(&self.inner.pool, &channels.topic(topic), &channels.write(topic, &event)).await
    }

    async fn subscribe(&self, topic: &str) -> Result<Subscription> {
        name::check(topic)?;
        let channels = &self.inner.channels;
        let (feed, subscription) = Subscription::channel();
        self.inner.listener.subscribe(channels.topic(topic), channels.subject(topic), feed).await?;
        Ok(subscription)
    }
}
