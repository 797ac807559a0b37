//! Sampling requests: a model replies, and the user can review requests and replies.

use std::{fmt, sync::Arc};

use antiphon_llm::{Model, Reply, Request};

use crate::form::BoxFuture;

/// A handler that reviews sampling requests and replies. The handler reviews a request before the model receives the
/// request, and a reply before the server receives the reply.
///
/// The handler can change or reject requests and replies. MCP recommends that a user reviews sampling requests and
/// replies. If you trust the servers, you do not need a handler.
pub trait Approval: Send + Sync + 'static {
    /// Reviews a sampling request. The model receives the returned request.
    ///
    /// # Errors
    ///
    /// Return [`Refused`] to reject the request. If you reject a request or a reply, the server receives an error.
    fn request(&self, request: Request) -> BoxFuture<'_, Result<Request, Refused>>;

    /// Reviews a reply of the model. The server receives the returned reply.
    ///
    /// # Errors
    ///
    /// Return [`Refused`] to reject the reply. If you reject a request or a reply, the server receives an error.
    fn reply<'a>(&'a self, request: &'a Request, reply: Reply) -> BoxFuture<'a, Result<Reply, Refused>>;
}

/// The error that an [`Approval`] returns to reject a sampling request or a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("User rejected sampling request")]
pub struct Refused;

/// The model that answers sampling requests, and the approval.
#[derive(Clone)]
pub(crate) struct Sampling {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) approval: Option<Arc<dyn Approval>>,
}

/// The reason why a sampling request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SampleError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Model(#[from] antiphon_llm::Error),
}

impl Sampling {
    pub(crate) async fn reply(&self, request: Request) -> Result<Reply, SampleError> {
        let Some(approval) = &self.approval else { return Ok(self.model.reply(&request).await?) };
        let request = approval.request(request).await?;
        let reply = self.model.reply(&request).await?;
        Ok(approval.reply(&request, reply).await?)
    }
}

impl fmt::Debug for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampling").field("model", &self.model.name()).finish_non_exhaustive()
    }
}
