//! The protocol revisions (versions) of MCP, which are named by their dates.
//!
//! All crates of the workspace take the dates from this module. To support a new protocol revision, add its date to
//! [`VERSIONS`], and return the date from [`Revision::version`] and `Revision::protocol_version`. The SDK must also
//! support the new revision. Do not change [`ROUNDS`]: this constant is the first revision with rounds, and other
//! modules compare revisions with `ROUNDS`. If a server asks questions in a new way, also add a variant to
//! [`Revision`]. The compiler then reports each `match` that lacks the new variant. The compiler does not report
//! comparisons, so also search for comparisons such as `== Revision::Rounds`.

#[cfg(feature = "__sdk")]
use rmcp::model::ProtocolVersion;

/// All published protocol revisions, oldest first.
pub const VERSIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", SESSION, ROUNDS];

/// The last protocol revision with sessions, and the first protocol revision with tasks.
pub const SESSION: &str = "2025-11-25";

/// The first protocol revision without sessions. From this revision on, a server asks the client in rounds: the server
/// returns a question, and the client calls again with the answer.
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
    /// Returns how a server asks questions in the protocol revision `version`. A request without a version belongs to
    /// a session.
    pub fn of(version: Option<&str>) -> Self {
        match version {
            Some(version) if version >= ROUNDS => Self::Rounds,
            _ => Self::Session,
        }
    }

    /// Returns how a server asks questions in the protocol revision `version`, or `None` if `version` is not one of
    /// [`VERSIONS`].
    pub fn of_published(version: &str) -> Option<Self> {
        VERSIONS.contains(&version).then(|| Self::of(Some(version)))
    }

    /// Returns the newest protocol revision in which a server asks questions in the way `self`.
    pub fn version(self) -> &'static str {
        match self {
            Self::Session => SESSION,
            Self::Rounds => ROUNDS,
        }
    }

    /// Returns [`version`](Self::version) as a `ProtocolVersion` of the SDK.
    #[cfg(feature = "__sdk")]
    pub fn protocol_version(self) -> ProtocolVersion {
        match self {
            Self::Session => ProtocolVersion::V_2025_11_25,
            Self::Rounds => ProtocolVersion::V_2026_07_28,
        }
    }

    /// Returns all protocol revisions in which a server asks questions in the way `self`, newest first.
    #[cfg(feature = "__sdk")]
    pub fn protocol_versions(self) -> Vec<ProtocolVersion> {
        let known = ProtocolVersion::KNOWN_VERSIONS.iter().rev();
        known.filter(|version| Self::of_published(version.as_str()) == Some(self)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_sorted_and_end_with_the_newest() {
        assert!(VERSIONS.is_sorted());
        assert_eq!(VERSIONS.last(), Some(&Revision::Rounds.version()));
    }

    #[test]
    fn of_published_rejects_unknown_versions() {
        assert!(VERSIONS.iter().all(|version| Revision::of_published(version).is_some()));
        assert_eq!(Revision::of_published("2024-11-05"), Some(Revision::Session));
        assert_eq!(Revision::of_published("2027-01-01"), None);
    }

    #[test]
    fn version_belongs_to_its_revision() {
        for revision in [Revision::Session, Revision::Rounds] {
            assert_eq!(Revision::of_published(revision.version()), Some(revision));
            #[cfg(feature = "__sdk")]
            assert_eq!(revision.protocol_version().as_str(), revision.version());
        }
    }

    /// Checks that [`VERSIONS`] are the versions of the SDK, because a server lists the SDK's versions as its
    /// supported versions.
    #[cfg(feature = "__sdk")]
    #[test]
    fn versions_are_those_of_the_sdk() {
        let known: Vec<&str> = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
        assert_eq!(known, VERSIONS);
    }

    #[cfg(feature = "__sdk")]
    #[test]
    fn protocol_versions_start_with_the_newest_and_have_each_version_once() {
        let mut all = Vec::new();
        for revision in [Revision::Rounds, Revision::Session] {
            let versions = revision.protocol_versions();
            assert_eq!(versions.first(), Some(&revision.protocol_version()));
            all.extend(versions.iter().map(|version| version.as_str().to_owned()));
        }
        all.reverse();
        assert_eq!(all, VERSIONS);
    }
}
