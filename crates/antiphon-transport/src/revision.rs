//! The protocol revisions (versions) of MCP, which are named by their dates.

/// All published protocol revisions, oldest first.
pub const VERSIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", SESSION, ROUNDS];

/// The last protocol revision with sessions, and the first protocol revision with tasks.
pub const SESSION: &str = "2025-11-25";

/// The first protocol revision without sessions. A server asks the client in rounds: the server returns a question, and
/// the client calls again with the answer.
pub const ROUNDS: &str = "2026-07-28";

/// The way in which a server asks a client questions, which depends on the protocol revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// MCP 2025-11-25 and earlier: the server sends questions as requests in a session.
    Session,
    /// MCP 2026-07-28: the server returns questions as a result that requires input.
    Rounds,
}

impl Revision {
    /// Returns how a server asks questions in the protocol revision `version`. A request without a version belongs to a
    /// session.
    pub fn of(version: Option<&str>) -> Self {
        match version {
            Some(version) if version >= ROUNDS => Self::Rounds,
            _ => Self::Session,
        }
    }
}
