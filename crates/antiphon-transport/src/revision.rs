//! The protocol revisions of MCP, by their dates.

/// All published revisions, oldest first.
pub const VERSIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", SESSION, ROUNDS];

/// The last revision with sessions, and the first with tasks.
pub const SESSION: &str = "2025-11-25";

/// The first revision without sessions.
pub const ROUNDS: &str = "2026-07-28";

/// The two ways in which a server can ask a client for input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// 2025-11-25 and before: the server sends requests in a session.
    Session,
    /// 2026-07-28: the server answers that input is required.
    Rounds,
}

impl Revision {
    /// Returns the way for a version. A request without a version belongs to a session.
    pub fn of(version: Option<&str>) -> Self {
        match version {
            Some(version) if version >= ROUNDS => Self::Rounds,
            _ => Self::Session,
        }
    }
}
