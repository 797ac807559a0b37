//! `cargo xtask package`: the packages with which users get the `antiphon` CLI without a compiler.

mod archive;
mod npm;
mod platform;
mod trial;
mod wheel;

use std::collections::BTreeMap;
use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use self::platform::Platform;
use crate::project::{Profile, Project};
use crate::table::Table;

/// The package that has the program.
const PACKAGE: &str = "antiphon-cli";

/// The name of the program, of the wheel, and of the npm package.
const NAME: &str = "antiphon";

/// The maximum size of a release archive.
const MAX_ARCHIVE_BYTES: u64 = 30_000_000;

/// Options of `cargo xtask package`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Install each package in an empty folder, and answer a first question with it.
    #[arg(long = "try")]
    tries: bool,
    /// Pack this program [default: build one with the profile `dist`].
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Pack the program that the tests use. It is built already, and its packages are large.
    #[arg(long, conflicts_with = "binary")]
    dev: bool,
}

/// Writes the packages of this platform, and tries them if asked to. Stops at the first step that fails.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let platform = Platform::of_this_machine()?;
    let mut steps = Steps::new();
    let program = steps.run("program", || program(&project, options))?;
    let contents = Contents::read(&project, platform, &program)?;
    let folder = project.target.join("package");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("could not remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("could not create {}", folder.display()))?;

    let archive = steps.run("archive", || archive::write(&contents, &folder))?;
    let size = fs::metadata(&archive)?.len();
    ensure!(
        options.dev || size <= MAX_ARCHIVE_BYTES,
        "{} has {}, more than {}; pack a program of the profile `dist`, and look at its dependencies",
        platform.archive(),
        megabytes(size),
        megabytes(MAX_ARCHIVE_BYTES)
    );
    let wheel = steps.run("wheel", || wheel::write(&contents, &folder))?;
    let npm = steps.run("npm packages", || npm::write(&contents, &folder))?;
    let sizes = steps.run("checksums", || checksums(&folder))?;

    if options.tries {
        let trial = |name: &str| project.target.join("package-trial").join(name);
        trial::archive(&mut steps, &contents, &archive, &trial("archive"))?;
        trial::wheel(&mut steps, &contents, &wheel, &trial("wheel"))?;
        trial::npm(&mut steps, &contents, &npm, &trial("npm"))?;
    }
    println!("\n{sizes}\n{}", steps.table);
    println!("the packages are in {}", folder.display());
    println!("{} passed, 0 failed", steps.passed);
    Ok(())
}

/// The path of the program.
fn program(project: &Project, options: &Options) -> Result<PathBuf> {
    let Some(binary) = &options.binary else {
        let profile = if options.dev { Profile::Dev } else { Profile::Named("dist") };
        return project.build(PACKAGE, NAME, profile);
    };
    // A workflow writes the same path on each platform.
    let mut with_suffix: OsString = binary.clone().into_os_string();
    with_suffix.push(EXE_SUFFIX);
    let found = [binary.clone(), with_suffix.into()].into_iter().find(|path| path.is_file());
    found.with_context(|| format!("there is no program {}", binary.display()))
}

/// What goes into the packages.
#[derive(Debug)]
struct Contents {
    platform: &'static Platform,
    version: String,
    description: String,
    keywords: Vec<String>,
    license: String,
    repository: String,
    program: Vec<u8>,
    /// The names and the contents of the other files.
    texts: [(&'static str, String); 3],
}

impl Contents {
    fn read(project: &Project, platform: &'static Platform, program: &Path) -> Result<Self> {
        let mut packages = project.metadata["packages"].as_array().into_iter().flatten();
        let package = packages.find(|it| it["name"] == PACKAGE);
        let package = package.with_context(|| format!("the workspace has no package `{PACKAGE}`"))?;
        let field = |name: &str| {
            package[name].as_str().map(String::from).with_context(|| format!("`{PACKAGE}` has no {name}"))
        };
        let read = |path: &str| {
            fs::read_to_string(project.root.join(path)).with_context(|| format!("could not read {path}"))
        };
        let keywords = package["keywords"].as_array().into_iter().flatten();
        Ok(Self {
            platform,
            version: field("version")?,
            description: field("description")?,
            keywords: keywords.filter_map(Value::as_str).map(String::from).collect(),
            license: field("license")?,
            repository: field("repository")?,
            program: fs::read(program).with_context(|| format!("could not read {}", program.display()))?,
            texts: [
                ("README.md", read("crates/antiphon-cli/README.md")?),
                ("LICENSE-APACHE", read("LICENSE-APACHE")?),
                ("LICENSE-MIT", read("LICENSE-MIT")?),
            ],
        })
    }

    fn readme(&self) -> &str {
        let [(_, readme), ..] = &self.texts;
        readme
    }

    fn licenses(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.texts.iter().skip(1).map(|(name, text)| (*name, text.as_str()))
    }
}

/// Writes `SHA256SUMS` for the files of a folder, and returns a table of their sizes.
fn checksums(folder: &Path) -> Result<Table> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.insert(name, fs::read(&path)?);
        }
    }
    let mut table = Table::new(["file", "size"]);
    let mut sums = String::new();
    for (name, bytes) in files {
        let _ = writeln!(sums, "{}  {name}", hex(&bytes));
        table.row([name, megabytes(u64::try_from(bytes.len())?)]);
    }
    fs::write(folder.join("SHA256SUMS"), sums).context("could not write SHA256SUMS")?;
    Ok(table)
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"))
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

/// The steps that have passed, with the seconds of each.
struct Steps {
    table: Table,
    passed: usize,
}

impl Steps {
    fn new() -> Self {
        Self { table: Table::new(["step", "seconds", "result"]), passed: 0 }
    }

    fn run<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        eprintln!("== {name}");
        let start = Instant::now();
        let value = step().with_context(|| format!("step `{name}` failed"))?;
        self.table.row([name.into(), format!("{:.1}", start.elapsed().as_secs_f64()), "ok".into()]);
        self.passed += 1;
        Ok(value)
    }

    fn skip(&mut self, name: &str, reason: &str) {
        eprintln!("{reason}");
        self.table.row([name.into(), "0.0".into(), "skipped".into()]);
    }
}

#[cfg(test)]
mod tests {
    use super::platform::PLATFORMS;
    use super::*;

    const RELEASE: &str = include_str!("../../../.github/workflows/release.yml");

    pub(super) fn contents(platform: &'static Platform) -> Contents {
        let text = |text: &str| text.to_owned();
        Contents {
            platform,
            version: text("0.2.0"),
            description: text("Talk to servers"),
            keywords: vec![text("mcp"), text("cli")],
            license: text("MIT OR Apache-2.0"),
            repository: text("https://github.com/antiphon-rs/antiphon"),
            program: b"\x7fELF\0GLIBC_2.34\0".to_vec(),
            texts: [
                ("README.md", text("# Readme\n")),
                ("LICENSE-APACHE", text("Apache\n")),
                ("LICENSE-MIT", text("MIT\n")),
            ],
        }
    }

    #[test]
    fn packages_have_the_version_of_the_workspace() {
        let project = Project::open().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("antiphon");
        fs::write(&program, "program").unwrap();
        let contents = Contents::read(&project, &PLATFORMS[0], &program).unwrap();
        let manifest: toml::Table = include_str!("../../../Cargo.toml").parse().unwrap();
        assert_eq!(Some(&*contents.version), manifest["workspace"]["package"]["version"].as_str());
        assert_eq!(contents.program, b"program");
        assert!(contents.readme().starts_with("# antiphon-cli"));
        let licenses: Vec<&str> = contents.licenses().map(|(name, _)| name).collect();
        assert_eq!(licenses, ["LICENSE-APACHE", "LICENSE-MIT"]);
    }

    #[test]
    fn binstall_finds_the_archives_of_a_release() {
        let workspace: toml::Table = include_str!("../../../Cargo.toml").parse().unwrap();
        let repository = workspace["workspace"]["package"]["repository"].as_str().unwrap();
        let manifest: toml::Table = include_str!("../../../crates/antiphon-cli/Cargo.toml").parse().unwrap();
        let binstall = &manifest["package"]["metadata"]["binstall"];
        for platform in &PLATFORMS {
            let of = |key: &str| {
                let exception = binstall["overrides"].get(platform.target).and_then(|it| it.get(key));
                exception.unwrap_or(&binstall[key]).as_str().unwrap()
            };
            let fill = |template: &str| {
                template
                    .replace("{ repo }", repository)
                    .replace("{ version }", "0.2.0")
                    .replace("{ target }", platform.target)
                    .replace("{ bin }", NAME)
                    .replace("{ binary-ext }", if platform.is_windows() { ".exe" } else { "" })
            };
            let url = format!("{repository}/releases/download/v0.2.0/{}", platform.archive());
            assert_eq!(fill(of("pkg-url")), url);
            assert_eq!(fill(of("bin-dir")), format!("{}/{}", platform.folder(), platform.program()));
            assert_eq!(of("pkg-fmt"), if platform.is_windows() { "zip" } else { "tgz" });
        }
    }

    #[test]
    fn workflow_builds_and_tries_each_platform_and_uploads_its_files() {
        for platform in &PLATFORMS {
            let targets = RELEASE.matches(&format!("target: {}", platform.target)).count();
            assert_eq!(targets, 1, "{}", platform.target);
            assert!(RELEASE.contains(&format!("          - {}\n", platform.target)), "{}", platform.target);
        }
        assert_eq!(RELEASE.matches("- { target: ").count(), PLATFORMS.len());
        assert!(RELEASE.contains("cargo xtask package --try --binary target/dist/antiphon\n"));
        assert!(RELEASE.contains("path: target/package\n"));
        assert!(RELEASE.contains("sha256sum antiphon-* > SHA256SUMS\n"));
    }

    #[test]
    fn checksums_name_each_file_in_order() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.zip"), "abc").unwrap();
        fs::write(folder.path().join("a.whl"), "").unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        checksums(folder.path()).unwrap();
        let sums = fs::read_to_string(folder.path().join("SHA256SUMS")).unwrap();
        let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a.whl\n\
                        ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b.zip\n";
        assert_eq!(sums, expected);
    }
}
