//! `cargo xtask reference`: the pages that enumerate, written from the sources so that they cannot be out of date.

mod codes;
mod configuration;
mod environment;
mod errors;
mod features;
mod wire;

use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::project::Project;
use crate::source::tree::Tree;

const FOLDER: &str = "docs/reference";
/// The crates that speak JSON-RPC.
const SPEAKING: [&str; 4] = ["antiphon", "antiphon-host", "antiphon-http", "antiphon-transport"];

/// Options of `cargo xtask reference`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write nothing; fail if a page is not what the sources say.
    #[arg(long)]
    check: bool,
}

/// A file below the folder of the reference.
struct Page {
    name: &'static str,
    text: String,
}

/// Writes the pages, or compares them.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    if options.check {
        println!("{}", check(&project)?);
        return Ok(());
    }
    for page in pages(&project)? {
        let file = project.root.join(FOLDER).join(page.name);
        if fs::read_to_string(&file).is_ok_and(|text| text == page.text) {
            continue;
        }
        fs::write(&file, &page.text).with_context(|| format!("could not write {}", file.display()))?;
        println!("wrote {FOLDER}/{}", page.name);
    }
    // Building it here would make every run of this as long as a build of everything.
    println!(
        "{FOLDER}/cli.md is the command's own: UPDATE_REFERENCE=1 cargo nextest run -p antiphon-cli reference"
    );
    Ok(())
}

/// How many pages there are, if all are what the sources say.
pub(crate) fn check(project: &Project) -> Result<String> {
    let pages = pages(project)?;
    let differs = |page: &&Page| {
        fs::read_to_string(project.root.join(FOLDER).join(page.name)).ok().as_ref() != Some(&page.text)
    };
    let stale: Vec<&str> = pages.iter().filter(differs).map(|it| it.name).collect();
    ensure!(
        stale.is_empty(),
        "these pages of {FOLDER} are not what the sources say: {}; run `cargo xtask reference`",
        stale.join(", ")
    );
    Ok(format!("{} pages", pages.len()))
}

fn pages(project: &Project) -> Result<Vec<Page>> {
    let crates = crates(project)?;
    let (mut command, mut libraries) = (None, Vec::new());
    for name in &crates {
        let folder = project.root.join("crates").join(name);
        let tree = Tree::read(name, &folder)?;
        // The command is a program: nobody calls it from code.
        if folder.join("src/lib.rs").exists() {
            libraries.push((name, tree));
        } else {
            command = Some(tree);
        }
    }
    let command = command.context("there is no crate of a command")?;
    let deployed = Tree::read("deployed", &project.root.join("examples/deployed"))?;
    let trees: Vec<&Tree> = libraries.iter().map(|(_, tree)| tree).collect();

    let mut configuration = configuration::HEAD.to_owned();
    let mut errors = errors::HEAD.to_owned();
    for (name, tree) in &libraries {
        configuration.push_str(&configuration::section(name, tree));
        errors.push_str(&errors::section(name, tree));
    }
    configuration.push_str(&environment::section(&command, &deployed)?);
    let speaking: Vec<&Tree> = libraries
        .iter()
        .filter(|(name, _)| SPEAKING.contains(&name.as_str()))
        .map(|(_, tree)| tree)
        .collect();
    errors.push_str(&codes::section(&speaking)?);
    errors.push_str(&errors::exit_codes(&command)?);
    Ok(vec![
        Page { name: "configuration.md", text: configuration },
        Page { name: "errors.md", text: errors },
        Page { name: "features.md", text: features::page(project, &crates)? },
        Page { name: "wire.md", text: wire::page(project, &trees)? },
    ])
}

/// The names of our crates, which are those of their folders.
fn crates(project: &Project) -> Result<Vec<String>> {
    let folder = project.root.join("crates");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("could not read {}", folder.display()))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
