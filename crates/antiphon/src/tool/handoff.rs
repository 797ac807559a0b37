use std::future::Future;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    ctx::{Branch, Ctx},
    error::Result,
};

/// A tool in three parts: `before` prepares on the server and runs once, `client` holds the
/// conversation and may be replayed, `after` concludes on the server and runs once.
///
/// `client` is lent what `before` made; `after` is given that and what came of the conversation. Call it
/// from a tool:
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
/// A handoff is a [branch](Ctx::branch): what it asks and does has names of its own, so that a tool may
/// have several, one after the other, at once or in each other, and it can be bounded as one.
///
/// # Replay
///
/// `before` and `after` are [steps](Ctx::step), and are taken as often as those: once, unless their
/// process dies over them. `client` begins anew in every round.
///
/// # Errors
///
/// What the parts return. After an error of one part the next does not begin.
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
