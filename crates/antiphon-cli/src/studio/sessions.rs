//! All sessions of the web page, one for each connection to an MCP server.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use antiphon_transport::revision::Revision;
use axum::http::StatusCode;
use clap::ValueEnum as _;
use serde_json::{Value, json};

use super::{
    refusal::Refusal,
    session::{Sampler, Session},
};
use crate::{
    config::{Config, Kind},
    exit::Misused,
    global::App,
    target::{ConnectionArgs, ProtocolChoice, Target},
};

/// The maximum number of connections.
const MOST: usize = 8;
/// The time that a web page has to listen to its session again after a reload, or after the computer wakes up.
const FORGOTTEN: Duration = Duration::from_mins(1);
/// The timeout to connect to a server.
const PATIENCE: Duration = Duration::from_secs(30);

/// The connections of the web page, and the settings for new connections.
pub(super) struct Sessions {
    app: App,
    sampler: Sampler,
    /// The server from the command line, and its connection options. The token in the connection options is not sent to
    /// other servers.
    first: Option<(String, ConnectionArgs)>,
    open: Mutex<BTreeMap<String, Arc<Session>>>,
}

impl Sessions {
    pub(super) fn new(app: &App, sampler: Sampler, first: Option<(String, ConnectionArgs)>) -> Self {
        let App { json, verbose, interactive, config } = app;
        let app = App { json: *json, verbose: *verbose, interactive: *interactive, config: config.clone() };
        Self { app, sampler, first, open: Mutex::default() }
    }

    /// Returns the configured servers, without their secrets.
    pub(super) fn known(&self) -> Value {
        let Config { servers, .. } = &self.app.config;
        let servers: Vec<Value> = servers
            .iter()
            .map(|(name, server)| {
                let kind = match server.kind() {
                    Ok(Kind::Program(_)) => "program",
                    Ok(Kind::Http(_) | Kind::Sse(_) | Kind::WebSocket(_)) => "url",
                    Err(_) => "broken",
                };
                json!({"name": name, "about": server.describe(), "kind": kind, "revision": server.revision})
            })
            .collect();
        let revision = self.first.as_ref().and_then(|(_, reach)| reach.revision);
        json!({
            "servers": servers,
            "first": self.first.as_ref().map(|(server, _)| server),
            "revision": revision.map(ProtocolChoice::version),
            "model": self.sampler.name(),
            "hand": matches!(self.sampler, Sampler::Hand),
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
        let choice = |version: &str| {
            ProtocolChoice::from_str(version, false).map_err(|_| {
                let (modern, legacy) = (Revision::Rounds.version(), Revision::Session.version());
                let message = format!("`{version}` is not supported; use {modern} or {legacy}");
                Refusal::new(StatusCode::BAD_REQUEST, message)
            })
        };
        reach.revision = revision.map(choice).transpose()?;
        self.make_room().await?;
        let target = Target { server: server.trim().to_owned(), reach };
        let connecting = Session::connect(&self.app, &self.sampler, new_id()?, &target);
        let session = match tokio::time::timeout(PATIENCE, connecting).await {
            Ok(Ok(session)) => Arc::new(session),
            Ok(Err(error)) if error.is::<Misused>() => {
                return Err(Refusal::new(StatusCode::BAD_REQUEST, format!("{error:#}")));
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => {
                let message =
                    format!("no response for {} s; check that it is an MCP server", PATIENCE.as_secs());
                return Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, message));
            }
        };
        self.lock().insert(session.id.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// Closes a session without a listener, if there are too many sessions.
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

    /// Returns the session to which a call or a question belongs.
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

/// A session without a listener.
struct Unheard<'a> {
    id: &'a str,
    time: Duration,
    busy: bool,
}

/// Selects the session to close: an idle session, or a busy session that has had no listener for longer than
/// `FORGOTTEN`.
fn least_missed<'a>(unheard: impl Iterator<Item = Unheard<'a>>) -> Option<&'a str> {
    let can_go = unheard.filter(|it| !it.busy || it.time > FORGOTTEN);
    can_go.max_by_key(|it| (!it.busy, it.time)).map(|it| it.id)
}

fn new_id() -> Result<String, Refusal> {
    let mut bytes = [0; 8];
    let failed = |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "no random numbers are available");
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
