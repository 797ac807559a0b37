//! The values that the requests of all transports share.

use std::sync::Arc;

use antiphon_transport::identity::Identity;
use rmcp::model::Extensions;

use super::{DynHandler, permit::Authorize};
use crate::{
    asking::Asking,
    model::Icon,
    registry::{Catalog, Registry},
    run::Runtime,
    task::Tasks,
};

/// The values that the requests of all transports share.
pub(crate) struct Service {
    pub(crate) about: About,
    /// The values that all runs share.
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) inner: Option<Arc<dyn DynHandler>>,
    /// The tasks, or `None` if the server has no tasks.
    pub(crate) tasks: Option<Arc<Tasks>>,
    /// The channels through which users answer if the client does not show questions. The value is `None` if the server
    /// has no such channels.
    pub(crate) asking: Option<Arc<Asking>>,
    /// The authorization rules, or `None` if the server does not authenticate callers.
    pub(crate) auth: Option<Arc<dyn Authorize>>,
    pub(crate) principal: Option<PrincipalHook>,
    /// The layers around all requests, or `None` if the server has no layers.
    pub(crate) layers: Option<super::middleware::Next>,
}

pub(crate) type PrincipalHook = Box<dyn Fn(&http::request::Parts) -> Option<String> + Send + Sync>;

/// Returns a function that reads the principal from the identity that the authentication layer has added to the
/// request.
pub(crate) fn principal_of_identity() -> PrincipalHook {
    Box::new(|parts| parts.extensions.get::<Identity>().map(|identity| identity.principal().to_owned()))
}

/// The name of a server, and the metadata with which the server describes itself.
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

    /// Returns the principal of the caller from the HTTP request that contained a message. Returns `None` over stdio.
    pub(crate) fn principal(&self, extensions: &Extensions) -> Option<String> {
        self.principal_of(extensions.get::<http::request::Parts>()?)
    }

    /// Returns the principal of the caller who sent an HTTP request.
    pub(crate) fn principal_of(&self, parts: &http::request::Parts) -> Option<String> {
        self.principal.as_ref().and_then(|hook| hook(parts))
    }

    /// Returns `true` if at least one tool requires scopes.
    pub(crate) fn has_scoped_tools(&self) -> bool {
        self.auth.is_some() && self.registry().tools().iter().any(|tool| !tool.scopes.is_empty())
    }
}
