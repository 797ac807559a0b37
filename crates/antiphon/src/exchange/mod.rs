//! The history of a conversation with a model. Questions and answers are MCP content blocks.

mod elicit;
mod history;
mod sample;

pub(crate) use self::history::check;
pub use self::{
    elicit::ElicitExchange,
    history::{Exchange, History, HistoryError},
    sample::{AnyExchange, OpenExchange, SampleExchange},
};

/// Returns an ID for a tool call: for a call that the model sent without an ID, or for a call that Antiphon creates.
/// The ID is unique in its run, and it is the same in every round.
///
/// `place` is the question key, with the iteration numbers of its loops. The ID contains only letters, digits, `_` and
/// `-`, and at most 64 characters, because some providers require this.
pub(crate) fn id_of(prefix: &str, name: &str, place: &str) -> String {
    use std::fmt::Write as _;

    use sha2::{Digest as _, Sha256};

    let clean = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().map(clean).take(32).collect();
    let mut id = format!("{prefix}_{name}_");
    for byte in &Sha256::digest(place.as_bytes())[..4] {
        let _ = write!(id, "{byte:02x}");
    }
    id
}
