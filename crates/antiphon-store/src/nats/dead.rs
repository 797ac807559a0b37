use async_nats::jetstream::message::PublishMessage;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{
    fence::{Fence, State, fence, set_fence},
    lease::Held,
    link::{Kept, Kind},
    queue::{JobRef, NatsQueue},
    scan::PAGE,
    store::{GONE, TRIES, cursor},
};
use crate::{
    error::Result,
    queue::{DeadJob, Lease},
    store::{Cursor, Page},
};

/// The number of jobs that are checked concurrently.
const ABREAST: usize = 32;

// A dead job stays in its stream, so that its ID stays in use and its payload is kept. The fence of the job has the
// state `Dead`. The stream of dead jobs contains only names, for listings. A name is written before the job becomes
// dead and removed after the job is revived or discarded, so no dead job is missed. The fence determines whether the
// job of a name is dead.
impl NatsQueue {
    fn name_subject(&self, queue: &str, id: &str) -> String {
        self.link.subject(Kind::Dead, &format!("{queue}/{id}"))
    }

    /// Makes a job dead at the request of the worker that holds the job.
    pub(super) async fn bury_held(&self, lease: &Lease, held: &Held) -> Result<()> {
        self.held_at(lease, held).await?;
        self.link.put(&self.name_subject(&lease.queue, &lease.id), PublishMessage::build()).await?;
        self.settle(lease, held, held.fence(State::Dead)).await?;
        self.accept(&held.place, &held.offer).await;
        Ok(())
    }

    /// Makes a job dead, because the job was leased too often.
    pub(super) async fn lay_out(&self, place: &JobRef, fence: Fence, at: u64, offer: &str) -> Result<()> {
        self.link.put(&self.name_subject(&place.queue, &place.id), PublishMessage::build()).await?;
        if set_fence(&self.link, place, fence.in_state(State::Dead), at).await?.is_some() {
            self.accept(place, offer).await;
        }
        Ok(())
    }

    pub(super) async fn list_dead(
        &self,
        queue: &str,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<DeadJob>> {
        let from = cursor(after)?;
        if limit == 0 {
            return Ok(Page { items: Vec::new(), next: Some(Cursor(from.to_string())) });
        }
        let filter = self.link.subject(Kind::Dead, queue) + ".*";
        let scan = self.link.scan(Kind::Dead, filter, from, limit.min(PAGE)).await?;
        let next = scan.more.then(|| Cursor(scan.next(from).to_string()));
        let looks = scan.messages.into_iter().map(|name| self.look_at(queue, name));
        let items: Vec<_> = stream::iter(looks).buffered(ABREAST).try_collect().await?;
        Ok(Page { items: items.into_iter().flatten().collect(), next })
    }

    /// Returns the job with the name `name`, if the job's fence has the state `Dead`.
    async fn look_at(&self, queue: &str, name: Kept) -> Result<Option<DeadJob>> {
        let Some(id) = name.subject.rsplit('.').next() else { return Ok(None) };
        let Some((job, _, fence)) = self.dead_job(queue, id).await? else {
            self.link.forget(Kind::Dead, name.sequence).await;
            return Ok(None);
        };
        Ok(fence
            .filter(|fence| fence.state == State::Dead)
            .map(|fence| DeadJob::new(id, job.payload, fence.attempt)))
    }

    /// Returns the unfinished job with the ID `id`, and the fence of the job.
    async fn dead_job(&self, queue: &str, id: &str) -> Result<Option<(Kept, u64, Option<Fence>)>> {
        let job = self.link.last(Kind::Jobs, &self.job_subject(queue, id)).await?;
        let Some(job) = job.filter(|job| job.headers.get(GONE).is_none()) else { return Ok(None) };
        let place = JobRef { queue: queue.to_owned(), id: id.to_owned(), number: job.sequence };
        let found = fence(&self.link, &place).await?;
        let (number, fence) = found.map_or((0, None), |(number, fence)| (number, Some(fence)));
        Ok(Some((job, number, fence)))
    }

    /// Replaces a dead job with another message, and returns the sequence number of the new message. Returns `None` if
    /// no dead job has the ID `id`.
    pub(super) async fn replace_dead(
        &self,
        queue: &str,
        id: &str,
        message: impl Fn(&Kept) -> PublishMessage,
    ) -> Result<Option<u64>> {
        let name = self.link.last(Kind::Dead, &self.name_subject(queue, id)).await?;
        for _ in 0..TRIES {
            let Some((job, number, Some(Fence { state: State::Dead, .. }))) =
                self.dead_job(queue, id).await?
            else {
                return Ok(None);
            };
            let subject = self.job_subject(queue, id);
            if let Some(written) = self.link.put_at(&subject, message(&job), job.sequence).await? {
                self.link.forget(Kind::Fences, number).await;
                if let Some(name) = name {
                    self.link.forget(Kind::Dead, name.sequence).await;
                }
                return Ok(Some(written));
            }
        }
        Ok(None)
    }
}
