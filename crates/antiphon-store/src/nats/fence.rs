use async_nats::jetstream::message::PublishMessage;

use super::{
    link::{Kept, Kind, Link},
    queue::JobRef,
};
use crate::error::Result;

/// The state of a job. Each write of a fence must contain the sequence number of the previous fence. So exactly one of
/// several concurrent writes of a fence succeeds.
///
/// The fence is necessary, because `JetStream` accepts an acknowledgement from any earlier holder of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    pub(super) state: State,
    /// The number of times that the job was leased.
    pub(super) attempt: u32,
    /// The ID of the current or last holder of the job.
    pub(super) holder: u64,
    /// The time until which the job is leased or delayed.
    pub(super) until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Leased,
    /// The job was returned to the queue.
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

/// Returns the fence of a job, together with the sequence number of the fence. Returns `None` if the job was never
/// leased.
pub(super) async fn fence(link: &Link, place: &JobRef) -> Result<Option<(u64, Fence)>> {
    let found = link.last(Kind::Fences, &place.fence(link)).await?;
    Ok(found.and_then(|kept| Some((kept.sequence, Fence::read(&kept)?))))
}

/// Writes a fence that replaces the fence with sequence number `at`. If `at` is 0, the job must not have a fence yet.
/// Returns `None` if the current fence has another sequence number.
pub(super) async fn set_fence(link: &Link, place: &JobRef, fence: Fence, at: u64) -> Result<Option<u64>> {
    link.put_at(&place.fence(link), fence.message(), at).await
}
