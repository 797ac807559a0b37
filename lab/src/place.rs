//! Where and when something was measured, and of what.

use std::fs;
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::project::{self, Project};

/// What was measured, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) commit: String,
    /// The tree held more than the commit.
    pub(crate) dirty: bool,
    /// By the calendar, in UTC.
    pub(crate) date: String,
}

impl Source {
    pub(crate) fn read(project: &Project) -> Result<Self> {
        let git = |arguments: &[&str]| {
            project::read(Command::new("git").args(arguments).current_dir(&project.root))
        };
        // Pages change no figure, and the report itself is one.
        let changed = git(&["status", "--porcelain", "--", ".", ":!docs", ":!*.md"])?;
        let date = project::read(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
        Ok(Self {
            commit: git(&["rev-parse", "HEAD"])?.trim().into(),
            dirty: !changed.trim().is_empty(),
            date: date.trim().into(),
        })
    }

    /// The commit as people write it.
    pub(crate) fn short(&self) -> String {
        let commit: String = self.commit.chars().take(10).collect();
        if self.dirty { format!("{commit} and changes") } else { commit }
    }
}

/// The machine that it ran on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
}

impl Machine {
    pub(crate) fn read() -> Result<Self> {
        let read = |path: &str| {
            fs::read_to_string(path)
                .with_context(|| format!("which machine this is stands in Linux's {path}"))
        };
        let memory = field(&read("/proc/meminfo")?, "MemTotal").context("/proc/meminfo has no MemTotal")?;
        let kib: u64 = memory.trim_end_matches(" kB").parse().context("MemTotal is no number")?;
        Ok(Self {
            // Not every processor says its name.
            cpu: field(&read("/proc/cpuinfo")?, "model name").unwrap_or_else(|| "unnamed".into()),
            cores: thread::available_parallelism()?.get(),
            memory_mib: kib / 1024,
            kernel: read("/proc/sys/kernel/osrelease")?.trim().into(),
            rustc: project::read(Command::new("rustc").arg("--version"))?.trim().into(),
        })
    }

    /// Processors and memory, as people say it.
    pub(crate) fn short(&self) -> String {
        format!("{} × {}, {} GiB", self.cores, self.cpu, (self.memory_mib + 512) / 1024)
    }
}

/// What stands after `name` and a colon, the first time.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|it| it.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "processor\t: 0\nmodel name\t: A: 3000\nMemTotal:   16 kB\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A: 3000"));
        assert_eq!(field(text, "MemTotal").as_deref(), Some("16 kB"));
        assert_eq!(field(text, "Mem"), None);
    }

    #[test]
    fn this_machine_has_memory_and_a_compiler() {
        let machine = Machine::read().unwrap();
        assert!(machine.memory_mib > 0 && machine.rustc.starts_with("rustc "), "{machine:?}");
        let machine = Machine { cpu: "Some processor".into(), cores: 2, memory_mib: 23_999, ..machine };
        assert_eq!(machine.short(), "2 × Some processor, 23 GiB");
    }

    #[test]
    fn a_commit_with_changes_says_so() {
        let source = Source { commit: "0123456789abcdef".into(), dirty: true, date: "2026-01-01".into() };
        assert_eq!(source.short(), "0123456789 and changes");
        assert_eq!(Source { dirty: false, ..source }.short(), "0123456789");
    }
}
