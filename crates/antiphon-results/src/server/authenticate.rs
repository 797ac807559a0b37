use async_trait::async_trait;
use http::request::Parts;

use crate::{error::Result, owner::Owner};

/// Authentication of a request: by its bearer token, by a cookie, or by data from a middleware.
///
/// Every closure `Fn(&Parts) -> Option<Owner>` implements it.
#[async_trait]
pub trait Authenticate: Send + Sync + 'static {
    /// Returns the caller, or `None` if the request has no valid credentials. The server answers `None` with 401.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller cannot be determined at the moment.
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
