//! Starts server processes with the same encryption key.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use tokio::process::Command;

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
    /// Creates the settings, with the encryption keys from the environment or a random key.
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
        command.kill_on_drop(true);
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

fn random_key() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).context("the operating system returned no random numbers")?;
    Ok(bytes.iter().fold("1=".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
