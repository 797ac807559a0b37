//! The code of the guide about development.

use antiphon::{ServerBuilder, prelude::*, seal::SealConfig};

// ANCHOR: keys
fn with_keys(server: ServerBuilder) -> Result<ServerBuilder> {
    match std::env::var("ANTIPHON_KEYS") {
        Ok(keys) => Ok(server.with_seal(SealConfig::default().with_keys(keys.parse()?))),
        Err(_) => Ok(server),
    }
}
// ANCHOR_END: keys
