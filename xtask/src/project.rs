//! Where things are in this workspace, and how its binaries are built.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// The workspace as cargo describes it.
#[derive(Debug)]
pub struct Project {
    /// The folder that holds the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// Where cargo puts what it builds; reports and installed tools of ours go there too.
    pub target: PathBuf,
    /// The whole answer of `cargo metadata --no-deps`.
    pub metadata: Value,
}

/// A cargo profile.
#[derive(Debug, Clone, Copy)]
pub enum Profile {
    /// `target/debug`.
    Dev,
    /// `target/release`.
    Release,
    /// One that the workspace defines, in a folder of its name.
    Named(&'static str),
}

impl Project {
    /// Asks cargo for the layout.
    pub fn open() -> Result<Self> {
        let output = cargo()
            .args(["metadata", "--format-version=1", "--no-deps"])
            .stderr(Stdio::inherit())
            .output()
            .context("could not start `cargo metadata`")?;
        ensure!(output.status.success(), "`cargo metadata` failed; run xtask inside the workspace");
        let metadata: Value =
            serde_json::from_slice(&output.stdout).context("`cargo metadata` was not JSON")?;
        let folder = |key: &str| {
            metadata[key]
                .as_str()
                .map(PathBuf::from)
                .with_context(|| format!("`cargo metadata` has no `{key}`"))
        };
        Ok(Self { root: folder("workspace_root")?, target: folder("target_directory")?, metadata })
    }

    /// The report nextest's profile `ci` writes: always below the workspace, wherever cargo builds.
    pub fn junit(&self) -> PathBuf {
        self.root.join("target").join("nextest").join("ci").join("junit.xml")
    }

    /// Builds `bin` of `package` and returns the path of the executable.
    pub fn build(&self, package: &str, bin: &str, profile: Profile) -> Result<PathBuf> {
        ensure!(
            self.packages().any(|it| it["name"] == package),
            "the workspace has no package `{package}`, whose binary `{bin}` is needed here"
        );
        let mut command = cargo();
        command.args(["build", "--quiet", "--bin", bin]).current_dir(&self.root);
        let folder = match profile {
            // As the tests have it, with all features and those that tests add: what they built is then there. With
            // the features of its package alone, much would be built once more, DataFusion too. Any test will do.
            Profile::Dev => {
                command.args(["--workspace", "--all-features", "--test", "checkout"]);
                "debug"
            }
            Profile::Release => {
                command.args(["--package", package, "--release"]);
                command.args(self.features_of(package, bin));
                "release"
            }
            Profile::Named(name) => {
                command.args(["--package", package, "--profile", name]);
                command.args(self.features_of(package, bin));
                name
            }
        };
        eprintln!("building {bin} ({folder})");
        run(&mut command)?;
        Ok(self.target.join(folder).join(format!("{bin}{}", env::consts::EXE_SUFFIX)))
    }

    /// The features that `bin` requires, and no others of its package: a program that is measured has only its own
    /// dependencies. Nothing if it requires none.
    fn features_of(&self, package: &str, bin: &str) -> Vec<String> {
        let packages = self.packages().filter(|it| it["name"] == package);
        let targets = packages.filter_map(|it| it["targets"].as_array()).flatten();
        let target = targets.filter(|it| it["name"] == bin && it["kind"][0] == "bin");
        let required = target.filter_map(|it| it["required-features"].as_array()).flatten();
        let required: Vec<&str> = required.filter_map(Value::as_str).collect();
        if required.is_empty() {
            return Vec::new();
        }
        vec!["--no-default-features".into(), "--features".into(), required.join(",")]
    }

    fn packages(&self) -> impl Iterator<Item = &Value> {
        self.metadata["packages"].as_array().into_iter().flatten()
    }
}

/// The cargo that runs us, so that a toolchain override is kept.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    without_our_package(&mut command);
    command
}

/// Keeps to ourselves what cargo told us of our own package. The build script of `ring` looks at it: with it, whoever
/// builds by hand and by us in turn has all that stands on `ring` built each time, DataFusion too.
pub fn without_our_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
}

/// Runs `command` with our own output; fails with what was run.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("could not start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs `command` and returns what it wrote on stdout.
pub fn read(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("could not start `{shown}`"))?;
    ensure!(output.status.success(), "`{shown}` failed ({})", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` did not print UTF-8"))
}

/// Whether `program` can be started at all.
pub fn installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Installs the locked npm packages of `folder`, unless they already are.
///
/// Returns the folder of their executables.
pub fn npm_install(folder: &Path) -> Result<PathBuf> {
    let lock = folder.join("package-lock.json");
    let wanted =
        std::fs::read_to_string(&lock).with_context(|| format!("could not read {}", lock.display()))?;
    // A copy of the lock tells which packages are installed; npm's own hidden lock is in another form.
    let stamp = folder.join("node_modules").join(".installed-lock.json");
    if std::fs::read_to_string(&stamp).ok().as_deref() != Some(&wanted) {
        ensure!(
            installed("npm"),
            "`npm` was not found; install Node.js (any version, Node 22 comes with the packages)"
        );
        eprintln!("installing npm packages of {}", folder.display());
        run(Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(folder)
            .stdout(Stdio::null()))?;
        std::fs::write(&stamp, wanted).with_context(|| format!("could not write {}", stamp.display()))?;
    }
    Ok(folder.join("node_modules").join(".bin"))
}

/// Makes `folder` with `make`, unless it was made from the same `inputs` before.
pub fn make_once(folder: &Path, inputs: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
    // Written last: a folder half made has none.
    let stamp = folder.join(".made-from");
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == inputs) {
        return Ok(());
    }
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
    make()?;
    std::fs::write(&stamp, inputs).with_context(|| format!("could not write {}", stamp.display()))
}

/// `PATH` with `first` before everything else.
pub fn path_with(first: &Path) -> Result<std::ffi::OsString> {
    let rest = env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(first.to_path_buf()).chain(env::split_paths(&rest));
    env::join_paths(all).context("PATH cannot hold this folder's name")
}

/// The command as one would type it.
pub fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
