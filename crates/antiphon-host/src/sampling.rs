//! Samples: a model replies, and a person may look at both sides.

use std::{fmt, sync::Arc};

use antiphon_llm::{Model, Reply, Request};

use crate::form::BoxFuture;

/// Who looks at what a server asks of the model, and at what the model replies, before it goes on.
///
/// Each may be changed, or refused. MCP wants a person to have the chance; a host that trusts its
/// servers leaves it out.
pub trait Approval: Send + Sync + 'static {
    /// Looks at a request. What is returned is what the model is asked.
    ///
    /// # Errors
    ///
    /// [`Refused`], and the server is told so.
    fn request(&self, request: Request) -> BoxFuture<'_, Result<Request, Refused>>;

    /// Looks at a reply. What is returned is what the server gets.
    ///
    /// # Errors
    ///
    /// [`Refused`], and the server is told so.
    fn reply<'a>(&'a self, request: &'a Request, reply: Reply) -> BoxFuture<'a, Result<Reply, Refused>>;
}

/// A person said no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("User rejected sampling request")]
pub struct Refused;

/// Who replies to samples.
#[derive(Clone)]
pub(crate) struct Sampling {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) approval: Option<Arc<dyn Approval>>,
}

/// What became of a sample.
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
