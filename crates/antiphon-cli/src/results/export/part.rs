//! The incomplete file of an interrupted export, and the information that is needed to resume the export.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufWriter, Seek as _, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::exit::Misused;

/// A file with a temporary name. The file gets its final name only when it is complete, because a truncated file can
/// look complete.
///
/// If a `Part` is dropped before the file is complete, the file is deleted, unless the download can be resumed.
pub(super) struct Part {
    target: PathBuf,
    path: PathBuf,
    out: BufWriter<File>,
    length: u64,
    noted: bool,
    whole: bool,
}

/// A description of the export to which a part belongs. A note contains no secrets, because the signed link is
/// removed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The URL of the set, without its query string.
    pub(super) set: String,
    /// The parameters of the export.
    pub(super) request: String,
    /// The validator (`ETag`) of the exported file on the server.
    pub(super) etag: String,
    /// The total number of bytes, if this number is known.
    pub(super) total: Option<u64>,
}

impl Part {
    /// Creates the part for a new export, and deletes the part of an earlier export to the same file.
    pub(super) fn begin(target: &Path) -> Result<Self> {
        let path = beside(target, ".part");
        let file = File::create(&path).with_context(|| format!("{} cannot be written", path.display()))?;
        let _ = fs::remove_file(beside(target, ".part.json"));
        Ok(Self::new(target, path, file, 0, false))
    }

    /// Opens the part of an interrupted export, or returns `None` if no such part exists.
    ///
    /// # Errors
    ///
    /// Returns `Misused` if the part belongs to another export.
    pub(super) fn resume(target: &Path, set: &str, request: &str) -> Result<Option<(Self, Note)>> {
        let path = beside(target, ".part");
        let Ok(text) = fs::read_to_string(beside(target, ".part.json")) else { return Ok(None) };
        let Ok(note) = serde_json::from_str::<Note>(&text) else { return Ok(None) };
        let Ok(mut file) = OpenOptions::new().write(true).open(&path) else { return Ok(None) };
        if note.set != set || note.request != request {
            let message = format!(
                "{} is part of another export; omit `--resume` to start again, or choose another file",
                path.display()
            );
            return Err(Misused(message).into());
        }
        let length = file.seek(SeekFrom::End(0))?;
        Ok(Some((Self::new(target, path, file, length, true), note)))
    }

    fn new(target: &Path, path: PathBuf, file: File, length: u64, noted: bool) -> Self {
        let out = BufWriter::with_capacity(1 << 16, file);
        Self { target: target.to_owned(), path, out, length, noted, whole: false }
    }

    /// Returns the number of written bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Stores the information that is needed to resume.
    pub(super) fn note(&mut self, note: &Note) -> Result<()> {
        let path = beside(&self.target, ".part.json");
        let text = serde_json::to_string_pretty(note)?;
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
        self.noted = true;
        Ok(())
    }

    /// Deletes the information that is needed to resume.
    pub(super) fn forget(&mut self) -> Result<()> {
        let path = beside(&self.target, ".part.json");
        self.noted = false;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} cannot be removed", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Starts again with an empty file, because the file on the server has changed.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.out.flush()?;
        self.out.get_ref().set_len(0)?;
        self.out.seek(SeekFrom::Start(0))?;
        self.length = 0;
        Ok(())
    }

    /// Renames the complete file to its final name.
    pub(super) fn finish(mut self) -> Result<()> {
        let unwritable = |path: &Path| format!("{} cannot be written", path.display());
        self.out.flush().with_context(|| unwritable(&self.path))?;
        fs::rename(&self.path, &self.target).with_context(|| unwritable(&self.target))?;
        let _ = fs::remove_file(beside(&self.target, ".part.json"));
        self.whole = true;
        Ok(())
    }
}

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.whole {
            return;
        }
        if self.noted && self.length > 0 && self.out.flush().is_ok() {
            let path = self.path.display();
            eprintln!("hint: {path} is incomplete; continue with the same command and `--resume`");
            return;
        }
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(beside(&self.target, ".part.json"));
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
