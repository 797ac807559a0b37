use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use antiphon_llm::BoxFuture;
use antiphon_replay::{Key, Op, Outcome, Turn};
use serde::{Serialize, de::DeserializeOwned};

use super::Ctx;
use crate::{
    error::{Error, Result},
    run::at_most_once,
    telemetry::Spanned,
};

impl Ctx {
    /// Does something once: its result is recorded, and handed over instead of doing it again.
    ///
    /// Put side effects here, and whatever is not the same every time: clocks, random numbers, calls
    /// to other services.
    ///
    /// # Replay
    ///
    /// A step that has ended is never taken again in its run. A step that was under way when its
    /// process died is, and so is one whose run is submitted twice at the same time: with
    /// [`step_with_key`](Self::step_with_key) the other side can tell that it is the same one, and with
    /// [`at_most_once`](Step::at_most_once) it is not. An error is recorded like a value if the tool goes on after it.
    ///
    /// The tool is given the record, in the leg that takes the step as in every later one. So a value has been
    /// serialized and deserialized, and an error has its [`kind`](Error::kind) and a text with all its causes, but
    /// no [`source`](Error::source). Handle an error that you need as its own type inside the step.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// # async fn example(ctx: &Ctx, _: ()) -> Result<()> {
    /// let toss: bool = ctx.step("toss", || async { Ok(std::process::id() % 2 == 0) }).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn step<'a, T, F, Fut>(
        &'a self,
        name: &str,
        body: F,
    ) -> Step<'a, impl FnOnce(String) -> Fut + use<'a, T, F, Fut>, Fut>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        self.step_with_key(name, |_| body())
    }

    /// As [`step`](Self::step), for a function with another error type: an [`std::io::Error`], an `anyhow::Error`, your own.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// async fn save() -> std::io::Result<u64> {
    ///     Ok(7)
    /// }
    ///
    /// # async fn example(ctx: &Ctx, _: ()) -> Result<()> {
    /// let bytes = ctx.try_step("save", save).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_step<'a, T, E, F, Fut>(
        &'a self,
        name: &str,
        body: F,
    ) -> Step<
        'a,
        impl FnOnce(String) -> BoxFuture<'a, Result<T>> + use<'a, T, E, F, Fut>,
        BoxFuture<'a, Result<T>>,
    >
    where
        T: Serialize + DeserializeOwned,
        E: Into<Error>,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>> + Send + 'a,
    {
        self.step_with_key(name, |_| {
            let running = body();
            let running: BoxFuture<'a, Result<T>> =
                Box::pin(async move { running.await.map_err(Into::into) });
            running
        })
    }

    /// As [`step`](Self::step), with an idempotency key to pass on: the same every time this step of
    /// this run is taken.
    pub fn step_with_key<'a, T, F, Fut>(&'a self, name: &str, body: F) -> Step<'a, F, Fut>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(String) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let key = self.take_key(name);
        Step {
            ctx: self,
            op: Op::step(name),
            key,
            body: Some(body),
            running: None,
            told: Spanned::none(),
            left: true,
        }
    }
}

/// A step, not yet taken. `.await` takes it.
///
/// # Cancel safety
///
/// Dropped before it has ended, it counts as not taken.
#[must_use = "a step is taken when it is awaited"]
pub struct Step<'a, F, Fut> {
    ctx: &'a Ctx,
    key: Key,
    op: Op,
    body: Option<F>,
    running: Option<Pin<Box<Fut>>>,
    told: Spanned,
    /// Whether the machine has nothing to be told when this is dropped.
    left: bool,
}

impl<'a, T, F, Fut> Step<'a, F, Fut>
where
    T: Serialize + DeserializeOwned,
    F: FnOnce(String) -> Fut,
    Fut: Future<Output = Result<T>>,
{
    /// Takes the step at most once, however often its run is submitted, on however many replicas.
    ///
    /// It is claimed in the server's store before it begins. Whoever comes second waits, and is given what
    /// came of it, an error too. If whoever began it dies before it has ended, nobody can know whether it was taken:
    /// that is [`ErrorKind::Indeterminate`](crate::ErrorKind::Indeterminate), and it is not taken again.
    ///
    /// The claim lasts as long as the run can go on: in a task as long as the task's record, also when an operator has the
    /// run tried again; else as long as a `requestState` ([`SealConfig::with_ttl`](crate::seal::SealConfig::with_ttl)).
    ///
    /// A run is known from its first step or question on. A client that loses the answer to its very first request
    /// and calls again begins another run, so ask something, a confirmation for example, before
    /// what must not happen twice.
    ///
    /// # Errors
    ///
    /// Where the server has no store ([`ServerBuilder::with_backend`](crate::ServerBuilder::with_backend)).
    /// A tool that says so beforehand ([`Tool::needs_backend`](crate::Tool::needs_backend)) is refused when the
    /// server is built.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// # #[derive(Deserialize, JsonSchema)] struct Sure { sure: bool }
    /// # async fn pay(key: String) -> Result<u64> { Ok(1) }
    /// async fn checkout(ctx: &Ctx, _: ()) -> Result<String> {
    ///     ctx.elicit::<Sure>("Charge your card?").await?.accepted()?;
    ///     let receipt = ctx.step_with_key("charge", |key| pay(key)).at_most_once().await?;
    ///     Ok(format!("receipt {receipt}"))
    /// }
    /// ```
    pub fn at_most_once(mut self) -> impl Future<Output = Result<T>> + use<'a, T, F, Fut> {
        let body = self.body.take().expect("a step that was polled cannot be moved here");
        let run = Arc::clone(&self.ctx.run);
        let step = self.key.to_string();
        let claimed = move |idempotency_key| at_most_once(run, step, idempotency_key, body);
        let (key, op) = (self.key.clone(), self.op.clone());
        let told = Spanned::none();
        Step { ctx: self.ctx, key, op, body: Some(claimed), running: None, told, left: true }
    }
}

impl<T, F, Fut> Future for Step<'_, F, Fut>
where
    T: Serialize + DeserializeOwned,
    F: FnOnce(String) -> Fut,
    Fut: Future<Output = Result<T>>,
{
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let run = &this.ctx.run;
        if this.running.is_none() {
            let mut state = run.state();
            this.left = false;
            match state.machine().step(&this.key, &this.op) {
                Turn::Ready(outcome) => {
                    this.left = true;
                    return Poll::Ready(recorded(outcome));
                }
                Turn::Wait => {
                    run.park(&mut state, &this.key, cx.waker());
                    return Poll::Pending;
                }
                Turn::Start => {
                    state.id();
                    let idempotency_key = state.machine().idempotency_key(&this.key);
                    drop(state);
                    let body = this.body.take().expect("a step starts once");
                    this.told = run.span.step(&this.key);
                    this.running = Some(Box::pin(this.told.enter(|| body(idempotency_key))));
                }
            }
        }
        let running = this.running.as_mut().expect("the step was started above");
        let result = std::task::ready!(this.told.enter(|| running.as_mut().poll(cx)));
        if let Err(error) = &result {
            this.told.failed(error);
        }
        this.told = Spanned::none();
        if run.persistence().is_some() {
            // Of a task, the tool sees what is written down and nothing else: the driver does that when the tool is at
            // rest, and then this is polled again.
            this.running = None;
            let outcome =
                result.and_then(|value| Ok(serde_json::to_value(value)?)).map_err(|error| error.to_failure());
            let mut state = run.state();
            state.finish(&this.key, outcome);
            run.park(&mut state, &this.key, cx.waker());
            return Poll::Pending;
        }
        this.left = true;
        // The tool sees what the journal holds, in this leg as on replay: the error with its causes in its text, and
        // the value as it is read back.
        let outcome =
            result.and_then(|value| Ok(serde_json::to_value(value)?)).map_err(|error| error.to_failure());
        run.state().machine().finish(&this.key, outcome.clone());
        Poll::Ready(match outcome {
            Ok(value) => recorded(Outcome::Done(value)),
            Err(failure) => recorded(Outcome::Failed(failure)),
        })
    }
}

pub(super) fn recorded<T: DeserializeOwned>(outcome: Outcome) -> Result<T> {
    match outcome {
        Outcome::Done(value) | Outcome::Answer(value) => Ok(serde_json::from_value(value)?),
        Outcome::Failed(failure) => Err(Error::from_failure(failure)),
        Outcome::Refused(reason) => Err(Error::misuse(reason)),
    }
}

/// The body is moved out before it runs and its future is boxed, so nothing in a step is pinned.
impl<F, Fut> Unpin for Step<'_, F, Fut> {}

impl<F, Fut> Drop for Step<'_, F, Fut> {
    fn drop(&mut self) {
        if !self.left {
            self.ctx.run.state().leave(&self.key);
        }
    }
}

impl<F, Fut> fmt::Debug for Step<'_, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("key", &self.key).finish_non_exhaustive()
    }
}
