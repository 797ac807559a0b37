use serde::{Deserialize, Serialize};

/// The owner of a result set, or the identity of a caller.
///
/// The owner of a result set is set at its creation, and does not change. By default, every other caller gets the
/// response that the result set does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Owner {
    /// Tenant: an organisation whose data is separate from the data of other organisations on the same server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Principal: the authenticated user or program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

impl Owner {
    /// Returns an owner without tenant and principal.
    ///
    /// By default, a result set of this owner is accessible to every unauthenticated caller who has its ID.
    pub fn nobody() -> Self {
        Self::default()
    }

    /// Returns an owner with this principal and without a tenant.
    pub fn principal(principal: impl Into<String>) -> Self {
        Self { tenant: None, principal: Some(principal.into()) }
    }

    /// Sets the tenant. Default: none.
    #[must_use]
    pub fn with_tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Returns whether the owner has neither a tenant nor a principal.
    pub fn is_nobody(&self) -> bool {
        self.tenant.is_none() && self.principal.is_none()
    }
}
