//! The conditions under which a request can see tools, prompts and resources.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
};

use antiphon_transport::identity::Identity;
use rmcp::{
    RoleServer,
    model::{ClientCapabilities, Extensions, Implementation, ProtocolVersion},
    service::RequestContext,
};

use crate::{
    error::Capability,
    run::client::{Added, declares, has_session},
};

/// Information about the caller and the client of a request, which the conditions of
/// [`Tool::visible_if`](crate::Tool::visible_if) receive.
///
/// You cannot create a `RequestInfo` yourself. To test a condition, list the tools of the server with a
/// `testing::Client` (feature `testing`) or over HTTP.
///
/// ```
/// use antiphon::{Capability, prelude::*, tool::RequestInfo};
///
/// async fn review(_: &Ctx, _: ()) -> Result<String> {
///     Ok("done".into())
/// }
///
/// fn is_reviewer(request: &RequestInfo<'_>) -> bool {
///     request.principal() == Some("ada") && request.supports(Capability::Elicitation)
/// }
///
/// let tool = Tool::new("review", "Reviews a change", review).visible_if(is_reviewer);
/// # let _ = tool;
/// ```
pub struct RequestInfo<'a> {
    context: &'a RequestContext<RoleServer>,
    principal: Option<String>,
    // This type reads the following values on first use, because the SDK copies the values at each read.
    capabilities: OnceLock<ClientCapabilities>,
    client: OnceLock<Option<Implementation>>,
    revision: OnceLock<Option<ProtocolVersion>>,
}

impl<'a> RequestInfo<'a> {
    pub(crate) fn new(context: &'a RequestContext<RoleServer>, principal: Option<String>) -> Self {
        Self {
            context,
            principal,
            capabilities: OnceLock::new(),
            client: OnceLock::new(),
            revision: OnceLock::new(),
        }
    }

    /// Returns the principal: the name of the authenticated caller. Returns `None` if the server does not authenticate
    /// callers.
    pub fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    /// Returns the caller's identity: the subject, the scopes and the claims. Returns `None` over stdio, or if no
    /// authentication layer has added an identity to the request.
    pub fn identity(&self) -> Option<&Identity> {
        self.caller()
    }

    /// Returns whether the caller has the OAuth scope `scope`. Returns `false` if the caller has no identity.
    pub fn has_scope(&self, scope: &str) -> bool {
        self.caller().is_some_and(|identity| identity.has_scope(scope))
    }

    /// Returns whether the client has declared `capability`.
    pub fn supports(&self, capability: Capability) -> bool {
        match capability {
            Capability::Session => has_session(self.context),
            capability => declares(self.capabilities(), capability),
        }
    }

    /// Returns whether the client has declared the extension with this ID, for example `io.modelcontextprotocol/ui` for
    /// MCP Apps.
    pub fn supports_extension(&self, id: &str) -> bool {
        let extensions = self.capabilities().extensions.as_ref();
        extensions.is_some_and(|extensions| extensions.contains_key(id))
    }

    /// Returns the name that the client program reports about itself. The server does not verify the name.
    pub fn client_name(&self) -> Option<&str> {
        self.client().map(|client| client.name.as_str())
    }

    /// Returns the version that the client program reports about itself. The server does not verify the version.
    pub fn client_version(&self) -> Option<&str> {
        self.client().map(|client| client.version.as_str())
    }

    /// Returns the protocol revision of the request, for example `2026-07-28`.
    pub fn protocol_revision(&self) -> Option<&str> {
        self.revision.get_or_init(|| self.context.protocol_version()).as_ref().map(ProtocolVersion::as_str)
    }

    /// Returns the headers of the HTTP request. Returns `None` if the request did not use HTTP. See
    /// [`Ctx::headers`](crate::Ctx::headers).
    pub fn headers(&self) -> Option<&http::HeaderMap> {
        Some(&self.parts()?.headers)
    }

    /// Returns a value that your middleware added to the request. The middleware is a
    /// [layer](crate::ServerBuilder::layer) of the server or a layer of the HTTP router. If both layers added a value
    /// of this type, returns the value of the server's layer. See [`Ctx::extension`](crate::Ctx::extension).
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        added(&self.context.extensions)
    }

    /// Returns the identity of the caller, if an authentication layer has added an identity.
    pub(crate) fn caller(&self) -> Option<&Identity> {
        self.parts()?.extensions.get()
    }

    fn parts(&self) -> Option<&http::request::Parts> {
        self.context.extensions.get()
    }

    fn capabilities(&self) -> &ClientCapabilities {
        self.capabilities.get_or_init(|| self.context.client_capabilities().unwrap_or_default())
    }

    fn client(&self) -> Option<&Implementation> {
        self.client.get_or_init(|| self.context.client_info()).as_ref()
    }
}

impl fmt::Debug for RequestInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestInfo")
            .field("principal", &self.principal)
            .field("client", &self.client_name())
            .field("protocol_revision", &self.protocol_revision())
            .finish_non_exhaustive()
    }
}

/// Returns the value of type `T` that middleware has added to a request.
pub(crate) fn added<T: Send + Sync + 'static>(extensions: &Extensions) -> Option<&T> {
    let of_layers = extensions.get::<Added>().and_then(|added| added.0.get());
    of_layers.or_else(|| extensions.get::<http::request::Parts>()?.extensions.get())
}

type Condition = Box<dyn Fn(&RequestInfo<'_>) -> bool + Send + Sync>;

/// The conditions of an item (a tool, prompt or resource). A request can see the item only if all conditions are true.
#[derive(Default)]
pub(crate) struct VisibleIf(Vec<Condition>);

impl VisibleIf {
    pub(crate) fn add(&mut self, condition: impl Fn(&RequestInfo<'_>) -> bool + Send + Sync + 'static) {
        self.0.push(Box::new(condition));
    }

    /// Returns whether every request can see the item.
    pub(crate) fn is_always(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if a request can see the item. If a condition panics, the request cannot see the item.
    pub(crate) fn holds(&self, request: &RequestInfo<'_>) -> bool {
        let holds = |condition: &Condition| catch_unwind(AssertUnwindSafe(|| condition(request)));
        self.0.iter().all(|condition| {
            holds(condition).unwrap_or_else(|_| {
                tracing::error!("a `visible_if` condition panicked; the item is hidden from this request");
                false
            })
        })
    }
}
