//! Repeated calls. A repeated call joins a run that waits for its user.

use antiphon_replay::canonical;

use super::Client;
use crate::{base::digest, mcp::Service, run::AskOptions, task::NewTask};

/// Returns a name for a call. The name is the same if the same caller repeats the same call in the same session.
/// Returns `None` if the run cannot wait for its user, or if repeated calls must not join it.
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
    // The name is part of a record name in the store. Without the secret, a reader of the store could guess the
    // arguments. If the active encryption key changes, the secret changes too. A repeated call then starts a second
    // run.
    let secret = service.runtime.seal.call_key(&service.runtime.audience);
    let program = client.program().unwrap_or_default();
    // The waiting result tells the model how the user can answer, which depends on the channels of the client.
    let channels = format!("{:?}", ask.channels);
    let arguments = canonical(&new.arguments);
    let session = client.session_name();
    Some(digest(&[&secret, kind, user, session, &program, &channels, &new.tool, &arguments]))
}
