//! `antiphon results open`.

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

/// How long a person may look before the link ends, if the server allows it.
const LIFE: Duration = Duration::from_hours(1);

/// Look at a result set in the browser: all rows, sorted, filtered, as a chart.
///
/// The address that is opened has a signed link in it, which lets whoever has it see this one set, for an hour at most.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  antiphon results open http://127.0.0.1:3001/resources/abc123
  antiphon results open http://127.0.0.1:3001/resources/abc123 --print")]
pub(crate) struct Open {
    #[command(flatten)]
    set: Set,
    /// Print the address, and do not open a browser.
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
                // The browser may be slow to look, and nobody here waits for it. What stays behind only its owner can
                // read, and it leads to a link that ends.
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

/// A link that a server has signed.
#[derive(Deserialize)]
struct Link {
    url: String,
}

/// Where a person can look at a set in a browser, which brings nothing along but the address.
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
                // Is it the set that is not there, or the page?
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
        bail!("this server has no page for its result sets; `antiphon results URL` shows the rows here");
    }
    Ok(view)
}

/// A signed link, if the server signs any. Only the signature is taken: where the set is, is known already, and may
/// be elsewhere than where the server believes to be.
async fn mint(remote: &Remote) -> Result<Option<String>> {
    // The page reads and makes no new sets.
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
            Err(error.context("a browser cannot show your token, and this server signs no links"))
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
