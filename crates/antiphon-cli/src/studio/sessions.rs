//! The servers the page is connected to.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use antiphon_llm::Model;
use antiphon_transport::revision;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::{refusal::Refusal, session::Session};
use crate::{
    config::{Config, Kind},
    exit::Misused,
    global::App,
    target::{ConnectionArgs, Revision, Target},
};

/// More servers than this at a time are not for one person.
const MOST: usize = 8;
/// A page that is loaded again, or whose machine wakes up, is back within this time.
const FORGOTTEN: Duration = Duration::from_mins(1);
/// A program that says nothing for this long is no server.
const PATIENCE: Duration = Duration::from_secs(30);

/// The servers the page is connected to, and what it takes to connect to more.
pub(super) struct Sessions {
    app: App,
    model: Option<Arc<dyn Model>>,
    /// The server that was named on the command line, and how it is reached. Its token is for nobody else.
    first: Option<(String, ConnectionArgs)>,
    open: Mutex<BTreeMap<String, Arc<Session>>>,
}

impl Sessions {
    pub(super) fn new(
        app: &App,
        model: Option<Arc<dyn Model>>,
        first: Option<(String, ConnectionArgs)>,
    ) -> Self {
        let App { json, verbose, interactive, config } = app;
        let app = App { json: *json, verbose: *verbose, interactive: *interactive, config: config.clone() };
        Self { app, model, first, open: Mutex::default() }
    }

    /// The servers that can be chosen, without their secrets.
    pub(super) fn known(&self) -> Value {
        let Config { servers, .. } = &self.app.config;
        let servers: Vec<Value> = servers
            .iter()
            .map(|(name, server)| {
                let kind = match server.kind() {
                    Ok(Kind::Program(_)) => "program",
                    Ok(_) => "url",
                    Err(_) => "broken",
                };
                json!({"name": name, "about": server.describe(), "kind": kind, "revision": server.revision})
            })
            .collect();
        let revision = self.first.as_ref().and_then(|(_, reach)| reach.revision);
        json!({
            "servers": servers,
            "first": self.first.as_ref().map(|(server, _)| server),
            "revision": revision.map(|revision| match revision {
                Revision::Modern => revision::ROUNDS,
                Revision::Legacy => revision::SESSION,
            }),
            "model": self.model.as_deref().map(Model::name),
        })
    }

    pub(super) async fn connect(
        &self,
        server: &str,
        revision: Option<&str>,
    ) -> Result<Arc<Session>, Refusal> {
        let mut reach = match &self.first {
            Some((first, reach)) if first == server => reach.clone(),
            _ => ConnectionArgs::default(),
        };
        reach.revision = match revision {
            None => None,
            Some(revision::ROUNDS) => Some(Revision::Modern),
            Some(revision::SESSION) => Some(Revision::Legacy),
            Some(other) => {
                let message = format!("`{other}` is no revision of MCP; 2026-07-28 and 2025-11-25 are");
                return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
            }
        };
        self.make_room().await?;
        let target = Target { server: server.trim().to_owned(), reach };
        let connecting = Session::connect(&self.app, self.model.clone(), new_id()?, &target);
        let session = match tokio::time::timeout(PATIENCE, connecting).await {
            Ok(Ok(session)) => Arc::new(session),
            Ok(Err(error)) if error.is::<Misused>() => {
                return Err(Refusal::new(StatusCode::BAD_REQUEST, format!("{error:#}")));
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => {
                let message =
                    format!("it has not answered for {} s; is it an MCP server?", PATIENCE.as_secs());
                return Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, message));
            }
        };
        self.lock().insert(session.id.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// Closes a session that nobody looks at, if there are too many.
    async fn make_room(&self) -> Result<(), Refusal> {
        let forgotten = {
            let mut open = self.lock();
            if open.len() < MOST {
                return Ok(());
            }
            let unheard = open.iter().filter_map(|(id, session)| {
                Some(Unheard { id, time: session.feed.unheard_for()?, busy: session.is_busy() })
            });
            let id = least_missed(unheard).map(str::to_owned);
            id.and_then(|id| open.remove(&id))
        };
        let Some(session) = forgotten else {
            return Err(Refusal::busy("too many servers are connected; disconnect one first"));
        };
        session.close().await;
        Ok(())
    }

    pub(super) fn find(&self, id: &str) -> Result<Arc<Session>, Refusal> {
        self.lock().get(id).map(Arc::clone).ok_or_else(|| Refusal::unknown("session"))
    }

    /// The session that a call or a question is of.
    pub(super) fn of(&self, id: &str) -> Result<Arc<Session>, Refusal> {
        self.find(id.rsplit_once('-').map_or(id, |(session, _)| session))
    }

    pub(super) fn remove(&self, id: &str) -> Result<Arc<Session>, Refusal> {
        self.lock().remove(id).ok_or_else(|| Refusal::unknown("session"))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that nobody listens to.
struct Unheard<'a> {
    id: &'a str,
    time: Duration,
    busy: bool,
}

/// The session that nobody would miss: an idle one, or one whose page has been gone for long with a call under way.
fn least_missed<'a>(unheard: impl Iterator<Item = Unheard<'a>>) -> Option<&'a str> {
    let can_go = unheard.filter(|it| !it.busy || it.time > FORGOTTEN);
    can_go.max_by_key(|it| (!it.busy, it.time)).map(|it| it.id)
}

fn new_id() -> Result<String, Refusal> {
    let mut bytes = [0; 8];
    let failed = |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "this system gives no random numbers");
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(super::hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes(unheard: &[(&'static str, u64, bool)]) -> Option<&'static str> {
        least_missed(unheard.iter().map(|&(id, seconds, busy)| Unheard {
            id,
            time: Duration::from_secs(seconds),
            busy,
        }))
    }

    #[test]
    fn idle_sessions_go_first_and_busy_ones_only_when_long_forgotten() {
        assert_eq!(goes(&[("asks", 600, true), ("idle", 1, false), ("older", 2, false)]), Some("older"));
        assert_eq!(goes(&[("asks", 61, true), ("longer", 600, true), ("loads", 2, true)]), Some("longer"));
        assert_eq!(goes(&[("loads", 2, true), ("too", 60, true)]), None);
        assert_eq!(goes(&[]), None);
    }
}
