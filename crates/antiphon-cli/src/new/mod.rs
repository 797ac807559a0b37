//! `antiphon new`: creates a project.

mod name;
mod project;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;

use self::project::Project;
use crate::{
    exit::{Misused, Outcome},
    global::App,
    print,
};

/// Whether Antiphon is on crates.io. If Antiphon is not on crates.io, a project needs a local copy of the source.
const PUBLISHED: bool = false;

/// Create a project: a server, a test and a Dockerfile.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  antiphon new hello --path ../antiphon && cd hello && cargo test
  antiphon new weather --path ../antiphon --http

Antiphon is not on crates.io yet: until then, `--path` is needed.")]
pub(crate) struct New {
    /// The folder to create. Its last part is the project's name.
    #[arg(value_name = "NAME")]
    folder: PathBuf,
    /// Serve over HTTP [default: standard input and output].
    #[arg(long)]
    http: bool,
    /// Set the GitHub account in the server's name for the MCP Registry [default: OWNER, which you replace later].
    #[arg(long, default_value = "OWNER", hide_default_value = true)]
    owner: String,
    /// Build with the Antiphon source in this folder instead of crates.io.
    #[arg(long, value_name = "FOLDER")]
    path: Option<PathBuf>,
}

impl New {
    pub(crate) fn run(self, app: &App) -> Result<Outcome> {
        let name = self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        name::check(&name).map_err(Misused)?;
        name::check_owner(&self.owner).map_err(Misused)?;
        let folder = std::path::absolute(&self.folder)?;
        if folder.exists() && fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some()) {
            let message = format!("{} exists and is not empty; choose another name", self.folder.display());
            return Err(Misused(message).into());
        }
        if !PUBLISHED && self.path.is_none() {
            let message =
                "Antiphon is not on crates.io yet; pass `--path` with the folder of Antiphon's source";
            return Err(Misused(message.into()).into());
        }
        let path = self.path.as_deref().map(|path| source(path, &folder)).transpose()?;
        let project = Project { name: &name, http: self.http, owner: &self.owner, path: path.as_deref() };
        let files = project.files();
        for (file, text) in &files {
            let file = folder.join(file);
            let unwritable = || format!("{} cannot be written", file.display());
            if let Some(parent) = file.parent() {
                fs::create_dir_all(parent).with_context(unwritable)?;
            }
            fs::write(&file, text).with_context(unwritable)?;
        }
        if app.json {
            let names: Vec<&str> = files.iter().map(|(file, _)| *file).collect();
            let made = json!({"folder": folder.display().to_string(), "files": names});
            print::json(&format!("{made:#}"));
            return Ok(Outcome::Done);
        }
        let call = if self.http { "cargo run" } else { "antiphon call \"cargo run --quiet\" greet" };
        eprintln!("created {} in {}", name, self.folder.display());
        eprintln!("next: cd {}", shell_words::quote(&self.folder.to_string_lossy()));
        eprintln!("      cargo test");
        eprintln!("      {call}");
        Ok(Outcome::Done)
    }
}

/// Returns the path of Antiphon's source, relative to the project's folder.
fn source(path: &Path, project: &Path) -> Result<PathBuf> {
    let found = path.join("crates/antiphon/Cargo.toml").is_file();
    let source = path.canonicalize().ok().filter(|_| found).ok_or_else(|| {
        let path = path.display();
        Misused(format!("{path} does not contain Antiphon's source: the folder `crates/antiphon` is missing"))
    })?;
    // Both paths must be canonical. If only one of the paths is resolved through links, the paths share no prefix.
    let (parent, name) = (project.parent().unwrap_or(project), project.file_name().unwrap_or_default());
    let project = parent.canonicalize().unwrap_or_else(|_| parent.to_owned()).join(name);
    Ok(project::relative(&project, &source))
}
