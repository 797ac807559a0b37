//! What requests need, and whether whoever sends them may.

use super::{Auth, Identity, Inner, Refusal, refusal::EXPIRED};

/// Whether `identity` may do what needs all of `needs`.
///
/// Who may not is told of all of them at once, and of those they have among `known`: a client of 2025-11-25 that asks for
/// what it lacks, and for nothing else, would lose what it had.
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
    /// What requests of a method need, and `more`.
    fn needs<'a>(&'a self, method: &str, more: &'a [String]) -> impl Iterator<Item = &'a String> + Clone {
        let operation = self.operations.get(method).map(Vec::as_slice).unwrap_or_default();
        self.scopes.iter().chain(operation).chain(more)
    }
}

impl Auth {
    /// Checks that an authenticated caller may send a request of an MCP method that needs `scopes`, beside those of every
    /// request and of the method ([`with_operation_scopes`](super::AuthBuilder::with_operation_scopes)).
    ///
    /// `known` returns all scopes that the application uses. Those that the caller has are repeated in the challenge,
    /// because some clients ask for exactly what a challenge names, and would lose the others.
    ///
    /// # Errors
    ///
    /// Returns [`Refusal::Scope`] if a scope is missing, and [`Refusal::Invalid`] if the credentials have ended.
    pub fn authorize<'a>(
        &'a self,
        identity: &Identity,
        method: &str,
        scopes: &'a [String],
        known: impl FnOnce() -> Vec<&'a str>,
    ) -> Result<(), Refusal> {
        // Over a WebSocket the credentials are those that opened it.
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

    /// Whether requests of some MCP method need scopes of their own.
    pub fn has_operation_scopes(&self) -> bool {
        !self.inner.operations.is_empty()
    }
}
