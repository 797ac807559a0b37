//! The versions of MCP, by their dates. No other file of this crate has one.

/// All versions that were published, oldest first.
#[cfg_attr(not(feature = "telemetry"), expect(dead_code, reason = "metrics name the version of a request"))]
pub(crate) const VERSIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", SESSION, ROUNDS];

/// The last version with sessions, and the first with tasks.
pub(crate) const SESSION: &str = "2025-11-25";

/// The first version without sessions.
pub(crate) const ROUNDS: &str = "2026-07-28";

/// The two ways MCP lets a server ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revision {
    /// 2025-11-25 and before: the server sends requests in a session.
    Session,
    /// 2026-07-28: the server answers that input is required.
    Rounds,
}

impl Revision {
    /// The way of a version. A request that names none belongs to a session.
    pub(crate) fn of(version: Option<&str>) -> Self {
        match version {
            Some(version) if version >= ROUNDS => Self::Rounds,
            _ => Self::Session,
        }
    }
}
