//! `cargo xtask fetch`: the packages of other projects that the other commands install when they need them.

use anyhow::Result;

use crate::hosts;
use crate::interop::Tools;
use crate::project::{self, Project};
use crate::python::Python;

/// Installs them. A command that needs more installs it later.
pub(crate) fn main() -> Result<()> {
    let project = Project::open()?;
    let conformance = project.root.join("lab").join("conformance");
    for folder in ["suite", "auth", "studio", "viewer", "asking"] {
        project::npm_install(&conformance.join(folder))?;
    }
    Tools::install(&project)?;
    hosts::install(&project)?;
    for (environment, folder) in [("deploy-python", "deploy"), ("results-fuzz/python", "results")] {
        let requirements = conformance.join(folder).join("requirements.txt");
        Python::with_packages(&project.target.join(environment), &requirements, || {
            eprintln!("installing the Python packages of {}", requirements.display());
        })?;
    }
    Ok(())
}
