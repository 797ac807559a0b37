//! Encodes and decodes the cursors of snapshot pages.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use crate::{
    error::{DualResponseError, Result},
    link::LinkKeys,
    snapshot::View,
};

/// Maximum length of an accepted cursor.
const MAX_CURSOR: usize = 16 * 1024;

/// Maximum length of a generated cursor. The server sends the cursor in a header, and proxies limit the size of
/// headers.
const LONGEST: usize = 4 * 1024;

/// The position after the last row of a page, with the view and the columns of the page. A snapshot never changes, so
/// its cursors contain only an offset, a view and columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SnapshotCursor {
    #[serde(rename = "o")]
    pub(super) offset: u64,
    #[serde(rename = "v", default, skip_serializing_if = "View::is_whole")]
    pub(super) view: View,
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) columns: Vec<String>,
}

impl SnapshotCursor {
    /// Returns the cursor as text that is valid only for this result set. Returns `None` if the text is too long for
    /// the client to send back.
    pub(super) fn encode(&self, keys: Option<&LinkKeys>, set: &str) -> Option<String> {
        let text = serde_json::to_vec(self).ok()?;
        let sealed = match keys {
            Some(keys) => keys.seal(&context(set), &text),
            // Without keys, the cursor cannot be signed. The content of the cursor is not secret, and is checked like
            // any request. The mark only shows to which result set the cursor belongs.
            None => [mark(set).as_slice(), &text].concat(),
        };
        let text = URL_SAFE_NO_PAD.encode(sealed);
        (text.len() <= LONGEST).then_some(text)
    }

    pub(super) fn decode(text: &str, keys: Option<&LinkKeys>, set: &str) -> Result<Self> {
        let sealed = (text.len() <= MAX_CURSOR).then(|| URL_SAFE_NO_PAD.decode(text).ok()).flatten();
        let text = sealed.and_then(|sealed| match keys {
            Some(keys) => keys.unseal(&context(set), &sealed),
            None => sealed.strip_prefix(&mark(set)).map(<[u8]>::to_vec),
        });
        text.and_then(|text| serde_json::from_slice(&text).ok()).ok_or_else(|| {
            DualResponseError::Invalid(
                "the cursor is not valid; send the cursor exactly as the server returned it".into(),
            )
        })
    }
}

fn context(set: &str) -> String {
    format!("cursor {set}")
}

fn mark(set: &str) -> [u8; 8] {
    use sha2::{Digest as _, Sha256};
    let digest = Sha256::digest(context(set).as_bytes());
    let mut mark = [0; 8];
    mark.copy_from_slice(&digest[..8]);
    mark
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Sort;

    #[test]
    fn a_cursor_is_good_for_its_set_and_comes_back_as_it_was() {
        let cursor = SnapshotCursor {
            offset: 9_900_000,
            view: View::sorted([Sort::descending("n")]),
            columns: vec!["n".into()],
        };
        let (keys, others) = (LinkKeys::new(1, [7; 32]), LinkKeys::new(1, [8; 32]));
        for keys in [None, Some(&keys)] {
            let text = cursor.encode(keys, "rs_a").unwrap();
            assert_eq!(SnapshotCursor::decode(&text, keys, "rs_a").unwrap(), cursor);
            assert!(SnapshotCursor::decode(&text, keys, "rs_b").is_err(), "another set's");
            assert!(SnapshotCursor::decode(&text, Some(&others), "rs_a").is_err(), "another key's");
            for at in 0..text.len() {
                let mut wrong = text.clone().into_bytes();
                wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
                let wrong = String::from_utf8(wrong).unwrap();
                let read = SnapshotCursor::decode(&wrong, keys, "rs_a");
                assert!(keys.is_none() || read.is_err(), "a signed one that was changed: {wrong}");
            }
        }
    }
}
