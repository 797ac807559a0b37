//! `antiphon completions`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::{Arguments, exit::Outcome, print};

/// Print completions for a shell.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  antiphon completions bash > ~/.local/share/bash-completion/completions/antiphon"
)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Outcome {
        // Not straight to standard output: the generator panics when nobody reads on.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "antiphon", &mut script);
        print::line(String::from_utf8_lossy(&script).trim_end());
        Outcome::Done
    }
}
