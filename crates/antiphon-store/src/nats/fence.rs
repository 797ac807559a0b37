use async_nats::jetstream::message::PublishMessage;

use super::{
    link::{Kept, Kind, Link},
    queue::JobRef,
};
use crate::error::Result;

/// What a job has come to. Its messages are numbered, and each is written only over the one before it, so
/// that of all who want to do something about the job exactly one does.
///
/// `JetStream` itself takes an acknowledgement from whoever had the job last week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    pub(super) state: State,
    /// How often the job was leased.
    pub(super) attempt: u32,
    /// Who has it, or had it.
    pub(super) holder: u64,
    /// Until when it is theirs, or nobody's.
    pub(super) until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Leased,
    /// Given back.
    Waiting,
    Done,
    Dead,
}

const NAMES: [(State, &str); 4] =
    [(State::Leased, "leased"), (State::Waiting, "waiting"), (State::Done, "done"), (State::Dead, "dead")];

impl Fence {
    pub(super) fn in_state(self, state: State) -> Self {
        Self { state, ..self }
    }

    fn message(self) -> PublishMessage {
        let name = NAMES[self.state as usize].1;
        let text = format!("{name} {} {:x} {}", self.attempt, self.holder, self.until);
        PublishMessage::build().payload(text.into())
    }

    pub(super) fn read(kept: &Kept) -> Option<Self> {
        let mut parts = std::str::from_utf8(&kept.payload).ok()?.split(' ');
        let name = parts.next()?;
        Some(Self {
            state: NAMES.iter().find(|(_, known)| *known == name)?.0,
            attempt: parts.next()?.parse().ok()?,
            holder: u64::from_str_radix(parts.next()?, 16).ok()?,
            until: parts.next()?.parse().ok()?,
        })
    }
}

/// The fence of a job, and its number; none before the job was ever leased.
pub(super) async fn fence(link: &Link, place: &JobRef) -> Result<Option<(u64, Fence)>> {
    let found = link.last(Kind::Fences, &place.fence(link)).await?;
    Ok(found.and_then(|kept| Some((kept.sequence, Fence::read(&kept)?))))
}

/// Writes a fence over number `at`; 0 is none. `None` if another is there.
pub(super) async fn set_fence(link: &Link, place: &JobRef, fence: Fence, at: u64) -> Result<Option<u64>> {
    link.put_at(&place.fence(link), fence.message(), at).await
}
