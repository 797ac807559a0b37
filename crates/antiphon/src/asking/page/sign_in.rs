//! Sign-in of visitors with OpenID Connect. The server stores all data about a sign-in in two encrypted cookies of the
//! browser.

use std::time::Duration;

use antiphon_http::auth::{BuildError, Identity, OpenIdClient, SignInAttempt, SignInError};
use http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::{AskPage, PageAddress, Site, html::Given, visitors::Cookie};
use crate::{
    asking::AskPolicy,
    base::millis,
    task::{Owner, Tasks},
};

/// The maximum time between the start and the end of a sign-in.
const SIGN_IN: Duration = Duration::from_secs(10 * 60);

/// The cookie for a sign-in that a visitor has started. The cookie is `SameSite=Lax`, because the OpenID provider
/// redirects the browser back to the answer page.
const ATTEMPT: Cookie =
    Cookie { secure_name: "__Host-ask-sign-in", plain_name: "ask-sign-in", same_site: "Lax" };

/// The cookie of a user who has signed in. The cookie is `SameSite=Lax`, because a visitor can follow a link from
/// another site. On the first web page behind this link, the server needs the cookie to find out whether the visitor
/// must sign in. The server shows a question, or accepts an answer, only if the request comes from the answer page
/// itself.
const SESSION: Cookie = Cookie { secure_name: "__Host-ask-user", plain_name: "ask-user", same_site: "Lax" };

/// The OpenID Connect client with which visitors sign in, or the problems of its settings.
pub(super) type OpenId = Result<OpenIdClient, BuildError>;

/// A sign-in that a visitor has started in a browser.
#[derive(Serialize, Deserialize)]
pub(crate) struct Begun {
    attempt: SignInAttempt,
    /// The token of the link on which the visitor started the sign-in.
    pub(crate) link: String,
    /// The time at which the unfinished sign-in expires, in milliseconds since 1970.
    expires: u64,
}

impl AskPage {
    /// Returns one line for each problem with the sign-in settings.
    pub(super) fn sign_in_problems(&self, knows_callers: bool) -> Vec<String> {
        let Some(open_id) = &self.sign_in.open_id else { return Vec::new() };
        let mut problems = open_id.as_ref().err().map(|error| error.problems().to_vec()).unwrap_or_default();
        if matches!(self.address, PageAddress::Loopback) {
            problems.push(
                "`AskPage::with_sign_in` is set for a page on the user's machine, where visitors do not sign in; use `AskPage::at`"
                    .to_owned(),
            );
        } else if !knows_callers {
            problems.push(
                "`AskPage::with_sign_in` is set, but the server does not authenticate callers, so visitors could answer without signing in; add `ServerBuilder::with_auth`"
                    .to_owned(),
            );
        }
        problems
    }
}

impl AskPolicy {
    /// Returns the OpenID Connect client with which visitors sign in.
    pub(crate) fn sign_in(&self) -> Option<&OpenIdClient> {
        self.page.as_ref()?.sign_in.open_id.as_ref()?.as_ref().ok()
    }
}

impl Site {
    fn open_id(&self) -> Option<&OpenIdClient> {
        self.page.sign_in.open_id.as_ref()?.as_ref().ok()
    }

    /// Returns `true` if visitors can sign in on the answer page.
    pub(crate) fn has_sign_in(&self) -> bool {
        self.open_id().is_some()
    }

    /// Returns the URL to which the OpenID provider redirects the browser after the sign-in.
    fn redirect(&self) -> String {
        let base = self.base.as_ref();
        base.map(|base| format!("{}{}/ask/callback", base.origin, base.path)).unwrap_or_default()
    }

    /// Starts a sign-in for a visitor of the link with the token `link`. Returns the URL of the OpenID provider, and a
    /// value for the `Set-Cookie` header. If `again` is true, the provider asks the user to sign in, even if the user
    /// is already signed in at the provider.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot use the OpenID provider.
    pub(crate) async fn begin_sign_in(
        &self,
        link: &str,
        again: bool,
        now: u64,
    ) -> Result<(String, String), SignInError> {
        let attempt = SignInAttempt::random();
        let address = self.client()?.authorization_url(&self.redirect(), &attempt, again).await?;
        let expires = now.saturating_add(millis(SIGN_IN));
        Ok((address, self.set_begun(&Begun { attempt, link: link.to_owned(), expires })))
    }

    /// Returns the value of the `Set-Cookie` header that stores a started sign-in in the browser.
    fn set_begun(&self, begun: &Begun) -> String {
        let plain = serde_json::to_vec(begun).unwrap_or_default();
        let value = self.seal.seal_token(&plain, &self.binding("ask sign-in", &[]));
        self.cookie(&ATTEMPT, &value, SIGN_IN.as_secs())
    }

    fn client(&self) -> Result<&OpenIdClient, SignInError> {
        self.open_id().ok_or_else(|| SignInError::Unavailable("no provider is set".to_owned()))
    }

    /// Reads a started sign-in from the cookies of a request. Returns `None` if the visitor started the sign-in with
    /// this `state` in another browser, or if the sign-in has expired.
    pub(crate) fn begun(&self, headers: &HeaderMap, state: &str, now: u64) -> Option<Begun> {
        self.cookies(&ATTEMPT, headers).find_map(|cookie| {
            let plain = self.seal.open_token(cookie, &self.binding("ask sign-in", &[])).ok()?;
            let begun: Begun = serde_json::from_slice(&plain).ok()?;
            (begun.attempt.state() == state && now < begun.expires).then_some(begun)
        })
    }

    /// Returns the identity of the user who signed in. `given` contains the parameters that the OpenID provider
    /// returned.
    ///
    /// # Errors
    ///
    /// Returns an error if the user could not sign in.
    pub(crate) async fn finish_sign_in(&self, begun: &Begun, given: &Given) -> Result<Identity, SignInError> {
        let Some(code) = given.get("code") else {
            let error = given.get("error").unwrap_or("no_code").chars();
            return Err(SignInError::Rejected(error.filter(char::is_ascii_graphic).take(100).collect()));
        };
        self.client()?.redeem(&self.redirect(), code, &begun.attempt).await
    }

    /// Returns `true` if the sign-in settings contain a function that returns the principal of a user.
    pub(crate) fn names_principals(&self) -> bool {
        self.open_id().is_some_and(OpenIdClient::has_principal)
    }

    /// Returns the value of the `Set-Cookie` header that deletes the cookie of a started sign-in.
    pub(crate) fn end_sign_in(&self) -> String {
        self.cookie(&ATTEMPT, "", 0)
    }

    /// Returns the value of the `Set-Cookie` header that keeps a user signed in under the name `principal`.
    pub(crate) fn set_session(&self, principal: &str, now: u64) -> String {
        let expires = now.saturating_add(millis(self.page.life));
        let owner = Tasks::owner(Some(principal)).number().unwrap_or_default();
        let plain = [expires.to_le_bytes().as_slice(), owner.to_le_bytes().as_slice()].concat();
        let value = self.seal.seal_token(&plain, &self.binding("ask session", &[]));
        self.cookie(&SESSION, &value, self.page.life.as_secs().max(1))
    }

    /// Reads the user who signed in on the answer page from the cookies of a request.
    pub(super) fn signed_in(&self, headers: &HeaderMap, now: u64) -> Option<Owner> {
        if !self.has_sign_in() {
            return None;
        }
        self.cookies(&SESSION, headers).find_map(|cookie| {
            let plain = self.seal.open_token(cookie, &self.binding("ask session", &[])).ok()?;
            let (expires, owner) = plain.split_first_chunk::<8>()?;
            let owner = u128::from_le_bytes(owner.try_into().ok()?);
            (now < u64::from_le_bytes(*expires)).then(|| Owner::of_number(Some(owner)))
        })
    }
}

#[cfg(test)]
mod tests {
    use antiphon_http::auth::OpenIdConnect;
    use http::header;

    use super::*;
    use crate::asking::page::tests::{at, site};

    fn signs_in() -> AskPage {
        at().with_sign_in(OpenIdConnect::new("https://login.example.com", "page", "secret"))
    }

    /// Returns the headers of a request from a browser that has received the header `set_cookie`.
    fn sent(set_cookie: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, set_cookie.split_once(';').unwrap().0.parse().unwrap());
        headers
    }

    #[test]
    fn session_names_its_user_until_it_expires() {
        let site_of = site(&signs_in());
        let session = sent(&site_of.set_session("ada", 1000));
        assert_eq!(site_of.signed_in(&session, 1000), Some(Tasks::owner(Some("ada"))));
        assert_eq!(site_of.signed_in(&session, 901_000), None);
        assert_eq!(site(&signs_in()).signed_in(&session, 1000), None, "another server has another key");
        assert_eq!(site(&at()).signed_in(&session, 1000), None, "visitors do not sign in on this page");
    }

    #[test]
    fn sign_in_has_one_state_and_expires() {
        let site = site(&signs_in());
        let begun = || Begun { attempt: SignInAttempt::random(), link: "link".to_owned(), expires: 1000 };
        let (mine, other) = (begun(), begun());
        let cookie = sent(&site.set_begun(&mine));
        let link = |state: &str, now| site.begun(&cookie, state, now).map(|begun| begun.link);
        assert_eq!(link(mine.attempt.state(), 999).as_deref(), Some("link"));
        assert_eq!(link(mine.attempt.state(), 1000), None);
        assert_eq!(link(other.attempt.state(), 999), None);
        assert_eq!(link("", 999), None);
        assert!(site.begun(&sent(&site.set_session("ada", 1)), "", 1).is_none());
    }
}
