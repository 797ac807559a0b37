//! What answers the requests of all transports.

use std::sync::Arc;

use rmcp::model::Extensions;

use super::DynHandler;
#[cfg(feature = "auth")]
use super::permit::Authorize;
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
    #[cfg(feature = "auth")]
    pub(crate) auth: Option<Arc<dyn Authorize>>,
    #[cfg(feature = "http")]
    pub(crate) principal: Option<PrincipalHook>,
}

#[cfg(feature = "http")]
pub(crate) type PrincipalHook = Box<dyn Fn(&http::request::Parts) -> Option<String> + Send + Sync>;

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
    #[cfg(feature = "http")]
    pub(crate) fn principal(&self, extensions: &Extensions) -> Option<String> {
        self.principal_of(extensions.get::<http::request::Parts>()?)
    }

    #[cfg(not(feature = "http"))]
    #[expect(clippy::unused_self, reason = "the same signature with and without the feature")]
    pub(crate) fn principal(&self, _: &Extensions) -> Option<String> {
        None
    }

    /// Who sent an HTTP request.
    #[cfg(feature = "http")]
    pub(crate) fn principal_of(&self, parts: &http::request::Parts) -> Option<String> {
        self.principal.as_ref().and_then(|hook| hook(parts))
    }

    #[cfg(feature = "http")]
    pub(crate) fn has_principal(&self) -> bool {
        self.principal.is_some()
    }

    /// Whether any tool needs scopes of its own.
    #[cfg(feature = "auth")]
    pub(crate) fn has_scoped_tools(&self) -> bool {
        self.auth.is_some() && self.registry().tools().iter().any(|tool| !tool.scopes.is_empty())
    }
}
