use crate::protocol::revision::{ROUNDS, SESSION};

/// The protocol revision that a test client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// MCP 2025-11-25. On this revision, the client opens a session, and the server sends questions in this session.
    V2025_11_25,
    /// MCP 2026-07-28. On this revision, the client has no session. The server returns questions as the result of the
    /// client's request.
    V2026_07_28,
}

impl Revision {
    /// Both protocol revisions that a test client can use, oldest first.
    pub const BOTH: [Self; 2] = [Self::V2025_11_25, Self::V2026_07_28];

    /// Returns the name of the protocol revision. The name is a date, for example `2025-11-25`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2025_11_25 => SESSION,
            Self::V2026_07_28 => ROUNDS,
        }
    }
}
