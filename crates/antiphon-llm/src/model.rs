use std::{fmt, future::Future, pin::Pin, sync::Arc};

use crate::{error::Result, reply::Reply, request::Request};

/// A boxed future, so that [`Model`] can be made into an object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A model that can be asked.
///
/// # Contract
///
/// - One request, one reply: nothing is kept from one to the next.
/// - A request for data ([`Request::schema`]) is answered with a `tool_use` of
///   [`SCHEMA_TOOL`](crate::SCHEMA_TOOL), however the model was brought to it; a reply that has no
///   data is returned as what it is. Whether the data match is the caller's to check.
/// - `toolChoice: none` calls no tool; `required` calls one where the model can be made to.
/// - Every `tool_use` has an id of its own within the reply, and a stop reason of `toolUse`.
/// - What cannot be sent is an error that names it, never left out in silence.
/// - An error is retried inside where that helps; what comes out is final.
/// - Dropping the future ends the call.
///
/// The contract is written as tests in `conformance`; what passes them is a model.
pub trait Model: fmt::Debug + Send + Sync + 'static {
    /// Replies to `request`.
    fn reply<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>>;

    /// What it is called, for logs.
    fn name(&self) -> &str;
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn reply<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        (**self).reply(request)
    }

    fn name(&self) -> &str {
        (**self).name()
    }
}
