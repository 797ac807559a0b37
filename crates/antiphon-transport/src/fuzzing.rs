//! Entry points for fuzzing. Only fuzz targets use the module `fuzzing`.

use rmcp::{RoleClient, RoleServer};

use crate::inbox::{Inbox, Role, Verdict};

/// Parses bytes as a message, in the same way as servers and clients over WebSocket and HTTP+SSE do. The server's
/// parser and the client's parser each parse the bytes twice: with and without the conversion of tasks.
pub fn judge(bytes: &[u8]) {
    for revises in [false, true] {
        judge_as::<RoleServer>(bytes, revises);
        judge_as::<RoleClient>(bytes, revises);
    }
}

/// # Panics
///
/// Panics if a response or a delivered message cannot be written.
fn judge_as<R: Role>(bytes: &[u8], revises: bool) {
    let inbox = Inbox::new(4, revises);
    match inbox.judge::<R>(bytes) {
        Verdict::Deliver(message) => {
            serde_json::to_vec(&message).expect("what was read can be written");
        }
        Verdict::Answer(refusal) => {
            let written = refusal.to_json();
            serde_json::from_str::<serde_json::Value>(&written).expect("an answer is JSON");
        }
        Verdict::Ignore => {}
    }
}
