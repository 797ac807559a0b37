use async_trait::async_trait;
use http::request::Parts;

use crate::{error::Result, owner::Owner};

/// A function that authenticates an HTTP request, for example by its bearer token, by a cookie, or by data from a
/// middleware.
///
/// Every closure `Fn(&Parts) -> Option<Owner>` implements this trait.
#[async_trait]
pub trait Authenticate: Send + Sync + 'static {
    /// Returns the caller, or `None` if the request has no valid credentials. If this method returns `None`, the
    /// server responds with status 401.
    ///
    /// # Errors
    ///
    /// Returns an error if authentication is temporarily not possible, for example because an identity provider is
    /// unavailable.
    async fn authenticate(&self, parts: &Parts) -> Result<Option<Owner>>;
}

#[async_trait]
impl<F> Authenticate for F
where
    F: Fn(&Parts) -> Option<Owner> + Send + Sync + 'static,
{
    async fn authenticate(&self, parts: &Parts) -> Result<Option<Owner>> {
        Ok(self(parts))
    }
}
