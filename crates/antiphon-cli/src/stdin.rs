//! What comes on standard input.

use anyhow::{Context as _, Result};

/// All of it. On a thread of its own, so that Ctrl-C is heard while nothing comes.
pub(crate) async fn read() -> Result<String> {
    tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()))
        .await?
        .context("standard input cannot be read")
}
