//! Repeated calls, which join a run that waits for its user.

use antiphon_replay::canonical;

use super::Client;
use crate::{base::digest, mcp::Service, run::AskOptions, task::NewTask};

/// Returns the name of a call, which the same call of the same caller in the same session has, too. Returns `None` if
/// the run of the call cannot wait for its user, or if a repeated call must not join it.
pub(super) fn call_name(
    service: &Service,
    client: &Client,
    ask: AskOptions,
    new: &NewTask,
) -> Option<String> {
    let joins = service.asking.as_ref().is_some_and(|asking| asking.policy.joins);
    if !joins || !(ask.channels.any() || ask.relay) {
        return None;
    }
    let (kind, user) = client.user(new.principal.as_deref())?;
    // The name is part of a key in the store. Without the secret, a reader of the store could guess the arguments. The
    // secret changes with the active encryption key, and a repeated call then starts a second run.
    let secret = service.runtime.seal.call_key(&service.runtime.audience);
    let program = client.program().unwrap_or_default();
    // The result tells the model how its client reaches the user.
    let channels = format!("{:?}", ask.channels);
    let arguments = canonical(&new.arguments);
    let session = client.session_name();
    Some(digest(&[&secret, kind, user, session, &program, &channels, &new.tool, &arguments]))
}
