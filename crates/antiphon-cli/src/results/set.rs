//! Selects the result set that a command uses.

use std::time::Duration;

use antiphon_results::{
    ColumnDefinition,
    client::{DualResponseClient, DualResponseClientError, DualResponseClientOptions, ParsedDualResponse},
};
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::wait::Waiting;
use crate::{
    exit::{Misused, Outcome, Unreachable},
    stdin,
};

/// A result set, and how to connect to its server.
#[derive(Clone, Debug, Args)]
pub(crate) struct Set {
    /// The `resource.url` of a tool's answer, or a file with the output of `antiphon call --json`. `-` reads standard
    /// input.
    // The type is an `Option`, because a subcommand has its own `place`, and the `place` of the parent command is then
    // `None`.
    #[arg(value_name = "URL|FILE", required = true)]
    place: Option<String>,
    /// Allow requests to this origin, for the rows of a file or for the redirect of an export. The origin of a URL
    /// argument is always allowed.
    #[arg(long, value_name = "URL", help_heading = "Connection")]
    origin: Option<String>,
    /// Send this header, as `Name: value`. Can be given more than once.
    #[arg(long, value_name = "HEADER", help_heading = "Connection")]
    header: Vec<String>,
    /// Send this bearer token. Prefer the environment variable, because other users can see the command line.
    #[arg(long, env = "ANTIPHON_TOKEN", hide_env_values = true, help_heading = "Connection")]
    token: Option<String>,
}

/// The maximum time without data from the server.
const SILENCE: Duration = Duration::from_mins(1);
/// The maximum time to wait until a set is ready.
const PATIENCE: Duration = Duration::from_hours(1);

/// A result set on its server.
pub(crate) struct Remote {
    pub(crate) set: ParsedDualResponse,
    /// The spinner that is shown while the set is not ready.
    pub(crate) waiting: Waiting,
    /// Whether requests contain headers that a browser would not send.
    pub(crate) has_headers: bool,
}

impl Remote {
    /// Returns the set at a URL. The user must have typed the URL, or its origin must already be allowed. Requests for
    /// the set contain the headers `headers`.
    pub(crate) fn at(url: &str, headers: Vec<(String, String)>) -> Result<Self> {
        Self::new(headers, |options| Ok(DualResponseClient::new(at_origin(options, url)?)?.at(url)?))
    }

    fn new(
        headers: Vec<(String, String)>,
        open: impl FnOnce(DualResponseClientOptions) -> Result<ParsedDualResponse>,
    ) -> Result<Self> {
        let (waiting, has_headers) = (Waiting::new(), !headers.is_empty());
        let spinner = waiting.clone();
        let options = DualResponseClientOptions::new()
            .with_timeout(SILENCE)
            .with_patience(PATIENCE)
            .with_wait_observer(move |waits| spinner.show(waits))
            .allow_public_redirects();
        let options =
            headers.into_iter().fold(options, |options, (name, value)| options.with_header(name, value));
        Ok(Self { set: open(options)?, waiting, has_headers })
    }
}

/// Allows the origin of `url`, and sends the headers to this origin.
fn at_origin(options: DualResponseClientOptions, url: &str) -> Result<DualResponseClientOptions> {
    let origin = origin_of(url)?;
    Ok(options.with_endpoint_origin(&origin).allow_origin(origin))
}

impl Set {
    /// Resolves the argument to a set on its server.
    pub(crate) async fn reach(&self) -> Result<Remote> {
        let place = self.place.as_deref().unwrap_or("-");
        let answer = if place.contains("://") { None } else { Some(answer(place).await?) };
        Remote::new(self.headers()?, |mut options| {
            if let Some(origin) = &self.origin {
                options = options.allow_origin(origin_of(origin)?);
            }
            match &answer {
                Some(answer) => opened(options, answer),
                // The user typed this URL, so its origin is allowed.
                None => Ok(DualResponseClient::new(at_origin(options, place)?)?.at(place)?),
            }
        })
    }

    /// Returns whether the set is read from standard input.
    pub(crate) fn is_stdin(&self) -> bool {
        self.place.as_deref() == Some("-")
    }

    fn headers(&self) -> Result<Vec<(String, String)>> {
        let split = |header: &String| {
            let (name, value) = header.split_once(':')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        let headers: Option<Vec<_>> = self.header.iter().map(split).collect();
        let mut headers = headers.ok_or_else(|| Misused("write a header as `Name: value`".into()))?;
        if let Some(token) = &self.token {
            headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        Ok(headers)
    }
}

/// Returns the set in a tool's result.
fn opened(options: DualResponseClientOptions, answer: &Value) -> Result<ParsedDualResponse> {
    let set = DualResponseClient::new(options)?.parse_strict(answer).map_err(|error| {
        Misused(format!(
            "{error}; pass the output of `antiphon call --json` for a tool that returns a result set"
        ))
    })?;
    if let Err(DualResponseClientError::UrlRefused(why)) = set.resource_url() {
        return Err(refused(answer, &why).into());
    }
    Ok(set)
}

/// Reads a tool's result from a file.
async fn answer(file: &str) -> Result<Value> {
    let text = if file == "-" {
        stdin::read().await?
    } else {
        std::fs::read_to_string(file).map_err(|error| {
            Misused(format!("`{file}` is neither a URL nor a file that can be read: {error}"))
        })?
    };
    let answer: Value =
        serde_json::from_str(&text).map_err(|error| Misused(format!("`{file}` is not JSON: {error}")))?;
    // The file contains either the whole result of the tool, or only the structured content of the result.
    let bare = answer.get("results").is_some() && answer.get("structuredContent").is_none();
    Ok(if bare { json!({"structuredContent": answer}) } else { answer })
}

pub(crate) fn origin_of(url: &str) -> Result<String> {
    let parsed = url::Url::parse(url).map_err(|error| Misused(format!("`{url}` is not a URL: {error}")))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(Misused(format!("`{}` is not supported; use http or https", parsed.scheme())).into());
    }
    Ok(parsed.origin().ascii_serialization())
}

/// Creates the error for a URL that is not allowed. The server chose the URL, so the user must allow its origin.
fn refused(answer: &Value, why: &str) -> Misused {
    let resource = &answer["structuredContent"]["resource"];
    let url = resource["url"].as_str().or(resource["base_url"].as_str());
    match url.and_then(|url| origin_of(url).ok()) {
        Some(origin) => Misused(format!(
            "the rows are at {origin}, which is not allowed; if you trust it, add `--origin {origin}`"
        )),
        None => Misused(format!("the rows cannot be fetched: {why}")),
    }
}

/// Returns the columns from the dual response. If the dual response contains no columns, requests the columns from the
/// server.
pub(crate) async fn columns(set: &ParsedDualResponse) -> Vec<ColumnDefinition> {
    if !set.columns().is_empty() {
        return set.columns().to_vec();
    }
    // Some servers do not return columns. In this case, the columns come from the rows.
    set.metadata().await.map(|metadata| metadata.columns).unwrap_or_default()
}

/// Converts the error that a command returned. If the set does not exist, prints a hint and returns
/// [`Outcome::Nothing`]. Some other errors get a hint for the user.
pub(crate) fn failed(error: anyhow::Error) -> Result<Outcome> {
    match error.downcast_ref::<DualResponseClientError>() {
        Some(gone @ (DualResponseClientError::NotFound(_) | DualResponseClientError::Expired(_))) => {
            eprintln!("error: {gone}");
            eprintln!("hint: call the tool again to create a new result set");
            Ok(Outcome::Nothing)
        }
        Some(DualResponseClientError::RedirectRefused { origin, .. }) => Err(Misused(format!(
            "the server redirects the export to {origin}; if you trust it, add `--origin {origin}`"
        ))
        .into()),
        Some(DualResponseClientError::Config(text)) => Err(Misused(text.clone()).into()),
        Some(refused) if matches!(refused.status(), Some(401 | 403)) => {
            let message = format!(
                "the server rejected the credentials; set a token with `--token` or ANTIPHON_TOKEN: {error:#}"
            );
            Err(Unreachable(message).into())
        }
        // The request is invalid, and the server's message contains the reason.
        Some(DualResponseClientError::Fetch(said)) if said.status == Some(400) => {
            Err(Misused(said.message.clone()).into())
        }
        _ if is_away(&error) => {
            Err(Unreachable(format!("{error:#}; check that the server is running at this address")).into())
        }
        _ => Err(error),
    }
}

/// Returns whether the server was unreachable: no connection was opened, or the server sent no response. If an open
/// connection broke later, `is_away` returns `false`.
fn is_away(error: &anyhow::Error) -> bool {
    let silent = matches!(error.downcast_ref(), Some(DualResponseClientError::Timeout { .. }));
    let refused = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect)
    };
    silent || error.chain().any(refused)
}
