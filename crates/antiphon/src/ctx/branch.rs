use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use antiphon_replay::Key;

use super::{Ctx, timer::Timer};
use crate::error::{Error, ErrorKind, Result};

impl Ctx {
    /// A part of the conversation with a scope of its own: its questions and steps are named under
    /// `name`, it can be bounded, and it ends with whoever awaits it.
    ///
    /// Run several at once with `tokio::join!`; what they ask together is asked together. Nothing is
    /// spawned: a branch whose parent is dropped is dropped with it, and so are its own branches.
    ///
    /// # Errors
    ///
    /// What `body` returns; and a limit's error when the branch asks more than
    /// [`max_asks`](Branch::max_asks), takes longer than [`timeout`](Branch::timeout), or is nested
    /// deeper than the server allows.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// # #[derive(Deserialize, JsonSchema)] struct Vote { yes: bool }
    /// async fn poll(ctx: &Ctx, _: ()) -> Result<String> {
    ///     let (a, b) = tokio::join!(
    ///         ctx.branch("ann", async |ctx| ctx.elicit::<Vote>("Ann?").await),
    ///         ctx.branch("bob", async |ctx| ctx.elicit::<Vote>("Bob?").await).max_asks(1),
    ///     );
    ///     Ok(format!("{} to {}", a?.accepted()?.yes, b?.accepted()?.yes))
    /// }
    /// ```
    pub fn branch<'a, T, F>(
        &'a self,
        name: &str,
        body: F,
    ) -> Branch<'a, impl Future<Output = Result<T>> + use<'a, T, F>>
    where
        F: AsyncFnOnce(&Self) -> Result<T> + 'a,
        T: 'a,
    {
        let key = self.take_key(name);
        let budget = Arc::new(Budget {
            left: AtomicU32::new(u32::MAX),
            spent: AtomicU32::new(0),
            asks: AtomicU32::new(u32::MAX),
            parent: self.budget.clone(),
        });
        let mut child = self.child(key.as_str().to_owned());
        child.depth += 1;
        child.budget = Some(Arc::clone(&budget));
        let (depth, limit) = (child.depth, self.run.runtime.limits.branch_depth);
        let body = async move {
            if depth > limit {
                return Err(Error::new(ErrorKind::Limit(format!(
                    "branches are nested deeper than {limit}; raise `Limits::with_branch_depth` if they must be"
                ))));
            }
            body(&child).await
        };
        Branch { ctx: self, body: Box::pin(body), key, budget, timeout: None, timer: None }
    }

    /// A context in another scope of the same run.
    pub(super) fn child(&self, scope: String) -> Self {
        Self { run: Arc::clone(&self.run), scope, depth: self.depth, budget: self.budget.clone() }
    }
}

/// How much a branch and those around it may still ask.
#[derive(Debug)]
pub(super) struct Budget {
    left: AtomicU32,
    /// What was asked here.
    spent: AtomicU32,
    /// The limit, for the error message.
    asks: AtomicU32,
    parent: Option<Arc<Self>>,
}

impl Budget {
    /// Counts one question, here and in every branch around.
    pub(super) fn spend(&self) -> Result<()> {
        let spent = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if spent.is_err() {
            let asks = self.asks.load(Ordering::Relaxed);
            return Err(Error::new(ErrorKind::Limit(format!(
                "the branch may ask {asks} questions and has asked them"
            ))));
        }
        self.parent.as_ref().map_or(Ok(()), |parent| parent.spend())?;
        self.spent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Counts what a loop in `parent` asks, so that it can be counted again after it was forgotten.
    pub(super) fn of_loop(parent: Arc<Self>) -> Arc<Self> {
        let (left, spent, asks) = (AtomicU32::new(u32::MAX), AtomicU32::new(0), AtomicU32::new(u32::MAX));
        Arc::new(Self { left, spent, asks, parent: Some(parent) })
    }

    pub(super) fn spent(&self) -> u32 {
        self.spent.load(Ordering::Relaxed)
    }
}

/// A part of a conversation, not yet begun. `.await` begins it.
///
/// # Cancel safety
///
/// Dropped, everything in it is dropped with it.
#[must_use = "a branch begins when it is awaited"]
pub struct Branch<'a, B> {
    ctx: &'a Ctx,
    body: Pin<Box<B>>,
    key: Key,
    budget: Arc<Budget>,
    timeout: Option<Duration>,
    timer: Option<Timer>,
}

impl<B> Branch<'_, B> {
    /// Bounds how many questions the branch may ask, those of its own branches included. Asking a
    /// model again because its reply did not fit counts.
    pub fn max_asks(self, asks: u32) -> Self {
        self.budget.left.store(asks, Ordering::Relaxed);
        self.budget.asks.store(asks, Ordering::Relaxed);
        self
    }

    /// Bounds how long the branch may take, the time it waits for people included.
    ///
    /// # Replay
    ///
    /// The deadline is recorded when the branch begins, and so is that it passed. On 2026-07-28 it
    /// is looked at when the answer comes: nothing of a run is awake before.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl<T, B: Future<Output = Result<T>>> Future for Branch<'_, B> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(timeout) = this.timeout {
            let timer = this.timer.get_or_insert_with(|| Timer::new(&this.key, timeout));
            if timer.poll_begin(this.ctx, cx)?.is_pending() {
                return Poll::Pending;
            }
        }
        if let Poll::Ready(result) = this.body.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        match (&this.timer, this.timeout) {
            (Some(timer), Some(timeout)) if timer.poll_passed(this.ctx, cx) => {
                Poll::Ready(Err(Error::new(ErrorKind::Timeout(timeout))))
            }
            _ => Poll::Pending,
        }
    }
}

impl<B> Drop for Branch<'_, B> {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            timer.leave(self.ctx);
        }
    }
}

impl<B> fmt::Debug for Branch<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branch").field("key", &self.key).finish_non_exhaustive()
    }
}
