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
    /// Runs a part of the tool as a branch. In a branch, question keys and step names start with `name`. So two
    /// branches can use the same question keys and step names.
    ///
    /// [`Branch::max_asks`] limits the number of questions in the branch, and [`Branch::timeout`] limits the duration
    /// of the branch.
    ///
    /// Run several branches concurrently with `tokio::join!`. The server sends the questions of concurrent branches in
    /// the same round. A branch is not a Tokio task. If the future of a branch is dropped, the branch and its nested
    /// branches end.
    ///
    /// # Errors
    ///
    /// Returns the error that `body` returns. Returns [`ErrorKind::Limit`] if the branch asks more questions than
    /// [`max_asks`](Branch::max_asks) allows, or if branches are nested deeper than the server allows. Returns
    /// [`ErrorKind::Timeout`] if the branch takes longer than [`timeout`](Branch::timeout) allows.
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
                    "branches are nested deeper than the limit of {limit}; nest fewer branches, or raise `Limits::with_branch_depth`"
                ))));
            }
            body(&child).await
        };
        Branch { ctx: self, body: Box::pin(body), key, budget, timeout: None, timer: None }
    }

    /// Returns a context for the same run in which question keys have the prefix `scope`.
    pub(super) fn child(&self, scope: String) -> Self {
        Self {
            run: Arc::clone(&self.run),
            scope,
            depth: self.depth,
            budget: self.budget.clone(),
            mounts: self.mounts.clone(),
        }
    }
}

/// Counts how many questions a branch can still ask. Questions of a branch also count in all its parent branches.
#[derive(Debug)]
pub(super) struct Budget {
    left: AtomicU32,
    /// The number of questions that this branch has already asked.
    spent: AtomicU32,
    /// The maximum number of questions, which the error message states.
    asks: AtomicU32,
    parent: Option<Arc<Self>>,
}

impl Budget {
    /// Counts one question, in this branch and in all its parent branches.
    pub(super) fn spend(&self) -> Result<()> {
        let spent = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if spent.is_err() {
            let asks = self.asks.load(Ordering::Relaxed);
            return Err(Error::new(ErrorKind::Limit(format!(
                "the branch has reached its limit of {asks} questions; ask fewer questions, or raise `Branch::max_asks`"
            ))));
        }
        self.parent.as_ref().map_or(Ok(()), |parent| parent.spend())?;
        self.spent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Creates a counter for the questions of a loop. The counter `parent` also counts these questions. The loop stores
    /// its counter together with its state, because the journal does not keep the entries of earlier iterations.
    pub(super) fn of_loop(parent: Arc<Self>) -> Arc<Self> {
        let (left, spent, asks) = (AtomicU32::new(u32::MAX), AtomicU32::new(0), AtomicU32::new(u32::MAX));
        Arc::new(Self { left, spent, asks, parent: Some(parent) })
    }

    pub(super) fn spent(&self) -> u32 {
        self.spent.load(Ordering::Relaxed)
    }
}

/// A part of the tool's code whose question keys and step names have a common prefix. To run the branch, `.await` this
/// value.
///
/// # Cancel safety
///
/// If you drop the branch, the server withdraws the pending questions of the branch and drops its running steps.
#[must_use = "a branch does nothing until you `.await` it"]
pub struct Branch<'a, B> {
    ctx: &'a Ctx,
    body: Pin<Box<B>>,
    key: Key,
    budget: Arc<Budget>,
    timeout: Option<Duration>,
    timer: Option<Timer>,
}

impl<B> Branch<'_, B> {
    /// Sets the maximum number of questions in the branch, including the questions of nested branches. If the server
    /// asks again after an invalid answer or reply, this retry counts as a question. Default: no limit.
    pub fn max_asks(self, asks: u32) -> Self {
        self.budget.left.store(asks, Ordering::Relaxed);
        self.budget.asks.store(asks, Ordering::Relaxed);
        self
    }

    /// Sets the maximum duration of the branch, including the time that users need to answer. Default: no limit.
    ///
    /// # Replay
    ///
    /// When the branch begins, the journal records the deadline of the branch. The journal also records whether the
    /// deadline has passed. On MCP 2026-07-28, a suspended run is not in memory, unless the run is a task. The server
    /// checks the deadline of such a run only when the answer arrives.
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
