use async_trait::async_trait;
use http::request::Parts;

use crate::{error::Result, owner::Owner};

/// Says who is calling, from a request: by its bearer token, by a cookie, by what a middleware has put there.
///
/// Every closure `Fn(&Parts) -> Option<Owner>` is one.
#[async_trait]
pub trait Authenticate: Send + Sync + 'static {
    /// Who is calling; `None` if the request does not show it, which is answered with 401.
    ///
    /// # Errors
    ///
    /// When nobody can tell right now.
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
