//! History a tool can accumulate: what was asked and what was said, as MCP content blocks.

mod elicit;
mod history;
mod sample;

pub(crate) use self::history::check;
pub use self::{
    elicit::ElicitExchange,
    history::{Exchange, History, HistoryError},
    sample::{AnyExchange, OpenExchange, SampleExchange},
};

/// A key as the id of a call. Some providers take letters, digits, `_` and `-` and nothing else.
pub(crate) fn id_of(prefix: &str, key: &str) -> String {
    let clean = key.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' });
    let mut id = format!("{prefix}_");
    id.extend(clean);
    id
}
