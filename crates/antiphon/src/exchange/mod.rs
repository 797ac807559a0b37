//! The history of a conversation with a model: questions and answers as MCP content blocks.

mod elicit;
mod history;
mod sample;

pub(crate) use self::history::check;
pub use self::{
    elicit::ElicitExchange,
    history::{Exchange, History, HistoryError},
    sample::{AnyExchange, OpenExchange, SampleExchange},
};

/// Returns the ID of a call that the model sent without one, or that Antiphon creates. The ID is unique in its run and
/// the same in every round.
///
/// `place` is the key with the iteration numbers of its loops. Some providers only accept letters, digits, `_` and `-`,
/// and at most 64 characters.
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
