use std::future::Future;

use serde::{Serialize, de::DeserializeOwned};

use crate::{ctx::Ctx, error::Result};

/// A tool in three parts: `before` prepares on the server and runs once, `client` holds the
/// conversation and may be replayed, `after` concludes on the server and runs once.
///
/// Each part gets what the one before it returned. Call it from a tool:
///
/// ```
/// use antiphon::{handoff, prelude::*};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Guess { guess: u32 }
///
/// async fn game(ctx: &Ctx, _: ()) -> Result<String> {
///     handoff(
///         ctx,
///         || async { Ok(42) },
///         async |ctx, secret: u32| Ok(ctx.elicit::<Guess>("A number?").await?.accepted()?.guess == secret),
///         |won: bool| async move { Ok(if won { "won" } else { "lost" }.to_owned()) },
///     )
///     .await
/// }
/// ```
pub async fn handoff<B, C, T, Before, BeforeFuture, Client, After, AfterFuture>(
    ctx: &Ctx,
    before: Before,
    client: Client,
    after: After,
) -> Result<T>
where
    B: Serialize + DeserializeOwned,
    T: Serialize + DeserializeOwned,
    C: Send,
    Before: FnOnce() -> BeforeFuture + Send,
    BeforeFuture: Future<Output = Result<B>> + Send,
    Client: AsyncFnOnce(&Ctx, B) -> Result<C>,
    After: FnOnce(C) -> AfterFuture + Send,
    AfterFuture: Future<Output = Result<T>> + Send,
{
    let prepared = ctx.step("before", before).await?;
    let outcome = client(ctx, prepared).await?;
    ctx.step("after", || after(outcome)).await
}
