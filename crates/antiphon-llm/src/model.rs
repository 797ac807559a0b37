use std::{fmt, future::Future, pin::Pin, sync::Arc};

use crate::{error::Result, reply::Reply, request::Request};

/// A boxed future, which makes it possible to use [`Model`] as a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A language model, which takes requests and returns replies.
///
/// # Contract
///
/// - Each request is independent. A model keeps no state between requests.
/// - The reply to a request for structured data ([`Request::schema`]) is a `tool_use` of
///   [`SCHEMA_TOOL`](crate::SCHEMA_TOOL). An implementation of `Model` decides how it obtains the structured data. If
///   the reply of the model contains no structured data, the implementation returns the reply unchanged. The caller,
///   and not the implementation, checks whether the structured data matches the schema.
/// - With `toolChoice: none`, the reply contains no tool call. With `toolChoice: required`, the reply contains a tool
///   call. The only exception is a model that cannot be forced to call a tool.
/// - Every `tool_use` in a reply has a unique ID. A reply that contains a `tool_use` has the stop reason `toolUse`.
/// - If content of a request cannot be sent to the model, the implementation returns an error that names this content.
///   An implementation of `Model` never omits content silently.
/// - An implementation of `Model` retries temporary errors itself. The caller does not retry errors that the
///   implementation returns.
/// - If the future of a reply is dropped, the request is cancelled.
///
/// The contract tests in `conformance` check the contract of `Model`.
pub trait Model: fmt::Debug + Send + Sync + 'static {
    /// Sends `request` to the model and returns the reply.
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
