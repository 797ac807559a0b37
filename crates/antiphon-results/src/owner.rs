use serde::{Deserialize, Serialize};

/// The owner of a result set, or the identity of a caller.
///
/// The owner of a result set is chosen when the result set is created, and does not change later. By default, only the
/// owner can access the result set. To all other callers, the server responds that the result set does not exist.
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
    /// By default, every unauthenticated caller who has the ID of a result set without an owner can access the result
    /// set.
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
