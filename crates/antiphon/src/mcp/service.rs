//! What answers the requests of all transports.

use std::sync::Arc;

use antiphon_transport::identity::Identity;
use rmcp::model::Extensions;

use super::{DynHandler, permit::Authorize};
use crate::{
    model::Icon,
    registry::{Catalog, Registry},
    run::Runtime,
    task::Tasks,
};

/// What answers the requests of all transports.
pub(crate) struct Service {
    pub(crate) about: About,
    /// What runs share.
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) inner: Option<Arc<dyn DynHandler>>,
    /// The tasks, where the server has them.
    pub(crate) tasks: Option<Arc<Tasks>>,
    /// Who may do what, where callers have to show who they are.
    pub(crate) auth: Option<Arc<dyn Authorize>>,
    pub(crate) principal: Option<PrincipalHook>,
}

pub(crate) type PrincipalHook = Box<dyn Fn(&http::request::Parts) -> Option<String> + Send + Sync>;

/// Names callers as the layer of the server's auth has found them to be.
pub(crate) fn principal_of_identity() -> PrincipalHook {
    Box::new(|parts| parts.extensions.get::<Identity>().map(|identity| identity.principal().to_owned()))
}

/// Who a server says it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) website: Option<String>,
    pub(crate) icons: Option<Vec<Icon>>,
    pub(crate) instructions: Option<String>,
}

impl Service {
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.catalog.registry()
    }

    /// Who sent a message: whoever sent the HTTP request that it came with. Over a pipe that is nobody in particular.
    pub(crate) fn principal(&self, extensions: &Extensions) -> Option<String> {
        self.principal_of(extensions.get::<http::request::Parts>()?)
    }

    /// Who sent an HTTP request.
    pub(crate) fn principal_of(&self, parts: &http::request::Parts) -> Option<String> {
        self.principal.as_ref().and_then(|hook| hook(parts))
    }

    /// Whether any tool needs scopes of its own.
    pub(crate) fn has_scoped_tools(&self) -> bool {
        self.auth.is_some() && self.registry().tools().iter().any(|tool| !tool.scopes.is_empty())
    }
}
