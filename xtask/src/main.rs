//! The chores of this workspace; `cargo xtask --help` lists them.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks to its user")]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use xtask::{lab, project, table};

mod book;
mod contract;
mod layers;
mod reference;
mod release;
mod requirements;
mod source;
mod threats;
mod verify;
mod words;
#[cfg(test)]
mod workflow;

/// The chores of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Look after the book in `docs/`.
    #[command(subcommand)]
    Book(book::Action),
    /// Hold every transport to the streaming contract, on both revisions.
    Contract,
    /// Check each crate with each feature alone, and with none.
    Features,
    /// Show which modules import each other, and reject more such imports than the baseline allows.
    Layers(layers::Options),
    /// Write the pages that enumerate: features, configuration, errors, what is on the wire.
    Reference(reference::Options),
    /// Check what a release must pass; publish nothing.
    Release(release::Options),
    /// Say which requirements are proven by tests that ran.
    Requirements,
    /// Say which attacks are stopped, and by which tests.
    Threats,
    /// Check everything a change must pass; this is what CI runs.
    Verify(verify::Options),
    /// Show how many sentences have a habit that the style guide advises against, and reject more of them.
    Words(words::Options),
    #[command(flatten)]
    Lab(lab::Lab),
}

fn main() -> ExitCode {
    match run(&Chore::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: &Chore) -> Result<ExitCode> {
    match chore {
        Chore::Book(action) => book::main(action)?,
        Chore::Contract => contract::main()?,
        Chore::Features => verify::features_alone()?,
        Chore::Layers(options) => layers::main(options)?,
        Chore::Reference(options) => reference::main(options)?,
        Chore::Release(options) => release::main(options)?,
        Chore::Requirements => requirements::main()?,
        Chore::Threats => threats::main()?,
        Chore::Verify(options) => verify::main(options)?,
        Chore::Words(options) => words::main(options)?,
        Chore::Lab(_) => return lab::run(),
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn help_is_ours_and_help_of_a_command_of_lab_is_passed_on() {
        Chore::command().debug_assert();
        let ours = Chore::try_parse_from(["xtask", "--help"]).unwrap_err();
        assert_eq!(ours.kind(), ErrorKind::DisplayHelp);
        assert!(ours.to_string().contains("Break servers on purpose"), "{ours}");
        for words in [["chaos", "--help"], ["bench", "--quick"], ["services", "up"]] {
            let parsed = Chore::try_parse_from(["xtask"].into_iter().chain(words));
            assert!(matches!(parsed, Ok(Chore::Lab(_))), "{parsed:?}");
        }
    }
}
