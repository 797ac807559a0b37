//! `cargo xtask simulate`: the task engine in virtual time, with processes that die and stall.

use std::process::Command;

use anyhow::Result;

use crate::project::{self, Profile, Project};

/// Options of `cargo xtask simulate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The number of schedules.
    #[arg(long, default_value_t = 10_000)]
    schedules: u64,
    /// The seed of the first schedule.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Plant each defect of the list, and count the schedules that it takes to find it.
    #[arg(long)]
    defects: bool,
    /// Simulate only this schedule, and print its events.
    #[arg(long, conflicts_with_all = ["schedules", "first", "defects"])]
    seed: Option<u64>,
    /// Use the debug build, which the tests of the workspace have built.
    #[arg(long)]
    dev: bool,
}

pub(crate) fn main(options: &Options) -> Result<()> {
    let profile = if options.dev { Profile::Dev } else { Profile::Release };
    let program = Project::open()?.build("lab", "simulate", profile)?;
    let mut command = Command::new(program);
    if let Some(seed) = options.seed {
        return project::run(command.args(["--seed", &seed.to_string()]));
    }
    command.args(["--schedules", &options.schedules.to_string(), "--first", &options.first.to_string()]);
    if options.defects {
        command.arg("--defects");
    }
    project::run(&mut command)
}
