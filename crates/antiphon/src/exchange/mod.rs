//! The history of a conversation with a model. A history represents questions and answers as MCP content blocks.

mod elicit;
mod history;
mod sample;

pub(crate) use self::history::check;
pub use self::{
    elicit::ElicitExchange,
    history::{Exchange, History, HistoryError},
    sample::{AnyExchange, OpenExchange, SampleExchange},
};

/// Returns an ID for tool calls that the model sent without an ID, and for tool calls that Antiphon creates. The ID is
/// unique in its run. In every round of the run, the same tool call has the same ID.
///
/// `place` contains the question key and the iteration numbers of the loops around the question. The ID has at most 64
/// characters and contains only letters, digits, `_` and `-`. Some providers reject other IDs.
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
