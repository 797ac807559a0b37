//! The files that `antiphon new` and `antiphon pack` write, checked with tools of other makers: `skillsaw` has the
//! schemas of the MCP Registry, and `mcpb` is the official tool for bundles.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::command::Tried;
use super::peers::{Runtime, Tools};
use super::{LIMIT, drive};

/// The bundle that is checked.
const BUNDLE: &str = "desk.mcpb";

/// Writes the files in `folder`, and checks them.
pub(super) fn run(tools: &Tools, antiphon: &Path, root: &Path, folder: &Path) -> Result<Tried> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder)?;
    let formats = Formats { tools, antiphon, root, folder };
    let mut tried = Tried::default();
    for (what, outcome) in [
        ("server.json over stdio", formats.server("desk", &[])),
        ("server.json over HTTP", formats.server("desk-http", &["--http"])),
        ("a server.json with a mistake", formats.mistake()),
        ("a bundle", formats.bundle()),
    ] {
        match outcome {
            Ok(()) => tried.passed += 1,
            Err(error) => tried.failures.push(format!("{what}: {error:#}")),
        }
    }
    Ok(tried)
}

struct Formats<'a> {
    tools: &'a Tools,
    antiphon: &'a Path,
    root: &'a Path,
    folder: &'a Path,
}

impl Formats<'_> {
    /// A new project can be published in the MCP Registry.
    fn server(&self, name: &str, options: &[&str]) -> Result<()> {
        let mut new = Command::new(self.antiphon);
        new.args(["new", name, "--owner", "ada"]).args(options).arg("--path").arg(self.root);
        self.drive(&mut new, &format!("{name}-new"))?;
        let readme = fs::read_to_string(self.folder.join(name).join("README.md"))?;
        let token = format!("mcp-name: io.github.ada/{name}");
        ensure!(readme.contains(&token), "the README does not contain `{token}`, which the registry reads");
        self.lint(name)
    }

    /// The check can fail.
    fn mistake(&self) -> Result<()> {
        let project = self.folder.join("mistake");
        fs::create_dir(&project)?;
        let text = fs::read_to_string(self.folder.join("desk").join("server.json"))?;
        fs::write(project.join("server.json"), text.replace("\"cargo\"", "\"crates\""))?;
        ensure!(self.lint("mistake").is_err(), "an unknown registry was accepted");
        Ok(())
    }

    fn lint(&self, project: &str) -> Result<()> {
        let mut lint = self.tools.module("skillsaw");
        self.drive(lint.args(["lint", project]), &format!("{project}-lint")).map(drop)
    }

    /// A bundle can be unpacked, and its manifest is valid.
    fn bundle(&self) -> Result<()> {
        let program = ["/bin/true", "/usr/bin/true"].map(PathBuf::from).into_iter().find(|it| it.is_file());
        let mut pack = Command::new(self.antiphon);
        pack.args(["pack", "--out"]).arg(self.folder.join(BUNDLE)).arg("--binary");
        pack.arg(program.context("there is no program to pack")?).current_dir(self.folder.join("desk"));
        drive(&mut pack, &self.folder.join("pack.log"), LIMIT)?;
        self.mcpb(&["unpack", BUNDLE, "unpacked"])?;
        self.mcpb(&["validate", "unpacked/manifest.json"])?;
        let info = self.mcpb(&["info", BUNDLE])?;
        ensure!(info.contains(BUNDLE), "`mcpb info` printed {info:?}");
        Ok(())
    }

    fn mcpb(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.tools.script(Runtime::Node, &self.tools.bin.join("mcpb"));
        self.drive(command.args(arguments), &format!("mcpb-{}", arguments[0]))
    }

    fn drive(&self, command: &mut Command, log: &str) -> Result<String> {
        drive(command.current_dir(self.folder), &self.folder.join(log).with_extension("log"), LIMIT)
    }
}
