use serde::{Deserialize, Serialize};

/// The owner of a result set, or the identity of a caller.
///
/// A set is bound to its owner when it is created. For every other caller, the server answers that the set does not
/// exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Owner {
    /// Tenant: the organisation, if one server serves several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Principal: the user or program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

impl Owner {
    /// Returns an owner without tenant and principal.
    ///
    /// By default, a set of this owner is open to every unauthenticated caller that has its ID.
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
