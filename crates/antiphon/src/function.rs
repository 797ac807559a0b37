//! The functions of tools, prompts and resources: async functions that take a context, states and arguments.

use std::{
    any::{TypeId, type_name},
    future::Future,
    sync::Arc,
};

use antiphon_llm::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    ctx::Ctx,
    error::{Error, ErrorKind, Result},
    run::{Mounts, Run},
};

/// An async function that you can use for a tool, prompt or resource.
///
/// The following functions already implement the trait `Function`:
///
/// - `async fn(&Ctx, Arguments) -> Result<Out, E>`,
/// - an `async fn` with one to three [`State`] parameters between the context and the arguments,
/// - a method, or a closure that needs a value, with [`bind`].
///
/// `E` is any error that `?` converts into an [`Error`](crate::Error), for example `anyhow::Error` or your error type.
///
/// The type parameter `M` distinguishes three kinds of functions: async functions, functions with states, and bound
/// functions. The compiler always infers `M`.
#[diagnostic::on_unimplemented(
    message = "this function cannot be a tool, a prompt or a resource",
    label = "expected `async fn(&Ctx, Arguments) -> Result<Output>`",
    note = "the function must be async, take `&Ctx` first and its arguments last, and return a `Result`",
    note = "the type of the arguments must derive `Deserialize` and `JsonSchema`; without arguments write `_: ()`",
    note = "put state between the two: `async fn(&Ctx, State<Pool>, Arguments)`, and add its value with `ServerBuilder::with_state`",
    note = "for a method, or a closure that captures a value, use `antiphon::bind(value, function)`"
)]
pub trait Function<'a, A, M>: Send + Sync {
    /// The output of the function.
    type Out;
    /// Calls the function with a context and arguments.
    fn call(&self, ctx: &'a Ctx, arguments: A) -> BoxFuture<'a, Result<Self::Out>>;
    /// Returns the types of the states that the function takes.
    fn states() -> Vec<StateType> {
        Vec::new()
    }
}

/// A value that all calls share. The function of a tool, prompt or resource takes the value as a parameter.
///
/// Add the value to the server with [`ServerBuilder::with_state`](crate::ServerBuilder::with_state). If a value is
/// missing, [`ServerBuilder::build`](crate::ServerBuilder::build) returns an error with the name of the tool. The
/// server clones the value for each call. So use a type that is cheap to clone, for example a pool, a client or an
/// `Arc`.
///
/// ```
/// use std::sync::Arc;
///
/// use antiphon::{State, prelude::*};
///
/// struct Plants(Vec<String>);
///
/// async fn list_plants(_: &Ctx, State(plants): State<Arc<Plants>>, _: ()) -> Result<String> {
///     Ok(plants.0.join(", "))
/// }
///
/// let tool = || Tool::new("list_plants", "Lists the plants", list_plants);
/// let plants = Arc::new(Plants(vec!["fern".into()]));
/// assert!(Server::builder("greenhouse", "1.0.0").with_state(plants).tool(tool()).build().is_ok());
/// // Without the state, `build` returns an error.
/// assert!(Server::builder("greenhouse", "1.0.0").tool(tool()).build().is_err());
/// ```
///
/// [`Ctx::state`] borrows the value of a [`State`] without cloning it. If the value is missing, `Ctx::state` fails
/// during the call, not when the server is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State<T>(pub T);

/// The type of a [`State`] parameter of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateType {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
}

impl StateType {
    fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}

/// Implements [`Function`] for functions that take the listed state parameters.
macro_rules! functions {
    ($($state:ident),*) => {
        impl<'a, A, F, Fut, R, E, $($state),*> Function<'a, A, ($(State<$state>,)*)> for F
        where
            F: Fn(&'a Ctx, $(State<$state>,)* A) -> Fut + Send + Sync,
            Fut: Future<Output = Result<R, E>> + Send + 'a,
            E: Into<Error>,
            $($state: Clone + Send + Sync + 'static,)*
        {
            type Out = R;

            fn call(&self, ctx: &'a Ctx, arguments: A) -> BoxFuture<'a, Result<R>> {
                $(
                    #[expect(non_snake_case, reason = "the value is named after its type")]
                    let $state = match ctx.state::<$state>() {
                        Ok(state) => State(state.clone()),
                        Err(error) => return Box::pin(async move { Err(error) }),
                    };
                )*
                let future = self(ctx, $($state,)* arguments);
                Box::pin(async move { future.await.map_err(Into::into) })
            }

            fn states() -> Vec<StateType> {
                vec![$(StateType::of::<$state>()),*]
            }
        }
    };
}

functions!();
functions!(S1);
functions!(S1, S2);
functions!(S1, S2, S3);

/// Binds a value to a function. Use `bind` to make a tool from a method of the value, or from a closure that uses the
/// value.
///
/// The function receives the value as the first parameter. The next parameters are the context and the arguments. The
/// server clones the value for each call. A closure that captures a value cannot be a tool directly, because the
/// closure's future would borrow from the closure.
///
/// ```
/// use antiphon::{bind, prelude::*};
///
/// #[derive(Clone)]
/// struct Greenhouse {
///     plants: Vec<String>,
/// }
///
/// impl Greenhouse {
///     async fn list(self, _: &Ctx, _: ()) -> Result<String> {
///         Ok(self.plants.join(", "))
///     }
/// }
///
/// let greenhouse = Greenhouse { plants: vec!["fern".into()] };
/// let count = async |greenhouse: Greenhouse, _: &Ctx, _: ()| -> Result<String> {
///     Ok(greenhouse.plants.len().to_string())
/// };
/// let tools = [
///     Tool::new("list", "Lists the plants", bind(greenhouse.clone(), Greenhouse::list)),
///     Tool::new("count", "Counts the plants", bind(greenhouse, count)),
/// ];
/// # let _ = tools;
/// ```
pub fn bind<T, F>(value: T, function: F) -> Bound<T, F> {
    Bound { value, function }
}

/// A function with a bound value. See [`bind`].
#[derive(Clone, Copy, Debug)]
pub struct Bound<T, F> {
    value: T,
    function: F,
}

impl<'a, A, T, F, Fut, R, E> Function<'a, A, Bound<T, ()>> for Bound<T, F>
where
    T: Clone + Send + Sync + 'static,
    F: Fn(T, &'a Ctx, A) -> Fut + Send + Sync,
    Fut: Future<Output = Result<R, E>> + Send + 'a,
    E: Into<Error>,
{
    type Out = R;

    fn call(&self, ctx: &'a Ctx, arguments: A) -> BoxFuture<'a, Result<R>> {
        let future = (self.function)(self.value.clone(), ctx, arguments);
        Box::pin(async move { future.await.map_err(Into::into) })
    }
}

/// A function that takes its arguments as JSON.
pub(crate) type Callable<T> = Box<dyn for<'a> Fn(&'a Ctx, &Value) -> BoxFuture<'a, Result<T>> + Send + Sync>;

/// A function whose argument and result types are erased.
pub(crate) struct Erased<T> {
    pub(crate) callable: Callable<T>,
    /// The types of the states that the function takes.
    pub(crate) states: Vec<StateType>,
    /// The mounted servers that contain the function.
    pub(crate) mounts: Mounts,
}

impl<T> Erased<T> {
    /// Returns the context in which the function runs.
    pub(crate) fn ctx(&self, run: &Arc<Run>) -> Ctx {
        Ctx::new(Arc::clone(run), self.mounts.clone())
    }

    /// Calls the function.
    pub(crate) fn call<'a>(&self, ctx: &'a Ctx, arguments: &Value) -> BoxFuture<'a, Result<T>> {
        (self.callable)(ctx, arguments)
    }
}

/// Erases the types of the arguments, the result and the states of `function`. `convert` converts the result.
pub(crate) fn erase<A, M, R, T, F>(function: F, convert: fn(R) -> Result<T>) -> Erased<T>
where
    A: DeserializeOwned + Send + 'static,
    R: 'static,
    T: 'static,
    F: for<'a> Function<'a, A, M, Out = R> + 'static,
{
    let states = <F as Function<'static, A, M>>::states();
    let callable: Callable<T> = Box::new(move |ctx, arguments| match A::deserialize(arguments) {
        Ok(arguments) => {
            let future = function.call(ctx, arguments);
            Box::pin(async move { future.await.and_then(convert) })
        }
        Err(error) => {
            let error = Error::new(ErrorKind::InvalidArguments(vec![error.to_string()]));
            Box::pin(async move { Err(error) })
        }
    });
    Erased { callable, states, mounts: Mounts::default() }
}

/// Functions that cannot be tools. Each example must fail to compile, and tests one compile error.
///
/// Without a context:
/// ```compile_fail,E0277
/// # use antiphon::prelude::*;
/// async fn tool(_: ()) -> Result<String> { Ok(String::new()) }
/// Tool::new("tool", "Fails", tool);
/// ```
///
/// Without arguments:
/// ```compile_fail,E0277
/// # use antiphon::prelude::*;
/// async fn tool(_: &Ctx) -> Result<String> { Ok(String::new()) }
/// Tool::new("tool", "Fails", tool);
/// ```
///
/// Not async:
/// ```compile_fail,E0277
/// # use antiphon::prelude::*;
/// fn tool(_: &Ctx, _: ()) -> Result<String> { Ok(String::new()) }
/// Tool::new("tool", "Fails", tool);
/// ```
///
/// Without a `Result`:
/// ```compile_fail,E0277
/// # use antiphon::prelude::*;
/// async fn tool(_: &Ctx, _: ()) -> String { String::new() }
/// Tool::new("tool", "Fails", tool);
/// ```
///
/// With the context by value:
/// ```compile_fail,E0277
/// # use antiphon::prelude::*;
/// async fn tool(_: Ctx, _: ()) -> Result<String> { Ok(String::new()) }
/// Tool::new("tool", "Fails", tool);
/// ```
///
/// With a return type that is not a tool result:
/// ```compile_fail,E0277
/// # use antiphon::prelude::*;
/// struct Plant;
/// async fn tool(_: &Ctx, _: ()) -> Result<Plant> { Ok(Plant) }
/// Tool::new("tool", "Fails", tool);
/// ```
///
/// With state that cannot be cloned:
/// ```compile_fail,E0277
/// # use antiphon::prelude::*;
/// struct Pool;
/// async fn tool(_: &Ctx, _: State<Pool>, _: ()) -> Result<String> { Ok(String::new()) }
/// Tool::new("tool", "Fails", tool);
/// ```
#[cfg(doctest)]
struct WrongFunctions;
