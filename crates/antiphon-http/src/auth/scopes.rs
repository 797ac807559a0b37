//! Determines the scopes that requests need, and checks the scopes of callers.

use super::{Auth, Identity, Inner, Refusal, refusal::EXPIRED};

/// Checks that `identity` has all scopes in `needs`.
///
/// If a scope is missing, the rejection lists all scopes in `needs`. The rejection also lists the scopes in `known`
/// that the caller already has. Some MCP 2025-11-25 clients request only the scopes that the rejection lists. If the
/// rejection did not list the scopes in `known`, these clients would lose all their other scopes.
pub(super) fn hold<'a>(
    identity: &Identity,
    needs: impl Iterator<Item = &'a String> + Clone,
    known: &[&'a str],
) -> Result<(), Refusal> {
    if needs.clone().all(|scope| identity.has_scope(scope)) {
        return Ok(());
    }
    let mut told: Vec<String> = Vec::new();
    let kept = known.iter().copied().filter(|scope| identity.has_scope(scope));
    for scope in needs.map(String::as_str).chain(kept) {
        if !told.iter().any(|it| it == scope) {
            told.push(scope.to_owned());
        }
    }
    Err(Refusal::Scope(told))
}

impl Inner {
    /// Returns all scopes that a request with the MCP method `method` needs, including the scopes in `more`.
    fn needs<'a>(&'a self, method: &str, more: &'a [String]) -> impl Iterator<Item = &'a String> + Clone {
        let operation = self.operations.get(method).map(Vec::as_slice).unwrap_or_default();
        self.scopes.iter().chain(operation).chain(more)
    }
}

impl Auth {
    /// Checks that an authenticated caller has all scopes that a request needs:
    ///
    /// - the scopes that every request needs
    /// - the scopes of the MCP method ([`with_operation_scopes`](super::AuthBuilder::with_operation_scopes))
    /// - the scopes in `scopes`
    ///
    /// `known` is a function that returns all scopes that the application uses. The authentication challenge also lists
    /// the scopes that the caller already has. If the challenge listed only the missing scopes, clients that request
    /// only the listed scopes would lose their other scopes.
    ///
    /// # Errors
    ///
    /// Returns [`Refusal::Scope`] if a scope is missing, and [`Refusal::Invalid`] if the credentials have
    /// expired.
    pub fn authorize<'a>(
        &'a self,
        identity: &Identity,
        method: &str,
        scopes: &'a [String],
        known: impl FnOnce() -> Vec<&'a str>,
    ) -> Result<(), Refusal> {
        // Over a WebSocket, the credentials come from the request that opened the connection, so they may have
        // expired.
        if identity.is_over() {
            return Err(EXPIRED);
        }
        let inner = &self.inner;
        if inner.needs(method, scopes).all(|scope| identity.has_scope(scope)) {
            return Ok(());
        }
        let own = inner.scopes.iter().chain(inner.operations.values().flatten()).map(String::as_str);
        let known: Vec<&str> = own.chain(known()).collect();
        hold(identity, inner.needs(method, scopes), &known)
    }

    /// Returns whether any MCP method needs additional scopes
    /// ([`with_operation_scopes`](super::AuthBuilder::with_operation_scopes)).
    pub fn has_operation_scopes(&self) -> bool {
        !self.inner.operations.is_empty()
    }
}
