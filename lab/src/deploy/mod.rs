//! `cargo xtask deploy`: checks the files in `deploy/` with validators.

#[cfg(test)]
mod tests;

use anyhow::Result;

use crate::project::{self, Project};
use crate::python::Python;

/// Installs the validators if they are missing, and runs them.
pub(crate) fn main() -> Result<()> {
    let project = Project::open()?;
    let scripts = project.root.join("lab/conformance/deploy");
    let environment = project.target.join("deploy-python");
    let requirements = scripts.join("requirements.txt");
    let python =
        Python::with_packages(&environment, &requirements, || eprintln!("installing the validators"))?;
    project::run(python.script(&scripts.join("check.py")).arg(project.root.join("deploy")))
}
