use serde::{Deserialize, Serialize};

/// Whose a result set is, and who is asking for it.
///
/// A set is bound to its owner when it is made. Whoever is someone else is told that there is no such set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Owner {
    /// The tenant: the organisation, where one server serves several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The person or program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

impl Owner {
    /// Nobody in particular: whoever has the id may have the set.
    pub fn nobody() -> Self {
        Self::default()
    }

    /// This person or program.
    pub fn principal(principal: impl Into<String>) -> Self {
        Self { tenant: None, principal: Some(principal.into()) }
    }

    /// Says in which tenant.
    #[must_use]
    pub fn with_tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Whether it is nobody in particular.
    pub fn is_nobody(&self) -> bool {
        self.tenant.is_none() && self.principal.is_none()
    }
}
