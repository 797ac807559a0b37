//! Where things lie.
//!
//! ```text
//! {prefix}/{place}/{set}/intent.json       somebody writes; there before anything else, gone when all is there
//! {prefix}/{place}/{set}/data-{writer}…    the rows
//! {prefix}/{place}/{set}/parts/{writer}…   rows whose columns were not all known yet, until they are one file
//! {…}/{writer}.takes-{bytes}               a view is being made that takes so much, at most; empty
//! {…}.upload                               the id of an upload that is not finished, so that anybody can remove it
//! {prefix}/{place}/{set}/owner-{share}-{writer}   whose it is, if not all of the place's; empty
//! {prefix}/{place}/{set}/manifest.json     what is known of them; a snapshot is there when this is
//! {prefix}/{place}/{set}/stats.json        what is in the columns, once somebody asked
//! {prefix}/{place}/{set}/views/{key}/…     the same for each view
//! ```
//!
//! Files with rows are named after who writes them. So of two who write one after the other under the same id, the
//! first may be late to remove what it left: it finds only its own.

use antiphon_results::snapshot::{SnapshotId, View};
use object_store::path::Path;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// Where the files of a snapshot, or of a view of one, lie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SnapshotFolder {
    pub(crate) folder: Path,
}

/// A name that no other writer has.
pub(crate) fn writer_name() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::Broken(error.into()))?;
    Ok(hex("", &bytes))
}

/// Bytes as hexadecimal, after what says that they are.
pub(crate) fn hex(before: &str, bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(before.to_owned(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What the file with a writer's rows is called.
pub(crate) fn data_name(writer: &str) -> String {
    format!("data-{writer}.parquet")
}

/// What says that somebody makes something that takes so many bytes, at most.
const TAKES: &str = ".takes-";

/// What the file is called that says so.
#[cfg(feature = "sql")]
pub(crate) fn takes_name(writer: &str, bytes: u64) -> String {
    format!("{writer}{TAKES}{bytes}")
}

/// How many bytes a file of that kind says; `None` if it is of another.
pub(crate) fn takes(path: &Path) -> Option<u64> {
    path.filename()?.split_once(TAKES)?.1.parse().ok()
}

/// What a file is called that says whose a snapshot is.
const OWNER: &str = "owner-";

/// Whose a snapshot is, if this file says so.
pub(crate) fn share_of(path: &Path) -> Option<&str> {
    path.filename()?.strip_prefix(OWNER)?.split_once('-').map(|(share, _)| share)
}

impl SnapshotFolder {
    pub(crate) fn of(prefix: &Path, id: &SnapshotId) -> Self {
        Self { folder: prefix.clone().join(id.place.as_str()).join(id.set.as_str()) }
    }

    /// Where a view of it lies; itself, if the view is the whole.
    pub(crate) fn view(&self, view: &View) -> Self {
        if view.is_whole() {
            return self.clone();
        }
        // Invariant: the same view is written the same way: its members have one order.
        let text = serde_json::to_vec(view).expect("a view is text and JSON");
        let digest = Sha256::digest(&text);
        Self { folder: self.folder.clone().join("views").join(hex("", &digest[..16])) }
    }

    pub(crate) fn intent(&self) -> Path {
        self.folder.clone().join("intent.json")
    }

    /// Says whose the snapshot is, and is its writer's.
    pub(crate) fn owner(&self, share: &str, writer: &str) -> Path {
        self.folder.clone().join(format!("{OWNER}{share}-{writer}"))
    }

    /// The rows, as the manifest names them.
    pub(crate) fn data(&self, name: &str) -> Path {
        self.folder.clone().join(name)
    }

    pub(crate) fn manifest(&self) -> Path {
        self.folder.clone().join("manifest.json")
    }

    pub(crate) fn stats(&self) -> Path {
        self.folder.clone().join("stats.json")
    }
}
