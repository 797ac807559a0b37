//! `cargo xtask fuzz`: libFuzzer on the targets of `fuzz/`, with stable Rust.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::project::{self, Project};
use crate::table::Table;

/// What there is to fuzz, and how long an input may be; those that need DataFusion come last.
const TARGETS: [(&str, usize); 9] = [
    ("seal", 4096),
    ("journal", 4096),
    ("rest", 2048),
    ("messages", 4096),
    ("ingest", 4096),
    ("parquet", 16 * 1024),
    ("answers", 4096),
    ("filter", 2048),
    ("sql", 2048),
];
const OF_SQL: [&str; 2] = ["filter", "sql"];

/// What counts the ways through the code, for libFuzzer to find new ones. No sanitizer: those want a nightly compiler,
/// and `unsafe` is forbidden in what is fuzzed.
const FLAGS: [&str; 7] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cforce-frame-pointers=yes",
];

/// Options of `cargo xtask fuzz`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Which; all, if none is named.
    targets: Vec<String>,
    /// For how long each, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Leave out what needs DataFusion, which takes long to build.
    #[arg(long)]
    without_sql: bool,
}

/// Builds the targets and runs one after the other; fails at the first that finds something.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let chosen = chosen(options)?;
    let names: Vec<&str> = chosen.iter().map(|(name, _)| *name).collect();
    let programs = build(&project, &names)?;
    let mut table = Table::new(["target", "runs", "runs/s", "edges", "corpus"]);
    for (name, longest) in &chosen {
        let found = run(&project, &programs, name, *longest, options.seconds)?;
        let rate = found.runs / options.seconds.max(1);
        table.row([
            (*name).into(),
            found.runs.to_string(),
            rate.to_string(),
            found.edges.to_string(),
            found.corpus.to_string(),
        ]);
    }
    println!("\n{table}");
    println!("{} passed, 0 failed", chosen.len());
    Ok(())
}

fn chosen(options: &Options) -> Result<Vec<(&'static str, usize)>> {
    for name in &options.targets {
        let known = TARGETS.iter().any(|(target, _)| target == name);
        let all: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
        ensure!(known, "there is no target `{name}`; there are {}", all.join(", "));
    }
    let wanted = |name: &str| options.targets.is_empty() || options.targets.iter().any(|it| it == name);
    let fits = |name: &str| !(options.without_sql && OF_SQL.contains(&name));
    Ok(TARGETS.into_iter().filter(|(name, _)| wanted(name) && fits(name)).collect())
}

/// Where what is built and what is found goes.
fn folder(project: &Project) -> PathBuf {
    project.target.join("fuzz")
}

/// Builds the programs, and says where they are.
fn build(project: &Project, names: &[&str]) -> Result<PathBuf> {
    let version = project::read(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("`rustc -vV` does not say what it builds for")?;
    let target = folder(project);
    let mut command = project::cargo();
    command.args(["build", "--release", "--target", host]);
    command.args(names.iter().flat_map(|name| ["--bin", *name]));
    if names.iter().any(|name| OF_SQL.contains(name)) {
        command.args(["--features", "sql"]);
    }
    // With a target of its own, what runs while building is built without the flags.
    command.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}")).env("CARGO_TARGET_DIR", &target);
    eprintln!("building {}", names.join(", "));
    project::run(command.current_dir(project.root.join("fuzz/targets")))?;
    Ok(target.join(host).join("release"))
}

/// What a run came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    runs: u64,
    edges: u64,
    corpus: u64,
}

fn run(project: &Project, programs: &Path, name: &str, longest: usize, seconds: u64) -> Result<Found> {
    let seeds = project.root.join("fuzz/corpus").join(name);
    let (corpus, artifacts) = (folder(project).join("corpus").join(name), folder(project).join("artifacts"));
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
    }
    eprintln!("\n== {name}, {seconds} s");
    let mut command = Command::new(programs.join(name));
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={longest}"))
        .arg(format!("-artifact_prefix={}/{name}-", artifacts.display()))
        .args(["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=2048", "-use_value_profile=1"])
        .args([&corpus, &seeds])
        .stderr(Stdio::piped());
    let shown = project::show(&command);
    let mut child = command.spawn().with_context(|| format!("could not start `{shown}`"))?;
    let mut found = Found::default();
    let mut last: Vec<String> = Vec::new();
    let lines = child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).split(b'\n'));
    for line in lines {
        let line = String::from_utf8_lossy(&line?).into_owned();
        found.read(&line);
        if last.len() >= 60 {
            last.remove(0);
        }
        last.push(line);
    }
    let status = child.wait()?;
    if !status.success() {
        eprintln!("{}", last.join("\n"));
    }
    ensure!(
        status.success(),
        "`{name}` has found something; what it was fed is in {}; run `{} <file>` to see it again, and keep the file in {} when it is mended",
        artifacts.display(),
        programs.join(name).display(),
        seeds.display()
    );
    eprintln!("== {name}: {} runs, {} edges", found.runs, found.edges);
    Ok(found)
}

impl Found {
    /// Reads a line of libFuzzer's.
    fn read(&mut self, line: &str) {
        if let Some(runs) = line.strip_prefix("stat::number_of_executed_units:") {
            self.runs = runs.trim().parse().unwrap_or(self.runs);
        }
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "cov:" => self.edges = words.next().and_then(|it| it.parse().ok()).unwrap_or(self.edges),
                "corp:" => {
                    let count = words.next().and_then(|it| it.split('/').next()?.parse().ok());
                    self.corpus = count.unwrap_or(self.corpus);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_says_is_read() {
        let mut found = Found::default();
        found.read("#8192\tpulse  cov: 4321 ft: 9999 corp: 77/12Kb lim: 4096 exec/s: 2730 rss: 90Mb");
        found.read("Done 91234 runs in 11 second(s)");
        found.read("stat::number_of_executed_units: 91234");
        assert_eq!(found, Found { runs: 91234, edges: 4321, corpus: 77 });
    }

    #[test]
    fn targets_can_be_named_and_unknown_ones_are_not_passed_over() {
        let options = |targets: &[&str], without_sql| Options {
            targets: targets.iter().map(ToString::to_string).collect(),
            seconds: 1,
            without_sql,
        };
        assert_eq!(chosen(&options(&["journal"], false)).unwrap(), [("journal", 4096)]);
        assert_eq!(chosen(&options(&[], true)).unwrap().len(), TARGETS.len() - OF_SQL.len());
        assert!(chosen(&options(&["journals"], false)).is_err());
    }

    #[test]
    fn every_target_has_a_program_and_a_corpus() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        for (name, _) in TARGETS {
            assert!(root.join("targets/src").join(format!("{name}.rs")).exists(), "{name}");
            assert!(root.join("corpus").join(name).is_dir(), "{name}");
        }
    }
}
