//! libFuzzer with stable Rust: how a target is built, run for a while, and what it says of that.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::{OF_SQL, Target};
use crate::proc;
use crate::project::{self, Project};

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

/// How much of what it wrote last is shown when it found something.
const LINES: usize = 60;

/// The programs, and where what they find goes.
#[derive(Debug)]
pub(super) struct Programs {
    folder: PathBuf,
    seeds: PathBuf,
    target: PathBuf,
}

/// What a run came to, or several together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Found {
    pub runs: u64,
    pub edges: u64,
    pub corpus: u64,
    /// Of the processor, where the system tells; else by the clock.
    pub seconds: f64,
}

impl Programs {
    pub(super) fn build(project: &Project, names: &[&str]) -> Result<Self> {
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
        project::run(command.current_dir(project.root.join("lab/fuzz/targets")))?;
        Ok(Self {
            folder: target.join(host).join("release"),
            seeds: project.root.join("lab/fuzz/corpus"),
            target,
        })
    }

    /// Runs one, until there were so many runs or the time is over.
    pub(super) fn run(
        &self,
        (name, longest): Target,
        seed: Option<u32>,
        runs: Option<u64>,
        time: Duration,
    ) -> Result<Found> {
        let seeds = self.seeds.join(name);
        let (corpus, artifacts) = (self.target.join("corpus").join(name), self.target.join("artifacts"));
        for folder in [&corpus, &artifacts] {
            fs::create_dir_all(folder).with_context(|| format!("could not create {}", folder.display()))?;
        }
        let mut command = Command::new(self.folder.join(name));
        command
            .arg(format!("-max_total_time={}", time.as_secs()))
            .args(seed.map(|seed| format!("-seed={seed}")))
            .args(runs.map(|runs| format!("-runs={runs}")))
            .arg(format!("-max_len={longest}"))
            .arg(format!("-artifact_prefix={}/{name}-", artifacts.display()))
            .args(["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=2048", "-use_value_profile=1"])
            .args([&corpus, &seeds])
            .stderr(Stdio::piped());
        let shown = project::show(&command);
        let begun = Instant::now();
        let mut child = command.spawn().with_context(|| format!("could not start `{shown}`"))?;
        let mut found = Found::default();
        let mut last = VecDeque::new();
        let lines = child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).split(b'\n'));
        for line in lines {
            let line = String::from_utf8_lossy(&line?).into_owned();
            if found.read(&line) {
                // It is still there, and has nothing more to do.
                found.seconds = proc::cpu_time(child.id()).unwrap_or_else(|_| begun.elapsed()).as_secs_f64();
            }
            if last.len() >= LINES {
                last.pop_front();
            }
            last.push_back(line);
        }
        let status = child.wait()?;
        if !status.success() {
            eprintln!("{}", last.make_contiguous().join("\n"));
        }
        ensure!(
            status.success(),
            "`{name}` has found something; what it was fed is in {}; run `{} <file>` to see it again, and keep the file in {} when it is mended",
            artifacts.display(),
            self.folder.join(name).display(),
            seeds.display()
        );
        Ok(found)
    }
}

/// Where what is built and what is found goes.
pub(super) fn folder(project: &Project) -> PathBuf {
    project.target.join("fuzz")
}

impl Found {
    /// Reads a line of libFuzzer's. True if it says how many runs there were in all.
    fn read(&mut self, line: &str) -> bool {
        if let Some(runs) = line.strip_prefix("stat::number_of_executed_units:") {
            self.runs = runs.trim().parse().unwrap_or(self.runs);
            return true;
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
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_says_is_read() {
        let mut found = Found::default();
        assert!(
            !found.read("#8192\tpulse  cov: 4321 ft: 9999 corp: 77/12Kb lim: 4096 exec/s: 2730 rss: 90Mb")
        );
        assert!(!found.read("Done 91234 runs in 11 second(s)"));
        assert!(found.read("stat::number_of_executed_units: 91234"));
        assert_eq!(found, Found { runs: 91234, edges: 4321, corpus: 77, seconds: 0.0 });
    }
}
