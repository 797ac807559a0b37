use std::{fmt, future::Future, pin::Pin, sync::Arc};

use crate::{error::Result, reply::Reply, request::Request};

/// A boxed future, so that [`Model`] can be a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A language model.
///
/// # Contract
///
/// - Each request is independent. A model keeps no state between requests.
/// - A request for structured data ([`Request::schema`]) is answered with a `tool_use` of
///   [`SCHEMA_TOOL`](crate::SCHEMA_TOOL), with any method. A reply without data is returned unchanged. The caller
///   checks whether the data matches the schema.
/// - With `toolChoice: none`, the reply contains no tool call. With `required`, it contains one, if the model can be
///   forced to call a tool.
/// - Every `tool_use` has a unique ID in the reply, and the stop reason is `toolUse`.
/// - Content that cannot be sent is an error that names it. It is never omitted silently.
/// - The model retries an error if that helps. A returned error is final.
/// - Dropping the future ends the request.
///
/// The contract tests in `conformance` check this contract.
pub trait Model: fmt::Debug + Send + Sync + 'static {
    /// Replies to `request`.
    fn reply<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>>;

    /// Returns the name of the model, for logs.
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
