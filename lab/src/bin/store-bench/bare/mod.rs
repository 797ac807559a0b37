//! The bare clients.
//!
//! What they send is not copied from our source, where a server can tell: ours does each operation once, the
//! server is asked what it was told, and the bare client says the same.

use antiphon_store::Backend;
use anyhow::Result;
use async_trait::async_trait;
use lab::programs::store::Engine;

use crate::{Plan, side::Side};

mod nats;
mod postgres;
mod redis;

/// A bare client that also leases with many hands, and knows how the engine's own tool would.
#[async_trait]
pub(crate) trait Bare: Side {
    /// Leases `count` jobs of `queue`, one at a time, with `hands` at once.
    async fn lease(&mut self, queue: &str, count: usize, hands: usize) -> Result<()>;

    /// The arguments with which the engine's own tool does the same, and how to read its answer.
    fn tool(&self, queue: &str, count: usize, hands: usize) -> Result<Option<Tool>>;
}

/// How to call the engine's own benchmark.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) arguments: Vec<String>,
    /// Finds the leases per second in what it prints.
    pub(crate) read: fn(&str) -> Option<f64>,
}

pub(crate) async fn connect(plan: &Plan, ours: &Backend) -> Result<Box<dyn Bare>> {
    Ok(match plan.engine {
        Engine::Postgres => Box::new(postgres::Postgres::connect(&plan.url, ours).await?),
        Engine::Redis => Box::new(redis::Redis::connect(&plan.url, ours).await?),
        Engine::Nats => Box::new(nats::Nats::connect(&plan.url).await?),
    })
}
