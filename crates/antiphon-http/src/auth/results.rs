//! Authentication for the HTTP routes of result sets. A caller has the same principal on the routes of result sets as
//! in tool calls.

use antiphon_results::{DualResponseError, Owner, rest::Authenticate};
use async_trait::async_trait;
use http::request::Parts;

use super::{Auth, Refusal};

/// Authenticates callers on the HTTP routes of result sets. An authenticated caller can read the result sets that the
/// caller's own tool calls created.
///
/// ```
/// use antiphon_http::auth::{ApiKey, Auth};
/// use antiphon_results::{DualResponseServer, DualResponseServerOptions};
///
/// # fn example(secret: &str) -> Result<(), Box<dyn std::error::Error>> {
/// let auth = Auth::builder("https://mcp.example.com/mcp").with_api_keys([ApiKey::new("ada", secret)]).build()?;
/// let options = DualResponseServerOptions::new("https://mcp.example.com/resources").with_authenticate(auth);
/// let results = DualResponseServer::new(options)?;
/// # Ok(())
/// # }
/// ```
#[async_trait]
impl Authenticate for Auth {
    async fn authenticate(&self, parts: &Parts) -> antiphon_results::Result<Option<Owner>> {
        match self.admit(parts, &[]).await {
            Ok(identity) => Ok(Some(Owner::principal(identity.principal()))),
            Err(refusal @ Refusal::Unavailable) => Err(DualResponseError::Storage(refusal.into())),
            Err(_) => Ok(None),
        }
    }
}
