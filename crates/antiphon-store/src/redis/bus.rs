use std::{fmt, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;

use super::Shared;
use crate::{
    bus::{Bus, Subscription, check_event},
    error::Result,
    name,
};

/// A [`Bus`] that uses the sharded publish/subscribe of Redis.
#[derive(Clone)]
pub struct RedisBus {
    shared: Arc<Shared>,
}

impl RedisBus {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

#[async_trait]
impl Bus for RedisBus {
    async fn publish(&self, topic: &str, event: Bytes) -> Result<()> {
        check_event(topic, &event)?;
        let mut cmd = redis::cmd("SPUBLISH");
        cmd.arg(self.shared.keys.topic(topic)).arg(&event[..]);
        self.shared.link.command(&cmd).await.map(drop)
    }

    async fn subscribe(&self, topic: &str) -> Result<Subscription> {
        name::check(topic)?;
        self.shared.hub.subscribe(self.shared.keys.topic(topic)).await
    }
}

impl fmt::Debug for RedisBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisBus").field(&self.shared.config).finish()
    }
}
