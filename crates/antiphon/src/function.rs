//! Async functions of a context and one more thing, whatever their futures borrow.

use std::{future::Future, pin::Pin};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    ctx::Ctx,
    error::{Error, ErrorKind, Result},
};

/// An `async fn(&Ctx, A) -> Result<Out>`.
///
/// Every such function is one; there is nothing to implement. The trait exists because the future of
/// such a function borrows the context, which a plain `Fn` bound cannot say.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be served",
    label = "must be an `async fn(&Ctx, Arguments) -> antiphon::Result<..>`",
    note = "the arguments' type derives `Deserialize` and `JsonSchema`; a function without arguments takes `_: ()`",
    note = "a closure cannot capture: pass what it needs with `ServerBuilder::with_state` and read it with `ctx.state::<T>()`"
)]
pub trait Function<'a, A>: Send + Sync {
    /// What it returns.
    type Out;
    /// Its future.
    type Future: Future<Output = Result<Self::Out>> + Send + 'a;
    /// Calls it.
    fn call(&self, ctx: &'a Ctx, arguments: A) -> Self::Future;
}

impl<'a, A, F, Fut, R> Function<'a, A> for F
where
    F: Fn(&'a Ctx, A) -> Fut + Send + Sync,
    Fut: Future<Output = Result<R>> + Send + 'a,
{
    type Out = R;
    type Future = Fut;

    fn call(&self, ctx: &'a Ctx, arguments: A) -> Fut {
        self(ctx, arguments)
    }
}

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A function whose arguments are JSON.
pub(crate) type Erased<T> = Box<dyn for<'a> Fn(&'a Ctx, &Value) -> BoxFuture<'a, Result<T>> + Send + Sync>;

/// Forgets a function's types.
pub(crate) fn erase<A, R, T, F>(function: F, convert: fn(R) -> Result<T>) -> Erased<T>
where
    A: DeserializeOwned + Send + 'static,
    R: 'static,
    T: 'static,
    F: for<'a> Function<'a, A, Out = R> + 'static,
{
    Box::new(move |ctx, arguments| match A::deserialize(arguments) {
        Ok(arguments) => {
            let future = function.call(ctx, arguments);
            Box::pin(async move { future.await.and_then(convert) })
        }
        Err(error) => {
            let error = Error::new(ErrorKind::InvalidArguments(vec![error.to_string()]));
            Box::pin(async move { Err(error) })
        }
    })
}
