//! `antiphon serve`: serves an example.

#[cfg(feature = "backends")]
mod database;
mod examples;
mod hello;

use anyhow::Result;
use clap::Args;

use crate::{config::ModelChoice, exit::Outcome, global::App};

/// Serve an example. Without arguments, list the examples.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  antiphon serve
  antiphon serve hello --http 127.0.0.1:8000
  antiphon call \"antiphon serve hello\" greet")]
pub(crate) struct Serve {
    /// The example to serve.
    example: Option<String>,
    /// Serve over HTTP at this address [default: standard input and output].
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Set the store that replicas share: memory:, or with the feature `backends` postgres://…, redis://… or nats://….
    #[arg(long, value_name = "URL", default_value = "memory:")]
    store: String,
    /// Set the encryption keys that all processes with this store share: 1=<64 hex digits>. Required for every store
    /// except memory:.
    #[arg(long, value_name = "KEYS", env = "ANTIPHON_KEYS", hide_env_values = true)]
    keys: Option<String>,
    /// Set the database of `institutions`: postgres://….
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    #[command(flatten)]
    model: ModelChoice,
}

impl Serve {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        examples::serve(&self, app).await
    }
}
