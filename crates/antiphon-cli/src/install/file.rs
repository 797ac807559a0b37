//! Reads and replaces the configuration file of a host.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use super::{
    document::{Document, Format},
    host::Scope,
};

/// The configuration file of a host.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    /// The path that the host reads.
    path: PathBuf,
    /// The target of the link if `path` is a symbolic link. If `path` is not a symbolic link, `target` is equal to
    /// `path`.
    target: PathBuf,
    /// The text of the file, or `None` if the file does not exist.
    text: Option<String>,
}

impl ConfigFile {
    pub(crate) fn read(path: PathBuf) -> Result<Self> {
        // A rename would replace the symbolic link and not the linked file, so the edit needs the path of the linked
        // file.
        let target = if path.is_symlink() {
            path.canonicalize().with_context(|| unreadable(&path))?
        } else {
            path.clone()
        };
        let text = text(&target).with_context(|| unreadable(&path))?;
        Ok(Self { path, target, text })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn exists(&self) -> bool {
        self.text.is_some()
    }

    /// Returns whether the folder of the file exists. If the folder does not exist, the host was never started.
    pub(crate) fn has_folder(&self) -> bool {
        self.target.parent().is_some_and(Path::is_dir)
    }

    pub(crate) fn document(&self, format: Format) -> Result<Document> {
        let text = self.text.as_deref().unwrap_or_default();
        match Document::parse(format, text) {
            Ok(document) => Ok(document),
            Err(why) => {
                bail!("{} is not valid: {why}; correct the file, and try again", self.path.display())
            }
        }
    }

    /// Replaces the file atomically, with the same permissions.
    pub(crate) fn write(&self, text: &str, scope: Scope) -> Result<()> {
        let shown = self.path.display();
        let unwritable = || format!("{shown} cannot be written");
        let folder = self.target.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).with_context(unwritable)?;
        let mut new = temporary(folder, scope).with_context(unwritable)?;
        new.write_all(text.as_bytes()).with_context(unwritable)?;
        if self.exists() {
            let permissions = fs::metadata(&self.target).with_context(unwritable)?.permissions();
            if permissions.readonly() {
                bail!("{shown} cannot be written: the file is read-only; make it writable first");
            }
            fs::set_permissions(new.path(), permissions).with_context(unwritable)?;
        }
        new.as_file().sync_all().with_context(unwritable)?;
        // Hosts also write this file. If a host has changed the file meanwhile, a rename would discard the change.
        if self::text(&self.target).with_context(unwritable)? != self.text {
            bail!("{shown} was not changed: another program wrote it at the same time; try again");
        }
        new.persist(&self.target).map_err(io::Error::from).with_context(unwritable)?;
        Ok(())
    }
}

fn unreadable(path: &Path) -> String {
    format!("{} cannot be read", path.display())
}

fn text(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a temporary file. If the configuration file is new, only the user can read the file, because the file can
/// contain secrets. A file in a project is readable for all users of the folder.
fn temporary(folder: &Path, scope: Scope) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".antiphon-");
    #[cfg(unix)]
    if scope == Scope::Project {
        use std::os::unix::fs::PermissionsExt as _;
        // The operating system removes the permissions in the umask.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    #[cfg(not(unix))]
    let _ = scope;
    builder.tempfile_in(folder)
}
