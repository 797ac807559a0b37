//! Exit codes of the CLI.

use std::process::ExitCode;

use antiphon_host::Error as HostError;

use crate::{print::clean, secrets};

/// The exit codes in `antiphon --help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done
  1    failed
  2    misused: the error says how to use it
  3    there is no such thing, or there was nothing to do
  4    the tool answered with an error
  5    a question was declined, or nobody was there to answer it
  6    the server cannot be reached, or rejects the credentials
  130  interrupted";

/// The outcome of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The requested item does not exist, or there was nothing to do.
    Nothing,
    /// The tool returned an error, and the CLI printed it.
    ToolFailed,
    /// A question was declined, or no user was present to answer it.
    Unanswered,
    Interrupted,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(match outcome {
            Outcome::Done => 0,
            Outcome::Nothing => 3,
            Outcome::ToolFailed => 4,
            Outcome::Unanswered => 5,
            Outcome::Interrupted => 130,
        })
    }
}

/// A usage error. The exit code is 2, as for usage errors that `clap` finds.
#[derive(Debug)]
pub(crate) struct Misused(pub(crate) String);

impl std::fmt::Display for Misused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misused {}

/// The server is not reachable or rejects the credentials. The exit code is 6.
#[derive(Debug)]
pub(crate) struct Unreachable(pub(crate) String);

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreachable {}

/// Prints an error with a hint how to fix it, and returns the exit code.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    // The error can contain text of a server.
    eprintln!("error: {}", clean(&told(error)));
    if let Some(hint) = hint(error) {
        eprintln!("hint: {hint}");
    }
    ExitCode::from(code(error))
}

/// Formats an error without the secrets in a server's address.
fn told(error: &anyhow::Error) -> String {
    let told = format!("{error:#}");
    match error.downcast_ref::<HostError>() {
        Some(
            HostError::Connect { endpoint, .. }
            | HostError::Unauthorized { endpoint, .. }
            | HostError::Authorization { endpoint, .. },
        ) => secrets::in_text(&told, endpoint),
        _ => told,
    }
}

fn code(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<Misused>().is_some() {
        return 2;
    }
    if error.downcast_ref::<Unreachable>().is_some() {
        return 6;
    }
    match error.downcast_ref::<HostError>() {
        Some(
            HostError::Connect { .. } | HostError::Unauthorized { .. } | HostError::Authorization { .. },
        ) => 6,
        Some(HostError::PagesRequired(_)) => 5,
        Some(HostError::TaskUnknown { .. }) => 3,
        _ => 1,
    }
}

fn hint(error: &anyhow::Error) -> Option<&'static str> {
    Some(match error.downcast_ref::<HostError>()? {
        HostError::Connect { .. } if format!("{error:#}").contains("401") => {
            "bring a token with `--token` or ANTIPHON_TOKEN"
        }
        HostError::Connect { endpoint, .. } if !endpoint.contains("://") => {
            "is it a program that speaks MCP over its standard input and output? `--verbose` shows what it says besides"
        }
        HostError::Connect { .. } => {
            "is the server running, and is this its address? `antiphon doctor` looks more closely"
        }
        HostError::Unauthorized { .. } => "bring a token with `--token` or ANTIPHON_TOKEN",
        HostError::Rounds(_) => "the tool asks more often than `--rounds` allows",
        HostError::Lost { .. } => "the server may have stopped; look at its log before you try again",
        _ => return None,
    })
}
