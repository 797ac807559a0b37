//! Services while one command runs.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::engine::{Engine, Site};
use super::folder::Folder;
use crate::project::Project;

/// Services in use. What was started for a command is stopped when the last command that uses it is over.
#[derive(Debug)]
pub(crate) struct Session {
    folder: PathBuf,
    sites: Vec<Site>,
    /// Shared with the others that use them.
    users: File,
}

impl Session {
    /// Starts those whose variable the caller has not set.
    pub(crate) fn start(project: &Project) -> Result<Self> {
        let is_wanted = |engine: &Engine| {
            let is_set = env::var_os(engine.variable()).is_some();
            if is_set {
                eprintln!("{} is set already", engine.variable());
            }
            !is_set
        };
        let wanted: Vec<Engine> = Engine::ALL.into_iter().filter(is_wanted).collect();
        let mut session = {
            let folder = Folder::lock(&Folder::path(project))?;
            let users = users(&folder.path)?;
            users.lock_shared().context("could not lock the services")?;
            Self { folder: folder.path.clone(), sites: Vec::new(), users }
        };
        // On an error the session ends, and takes along what has started.
        session.sites = Folder::lock(&session.folder)?.up(&wanted, false)?;
        Ok(session)
    }

    /// For the environment of a command; without those the caller has set, which it inherits anyway.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.sites.iter().map(|site| (site.engine.variable(), site.url()))
    }

    /// Fails if a server has ended by itself.
    pub(crate) fn check(&self) -> Result<()> {
        let check = |site: &Site| site.check().with_context(|| format!("{} is gone", site.engine.name()));
        self.sites.iter().try_for_each(check)
    }

    fn end(&self) -> Result<()> {
        let folder = Folder::lock(&self.folder)?;
        self.users.unlock().context("could not unlock the services")?;
        if users(&self.folder)?.try_lock().is_ok() {
            folder.down(|record| !record.kept)?;
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("the services still run: {error:#}; see `cargo xtask services status`");
        }
    }
}

fn users(folder: &Path) -> Result<File> {
    let path = folder.join("users");
    File::create(&path).with_context(|| format!("could not write {}", path.display()))
}
