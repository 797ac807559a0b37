//! `cargo xtask verify`: everything a change must pass, in the order in which it fails soonest.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use xtask::fixtures::Fixtures;

use crate::project::{self, Project};
use crate::table::Table;

/// What a tool author who needs only stdio may have to build.
const BUDGET: usize = 110;
const LONGEST_FILE: usize = 800;
const DOCS: &str = "docs";
pub(crate) const FEATURES: &str = "each feature alone, and none";
const LICENCES: &str = "licences and bans";

/// Options of `cargo xtask verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Leave out docs, licences, and the check of each feature alone, and none.
    #[arg(long)]
    quick: bool,
    /// Leave out the check of each feature alone, and none: `cargo xtask features` checks them every night.
    #[arg(long)]
    no_features: bool,
}

type Check = fn(&mut Verification) -> Result<Outcome>;

/// What the steps share.
#[derive(Debug)]
struct Verification {
    project: Project,
    /// The services and models, while they start beside another step.
    starting: Option<JoinHandle<Result<Fixtures>>>,
    /// `None` until the step that waits for them. They stop when the last step is done.
    fixtures: Option<Fixtures>,
}

/// How a step that did not fail ended.
#[derive(Debug)]
enum Outcome {
    Passed,
    /// Passed, with a figure worth seeing.
    Found(String),
    /// Not done, and why.
    Skipped(String),
}

/// Runs all steps and stops at the first that fails.
pub(crate) fn main(options: &Options) -> Result<()> {
    let mut verification = Verification { project: Project::open()?, starting: None, fixtures: None };
    let steps: [(&str, Check); 16] = [
        ("format", |it| format(&it.project)),
        ("file sizes", |it| file_sizes(&it.project)),
        ("typos", |it| typos(&it.project)),
        ("words", |it| Ok(Outcome::Found(crate::words::check(&it.project)?))),
        ("layers", |it| Ok(Outcome::Found(crate::layers::check(&it.project)?))),
        ("threat model", |it| Ok(Outcome::Found(crate::threats::check(&it.project)?))),
        ("book", |it| Ok(Outcome::Found(crate::book::check(&it.project)?))),
        ("reference", |it| Ok(Outcome::Found(crate::reference::check(&it.project)?))),
        ("dependency budget", |it| budget(&it.project)),
        ("clippy, all features", |it| clippy_all(&it.project)),
        (DOCS, docs),
        ("services and models", fixtures),
        ("tests", tests),
        ("doc tests", doc_tests),
        (FEATURES, |it| Ok(Outcome::Found(each_feature(&it.project, light)?))),
        (LICENCES, |it| deny(&it.project)),
    ];
    let left_out = |name: &str| match name {
        DOCS | LICENCES => options.quick,
        FEATURES => options.quick || options.no_features,
        _ => false,
    };
    let steps = steps.into_iter().filter(|(name, _)| !left_out(name));

    let mut table = Table::new(["verify", "seconds", "result"]);
    for (name, check) in steps {
        eprintln!("\n== {name}");
        let start = Instant::now();
        let outcome = check(&mut verification).with_context(|| format!("step `{name}` failed"))?;
        let seconds = format!("{:.1}", start.elapsed().as_secs_f64());
        let result = match outcome {
            Outcome::Passed => "ok".into(),
            Outcome::Found(figure) => figure,
            Outcome::Skipped(reason) => {
                eprintln!("{reason}");
                "skipped".into()
            }
        };
        eprintln!("== {name}: {result}, {seconds} s");
        table.row([name.into(), seconds, result]);
    }
    println!("\n{table}");
    println!("{} passed, 0 failed", tests_passed(&verification.project)?);
    Ok(())
}

fn cargo(project: &Project, arguments: &[&str]) -> Command {
    let mut command = project::cargo();
    command.args(arguments).current_dir(&project.root);
    command
}

fn format(project: &Project) -> Result<Outcome> {
    project::run(&mut cargo(project, &["fmt", "--all", "--check"])).context("run `cargo fmt --all`")?;
    Ok(Outcome::Passed)
}

/// In CI, where nothing is built yet, `RUSTC_WORKSPACE_WRAPPER=clippy-driver` lets clippy build the programs that the
/// next steps run. `cargo clippy` would check all dependencies first, and then the tests would build them.
fn clippy_all(project: &Project) -> Result<Outcome> {
    let everything = ["--quiet", "--workspace", "--all-targets", "--all-features"];
    if std::env::var_os("RUSTC_WORKSPACE_WRAPPER").is_some_and(|wrapper| wrapper == "clippy-driver") {
        project::run(cargo(project, &["build"]).args(everything))?;
        return Ok(Outcome::Found("ok, and built".into()));
    }
    project::run(cargo(project, &["clippy"]).args(everything).args(["--", "-D", "warnings"]))?;
    Ok(Outcome::Passed)
}

/// Writes the docs of the libraries, and starts the servers and the models meanwhile.
fn docs(verification: &mut Verification) -> Result<Outcome> {
    verification.starting = Some(thread::spawn(Fixtures::start));
    let project = &verification.project;
    let mut command = cargo(project, &["test", "--quiet", "--doc", "--workspace", "--all-features"]);
    command.env("RUSTDOC", project.root.join("xtask/rustdoc.sh"));
    project::run(command.env("ANTIPHON_DOC_DIR", project.target.join("doc")))?;
    Ok(Outcome::Passed)
}

/// Starts the servers and the models that tests talk to. In CI nothing may be missing.
fn fixtures(verification: &mut Verification) -> Result<Outcome> {
    let started = match verification.starting.take() {
        Some(starting) => starting.join().map_err(|_| anyhow::anyhow!("starting them panicked"))?,
        None => Fixtures::start(),
    };
    let fixtures = verification.fixtures.insert(started?);
    if fixtures.started.missing.is_empty() {
        return Ok(Outcome::Passed);
    }
    let reasons = fixtures.started.missing.join("\n");
    ensure!(std::env::var_os("CI").is_none(), "{reasons}");
    Ok(Outcome::Skipped(format!("{reasons}\nThe tests that need them are skipped.")))
}

fn tests(verification: &mut Verification) -> Result<Outcome> {
    let Verification { project, fixtures, .. } = verification;
    ensure!(
        cargo(project, &["nextest", "--version"]).output().is_ok_and(|output| output.status.success()),
        "cargo-nextest is missing; run `cargo install cargo-nextest --locked`"
    );
    let mut command = cargo(project, &["nextest", "run", "--profile", "ci", "--workspace", "--all-features"]);
    command.envs(fixtures.iter().flat_map(|it| &it.started.variables));
    project::run(&mut command).or_else(|error| {
        // A test may fail only because its server is gone.
        fixtures.iter_mut().try_for_each(Fixtures::stop)?;
        Err(error)
    })?;
    Ok(Outcome::Found(format!("{} passed", tests_passed(project)?)))
}

fn tests_passed(project: &Project) -> Result<usize> {
    let report = project.junit();
    let text =
        fs::read_to_string(&report).with_context(|| format!("nextest left no {}", report.display()))?;
    Ok(crate::requirements::passed_tests(&text)?.len())
}

fn doc_tests(verification: &mut Verification) -> Result<Outcome> {
    let Verification { project, fixtures, .. } = verification;
    let mut command = cargo(project, &["test", "--quiet", "--doc", "--workspace", "--all-features"]);
    project::run(command.envs(fixtures.iter().flat_map(|it| &it.started.variables)))?;
    Ok(Outcome::Passed)
}

fn typos(project: &Project) -> Result<Outcome> {
    if !project::installed("typos") {
        return Ok(Outcome::Skipped("`typos` is not installed (`pip install typos`)".into()));
    }
    project::run(Command::new("typos").current_dir(&project.root)).context("run `typos --write-changes`")?;
    Ok(Outcome::Passed)
}

fn deny(project: &Project) -> Result<Outcome> {
    if !project::installed("cargo-deny") {
        return Ok(Outcome::Skipped(
            "cargo-deny is not installed (`cargo install cargo-deny --locked`)".into(),
        ));
    }
    // Advisories are left out: they need the network, and change without any change of ours.
    project::run(&mut cargo(
        project,
        &["deny", "--log-level", "error", "check", "bans", "licenses", "sources"],
    ))?;
    Ok(Outcome::Passed)
}

fn budget(project: &Project) -> Result<Outcome> {
    let arguments = [
        "tree",
        "--package",
        "antiphon",
        "--no-default-features",
        "--features",
        "stdio",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ];
    let crates = unique_crates(&project::read(&mut cargo(project, &arguments))?);
    ensure!(
        crates.len() <= BUDGET,
        "`antiphon` with `stdio` builds {} crates, more than the {BUDGET} a tool author is promised; see `cargo tree -p antiphon --no-default-features --features stdio`",
        crates.len()
    );
    for package in ["antiphon", "antiphon-results", "antiphon-host"] {
        without_snapshots(project, package)?;
    }
    lean_command(project)?;
    Ok(Outcome::Found(format!("{} of {BUDGET} crates", crates.len())))
}

/// The features of `antiphon` that bring `antiphon-snapshot`.
const SNAPSHOT_FEATURES: [&str; 6] = ["aws", "azure", "gcp", "snapshot", "sql", "xlsx"];

/// Whoever does not save result sets builds neither Parquet nor DataFusion, whatever else they turn on.
fn without_snapshots(project: &Project, package: &str) -> Result<()> {
    let others: Vec<String> = features(&project.metadata, package)
        .into_iter()
        .filter(|feature| !SNAPSHOT_FEATURES.contains(&feature.as_str()))
        .collect();
    let arguments =
        ["--features", &others.join(","), "--edges", "normal,build", "--prefix", "none", "--format", "{p}"];
    let tree = project::read(cargo(project, &["tree", "--package", package]).args(arguments))?;
    let crates = unique_crates(&tree);
    let heavy = |name: &&String| {
        ["arrow ", "datafusion ", "object_store ", "parquet "].iter().any(|heavy| name.starts_with(heavy))
    };
    let found: Vec<&str> = crates.iter().filter(heavy).map(String::as_str).collect();
    ensure!(
        found.is_empty(),
        "`{package}` builds {} without the feature `snapshot`; see `cargo tree -p {package} --features {}`",
        found.join(", "),
        others.join(",")
    );
    Ok(())
}

/// The databases and the examples that `antiphon serve` has with the features `backends` and `examples`.
const HEAVY: [&str; 7] =
    ["async-nats ", "checkout ", "institutions ", "onboarding ", "play_ttt ", "redis ", "sqlx "];

/// Whoever installs the command builds neither a database client nor an example.
fn lean_command(project: &Project) -> Result<()> {
    let arguments = ["tree", "--package", "antiphon-cli", "--edges", "normal,build", "--prefix", "none"];
    let tree = project::read(cargo(project, &arguments).args(["--format", "{p}"]))?;
    let crates = unique_crates(&tree);
    let heavy = |name: &&String| HEAVY.iter().any(|heavy| name.starts_with(heavy));
    let found: Vec<&str> = crates.iter().filter(heavy).map(String::as_str).collect();
    ensure!(
        found.is_empty(),
        "`antiphon-cli` builds {} by default; make them part of its feature `backends`",
        found.join(", ")
    );
    Ok(())
}

/// Name and version of each line; repeated ones are marked `(*)`, paths stand in brackets.
fn unique_crates(tree: &str) -> BTreeSet<String> {
    let name = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    tree.lines().map(name).filter(|name| !name.is_empty()).collect()
}

/// Whether a crate's features are checked one by one whenever anything is: those of the others take as long as all the
/// rest, and `cargo xtask release` checks them.
fn light(package: &str) -> bool {
    !["antiphon-snapshot", "antiphon-cli"].contains(&package)
}

/// Checks every crate with each feature alone, and with none, and prints the number of features.
pub(crate) fn features_alone() -> Result<()> {
    println!("{}", each_feature(&Project::open()?, |_| true)?);
    Ok(())
}

/// Checks these crates without features, and with each of their features by itself. Only the libraries: in the whole
/// workspace the examples would turn features on again.
pub(crate) fn each_feature(project: &Project, which: fn(&str) -> bool) -> Result<String> {
    let mut checked = 0;
    for package in libraries(project).into_iter().filter(|package| which(package)) {
        eprintln!("{package} without features");
        let none =
            ["clippy", "--quiet", "--package", &package, "--no-default-features", "--", "-D", "warnings"];
        project::run(&mut cargo(project, &none))?;
        for feature in features(&project.metadata, &package) {
            eprintln!("{package} with {feature}");
            let arguments =
                ["check", "--quiet", "--package", &package, "--no-default-features", "--features", &feature];
            project::run(&mut cargo(project, &arguments))?;
            checked += 1;
        }
    }
    Ok(format!("{checked} features"))
}

/// The packages in `crates/`.
fn libraries(project: &Project) -> Vec<String> {
    let folder = project.root.join("crates");
    let packages = project.metadata["packages"].as_array().into_iter().flatten();
    let ours = packages.filter(|it| {
        it["manifest_path"].as_str().is_some_and(|manifest| Path::new(manifest).starts_with(&folder))
    });
    ours.filter_map(|it| it["name"].as_str().map(String::from)).collect()
}

/// The public features of `package`; private ones start with `__`.
fn features(metadata: &Value, package: &str) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let features = packages.filter(|it| it["name"] == package).filter_map(|it| it["features"].as_object());
    let names = features.flat_map(|it| it.keys()).filter(|it| *it != "default" && !it.starts_with("__"));
    names.cloned().collect()
}

fn file_sizes(project: &Project) -> Result<Outcome> {
    let mut long = Vec::new();
    for folder in ["crates", "examples", "lab", "xtask"] {
        let folder = project.root.join(folder);
        if folder.exists() {
            find_long_files(&folder, &mut long)?;
        }
    }
    if !long.is_empty() {
        let names: Vec<String> =
            long.iter().map(|(file, lines)| format!("{} ({lines})", file.display())).collect();
        bail!(
            "split these by subject, they are over {LONGEST_FILE} lines without tests: {}",
            names.join(", ")
        );
    }
    Ok(Outcome::Passed)
}

fn find_long_files(folder: &Path, long: &mut Vec<(PathBuf, usize)>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "tests" | "target" | "node_modules") {
                find_long_files(&path, long)?;
            }
        } else if path.extension().is_some_and(|it| it == "rs") && name != "tests.rs" {
            let lines = lines_without_tests(&fs::read_to_string(&path)?);
            if lines > LONGEST_FILE {
                long.push((path, lines));
            }
        }
    }
    Ok(())
}

fn lines_without_tests(text: &str) -> usize {
    text.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crate_counts_once_per_version() {
        let tree = "antiphon v0.1.0 (/a/b)\nserde v1.0.1\nserde v1.0.1 (*)\nrand v0.8.0\nrand v0.9.0\n\n";
        assert_eq!(unique_crates(tree).len(), 4);
    }

    #[test]
    fn tests_at_the_foot_of_a_file_do_not_count() {
        assert_eq!(lines_without_tests("a\nb\n#[cfg(test)]\nmod tests {}\n"), 2);
    }

    #[test]
    fn columns_of_a_table_line_up() {
        let mut table = Table::new(["name", "n"]);
        table.row(["a".into(), "1".into()]);
        table.row(["longer".into(), "100".into()]);
        assert_eq!(table.to_string(), "  name      n\n  ------  ---\n  a         1\n  longer  100\n");
        assert_eq!(table.to_markdown(), "| name | n |\n|---|---:|\n| a | 1 |\n| longer | 100 |\n");
    }

    #[test]
    fn default_and_private_features_are_not_checked_alone() {
        let metadata = json!({ "packages": [
            { "name": "a", "features": { "default": [], "http": [], "__x": [] } },
            { "name": "b", "features": { "other": [] } },
        ] });
        assert_eq!(features(&metadata, "a"), ["http"]);
    }
}
