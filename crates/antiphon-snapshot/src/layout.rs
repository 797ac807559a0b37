//! The layout of the files in the object store.
//!
//! ```text
//! {prefix}/{place}/{set}/intent.json       announces a writer; created first, deleted after the snapshot is complete
//! {prefix}/{place}/{set}/data-{writer}…    the rows
//! {prefix}/{place}/{set}/parts/{writer}…   rows in several files, if the columns changed; merged into one file later
//! {…}/{writer}.takes-{bytes}               announces a view in progress with its maximum size in bytes; empty
//! {…}.upload                               the ID of an unfinished upload, so that any process can abort it
//! {prefix}/{place}/{set}/owner-{share}-{writer}   names the owner, if {place} contains several owners; empty
//! {prefix}/{place}/{set}/manifest.json     the description of the rows; the snapshot exists when this file exists
//! {prefix}/{place}/{set}/stats.json        the statistics of the columns, after they were first requested
//! {prefix}/{place}/{set}/views/{key}/…     the same files for each view
//! ```
//!
//! The names of row files contain the name of the writer. Two writers can write a snapshot with the same ID one after
//! the other. If the first writer cleans up late, the first writer removes its own files, but no files of the second
//! writer.

use antiphon_results::snapshot::{SnapshotId, View};
use object_store::path::Path;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// The folder of a snapshot or of a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SnapshotFolder {
    pub(crate) folder: Path,
}

/// Returns a unique name for a writer.
pub(crate) fn writer_name() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::Broken(error.into()))?;
    Ok(hex("", &bytes))
}

/// Returns `before`, followed by the bytes in hexadecimal.
pub(crate) fn hex(before: &str, bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(before.to_owned(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the name of the file with the rows of a writer.
pub(crate) fn data_name(writer: &str) -> String {
    format!("data-{writer}.parquet")
}

/// The text in a file name that marks the file as the announcement of a view in progress. In the file name, the view's
/// maximum size in bytes follows this text.
const TAKES: &str = ".takes-";

/// Returns the name of the file that announces a view in progress.
#[cfg(feature = "sql")]
pub(crate) fn takes_name(writer: &str, bytes: u64) -> String {
    format!("{writer}{TAKES}{bytes}")
}

/// Returns the view size from the name of a file that announces a view in progress. Returns `None` for other files.
pub(crate) fn takes(path: &Path) -> Option<u64> {
    path.filename()?.split_once(TAKES)?.1.parse().ok()
}

/// The prefix in the name of an owner file. The rest of the name contains the owner of the snapshot.
const OWNER: &str = "owner-";

/// Returns the owner that the name of an owner file contains. Returns `None` for other files.
pub(crate) fn share_of(path: &Path) -> Option<&str> {
    path.filename()?.strip_prefix(OWNER)?.split_once('-').map(|(share, _)| share)
}

impl SnapshotFolder {
    pub(crate) fn of(prefix: &Path, id: &SnapshotId) -> Self {
        Self { folder: prefix.clone().join(id.place.as_str()).join(id.set.as_str()) }
    }

    /// Returns the folder of a view, or the folder of the snapshot if the view is the whole snapshot.
    pub(crate) fn view(&self, view: &View) -> Self {
        if view.is_whole() {
            return self.clone();
        }
        // Invariant: equal views serialize to the same text, because their fields have a fixed order.
        let text = serde_json::to_vec(view).expect("a view is text and JSON");
        let digest = Sha256::digest(&text);
        Self { folder: self.folder.clone().join("views").join(hex("", &digest[..16])) }
    }

    pub(crate) fn intent(&self) -> Path {
        self.folder.clone().join("intent.json")
    }

    /// Returns the path of the file that names the owner of the snapshot and its writer.
    pub(crate) fn owner(&self, share: &str, writer: &str) -> Path {
        self.folder.clone().join(format!("{OWNER}{share}-{writer}"))
    }

    /// Returns the path of the file that contains the rows. The manifest contains the file name `name`.
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
