use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use super::{Ctx, timer::Timer};
use crate::error::{Error, ErrorKind, Result};

impl Ctx {
    /// Waits for the given duration. In a task, the server can remove the run from memory during the wait, and a worker
    /// resumes the run after the wait.
    ///
    /// The journal contains the time at which the wait ends. So if the run resumes, it waits only for the remaining
    /// time. Outside of a task, the client's request stays open during the wait.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Cancelled`] if the task is cancelled during the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use antiphon::prelude::*;
    /// # async fn example(ctx: &Ctx, _: ()) -> Result<()> {
    /// ctx.sleep(Duration::from_secs(24 * 3600)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sleep(&self, duration: Duration) -> Sleep<'_> {
        Sleep { ctx: self, timer: Timer::new(&self.take_key("sleep"), duration), over: false }
    }

    /// Requests that the run continues as a task, so that the client does not have to wait for the result. The tool's
    /// [policy](crate::task::TaskPolicy) must allow tasks, and the client must support tasks. The run becomes a task at
    /// the tool's next `.await`. At this time, the server sends the ID of the task to the client.
    ///
    /// If the run cannot become a task, calling `continue_as_task` has no effect.
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// # async fn convert() -> Result<u64> { Ok(1) }
    /// async fn import(ctx: &Ctx, _: ()) -> Result<String> {
    ///     ctx.continue_as_task();
    ///     let rows = ctx.step("convert", convert).await?;
    ///     Ok(format!("{rows} rows"))
    /// }
    /// ```
    pub fn continue_as_task(&self) {
        self.run.want_promotion();
    }
}

/// A wait for a given duration. To start the wait, `.await` this value.
#[must_use = "a wait begins when it is awaited"]
pub struct Sleep<'a> {
    ctx: &'a Ctx,
    timer: Timer,
    over: bool,
}

impl Future for Sleep<'_> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.timer.poll_begin(this.ctx, cx)?.is_pending() {
            return Poll::Pending;
        }
        let passed = std::task::ready!(this.timer.poll_over(this.ctx, cx));
        this.over = true;
        Poll::Ready(if passed { Ok(()) } else { Err(Error::new(ErrorKind::Cancelled)) })
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.timer.leave(self.ctx);
        }
    }
}

impl fmt::Debug for Sleep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").finish_non_exhaustive()
    }
}
