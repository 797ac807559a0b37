//! `antiphon runs`: operator actions on the runs of a server.

mod endpoint;
mod show;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use self::endpoint::Endpoint;
use crate::{
    exit::Outcome,
    global::App,
    print::{line, print},
};

/// List, show, retry, cancel and delete the runs of a server.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  export ANTIPHON_OPERATORS_URL=http://127.0.0.1:9000 ANTIPHON_OPERATORS_TOKEN=…
  antiphon runs list --status failed
  antiphon runs show RUN")]
pub(crate) struct Runs {
    /// Set the URL of the server's operator routes, for example `http://localhost:9000`.
    #[arg(long, env = "ANTIPHON_OPERATORS_URL", global = true, default_value = "http://127.0.0.1:9000")]
    url: String,
    /// Send this operator token. Prefer the environment variable, because other users can see the command line.
    #[arg(long, env = "ANTIPHON_OPERATORS_TOKEN", global = true, hide_env_values = true)]
    token: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List runs.
    #[command(after_help = "Example:\n  antiphon runs list --status input_required --limit 20")]
    List {
        /// List only runs with this status.
        #[arg(long)]
        status: Option<Status>,
        /// List only runs that were given up and need an operator.
        #[arg(long)]
        dead: bool,
        /// List at most this number of runs.
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Show the timeline and the journal of a run, without its values.
    #[command(after_help = "Example:\n  antiphon runs show RUN")]
    Show {
        /// The ID of the run, as in `list`.
        run: String,
    },
    /// Retry a run that failed or was given up, from its journal.
    #[command(after_help = "Example:\n  antiphon runs retry RUN")]
    Retry {
        /// The ID of the run, as in `list`.
        run: String,
    },
    /// Cancel a run.
    #[command(after_help = "Example:\n  antiphon runs cancel RUN")]
    Cancel {
        /// The ID of the run, as in `list`.
        run: String,
    },
    /// Delete runs that have ended, with their results.
    #[command(after_help = "Example:\n  antiphon runs purge RUN RUN")]
    Purge {
        /// The IDs of the runs, as in `list`.
        #[arg(required = true)]
        runs: Vec<String>,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Runs {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        let Self { url, token, command } = self;
        let json = app.json;
        let endpoint = Endpoint::new(&url, token)?;
        match command {
            Command::List { status, dead, limit } => {
                let runs = list(&endpoint, status, dead, limit).await?;
                print(json, &Value::from(runs.clone()), || show::list(&runs));
                Ok(Outcome::Done)
            }
            Command::Show { run } => match endpoint.inspect(&run).await? {
                Some(report) => {
                    print(json, &report, || show::report(&report));
                    Ok(Outcome::Done)
                }
                None => Ok(unknown(&run)),
            },
            Command::Retry { run } => {
                Ok(changed(&run, endpoint.change(&run, "retry").await?.as_deref(), "is tried again"))
            }
            Command::Cancel { run } => {
                Ok(changed(&run, endpoint.change(&run, "cancel").await?.as_deref(), "is cancelled"))
            }
            Command::Purge { runs } => {
                let mut outcome = Outcome::Done;
                for run in runs {
                    if changed(&run, endpoint.purge(&run).await?.as_deref(), "is removed") == Outcome::Nothing
                    {
                        outcome = Outcome::Nothing;
                    }
                }
                Ok(outcome)
            }
        }
    }
}

/// Lists matching runs page by page, up to `limit`.
async fn list(endpoint: &Endpoint, status: Option<Status>, dead: bool, limit: usize) -> Result<Vec<Value>> {
    let mut runs = Vec::new();
    let mut after = None;
    while runs.len() < limit {
        let mut page = endpoint.list(status.map(Status::name), after.as_deref(), limit.min(500)).await?;
        if let Value::Array(found) = page["runs"].take() {
            runs.extend(found.into_iter().filter(|run| !dead || run["dead"] == true));
        }
        after = page["next"].as_str().map(ToOwned::to_owned);
        if after.is_none() {
            break;
        }
    }
    runs.truncate(limit);
    Ok(runs)
}

fn unknown(run: &str) -> Outcome {
    eprintln!("the run `{run}` does not exist; `antiphon runs list` lists the runs");
    Outcome::Nothing
}

fn changed(run: &str, result: Option<&str>, done: &str) -> Outcome {
    match result {
        None => unknown(run),
        Some("done") => {
            line(&format!("{run} {done}"));
            Outcome::Done
        }
        Some(_) => {
            eprintln!("{run} was not changed: there was nothing to do");
            Outcome::Nothing
        }
    }
}
