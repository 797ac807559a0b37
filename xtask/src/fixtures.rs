//! The services and models that tests need, while `lab fixtures` runs.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::lab;

/// The line that `lab fixtures` prints when everything that can start has started.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Started {
    /// For the environment of tests, without those that the caller has set.
    pub variables: BTreeMap<String, String>,
    /// What could not be started, and why.
    pub missing: Vec<String>,
}

/// A `lab fixtures` that runs. It stops its servers when its standard input ends, so also when this process dies.
#[derive(Debug)]
pub struct Fixtures {
    child: Child,
    /// What it has started.
    pub started: Started,
}

impl Fixtures {
    /// Starts the services and the models, and waits until they are ready.
    ///
    /// # Errors
    ///
    /// Returns an error if `lab` does not build, or ends early.
    pub fn start() -> Result<Self> {
        let mut command = lab::command();
        command.arg("fixtures").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("could not start cargo")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("stdout is piped")?).read_line(&mut line)?;
        let mut fixtures = Self { child, started: Started::default() };
        if line.is_empty() {
            fixtures.stop()?;
        }
        fixtures.started =
            serde_json::from_str(&line).context("`lab fixtures` did not say what it started")?;
        Ok(fixtures)
    }

    /// Stops the services and the models.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them had ended by itself.
    pub fn stop(&mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait().context("could not wait for `lab fixtures`")?;
        ensure!(status.success(), "`lab fixtures` failed ({status})");
        Ok(())
    }
}

impl Drop for Fixtures {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("{error:#}");
        }
    }
}
