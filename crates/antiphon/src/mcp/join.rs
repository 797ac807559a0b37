//! Repeated tool calls. A repeated call joins a run that already waits for the user.

use antiphon_replay::canonical;

use super::Client;
use crate::{base::digest, mcp::Service, run::AskOptions, task::NewTask};

/// Returns a name for a call. Two calls have the same name if the same caller makes the same call twice in the same
/// session. Returns `None` if the run cannot wait for the user, or if the server does not allow repeated calls to join
/// a run.
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
    // The name of the call is part of a record name in the store. Without the secret, someone who can read the store
    // could guess the arguments. If the active encryption key changes, the secret also changes. A repeated call then
    // starts a second run instead of joining the first run.
    let secret = service.runtime.seal.call_key(&service.runtime.audience);
    let program = client.program().unwrap_or_default();
    // The text of the waiting result depends on the client's channels, because the text tells the model how the user
    // can answer.
    let channels = format!("{:?}", ask.channels);
    let arguments = canonical(&new.arguments);
    let session = client.session_name();
    Some(digest(&[&secret, kind, user, session, &program, &channels, &new.tool, &arguments]))
}
