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
    /// Waits. In a task nothing of the run is in memory meanwhile, for a second or for a month; a worker takes it up again
    /// when the time has come.
    ///
    /// When the wait ends is recorded when it begins, so that a run that is brought back waits for what is left. Outside of a
    /// task the caller waits as well.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Cancelled`] when the task is cancelled meanwhile.
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

    /// Has the run become a task here, if the tool's [policy](crate::task::TaskPolicy) and the client let it: the client is
    /// answered with the task's id at the tool's next await, and need not wait any longer.
    ///
    /// Where it cannot, nothing happens: the tool goes on as it would have.
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

/// A wait, not yet begun. `.await` begins it.
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
