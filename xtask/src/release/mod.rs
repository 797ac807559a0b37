//! `cargo xtask release`: everything a release must pass beside `cargo xtask verify`, and nothing is published.

mod written;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use self::written::{Published, changelog, manifests, order, published, version, versions};
use crate::project::{self, Project};
use crate::table::Table;
use anyhow::{Context as _, Result, bail};

/// Options of `cargo xtask release`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Pack the crates without building what was packed.
    #[arg(long)]
    quick: bool,
    /// Look only at what is written: build nothing, pack nothing.
    #[arg(long, conflicts_with = "quick")]
    check: bool,
}

type Step<'a> = (&'a str, &'a dyn Fn() -> Result<Outcome>);

/// How a step that did not fail ended.
enum Outcome {
    Found(String),
    Skipped(String),
}

/// Runs all steps and stops at the first that fails.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let crates = published(&project.metadata);
    let version = version(&project.metadata)?;
    let written: [Step<'_>; 5] = [
        ("manifests", &|| manifests(&project.metadata)),
        ("order", &|| Ok(Outcome::Found(order(&crates)?.join(", ")))),
        ("versions", &|| versions(&project, &version)),
        ("changelog", &|| changelog(&project, &version)),
        ("reference", &|| Ok(Outcome::Found(crate::reference::check(&project)?))),
    ];
    let built: [Step<'_>; 4] = [
        (crate::verify::FEATURES, &|| Ok(Outcome::Found(crate::verify::each_feature(&project, |_| true)?))),
        ("oldest Rust", &|| oldest_rust(&project, &crates)),
        ("semver", &|| semver(&project, &crates)),
        ("publish, dry", &|| publish(&project, options.quick)),
    ];
    let mut table = Table::new(["release", "seconds", "result"]);
    for (name, step) in written.into_iter().chain(built.into_iter().filter(|_| !options.check)) {
        eprintln!("\n== {name}");
        let start = Instant::now();
        let result = match step().with_context(|| format!("step `{name}` failed"))? {
            Outcome::Found(figure) => figure,
            Outcome::Skipped(reason) => {
                eprintln!("{reason}");
                "skipped".into()
            }
        };
        table.row([name.into(), format!("{:.1}", start.elapsed().as_secs_f64()), result]);
    }
    println!("\n{table}");
    Ok(())
}

/// Each crate is checked with the oldest Rust it promises. What else is in the workspace may need a newer one.
fn oldest_rust(project: &Project, crates: &[Published]) -> Result<Outcome> {
    if !project::installed("rustup") {
        return Ok(Outcome::Skipped("rustup is not installed".into()));
    }
    let toolchains = project::read(Command::new("rustup").args(["toolchain", "list"]))?;
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for it in crates {
        versions.entry(&it.rust_version).or_default().push(&it.name);
    }
    let (mut checked, mut missing) = (Vec::new(), Vec::new());
    for (version, names) in versions {
        let Some(toolchain) = toolchain(&toolchains, version) else {
            missing.push(format!("`rustup toolchain install {version} --profile minimal`"));
            continue;
        };
        let mut command = Command::new("rustup");
        project::without_our_package(&mut command);
        command.args(["run", toolchain, "cargo", "check", "--quiet"]).current_dir(&project.root);
        command.env_remove("RUSTUP_TOOLCHAIN").env("CARGO_TARGET_DIR", project.target.join("oldest"));
        for name in &names {
            command.args(["--package", name]);
        }
        project::run(&mut command)?;
        checked.push(format!("{version} ({})", names.len()));
    }
    if checked.is_empty() {
        return Ok(Outcome::Skipped(format!("the oldest Rust is not installed: {}", missing.join(", "))));
    }
    for how in &missing {
        eprintln!("not checked; run {how}");
    }
    Ok(Outcome::Found(checked.join(", ")))
}

/// The toolchain of this version among those that rustup lists. `rustup run` wants its whole name: one that was
/// installed as 1.95.0 is not found as 1.95.
fn toolchain<'a>(listed: &'a str, version: &str) -> Option<&'a str> {
    let mut names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let is_of = |name: &&str| {
        name.strip_prefix(version).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
    };
    names.find(is_of)
}

/// What changed since the last release must be allowed by its number.
fn semver(project: &Project, crates: &[Published]) -> Result<Outcome> {
    if !project::installed("cargo-semver-checks") {
        let how = "`cargo install cargo-semver-checks --locked`";
        return Ok(Outcome::Skipped(format!("cargo-semver-checks is not installed ({how})")));
    }
    let tags = project::read(
        Command::new("git").args(["tag", "--list", "v*", "--sort=-v:refname"]).current_dir(&project.root),
    )?;
    let Some(last) = tags.lines().next() else {
        return Ok(Outcome::Skipped("there is no release to compare with".into()));
    };
    for it in crates.iter().filter(|it| it.name != "antiphon-cli") {
        let arguments = ["semver-checks", "--package", &it.name, "--baseline-rev", last];
        project::run(project::cargo().args(arguments).current_dir(&project.root))?;
    }
    Ok(Outcome::Found(format!("against {last}")))
}

/// Packs every crate as it would be published, and builds what was packed, in a copy of the workspace: the command leaves
/// the examples behind, which are not published, and cargo takes no manifest that names them.
fn publish(project: &Project, quick: bool) -> Result<Outcome> {
    let copy = project.target.join("release").join("workspace");
    copy_tracked(&project.root, &copy)?;
    let manifest = copy.join("crates/antiphon-cli/Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    fs::write(&manifest, without_examples(&text)?)?;
    let mut command = project::cargo();
    command.args(["publish", "--workspace", "--dry-run", "--allow-dirty"]).current_dir(&copy);
    command.env("CARGO_TARGET_DIR", project.target.join("release").join("target"));
    if quick {
        command.arg("--no-verify");
    }
    project::run(&mut command)?;
    Ok(Outcome::Found(if quick { "packed" } else { "packed and built" }.into()))
}

/// Copies what git knows of, as it is now.
fn copy_tracked(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("could not remove {}", to.display()))?;
    }
    let files = project::read(
        Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(from),
    )?;
    for file in files.split('\0').filter(|file| !file.is_empty()) {
        let source: PathBuf = from.join(file);
        // It may be deleted and not committed yet.
        if !source.is_file() {
            continue;
        }
        let target = to.join(file);
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::copy(&source, &target).with_context(|| format!("could not copy {file}"))?;
    }
    Ok(())
}

/// The command's manifest without the examples: neither as dependencies nor as features.
fn without_examples(manifest: &str) -> Result<String> {
    let example = |line: &str| line.contains("path = \"../../examples/");
    let feature = |line: &str| line.starts_with("examples = [") || line.starts_with("backends = [");
    let mut kept = Vec::new();
    let mut left_out = 0;
    for line in manifest.lines() {
        if example(line) || feature(line) {
            left_out += 1;
        } else {
            kept.push(line);
        }
    }
    if left_out == 0 {
        bail!("the command's manifest names no example any more; leave them out here no longer");
    }
    Ok(kept.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_published_without_the_examples() {
        let manifest = "[features]\ndefault = []\nexamples = [\"dep:tour\"]\nbackends = [\"examples\"]\n[dependencies]\ntour = { path = \"../../examples/tour\", optional = true }\nurl = \"2\"\n";
        let expected = "[features]\ndefault = []\n[dependencies]\nurl = \"2\"\n";
        assert_eq!(without_examples(manifest).unwrap(), expected);
        without_examples(expected).unwrap_err();
    }

    #[test]
    fn a_toolchain_is_found_by_its_version_and_run_by_its_whole_name() {
        let listed =
            "stable-x86_64-unknown-linux-gnu (default)\n1.95.0-x86_64-unknown-linux-gnu (active)\n1.9\n";
        assert_eq!(toolchain(listed, "1.95"), Some("1.95.0-x86_64-unknown-linux-gnu"));
        assert_eq!(toolchain(listed, "1.9"), Some("1.9"));
        assert_eq!(toolchain(listed, "1.90"), None);
    }
}
