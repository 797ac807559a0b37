//! `lab fixtures`: the services and models that tests need, until standard input ends.

use std::io;

use anyhow::{Context as _, Result};
use xtask::fixtures::Started;

use crate::models::Models;
use crate::project::Project;
use crate::services::Session;

/// Starts what can be started, prints it as one line of JSON, and stops it in the end.
pub(crate) fn main() -> Result<()> {
    let project = Project::open()?;
    let mut started = Started::default();
    let (mut models, missing) = Models::start(&project);
    started.missing.extend(missing.iter().map(ToString::to_string));
    for (name, value) in models.variables() {
        let value = value.to_str().with_context(|| format!("{name} is not UTF-8: {}", value.display()))?;
        started.variables.insert(name.into(), value.into());
    }
    let services = match Session::start(&project) {
        Ok(services) => Some(services),
        Err(error) => {
            started.missing.push(format!("{error:#}"));
            None
        }
    };
    started
        .variables
        .extend(services.iter().flat_map(Session::variables).map(|(name, url)| (name.into(), url)));
    println!("{}", serde_json::to_string(&started)?);
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    // A test may have failed only because its server is gone.
    models.check()?;
    services.iter().try_for_each(Session::check)
}
