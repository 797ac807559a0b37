//! Python as a test tool: virtual environments with pinned packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::project;

const OLDEST: (u32, u32) = (3, 11);

/// An interpreter with packages of its own.
#[derive(Debug, Clone)]
pub(crate) struct Python {
    executable: PathBuf,
}

impl Python {
    /// The virtual environment `folder` with the packages that the file `requirements` pins.
    ///
    /// It is made when it is missing, or was made from other requirements or for another Python. Then `announce`
    /// says so; what it returns is kept until that is done.
    pub(crate) fn with_packages<N>(
        folder: &Path,
        requirements: &Path,
        announce: impl FnOnce() -> N,
    ) -> Result<Self> {
        let wanted = read(requirements)?;
        let python = Self { executable: folder.join("bin").join("python") };
        project::make_once(folder, &format!("Python {}\n{wanted}", version()?), || {
            let _note = announce();
            run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
            // What is started twice a day need not be compiled beforehand.
            run(python.pip().args(["--no-compile", "--requirement"]).arg(requirements))
        })?;
        Ok(python)
    }

    /// Unpacks the packages that `requirements` pins into `folder`, without what they depend on.
    pub(crate) fn unpack<N>(
        &self,
        folder: &Path,
        requirements: &Path,
        announce: impl FnOnce() -> N,
    ) -> Result<()> {
        project::make_once(folder, &read(requirements)?, || {
            let _note = announce();
            run(self
                .pip()
                .args(["--no-compile", "--no-deps", "--target"])
                .arg(folder)
                .arg("--requirement")
                .arg(requirements))
        })
    }

    /// A command that runs `script`.
    pub(crate) fn script(&self, script: &Path) -> Command {
        let mut command = self.command();
        command.arg(script);
        command
    }

    fn pip(&self) -> Command {
        let mut command = self.command();
        // Wheels only: a package that had to be compiled would take minutes, and a compiler.
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        command.args(["--only-binary", ":all:"]);
        command
    }

    /// A command that runs the interpreter.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        // Scripts of ours leave nothing beside themselves.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

/// Runs `command` without a word; what it wrote is part of the error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = project::show(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("could not start `{shown}`"))?;
    if !output.status.success() {
        let written = [output.stdout, output.stderr].concat();
        bail!(
            "`{shown}` failed ({}); it wrote:\n{}",
            output.status,
            String::from_utf8_lossy(&written).trim()
        );
    }
    Ok(())
}

/// The version of a `python3` that can make virtual environments.
fn version() -> Result<String> {
    let (major, minor) = OLDEST;
    let install = format!(
        "install Python {major}.{minor} or newer with venv (on Debian: `apt-get install python3 python3-venv`)"
    );
    let program = "import sys; print(*sys.version_info[:2], sep='.', flush=True); import ensurepip";
    let Ok(output) = Command::new("python3").args(["-c", program]).output() else {
        bail!("`python3` was not found; {install}");
    };
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(is_new_enough(&version), "`python3` is Python {version}; {install}");
    ensure!(output.status.success(), "`python3` cannot make virtual environments; {install}");
    Ok(version)
}

fn is_new_enough(version: &str) -> bool {
    let parsed =
        version.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parsed.is_some_and(|version: (u32, u32)| version >= OLDEST)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(is_new_enough("3.11") && is_new_enough("3.20") && is_new_enough("4.0"));
        assert!(!is_new_enough("3.9") && !is_new_enough("2.7") && !is_new_enough(""));
    }

    #[test]
    fn what_a_failed_command_wrote_is_in_the_error() {
        let error = run(project::cargo().arg("no-such-chore")).unwrap_err().to_string();
        assert!(error.contains("no-such-chore` failed") && error.contains("no such command"), "{error}");
    }
}
