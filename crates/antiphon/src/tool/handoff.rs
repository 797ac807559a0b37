use std::future::Future;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    ctx::{Branch, Ctx},
    error::Result,
};

/// Runs a tool in three parts: `before` prepares data on the server, `client` asks the questions, and `after` computes
/// the result on the server.
///
/// `client` borrows the result of `before`. `after` takes the results of `before` and `client`. Call `handoff` in the
/// function of a tool:
///
/// ```
/// use antiphon::{tool::handoff, prelude::*};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Guess { guess: u32 }
///
/// async fn game(ctx: &Ctx, _: ()) -> Result<String> {
///     handoff(
///         ctx,
///         || async { Ok(42) },
///         async |ctx, secret| Ok(ctx.elicit::<Guess>("A number?").await?.accepted()?.guess == *secret),
///         |secret: u32, won| async move { Ok(format!("{secret}! won: {won}")) },
///     )
///     .await
/// }
/// ```
///
/// A handoff is a [branch](Ctx::branch), so the keys of its questions and steps begin with a common prefix. A tool can
/// run several handoffs in sequence, concurrently or nested. A tool can also set limits for each handoff.
///
/// # Replay
///
/// `before` and `after` are [steps](Ctx::step), which usually run once. A step runs again if the process dies during
/// the step, or if the client repeats the request. `client` runs again each time the run resumes.
///
/// # Errors
///
/// Returns the error of the part that failed. After a failed part, the later parts do not run.
pub fn handoff<'a, B, C, T, Before, BeforeFuture, Client, After, AfterFuture>(
    ctx: &'a Ctx,
    before: Before,
    client: Client,
    after: After,
) -> Branch<
    'a,
    impl Future<Output = Result<T>> + use<'a, B, C, T, Before, BeforeFuture, Client, After, AfterFuture>,
>
where
    B: Serialize + DeserializeOwned + 'a,
    C: 'a,
    T: Serialize + DeserializeOwned + 'a,
    Before: FnOnce() -> BeforeFuture + 'a,
    BeforeFuture: Future<Output = Result<B>> + 'a,
    Client: AsyncFnOnce(&Ctx, &B) -> Result<C> + 'a,
    After: FnOnce(B, C) -> AfterFuture + 'a,
    AfterFuture: Future<Output = Result<T>> + 'a,
{
    ctx.branch("handoff", async move |ctx| {
        let prepared = ctx.step("before", before).await?;
        let outcome = client(ctx, &prepared).await?;
        ctx.step("after", || after(prepared, outcome)).await
    })
}
