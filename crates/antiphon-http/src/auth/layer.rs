use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::response::Response;
use http::Request;
use tower::{Layer, Service};

use super::{
    Auth,
    lease::{Credentials, Opens},
};

/// A tower layer that authenticates requests. The layer adds an [`Identity`](super::Identity) to the extensions of
/// each accepted request. If the layer rejects a request, it returns an authentication challenge. [`Auth::layer`]
/// creates an `AuthLayer`.
#[derive(Clone, Debug)]
pub struct AuthLayer {
    auth: Auth,
    scopes: Arc<[String]>,
}

impl AuthLayer {
    pub(super) fn new(auth: Auth) -> Self {
        Self { auth, scopes: Arc::default() }
    }

    /// Sets additional scopes that callers need for requests to this layer. Callers also need the scopes that
    /// [`AuthBuilder::with_scopes`](super::AuthBuilder::with_scopes) sets. Default: none.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }
}

impl<S> Layer<S> for AuthLayer {
    type Service = AuthService<S>;

    fn layer(&self, inner: S) -> AuthService<S> {
        AuthService { inner, auth: self.auth.clone(), scopes: Arc::clone(&self.scopes) }
    }
}

/// The tower service that an [`AuthLayer`] creates.
#[derive(Clone, Debug)]
pub struct AuthService<S> {
    inner: S,
    auth: Auth,
    scopes: Arc<[String]>,
}

impl<S, B> Service<Request<B>> for AuthService<S>
where
    S: Service<Request<B>, Response = Response> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (auth, scopes) = (self.auth.clone(), Arc::clone(&self.scopes));
        // The request must go to the service that reported readiness, because the clone is not ready yet.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let identity = match auth.admit(&parts, &scopes).await {
                Ok(identity) => identity,
                Err(refusal) => return Ok(auth.respond(&refusal)),
            };
            // If the same `Auth` has already accepted the request in an outer layer, the outer layer watches the
            // credentials.
            let opens = if auth.has_admitted(&parts) { Opens::Nothing } else { Opens::of(&parts) };
            let credentials =
                (opens != Opens::Nothing).then(|| Credentials::of(auth.clone(), &parts, scopes));
            auth.accept(&mut parts, &identity);
            match (opens, credentials) {
                (Opens::Socket, Some(credentials)) => {
                    parts.extensions.insert(credentials.lease(identity));
                    inner.call(Request::from_parts(parts, body)).await
                }
                (Opens::Stream, Some(credentials)) => {
                    let response = inner.call(Request::from_parts(parts, body)).await?;
                    Ok(credentials.limit(response, identity))
                }
                _ => inner.call(Request::from_parts(parts, body)).await,
            }
        })
    }
}
