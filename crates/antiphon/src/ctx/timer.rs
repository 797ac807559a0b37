//! A deadline that a run can replay. The journal records the deadline in two steps. The first step records the time of
//! the deadline. The second step records whether the deadline has passed.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use antiphon_replay::{Key, Op, Outcome, Turn};
use serde_json::Value;

use super::{Ctx, step::recorded};
use crate::{base::now_millis, error::Result, run::Persistence};

pub(super) struct Timer {
    timeout: Duration,
    begin: Key,
    passed: Key,
    due: Option<u64>,
}

impl Timer {
    pub(super) fn new(key: &Key, timeout: Duration) -> Self {
        let at = |name: &str| Key::from(format!("{key}/~{name}"));
        Self { timeout, begin: at("deadline"), passed: at("passed"), due: None }
    }

    pub(super) fn poll_begin(&mut self, ctx: &Ctx, cx: &Context<'_>) -> Result<Poll<()>> {
        if self.due.is_some() {
            return Ok(Poll::Ready(()));
        }
        let mut state = ctx.run.state();
        let due = match state.machine().step(&self.begin, &Op::step("deadline")) {
            Turn::Ready(outcome) => recorded(outcome)?,
            Turn::Start => {
                let due =
                    now_millis().saturating_add(self.timeout.as_millis().try_into().unwrap_or(u64::MAX));
                state.machine().finish(&self.begin, Ok(due.into()));
                due
            }
            Turn::Wait => {
                ctx.run.park(&mut state, &self.begin, cx.waker());
                return Ok(Poll::Pending);
            }
        };
        self.due = Some(due);
        state.deadlines.insert(self.passed.clone(), due);
        Ok(Poll::Ready(()))
    }

    /// Returns `true` if the deadline has passed, either in this leg or in an earlier leg.
    pub(super) fn poll_passed(&self, ctx: &Ctx, cx: &Context<'_>) -> bool {
        self.poll(ctx, cx, false).is_ready()
    }

    /// Completes with `true` when the deadline has passed, or with `false` if the run was cancelled before the
    /// deadline.
    pub(super) fn poll_over(&self, ctx: &Ctx, cx: &Context<'_>) -> Poll<bool> {
        let cancelled = ctx.run.persistence().is_some_and(Persistence::is_cancelled);
        self.poll(ctx, cx, cancelled)
    }

    fn poll(&self, ctx: &Ctx, cx: &Context<'_>, cancelled: bool) -> Poll<bool> {
        let mut state = ctx.run.state();
        let replaying = !state.machine().is_open();
        let late = self.due.is_some_and(|due| now_millis() >= due);
        if !replaying && !late && !cancelled {
            state.machine().leave(&self.passed);
            ctx.run.park(&mut state, &self.passed, cx.waker());
            return Poll::Pending;
        }
        match state.machine().step(&self.passed, &Op::step("deadline passed")) {
            Turn::Ready(outcome) => {
                state.deadlines.remove(&self.passed);
                Poll::Ready(outcome != Outcome::Done(Value::Bool(false)))
            }
            Turn::Start => {
                state.machine().finish(&self.passed, Ok(late.into()));
                state.deadlines.remove(&self.passed);
                Poll::Ready(late)
            }
            Turn::Wait => {
                ctx.run.park(&mut state, &self.passed, cx.waker());
                Poll::Pending
            }
        }
    }

    /// Withdraws the two steps of the deadline from the replay machine.
    pub(super) fn leave(&self, ctx: &Ctx) {
        let mut state = ctx.run.state();
        state.leave(&self.begin);
        state.leave(&self.passed);
    }
}
