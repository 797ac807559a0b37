//! Result sets that a person can look at in their server's own page.
//!
//! The address of that page has a signed link in it, which ends. So it is made when somebody wants to look, by the
//! program: the page never sees what the program is let in with.

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

/// So many sets of a session can be looked at: the last ones.
const KEPT: usize = 32;

/// The result sets of a session.
pub(super) struct Viewer {
    /// What the server itself is talked to with, and where that may go.
    home: Option<(Origin, Vec<(String, String)>)>,
    /// The calls that had a set for an answer, and where it is.
    sets: Mutex<VecDeque<(String, String)>>,
}

impl Viewer {
    /// For the sets of this server.
    pub(super) fn new(target: &Target, config: &Config) -> Result<Self> {
        let definition = target.definition(config)?.expanded()?;
        let home = match definition.kind()? {
            Kind::Http(url) => Some((Url::parse(url)?.origin(), definition.all_headers(&target.reach)?)),
            _ => None,
        };
        Ok(Self { home, sets: Mutex::default() })
    }

    /// Remembers where the answer of a call is; false if it is nowhere we may go.
    pub(super) fn keep(&self, call: &str, set: &ParsedDualResponse) -> bool {
        let Ok(url) = set.resource_url() else { return false };
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.push_back((call.to_owned(), url.to_owned()));
        if sets.len() > KEPT {
            sets.pop_front();
        }
        true
    }

    /// Where the answer of a call can be looked at, for a while.
    pub(super) async fn open(&self, call: &str) -> Result<Url, Refusal> {
        let url = {
            let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
            sets.iter().find(|(of, _)| of == call).map(|(_, url)| url.clone())
        };
        let url = url.ok_or_else(|| Refusal::unknown("result set"))?;
        // What lets us in is the server's, and for nobody else.
        let ours = self
            .home
            .as_ref()
            .filter(|(origin, _)| Url::parse(&url).is_ok_and(|url| url.origin() == *origin));
        let headers = ours.map(|(_, headers)| headers.clone()).unwrap_or_default();
        Ok(address(&Remote::at(&url, headers)?).await?)
    }
}
