use async_nats::jetstream::message::PublishMessage;

use super::link::{Kept, Kind, Link};

/// Timers that go off within some eight seconds share a subject, so that what is due is found by asking which
/// subjects there are, and not by reading what is not due.
const BUCKET: u32 = 13;

/// When a record has to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Timer {
    pub(super) due: u64,
    pub(super) kind: TimerKind,
    pub(super) key: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerKind {
    /// Set before a record was written, which may not have happened yet.
    Written,
    /// Set for a record that was there.
    Seen,
    /// Set for the end of a claim, which has this number, on the version of the record with this number. Earlier versions
    /// of this crate wrote no number of the version; it is then 0.
    Claimed { claim: u64, version: u64 },
}

impl Timer {
    pub(super) fn written(due: u64, key: &str) -> Self {
        Self { due, kind: TimerKind::Written, key: key.to_owned() }
    }

    pub(super) fn at(&self, due: u64, kind: TimerKind) -> Self {
        Self { due, kind, key: self.key.clone() }
    }

    pub(super) fn subject(&self, link: &Link) -> String {
        let group = self.key.split('/').next().unwrap_or_default();
        link.subject(Kind::Timers, &format!("{group}/{}", bucket(self.due)))
    }

    pub(super) fn message(&self) -> PublishMessage {
        let kind = match self.kind {
            TimerKind::Written => "w".to_owned(),
            TimerKind::Seen => "s".to_owned(),
            TimerKind::Claimed { claim, version } => format!("{claim}.{version}"),
        };
        PublishMessage::build().payload(format!("{} {kind} {}", self.due, self.key).into())
    }

    pub(super) fn read(kept: &Kept) -> Option<Self> {
        let text = std::str::from_utf8(&kept.payload).ok()?;
        let mut parts = text.splitn(3, ' ');
        let due = parts.next()?.parse().ok()?;
        let kind = match parts.next()? {
            "w" => TimerKind::Written,
            "s" => TimerKind::Seen,
            claimed => {
                let (claim, version) = claimed.split_once('.').unwrap_or((claimed, "0"));
                TimerKind::Claimed { claim: claim.parse().ok()?, version: version.parse().ok()? }
            }
        };
        Some(Self { due, kind, key: parts.next()?.to_owned() })
    }
}

/// Which subject timers share that are due at `time`.
pub(super) fn bucket(time: u64) -> u64 {
    time >> BUCKET
}
