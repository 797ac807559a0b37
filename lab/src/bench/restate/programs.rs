//! Restate's server, from npm, and our service for it, built from `lab/bench/restate`.

use std::env::consts::{ARCH, EXE_SUFFIX, OS};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::project::{self, Project};

/// What has to be there before anything is measured.
#[derive(Debug)]
pub(in crate::bench) struct Programs {
    pub(super) server: PathBuf,
    pub(super) service: PathBuf,
    /// Where the server's data and the log of both are.
    pub(super) scratch: PathBuf,
    /// The server's release.
    pub(in crate::bench) version: String,
}

impl Programs {
    /// Installs and builds what is missing.
    pub(in crate::bench) fn prepare(project: &Project) -> Result<Self> {
        let folder = project.root.join("lab").join("bench").join("restate");
        let package = package(OS, ARCH)?;
        project::npm_install(&folder)?;
        Ok(Self {
            server: folder.join("node_modules").join(&package).join("bin").join("restate-server"),
            service: build(&folder)?,
            scratch: project.target.join("bench").join("restate"),
            version: pinned(&folder, &package)?,
        })
    }
}

/// The npm package for a system. There is one that picks it, but it also reports who installs it.
fn package(system: &str, processor: &str) -> Result<String> {
    let (system, processor) = match (system, processor) {
        ("linux", "x86_64") => ("linux", "x64"),
        ("linux", "aarch64") => ("linux", "arm64"),
        ("macos", "x86_64") => ("darwin", "x64"),
        ("macos", "aarch64") => ("darwin", "arm64"),
        _ => bail!("there is no Restate server for {system} on {processor}"),
    };
    Ok(format!("@restatedev/restate-server-{system}-{processor}"))
}

fn pinned(folder: &Path, package: &str) -> Result<String> {
    let text = fs::read_to_string(folder.join("package.json"))?;
    let json: Value = serde_json::from_str(&text).context("package.json is not JSON")?;
    let version = json["optionalDependencies"][package].as_str();
    version.map(str::to_owned).with_context(|| format!("`{package}` is not pinned"))
}

/// Builds into a folder of its own, which outlives a `cargo clean` of the workspace.
fn build(folder: &Path) -> Result<PathBuf> {
    let target = folder.join("target");
    eprintln!("building restate-bench (release); the first time takes minutes");
    let mut command = project::cargo();
    command.args(["build", "--quiet", "--release", "--locked", "--target-dir"]).arg(&target);
    project::run(command.current_dir(folder))?;
    Ok(target.join("release").join(format!("restate-bench{EXE_SUFFIX}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_with_a_server_has_it_pinned() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench").join("restate");
        let pin = |system, processor| pinned(&folder, &package(system, processor).unwrap()).unwrap();
        let first = pin("linux", "x86_64");
        for (system, processor) in [("linux", "aarch64"), ("macos", "x86_64"), ("macos", "aarch64")] {
            assert_eq!(pin(system, processor), first);
        }
        package("windows", "x86_64").unwrap_err();
    }
}
