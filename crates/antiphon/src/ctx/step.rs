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
    /// Runs a side effect and records its result in the journal. Replay returns the recorded result and does not run
    /// the side effect again.
    ///
    /// Put side effects and all non-deterministic operations into steps. Examples are reads of the clock, random
    /// numbers, and calls to other services.
    ///
    /// # Replay
    ///
    /// A step runs at least once. On replay, a step whose result is in the journal does not run. A step runs again if
    /// its process dies during the step, or if the client sends the same request again. If a step fails and the tool
    /// continues, the journal contains the error of the step.
    ///
    /// With [`step_with_key`](Self::step_with_key), the step receives an idempotency key. An external system that
    /// receives this idempotency key can recognize a repeated request. With [`at_most_once`](Step::at_most_once), the
    /// step does not run again.
    ///
    /// The tool receives the result of a step in its recorded form, also when the step has just ended. To create this
    /// recorded form, Antiphon serializes and deserializes the result. A recorded error has its [`kind`](Error::kind)
    /// and a text with all causes, but no [`source`](Error::source). If you need the original error type, handle the
    /// error inside the step.
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

    /// Runs a step with a function that returns an error type other than [`Error`], for example [`std::io::Error`] or
    /// `anyhow::Error`. See [`step`](Self::step).
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

    /// Runs a step whose function `body` receives an idempotency key. If the same step of the same run is executed
    /// again, `body` receives the same idempotency key. See [`step`](Self::step).
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

/// A side effect whose result the journal records. To run the step, `.await` this value.
///
/// # Cancel safety
///
/// If you drop the future before the step ends, the journal does not contain the step. A part of the step's side effect
/// can already have happened.
#[must_use = "a step does nothing until you `.await` it"]
pub struct Step<'a, F, Fut> {
    ctx: &'a Ctx,
    key: Key,
    op: Op,
    body: Option<F>,
    running: Option<Pin<Box<Fut>>>,
    told: Spanned,
    /// Whether the replay machine no longer counts the step as in progress. If true, dropping the step does not notify
    /// the replay machine.
    left: bool,
}

impl<'a, T, F, Fut> Step<'a, F, Fut>
where
    T: Serialize + DeserializeOwned,
    F: FnOnce(String) -> Fut,
    Fut: Future<Output = Result<T>>,
{
    /// Runs the step at most once, even if the same request arrives several times or at several replicas.
    ///
    /// Before the step begins, the server writes a claim to its store. A claim is a record that reserves the step for
    /// one attempt. A second attempt finds the claim, waits for the first attempt, and receives the result or the error
    /// of the first attempt. If the process of the first attempt dies during the step, the server cannot determine
    /// whether the side effect happened. The second attempt then fails with
    /// [`ErrorKind::Indeterminate`](crate::ErrorKind::Indeterminate), and the step does not run again.
    ///
    /// In a task, the store keeps the claim as long as the record of the task, even if an operator retries the run.
    /// Outside of a task, the store keeps the claim as long as a `requestState` is valid
    /// ([`SealConfig::with_ttl`](crate::seal::SealConfig::with_ttl)).
    ///
    /// A claim is valid only for one run. If a client does not receive the response to its first request, the client
    /// can call the tool again. This second call starts a new run, and the step runs again in the new run. So before a
    /// step that must not run twice, ask the user a question, for example for a confirmation.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if the server has no store
    /// ([`ServerBuilder::with_backend`](crate::ServerBuilder::with_backend)). To detect a missing store when you build
    /// the server, set [`Tool::needs_backend`](crate::Tool::needs_backend).
    /// [`ServerBuilder::build`](crate::ServerBuilder::build) then returns an error if the server has no store.
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
            // In a task, the tool receives a result only after the server has written the result to the store. When the
            // tool is idle, the driver writes the result and then polls this step again.
            this.running = None;
            let outcome =
                result.and_then(|value| Ok(serde_json::to_value(value)?)).map_err(|error| error.to_failure());
            let mut state = run.state();
            state.finish(&this.key, outcome);
            run.park(&mut state, &this.key, cx.waker());
            return Poll::Pending;
        }
        this.left = true;
        // The tool receives the recorded form of the result, both in this leg and on replay. The recorded form is a
        // deserialized value, or an error whose text contains all causes.
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

/// A step is `Unpin`, because it pins none of its fields. Before the body runs, it is moved out of the step, and the
/// future of the body is boxed.
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
