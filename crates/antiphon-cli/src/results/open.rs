//! `antiphon results open`: opens a result set in the browser.

use std::time::Duration;

use antiphon_results::client::DualResponseClientError;
use anyhow::{Result, bail};
use axum::http::{Method, StatusCode, header::CONTENT_TYPE};
use clap::Args;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::{
    page::WRITING,
    set::{Remote, Set},
};
use crate::{doorway::Doorway, exit::Outcome, global::App, print};

/// The requested lifetime of the link. The server can shorten this lifetime.
const LIFE: Duration = Duration::from_hours(1);

/// Open a result set in the browser, with all rows, sorting, filters and charts.
///
/// The URL contains a signed link. Anyone who has the link can read this one set. A new link expires after at most
/// one hour.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  antiphon results open http://127.0.0.1:3001/resources/abc123
  antiphon results open http://127.0.0.1:3001/resources/abc123 --print")]
pub(crate) struct Open {
    #[command(flatten)]
    set: Set,
    /// Print the URL, and do not open a browser.
    #[arg(long)]
    print: bool,
}

impl Open {
    pub(crate) async fn run(&self, app: &App) -> Result<Outcome> {
        let url = address(&self.set.reach().await?).await?;
        if self.print || app.json {
            print::print(app.json, &json!({"url": url.as_str()}), || url.to_string());
        }
        if self.print {
            return Ok(Outcome::Done);
        }
        match Doorway::open(url.as_str(), "A result set") {
            Ok(doorway) => {
                // The file is kept, because the browser can open the file after the CLI has ended. Only the owner can
                // read the file, and its link expires.
                doorway.keep();
                eprintln!("Opened in the browser. If it shows nothing, `--print` prints the address.");
            }
            Err(_) if app.json => {}
            Err(_) => {
                eprintln!("No browser could be opened; open this address yourself:");
                print::line(url.as_str());
            }
        }
        Ok(Outcome::Done)
    }
}

/// The response of the server to a request for a signed link.
#[derive(Deserialize)]
struct Link {
    url: String,
}

/// Returns the URL at which a browser shows a set. A browser sends no token, so the URL contains a signed link.
pub(crate) async fn address(remote: &Remote) -> Result<Url> {
    let mut view = Url::parse(remote.set.resource_url()?)?;
    let link = if has_link(&view) { None } else { mint(remote).await? };
    let query: Vec<(&str, &str)> = link.iter().map(|link| ("link", &**link)).collect();
    let page = match remote.set.get("view", &query).await {
        Ok(answer) => {
            let kind = answer.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            answer.status == StatusCode::OK && kind.is_some_and(|kind| kind.starts_with("text/html"))
        }
        Err(error) => match error.status() {
            Some(404 | 405 | 501) => {
                // This request returns an error if the set does not exist. If the set exists, the server has no web
                // page for result sets.
                remote.text(Method::GET, "", None, WRITING).await?;
                false
            }
            _ => return Err(error.into()),
        },
    };
    if let Ok(mut segments) = view.path_segments_mut() {
        segments.pop_if_empty().push("view");
    }
    if !query.is_empty() {
        view.query_pairs_mut().extend_pairs(&query);
    }
    if !page {
        bail!("this server has no web page for result sets; `antiphon results URL` shows the rows here");
    }
    Ok(view)
}

/// Requests a signed link. Returns `None` if the server does not sign links and needs no token.
///
/// The CLI uses only the token of the signed link. The CLI already has the set's URL, which can differ from the URL in
/// the link.
async fn mint(remote: &Remote) -> Result<Option<String>> {
    // The web page only reads the set, and does not create new sets.
    let wanted = json!({"scopes": ["read"], "expires_in": LIFE.as_secs()});
    let minted: Result<Link> = remote.json(Method::POST, "links", Some(&wanted), WRITING).await;
    match minted {
        Ok(link) => {
            let url = Url::parse(&link.url)?;
            let link = url.query_pairs().find(|(name, _)| name == "link").map(|(_, link)| link.into_owned());
            Ok(link)
        }
        Err(error) if status(&error) == Some(501) && !remote.has_headers => Ok(None),
        Err(error) if status(&error) == Some(501) => {
            Err(error.context("a browser cannot send your token, and this server does not sign links"))
        }
        Err(error) => Err(error),
    }
}

fn has_link(url: &Url) -> bool {
    url.query_pairs().any(|(name, _)| name == "link")
}

fn status(error: &anyhow::Error) -> Option<u16> {
    error.downcast_ref::<DualResponseClientError>()?.status()
}
