//! Opens result sets on the web page of their server.
//!
//! The URL of the server's web page contains a signed link, which expires. So the CLI requests the signed link only
//! when the user opens the result set. The studio's web page never receives the server's credentials.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use antiphon_results::client::ParsedDualResponse;
use anyhow::Result;
use url::{Origin, Url};

use super::refusal::Refusal;
use crate::{
    config::{Config, Kind},
    results::{Remote, address},
    target::Target,
};

/// The maximum number of stored sets per session. If a session has too many sets, the oldest sets are removed.
const KEPT: usize = 32;

/// The result sets of a session.
pub(super) struct Viewer {
    /// The server's origin, and the headers to send to it.
    home: Option<(Origin, Vec<(String, String)>)>,
    /// Calls that returned a set, and the URL of each set.
    sets: Mutex<VecDeque<(String, String)>>,
}

impl Viewer {
    /// Creates a viewer for the sets of this server.
    pub(super) fn new(target: &Target, config: &Config) -> Result<Self> {
        let definition = target.definition(config)?.expanded()?;
        let home = match definition.kind()? {
            Kind::Http(url) => Some((Url::parse(url)?.origin(), definition.all_headers(&target.reach)?)),
            Kind::Sse(_) | Kind::WebSocket(_) | Kind::Program(_) => None,
        };
        Ok(Self { home, sets: Mutex::default() })
    }

    /// Stores the URL of a call's result set. Returns `false` if the set has no allowed URL.
    pub(super) fn keep(&self, call: &str, set: &ParsedDualResponse) -> bool {
        let Ok(url) = set.resource_url() else { return false };
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.push_back((call.to_owned(), url.to_owned()));
        if sets.len() > KEPT {
            sets.pop_front();
        }
        true
    }

    /// Returns the URL that shows the result set of a call. The URL contains a signed link, which expires.
    pub(super) async fn open(&self, call: &str) -> Result<Url, Refusal> {
        let url = {
            let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
            sets.iter().find(|(of, _)| of == call).map(|(_, url)| url.clone())
        };
        let url = url.ok_or_else(|| Refusal::unknown("result set"))?;
        // Send the server's headers only to the origin of the server.
        let ours = self
            .home
            .as_ref()
            .filter(|(origin, _)| Url::parse(&url).is_ok_and(|url| url.origin() == *origin));
        let headers = ours.map(|(_, headers)| headers.clone()).unwrap_or_default();
        Ok(address(&Remote::at(&url, headers)?).await?)
    }
}
