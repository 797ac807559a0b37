use std::{future::Future, ops::ControlFlow, task::Poll};

use antiphon_replay::{Key, Op, Outcome, Turn};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use super::{Ctx, branch::Budget};
use crate::error::{Error, Result};

impl Ctx {
    /// Runs a long loop with a bounded journal. After each iteration, the journal contains only the `state` of the
    /// loop, and not the questions and steps of the iteration. Use this method for long loops, for example in a game, a
    /// negotiation or a monitoring tool.
    ///
    /// In each iteration, Antiphon calls the function `body` with the current state. `body` returns
    /// [`ControlFlow::Continue`] with the state for the next iteration, or [`ControlFlow::Break`] with the result of
    /// the loop.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// use std::ops::ControlFlow;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Guess { guess: u32 }
    ///
    /// async fn guess(ctx: &Ctx, _: ()) -> Result<String> {
    ///     let secret: u32 = ctx.step("secret", || async { Ok(42) }).await?;
    ///     ctx.loop_with_state("guess", 1, async |ctx, tries: u32| {
    ///         let Guess { guess } = ctx.elicit(format!("Guess {tries}?")).await?.accepted()?;
    ///         Ok(if guess == secret {
    ///             ControlFlow::Break(format!("{tries} tries"))
    ///         } else {
    ///             ControlFlow::Continue(tries + 1)
    ///         })
    ///     }).await
    /// }
    /// ```
    pub fn loop_with_state<'a, S, T, F>(
        &'a self,
        name: &str,
        state: S,
        body: F,
    ) -> impl Future<Output = Result<T>> + use<'a, S, T, F>
    where
        S: Serialize + DeserializeOwned,
        F: AsyncFn(&Self, S) -> Result<ControlFlow<T, S>>,
    {
        let key = self.take_key(name);
        let op = Op::fold(name);
        let mut child = self.child(key.as_str().to_owned());
        child.budget = self.budget.clone().map(Budget::of_loop);
        async move {
            let mut state = match self.folded(&key, &op).await {
                // The journal does not contain the entries of earlier iterations. So the loop stores the number of
                // questions in these iterations, and this code counts the questions again.
                Some(outcome) => match &child.budget {
                    Some(budget) => {
                        let (state, spent): (S, u32) = super::step::recorded(outcome)?;
                        for _ in 0..spent {
                            budget.spend()?;
                        }
                        state
                    }
                    None => super::step::recorded(outcome)?,
                },
                None => state,
            };
            loop {
                match body(&child, state).await? {
                    ControlFlow::Break(result) => return Ok(result),
                    ControlFlow::Continue(next) => {
                        let next = serde_json::to_value(next).map_err(Error::from)?;
                        // The body receives the state after serialization and deserialization. So the state is the same
                        // in this leg and on replay.
                        state = serde_json::from_value(next.clone()).map_err(Error::from)?;
                        let value = match &child.budget {
                            Some(budget) => json!([next, budget.spent()]),
                            None => next,
                        };
                        self.refold(&key, &op, value).await;
                    }
                }
            }
        }
    }

    /// Returns the state of the loop from the journal, or `None` if the journal does not contain this state.
    fn folded<'a>(&'a self, key: &'a Key, op: &'a Op) -> impl Future<Output = Option<Outcome>> + 'a {
        std::future::poll_fn(move |cx| {
            let mut state = self.run.state();
            match state.machine().fold(key, op) {
                Turn::Start => Poll::Ready(None),
                Turn::Ready(outcome) => Poll::Ready(Some(outcome)),
                Turn::Wait => {
                    self.run.park(&mut state, key, cx.waker());
                    Poll::Pending
                }
            }
        })
    }

    fn refold<'a>(
        &'a self,
        key: &'a Key,
        op: &'a Op,
        next: serde_json::Value,
    ) -> impl Future<Output = ()> + 'a {
        std::future::poll_fn(move |cx| {
            let mut state = self.run.state();
            match state.machine().refold(key, op, next.clone()) {
                Turn::Start | Turn::Ready(_) => Poll::Ready(()),
                Turn::Wait => {
                    self.run.park(&mut state, key, cx.waker());
                    Poll::Pending
                }
            }
        })
    }
}
