use async_nats::jetstream::message::PublishMessage;

use super::link::{Kept, Kind, Link};

/// The binary logarithm of an interval in milliseconds (about eight seconds). Timers in the same interval share a
/// subject. So the names of the subjects show which timers are due, and timers that are not due are not read.
const BUCKET: u32 = 13;

/// The time at which a record must be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Timer {
    pub(super) due: u64,
    pub(super) kind: TimerKind,
    pub(super) key: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerKind {
    /// The timer was set before its record was written. The write of the record has possibly not happened yet.
    Written,
    /// The timer was set for an existing record.
    Seen,
    /// The timer was set for the time at which the claim with the sequence number `claim` ends. The claim is for the
    /// version `version` of the record. `version` is 0 in timers of earlier releases of this crate, which did not
    /// store the version.
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

/// Returns the number of the interval that contains `time`.
pub(super) fn bucket(time: u64) -> u64 {
    time >> BUCKET
}
