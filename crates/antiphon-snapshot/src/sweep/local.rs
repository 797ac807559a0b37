//! Finds and removes files that a local store does not list: staged files and empty folders.

use std::{
    fs::{self, DirEntry},
    io::{Error, ErrorKind, Result},
    path::{Path as Folder, PathBuf},
};

use antiphon_results::snapshot::SnapshotId;
use chrono::{DateTime, Utc};
use futures_util::stream::{self, Stream};
use object_store::path::Path;
use tokio::sync::mpsc;

/// Removes the folder of a snapshot with its contents. The function also removes the tenant's folder, if that folder
/// is then empty.
pub(super) fn remove(root: &Folder, folder: &Path) -> Result<()> {
    let folder = below(root, folder);
    ignore_missing(fs::remove_dir_all(&folder))?;
    if let Some(tenant) = folder.parent().filter(|tenant| *tenant != root) {
        // `remove_dir` fails if the folder is not empty, which is intended.
        let _ = fs::remove_dir(tenant);
    }
    Ok(())
}

/// Removes the files of one writer of a snapshot, including staged files.
pub(super) fn withdraw(root: &Folder, folder: &Path, writer: &str) -> Result<()> {
    let folder = below(root, folder);
    for folder in [folder.join("parts"), folder] {
        for entry in entries(&folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().contains(writer) {
                ignore_missing(fs::remove_file(entry.path()))?;
            }
        }
    }
    Ok(())
}

/// Removes the folder of a snapshot and the folder of the tenant if these folders are empty.
pub(super) fn tidy(root: &Folder, folder: &Path) {
    let folder = below(root, folder);
    // `remove_dir` fails if a folder is not empty, which is intended.
    let _ = fs::remove_dir(folder.join("parts"));
    let _ = fs::remove_dir(&folder);
    if let Some(tenant) = folder.parent().filter(|tenant| *tenant != root) {
        let _ = fs::remove_dir(tenant);
    }
}

/// Lists snapshots with a file, or an empty folder, that is older than `before`.
pub(super) fn ids(
    root: PathBuf,
    prefix: Path,
    before: DateTime<Utc>,
) -> impl Stream<Item = Result<SnapshotId>> + Send + 'static {
    let (found, waiting) = mpsc::channel(64);
    tokio::task::spawn_blocking(move || {
        // If the receiver was dropped, the error is discarded.
        if let Err(error) = walk(&below(&root, &prefix), before, &found) {
            let _ = found.blocking_send(Err(error));
        }
    });
    stream::unfold(waiting, async |mut waiting| waiting.recv().await.map(|id| (id, waiting)))
}

fn walk(root: &Folder, before: DateTime<Utc>, found: &mpsc::Sender<Result<SnapshotId>>) -> Result<()> {
    for tenant in folders(root)? {
        let tenant = tenant?;
        for set in folders(&tenant.path())? {
            let set = set?;
            if !is_older(&set.path(), before)? {
                continue;
            }
            let (Ok(place), Ok(set)) = (tenant.file_name().into_string(), set.file_name().into_string())
            else {
                continue;
            };
            if found.blocking_send(Ok(SnapshotId::found(place, set))).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn is_older(folder: &Folder, before: DateTime<Utc>) -> Result<bool> {
    let mut empty = true;
    for entry in entries(folder)? {
        empty = false;
        if modified(&entry?.path())?.is_some_and(|moment| moment < before) {
            return Ok(true);
        }
    }
    Ok(empty && modified(folder)?.is_some_and(|moment| moment < before))
}

/// Returns the time of the last change to a file, or `None` if the file was removed.
fn modified(path: &Folder) -> Result<Option<DateTime<Utc>>> {
    match fs::metadata(path).and_then(|metadata| metadata.modified()) {
        Ok(moment) => Ok(Some(moment.into())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn folders(path: &Folder) -> Result<impl Iterator<Item = Result<DirEntry>> + use<>> {
    let is_folder = |entry: &Result<DirEntry>| match entry {
        Ok(entry) => entry.file_type().is_ok_and(|kind| kind.is_dir()),
        Err(_) => true,
    };
    Ok(entries(path)?.filter(is_folder))
}

fn entries(path: &Folder) -> Result<impl Iterator<Item = Result<DirEntry>> + use<>> {
    match fs::read_dir(path) {
        Ok(entries) => Ok(Some(entries).into_iter().flatten()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        Err(error) => Err(error),
    }
}

fn below(root: &Folder, path: &Path) -> PathBuf {
    path.parts().fold(root.to_owned(), |folder, part| folder.join(part.as_ref()))
}

fn ignore_missing(done: Result<()>) -> Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Converts an I/O error to an error of the local store.
pub(super) fn failed(error: Error) -> crate::error::Error {
    object_store::Error::Generic { store: "LocalFileSystem", source: error.into() }.into()
}
