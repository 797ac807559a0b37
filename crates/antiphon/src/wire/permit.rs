//! Whether whoever sent a request may make it.

use rmcp::{ErrorData, model::Extensions};

use super::Handler;
use crate::tool::Tool;

impl Handler {
    /// Refuses a request of `method`, for `tool` if it calls one, that whoever sent it may not make.
    ///
    /// Over streamable HTTP such a request does not come this far: it was answered with a challenge. Here it is held up
    /// whatever it came over.
    #[cfg(feature = "auth")]
    pub(super) fn permit(
        &self,
        method: &str,
        tool: Option<&Tool>,
        extensions: &Extensions,
    ) -> Result<(), ErrorData> {
        use crate::auth::Refusal;
        let parts = extensions.get::<http::request::Parts>();
        let identity = parts.and_then(|parts| parts.extensions.get());
        self.shared.permits(identity, parts.is_some(), method, tool).map_err(|refusal| {
            let mut data = serde_json::json!({"error": refusal.code()});
            if let Refusal::Scope(needs) = &refusal {
                data["scope"] = needs.join(" ").into();
            }
            ErrorData::invalid_request(refusal.to_string(), Some(data))
        })
    }

    #[cfg(not(feature = "auth"))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the same signature with and without the feature"
    )]
    pub(super) fn permit(&self, _: &str, _: Option<&Tool>, _: &Extensions) -> Result<(), ErrorData> {
        Ok(())
    }
}
