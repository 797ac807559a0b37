//! `antiphon completions`: prints a completion script for a shell.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::{Arguments, exit::Outcome, print};

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  antiphon completions bash > ~/.local/share/bash-completion/completions/antiphon"
)]
pub(crate) struct Completions {
    /// The shell to complete commands for.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Outcome {
        // The generator panics if standard output is closed, so write to a buffer first.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "antiphon", &mut script);
        print::line(String::from_utf8_lossy(&script).trim_end());
        Outcome::Done
    }
}
