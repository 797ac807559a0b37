//! Starts server processes that share one encryption key.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use tokio::process::{Child, Command};

/// The environment variable from which servers read their encryption keys.
const KEYS: &str = "ANTIPHON_KEYS";

/// The settings that all processes of a server share.
#[derive(Debug)]
pub(super) struct Program {
    folder: PathBuf,
    keys: String,
    /// The folder for copies of programs, on systems that cannot replace a running program.
    copies: Option<tempfile::TempDir>,
}

impl Program {
    /// Creates the settings. The encryption keys come from the environment. If the environment contains no keys, a
    /// random key is used.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let keys = match std::env::var(KEYS) {
            Ok(keys) => keys,
            Err(_) => random_key()?,
        };
        let copies = cfg!(windows).then(tempfile::tempdir).transpose()?;
        Ok(Self { folder: folder.to_owned(), keys, copies })
    }

    /// Returns the command of a new process. `address` is the address to listen on.
    pub(super) fn command(&self, words: &[String], address: Option<&str>) -> std::io::Result<Command> {
        let [program, arguments @ ..] = words else {
            return Err(std::io::Error::other("the command of the server is empty"));
        };
        let mut command = Command::new(self.copy(program)?);
        let filled = |word: &String| match address {
            Some(address) => word.replace("{address}", address),
            None => word.clone(),
        };
        command.args(arguments.iter().map(filled)).current_dir(&self.folder).env(KEYS, &self.keys);
        if let Some(address) = address {
            command.env("ADDRESS", address);
        }
        Ok(command)
    }

    fn copy(&self, program: &str) -> std::io::Result<PathBuf> {
        let (Some(copies), true) = (&self.copies, Path::new(program).is_file()) else {
            return Ok(program.into());
        };
        let copy = tempfile::Builder::new().suffix(".exe").tempfile_in(copies.path())?;
        std::fs::copy(program, copy.path())?;
        Ok(copy.into_temp_path().keep()?)
    }
}

/// A process, and on Unix also the processes that it has started. Dropping a `Group` kills all its processes.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) child: Child,
    /// The ID of the process group.
    #[cfg(unix)]
    id: Option<u32>,
}

impl Group {
    /// Starts a process in a new process group.
    pub(super) fn spawn(command: &mut Command) -> std::io::Result<Self> {
        #[cfg(unix)]
        command.process_group(0);
        let child = command.kill_on_drop(true).spawn()?;
        Ok(Self {
            #[cfg(unix)]
            id: child.id(),
            child,
        })
    }

    /// Sends a signal that requests the processes to end. Returns whether the signal was sent.
    #[cfg(unix)]
    pub(super) fn terminate(&self) -> bool {
        self.signal("-TERM")
    }

    #[cfg(unix)]
    fn signal(&self, signal: &str) -> bool {
        let Some(id) = self.id else { return false };
        let mut kill = std::process::Command::new("kill");
        kill.args([signal, "--", &format!("-{id}")]).stderr(std::process::Stdio::null());
        kill.status().is_ok_and(|status| status.success())
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        // The process group exists as long as at least one of its processes exists.
        self.signal("-KILL");
    }
}

fn random_key() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).context("the operating system returned no random numbers")?;
    Ok(bytes.iter().fold("1=".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
