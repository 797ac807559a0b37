//! Reads standard input.

use anyhow::{Context as _, Result};

/// Reads standard input to its end, on a blocking thread, so that Ctrl-C works during the read.
pub(crate) async fn read() -> Result<String> {
    tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()))
        .await?
        .context("standard input cannot be read")
}
