//! Exit codes of the CLI.

use std::process::ExitCode;

use antiphon_host::{Error as HostError, ProgramExited};

use crate::{print::clean, secrets};

/// The exit codes in `antiphon --help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done
  1    failed
  2    the command line is not valid
  3    the requested item does not exist, or there was nothing to do
  4    the tool returned an error
  5    a question was declined, or no user was present to answer it
  6    the server cannot be reached, or rejects the credentials
  130  interrupted";

/// The way in which a command ended, if the command returned no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The requested item does not exist, or no work was necessary.
    Nothing,
    /// The tool returned an error, and the CLI printed the error.
    ToolFailed,
    /// A question was declined, or no user was present to answer the question.
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

/// A usage error. The exit code of a usage error is 2, like the exit code of usage errors from `clap`.
#[derive(Debug)]
pub(crate) struct Misused(pub(crate) String);

impl std::fmt::Display for Misused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misused {}

/// The server is not reachable or rejects the credentials. The exit code of an `Unreachable` error is 6.
#[derive(Debug)]
pub(crate) struct Unreachable(pub(crate) String);

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreachable {}

/// Prints an error, with a hint that describes how to fix the error. Returns the exit code.
pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    // The error can contain text from a server.
    eprintln!("error: {}", clean(&told(error)));
    if let Some(hint) = error.downcast_ref().and_then(hint) {
        eprintln!("hint: {hint}");
    }
    ExitCode::from(code(error))
}

/// Formats an error without the secrets in a server's address.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let told = format!("{error:#}");
    match error.downcast_ref::<HostError>() {
        Some(HostError::Connect { endpoint, .. }) if !endpoint.contains("://") => secrets::in_output(&told),
        // The error can contain a line of the program's output.
        Some(HostError::Lost { .. } | HostError::Timeout { .. }) => secrets::in_output(&told),
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

/// Returns a hint that describes to the user how to fix the error.
pub(crate) fn hint(error: &HostError) -> Option<&'static str> {
    Some(match error {
        HostError::Connect { endpoint, source } => return connect_hint(endpoint, source.as_ref()),
        HostError::Unauthorized { .. } => "pass a token with `--token` or ANTIPHON_TOKEN",
        HostError::Rounds(_) => "the tool sends more rounds of questions than `--rounds` allows; raise it",
        HostError::Lost { .. } => "the server may have stopped; look at its log before you try again",
        HostError::Server { code: -32602, message, .. } if message.contains("requestState") => {
            "call the tool again. Often the server was restarted with a new random key; with keys from its \
             configuration (`KeyRing`), calls survive a restart"
        }
        _ => return None,
    })
}

fn connect_hint(
    endpoint: &str,
    cause: &(dyn std::error::Error + Send + Sync + 'static),
) -> Option<&'static str> {
    if !endpoint.contains("://") {
        let exited = cause.downcast_ref::<ProgramExited>();
        // The error already contains the standard error of the program.
        if exited.is_some_and(|exited| !exited.stderr().is_empty()) {
            return None;
        }
        let cause = cause.to_string();
        let says = |text: &str| cause.starts_with(text);
        return Some(if says("the server did not answer within") {
            "if the program is compiled or downloaded first, do that before you connect. \
             `--verbose` shows its standard error output"
        } else if says("the program is not an MCP server: it sent the host's own request back") {
            "with Docker, use `docker run -i` without `-t`. With SSH, do not use `-t`"
        } else if says("the program is not an MCP server") {
            "the server may need another argument to use standard input and output. \
             It must write its logs to standard error"
        } else {
            "run the program in a terminal to see why. It must speak MCP, and write nothing else to standard output"
        });
    }
    let cause = cause.to_string();
    let says = |text: &str| cause.contains(text);
    let has_status = |status: &str| {
        cause.strip_prefix("the server answered with HTTP ").is_some_and(|rest| rest.starts_with(status))
    };
    Some(if has_status("401") {
        "pass a token with `--token` or ANTIPHON_TOKEN"
    } else if has_status("403") && says("Host") {
        "the server does not allow this host name. If it is an Antiphon server, add the name with \
         `HttpConfig::with_allowed_hosts`"
    } else if has_status("404") || has_status("405") {
        "check the path of the URL. Most servers use `/mcp`, without a slash at the end"
    } else if says("Connection refused") {
        "no server listens at this address. Start it, or check the port"
    } else if says("lookup address") || says("No such host") {
        "the host name cannot be resolved. Check its spelling and your network"
    } else if says("InvalidContentType") {
        "the server does not use TLS. Try `http://` instead of `https://`"
    } else {
        "check that the server runs and that this is its address. `antiphon doctor` shows more"
    })
}
