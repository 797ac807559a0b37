// ANCHOR: model
use std::time::Duration;

use antiphon::llm::{
    Budget, Budgeted,
    providers::{Anthropic, ProviderConfig},
};
use antiphon::{ServerBuilder, prelude::*};

fn game() -> Result<ServerBuilder> {
    let config = ProviderConfig::new(std::env::var("ANTHROPIC_API_KEY")?)
        .with_model("claude-sonnet-5-5")
        .with_model("claude-haiku-5-5")
        .with_max_tokens(2_000);
    let hourly = Budget::per(Duration::from_secs(3600)).with_max_requests(500).with_max_tokens(1_000_000);
    Ok(Server::builder("game", "1.0.0").with_model(Budgeted::new(Anthropic::new(config)?, hourly)))
}
// ANCHOR_END: model
