//! The archive of a GitHub release, which `cargo binstall` also uses.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use zip::write::SimpleFileOptions;
use zip::{System, ZipWriter};

use super::Contents;
use crate::project;

/// A file in a package.
pub(super) struct Entry<'a> {
    /// Its path in the package.
    pub(super) name: String,
    pub(super) bytes: Cow<'a, [u8]>,
    pub(super) is_program: bool,
}

impl<'a> Entry<'a> {
    /// A file that can be started.
    pub(super) fn program(name: String, bytes: &'a [u8]) -> Self {
        Self { name, bytes: Cow::Borrowed(bytes), is_program: true }
    }

    /// Any other file.
    pub(super) fn file(name: String, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { name, bytes: bytes.into(), is_program: false }
    }
}

/// Writes the archive, and leaves its folder beside it: the workflow lists the crates of the program in there.
pub(super) fn write(contents: &Contents, folder: &Path) -> Result<PathBuf> {
    let platform = contents.platform;
    let inner = platform.folder();
    let mut entries = vec![Entry::program(format!("{inner}/{}", platform.program()), &contents.program)];
    for (name, text) in &contents.texts {
        entries.push(Entry::file(format!("{inner}/{name}"), text.as_bytes()));
    }
    lay_out(folder, &entries)?;
    let archive = folder.join(platform.archive());
    if platform.is_windows() {
        write_zip(&archive, &entries)?;
    } else {
        write_tar(folder, &inner, &platform.archive())?;
    }
    Ok(archive)
}

/// Writes the files below a folder.
pub(super) fn lay_out(folder: &Path, entries: &[Entry<'_>]) -> Result<()> {
    for entry in entries {
        let path = folder.join(&entry.name);
        let failed = || format!("could not write {}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(failed)?;
        }
        fs::write(&path, &entry.bytes).with_context(failed)?;
        if entry.is_program {
            make_executable(&path).with_context(failed)?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Packs `inner` of `folder` into `archive`, relative to the folder.
pub(super) fn write_tar(folder: &Path, inner: &str, archive: &str) -> Result<()> {
    // Relative names, because GNU tar takes `C:` for the name of a machine.
    let mut command = Command::new("tar");
    command.args(["--create", "--gzip", "--file", archive, inner]).current_dir(folder);
    project::run(&mut command)
}

/// Writes the files into a zip archive. The same files give the same bytes, because they all have the same time.
pub(super) fn write_zip(archive: &Path, entries: &[Entry<'_>]) -> Result<()> {
    let failed = || format!("could not write {}", archive.display());
    let mut zip = ZipWriter::new(BufWriter::new(File::create(archive).with_context(failed)?));
    for entry in entries {
        let mode = if entry.is_program { 0o755 } else { 0o644 };
        let options = SimpleFileOptions::DEFAULT.system(System::Unix).unix_permissions(mode);
        zip.start_file(&entry.name, options).with_context(failed)?;
        zip.write_all(&entry.bytes).with_context(failed)?;
    }
    zip.finish().with_context(failed)?.flush().with_context(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::{platform::PLATFORMS, tests::contents};

    #[test]
    fn archive_has_the_program_and_the_licenses_in_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        // A zip archive, because this test must not need the program `tar`.
        let archive = write(&contents(&PLATFORMS[4]), folder.path()).unwrap();
        assert_eq!(archive, folder.path().join("antiphon-x86_64-pc-windows-msvc.zip"));
        let mut zip = zip::ZipArchive::new(File::open(archive).unwrap()).unwrap();
        for name in ["antiphon.exe", "README.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            let name = format!("antiphon-x86_64-pc-windows-msvc/{name}");
            // Installers make a file executable only if it is a regular file with these bits.
            let mode = if name.contains("antiphon.exe") { 0o100_755 } else { 0o100_644 };
            assert_eq!(zip.by_name(&name).unwrap().unix_mode(), Some(mode), "{name}");
            assert!(folder.path().join(&name).is_file(), "{name}");
        }
    }
}
