//! Which result set is meant.

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

/// Which result set is meant, and how it is reached.
#[derive(Clone, Debug, Args)]
pub(crate) struct Set {
    /// The `resource.url` of a tool's answer, or a file with the answer as `antiphon call --json` prints it; `-` reads
    /// standard input.
    // Not a plain text: a subcommand has one of its own, and then its parent has none.
    #[arg(value_name = "URL|FILE", required = true)]
    place: Option<String>,
    /// Where a file's rows may be fetched from, or where a server may send you for an export. A URL that you typed needs
    /// no leave.
    #[arg(long, value_name = "URL", help_heading = "Connection")]
    origin: Option<String>,
    /// A header to send along, `Name: value`. May be given several times.
    #[arg(long, value_name = "HEADER", help_heading = "Connection")]
    header: Vec<String>,
    /// A bearer token. Better in the environment than on the command line, where others see it.
    #[arg(long, env = "ANTIPHON_TOKEN", hide_env_values = true, help_heading = "Connection")]
    token: Option<String>,
}

/// How long a server may send nothing.
const SILENCE: Duration = Duration::from_mins(1);
/// How long a set may be not ready.
const PATIENCE: Duration = Duration::from_hours(1);

/// A result set on its server.
pub(crate) struct Remote {
    pub(crate) set: ParsedDualResponse,
    /// What a user sees while the set is not ready.
    pub(crate) waiting: Waiting,
    /// Whether requests carry headers that a browser would not send.
    pub(crate) has_headers: bool,
}

impl Remote {
    /// The set at a URL that the user typed, or that was allowed before. Its requests carry these headers.
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

/// Allows the origin of `url`, and sends it the headers.
fn at_origin(options: DualResponseClientOptions, url: &str) -> Result<DualResponseClientOptions> {
    let origin = origin_of(url)?;
    Ok(options.with_endpoint_origin(&origin).allow_origin(origin))
}

impl Set {
    /// The set, as its server is asked for it.
    pub(crate) async fn reach(&self) -> Result<Remote> {
        let place = self.place.as_deref().unwrap_or("-");
        let answer = if place.contains("://") { None } else { Some(answer(place).await?) };
        Remote::new(self.headers()?, |mut options| {
            if let Some(origin) = &self.origin {
                options = options.allow_origin(origin_of(origin)?);
            }
            match &answer {
                Some(answer) => opened(options, answer),
                // Whoever types a URL means it.
                None => Ok(DualResponseClient::new(at_origin(options, place)?)?.at(place)?),
            }
        })
    }

    /// Whether standard input says which set.
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

/// The set of a tool's answer.
fn opened(options: DualResponseClientOptions, answer: &Value) -> Result<ParsedDualResponse> {
    let set = DualResponseClient::new(options)?.parse_strict(answer).map_err(|error| {
        Misused(format!(
            "{error}; pass what `antiphon call --json` prints for a tool with more rows than it shows"
        ))
    })?;
    if let Err(DualResponseClientError::UrlRefused(why)) = set.resource_url() {
        return Err(refused(answer, &why).into());
    }
    Ok(set)
}

/// A tool's answer, from a file.
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
    // The answer itself, or only what is structured in it.
    let bare = answer.get("results").is_some() && answer.get("structuredContent").is_none();
    Ok(if bare { json!({"structuredContent": answer}) } else { answer })
}

pub(crate) fn origin_of(url: &str) -> Result<String> {
    let parsed = url::Url::parse(url).map_err(|error| Misused(format!("`{url}` is no URL: {error}")))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(Misused(format!("rows come over http or https, not `{}`", parsed.scheme())).into());
    }
    Ok(parsed.origin().ascii_serialization())
}

/// The server chose the address in its answer; whether to go there is for the person to say.
fn refused(answer: &Value, why: &str) -> Misused {
    let resource = &answer["structuredContent"]["resource"];
    let url = resource["url"].as_str().or(resource["base_url"].as_str());
    match url.and_then(|url| origin_of(url).ok()) {
        Some(origin) => Misused(format!(
            "the answer says that its rows are at {origin}; if you trust that, say `--origin {origin}`"
        )),
        None => Misused(format!("the rows cannot be fetched: {why}")),
    }
}

/// The columns: as the answer has them, or else its server.
pub(crate) async fn columns(set: &ParsedDualResponse) -> Vec<ColumnDefinition> {
    if !set.columns().is_empty() {
        return set.columns().to_vec();
    }
    // Not every server tells; then the rows do.
    set.metadata().await.map(|metadata| metadata.columns).unwrap_or_default()
}

/// That there is no such set is an answer; what can be done about other failures is said.
pub(crate) fn failed(error: anyhow::Error) -> Result<Outcome> {
    match error.downcast_ref::<DualResponseClientError>() {
        Some(gone @ (DualResponseClientError::NotFound(_) | DualResponseClientError::Expired(_))) => {
            eprintln!("error: {gone}");
            eprintln!("hint: call the tool again; it makes a new one");
            Ok(Outcome::Nothing)
        }
        Some(DualResponseClientError::RedirectRefused { origin, .. }) => Err(Misused(format!(
            "the server keeps this file at {origin}; if you trust that, say `--origin {origin}`"
        ))
        .into()),
        Some(DualResponseClientError::Config(text)) => Err(Misused(text.clone()).into()),
        Some(refused) if matches!(refused.status(), Some(401 | 403)) => {
            let message = format!(
                "the server does not let you in; bring a token with `--token` or ANTIPHON_TOKEN: {error:#}"
            );
            Err(Unreachable(message).into())
        }
        // What was asked for makes no sense, and the server has said why.
        Some(DualResponseClientError::Fetch(said)) if said.status == Some(400) => {
            Err(Misused(said.message.clone()).into())
        }
        _ if is_away(&error) => {
            Err(Unreachable(format!("{error:#}; is the server running, and is this its address?")).into())
        }
        _ => Err(error),
    }
}

/// Whether no connection was made, or nothing came over it. One that broke later did reach the server.
fn is_away(error: &anyhow::Error) -> bool {
    let silent = matches!(error.downcast_ref(), Some(DualResponseClientError::Timeout { .. }));
    let refused = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect)
    };
    silent || error.chain().any(refused)
}
