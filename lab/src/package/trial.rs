//! Installs each package in an empty folder, and answers a first question with it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::npm::Tarballs;
use super::{Contents, Steps};
use crate::project;

const PYTHON: &str = if cfg!(windows) { "python" } else { "python3" };
const NPM: &str = if cfg!(windows) { "npm.cmd" } else { "npm" };

/// The maximum time after a signal until the program ends.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Tries the archive.
pub(super) fn archive(steps: &mut Steps, contents: &Contents, archive: &Path, folder: &Path) -> Result<()> {
    empty(folder)?;
    let inner = folder.join(contents.platform.folder());
    steps.run("archive: unpack", || unpack(archive, folder))?;
    let program = inner.join(contents.platform.program());
    let installed = Installed { program, path: vec![inner.clone()], folder: inner, server: "antiphon" };
    installed.answers(steps, "archive", &contents.version)
}

fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    // A relative name, because GNU tar takes `C:` for the name of a machine.
    let name = archive.file_name().context("the archive has no name")?;
    fs::copy(archive, folder.join(name))?;
    if cfg!(windows) {
        return project::run(
            Command::new(PYTHON).args(["-m", "zipfile", "--extract"]).arg(name).arg(".").current_dir(folder),
        );
    }
    project::run(Command::new("tar").args(["--extract", "--gzip", "--file"]).arg(name).current_dir(folder))
}

/// Tries the wheel with Python and nothing else.
pub(super) fn wheel(steps: &mut Steps, contents: &Contents, wheel: &Path, folder: &Path) -> Result<()> {
    if !project::installed(PYTHON) {
        let reason = "the wheel was not tried: Python is missing; `apt-get install python3 python3-venv`";
        return missing(steps, "wheel", reason);
    }
    empty(folder)?;
    let environment = folder.join("venv");
    steps.run("wheel: create an empty environment", || {
        project::run(Command::new(PYTHON).args(["-m", "venv"]).arg(&environment))
            .context("Python cannot create an environment; `apt-get install python3-venv`")
    })?;
    let bin = environment.join(if cfg!(windows) { "Scripts" } else { "bin" });
    steps.run("wheel: install", || {
        let options = ["--no-index", "--no-deps", "--quiet", "--disable-pip-version-check"];
        let mut pip = Command::new(bin.join(if cfg!(windows) { "python.exe" } else { "python" }));
        project::run(pip.args(["-m", "pip", "install"]).args(options).arg(wheel))
    })?;
    let program = bin.join(contents.platform.program());
    let installed = Installed { program, path: vec![bin], folder: folder.into(), server: "antiphon" };
    installed.answers(steps, "wheel", &contents.version)
}

/// Tries the npm packages with Node and nothing else.
pub(super) fn npm(steps: &mut Steps, contents: &Contents, npm: &Tarballs, folder: &Path) -> Result<()> {
    if !project::installed(NPM) {
        let reason = "the npm packages were not tried: Node.js is missing; `apt-get install nodejs npm`";
        return missing(steps, "npm", reason);
    }
    empty(folder)?;
    // npm looks for a project in the folders above, if this one has none.
    fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
    steps.run("npm: install", || {
        let options = ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error"];
        let mut command = Command::new(NPM);
        command.args(options).arg(&npm.launcher).arg(&npm.program).current_dir(folder);
        // An own cache, so that nothing comes from an earlier installation.
        project::run(command.env("npm_config_cache", folder.join("cache")).stdout(Stdio::null()))
    })?;
    let bin = folder.join("node_modules").join(".bin");
    let node = project::read(Command::new("node").args(["--print", "process.execPath"]))?;
    let node = Path::new(node.trim()).parent().context("the path of Node has no folder")?.to_owned();
    let installed = Installed {
        program: bin.join(if cfg!(windows) { "antiphon.cmd" } else { "antiphon" }),
        path: vec![bin, node],
        folder: folder.into(),
        server: "node node_modules/antiphon/bin/antiphon.js",
    };
    installed.answers(steps, "npm", &contents.version)?;
    steps.run("npm: exit code", || {
        let status = installed.command().args(["serve", "zebra"]).stderr(Stdio::null()).status()?;
        ensure!(status.code() == Some(2), "an unknown example ended with {status}, not with 2");
        Ok(())
    })?;
    // Windows has no signal that one process can send to another.
    if cfg!(unix) {
        steps.run("npm: interrupt", || installed.is_interrupted())?;
    }
    Ok(())
}

/// In CI nothing may be missing.
fn missing(steps: &mut Steps, name: &str, reason: &str) -> Result<()> {
    ensure!(env::var_os("CI").is_none(), "{reason}");
    steps.skip(name, reason);
    Ok(())
}

fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))
}

/// A package that is installed.
struct Installed {
    program: PathBuf,
    /// The only folders in which programs are found.
    path: Vec<PathBuf>,
    /// The working folder.
    folder: PathBuf,
    /// The command line that starts the CLI as a server.
    server: &'static str,
}

impl Installed {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let path: OsString = env::join_paths(&self.path).unwrap_or_default();
        command.current_dir(&self.folder).env("PATH", path).env("ANTIPHON_CONFIG_DIR", &self.folder);
        // Nobody answers questions in the terminal.
        command.env_remove("ANTIPHON_TOKEN").stdin(Stdio::null());
        command
    }

    /// Asks for the version, and answers a question of the example `hello`.
    fn answers(&self, steps: &mut Steps, name: &str, version: &str) -> Result<()> {
        steps.run(&format!("{name}: version"), || {
            let printed = project::read(self.command().arg("--version"))?;
            let printed = printed.trim();
            ensure!(printed == format!("antiphon {version}"), "`antiphon --version` printed `{printed}`");
            Ok(())
        })?;
        steps.run(&format!("{name}: first question"), || {
            fs::write(self.folder.join("answers.json"), "{\"name\": {\"name\": \"Ada\"}}\n")?;
            let server = format!("{} serve hello", self.server);
            let call = ["call", "--answers", "answers.json", &server, "greet"];
            let printed = project::read(self.command().args(call))?;
            ensure!(printed.trim() == "Hello, Ada!", "the call printed `{}`", printed.trim());
            Ok(())
        })
    }

    /// Interrupts the script that starts the CLI. The CLI must end, and the script with its exit code.
    fn is_interrupted(&self) -> Result<()> {
        let mut command = self.command();
        command.args(["serve", "hello"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().context("could not start the script")?;
        // Both ends stay open until the end: without its input the server would end by itself.
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stderr.take().context("stderr is piped")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        project::run(Command::new("kill").args(["-INT", &child.id().to_string()]))?;
        let status = wait(&mut child, INTERRUPT_TIMEOUT)?;
        drop((input, output));
        ensure!(line.starts_with("serving hello"), "the server printed `{}`", line.trim());
        ensure!(status.code() == Some(130), "an interrupted server ended with {status}, not with 130");
        Ok(())
    }
}

/// Waits for a process, and ends it if it takes too long.
fn wait(child: &mut Child, timeout: Duration) -> Result<ExitStatus> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            bail!("the process did not end within {timeout:?}");
        }
        thread::sleep(Duration::from_millis(20));
    }
}
