//! Creates the replies that a user writes in place of a model.

use std::sync::atomic::{AtomicU64, Ordering};

use antiphon_llm::{Block, Reply};
use serde_json::Value;

/// The name of the model in replies that the user writes.
pub(crate) const NAME: &str = "user";

/// Returns a sampling reply that contains the text `text`.
pub(crate) fn said(text: &str) -> Reply {
    Reply::new(NAME, text)
}

/// Returns a sampling reply that contains one tool call.
pub(crate) fn called(tool: &str, input: Value) -> Reply {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let id = format!("call-{}", LAST.fetch_add(1, Ordering::Relaxed) + 1);
    Reply::new(NAME, Block::tool_use(id, tool, input))
}
