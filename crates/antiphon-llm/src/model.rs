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
///   [`SCHEMA_TOOL`](crate::SCHEMA_TOOL). The implementation decides how it obtains the data. If the reply of the model
///   contains no data, the implementation returns the reply unchanged. The caller, and not the implementation, checks
///   whether the data matches the schema.
/// - With `toolChoice: none`, the reply contains no tool call. With `toolChoice: required`, the reply contains a tool
///   call, unless the model cannot be forced to call a tool.
/// - Every `tool_use` in a reply has a unique ID, and the stop reason of such a reply is `toolUse`.
/// - If content of a request cannot be sent to the model, the implementation returns an error that names this content.
///   The implementation never omits content silently.
/// - The implementation retries temporary errors itself. The caller does not retry errors that the implementation
///   returns.
/// - If the future of a reply is dropped, the request is cancelled.
///
/// The contract tests in `conformance` check this contract.
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
