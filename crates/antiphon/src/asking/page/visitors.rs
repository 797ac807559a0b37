//! Checks whether a visitor of the answer page can see a question. This module also reads and sets the cookies of the
//! visitor's browser.

use http::{HeaderMap, header, request::Parts};

use super::{Base, Site, links::Named};
use crate::{
    base::{millis, now_millis, random_id},
    task::Tasks,
};

/// Whether a visitor can see the questions of a task, and if not, why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted,
    /// The visitor is not signed in, but can sign in on the answer page.
    Unknown,
    /// The visitor has signed in on the answer page as another user.
    Other,
    /// The visitor is not signed in, or is signed in as another user. The visitor cannot sign in on the answer page.
    Denied,
}

/// A browser in which a visitor has opened a question. The value is the random text in the cookie of this browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Browser(pub(super) String);

impl Browser {
    pub(crate) fn new() -> Self {
        Self(random_id())
    }
}

/// A cookie of the answer page. If the name of a cookie begins with `__Host-`, other hosts of the same domain cannot
/// set the cookie. Browsers accept a cookie whose name begins with `__Host-` only over TLS.
pub(super) struct Cookie {
    pub(super) secure_name: &'static str,
    pub(super) plain_name: &'static str,
    pub(super) same_site: &'static str,
}

/// The cookie that identifies a browser in which a visitor has opened a question.
const BROWSER: Cookie = Cookie { secure_name: "__Host-ask", plain_name: "ask", same_site: "Strict" };

impl Site {
    /// Checks whether the visitor who sent a request can see the questions of a task.
    pub(crate) fn admission(&self, named: &Named, parts: &Parts) -> Admission {
        if named.owner.number().is_none() {
            // The caller of this task was not authenticated. So the server cannot compare the visitor with the caller.
            return Admission::Admitted;
        }
        if let Some(visitor) = self.page.sign_in.visitor(parts) {
            let is_owner = Tasks::owner(Some(&visitor)) == named.owner;
            return if is_owner { Admission::Admitted } else { Admission::Denied };
        }
        match self.signed_in(&parts.headers, now_millis()) {
            Some(visitor) if visitor == named.owner => Admission::Admitted,
            Some(_) => Admission::Other,
            None if self.page.bearer_links => Admission::Admitted,
            None if self.has_sign_in() => Admission::Unknown,
            None => Admission::Denied,
        }
    }

    fn is_secure(&self) -> bool {
        self.base.as_ref().is_some_and(Base::is_secure)
    }

    fn cookie_name(&self, cookie: &Cookie) -> &'static str {
        if self.is_secure() { cookie.secure_name } else { cookie.plain_name }
    }

    /// Returns a value for the `Set-Cookie` header. The browser keeps the cookie for `seconds`. If `seconds` is zero,
    /// the browser deletes the cookie.
    pub(super) fn cookie(&self, cookie: &Cookie, value: &str, seconds: u64) -> String {
        let (name, same_site) = (self.cookie_name(cookie), cookie.same_site);
        let secure = if self.is_secure() { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={same_site}{secure}")
    }

    /// Returns all values that a request contains for the cookie `cookie`. A request can contain several values,
    /// because another host of the same domain can set a cookie with the same name.
    pub(super) fn cookies<'a>(
        &self,
        cookie: &Cookie,
        headers: &'a HeaderMap,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let name = self.cookie_name(cookie);
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        cookies.flat_map(|cookies| cookies.split(';')).filter_map(move |cookie| {
            let (found, value) = cookie.split_once('=')?;
            (found.trim() == name).then(|| value.trim())
        })
    }

    /// Returns the value of the `Set-Cookie` header that stores the random text of a browser in a cookie.
    pub(crate) fn set_cookie(&self, browser: &Browser, now: u64) -> String {
        let expires = now.saturating_add(millis(self.page.life));
        let plain = [expires.to_le_bytes().as_slice(), browser.0.as_bytes()].concat();
        let value = self.seal.seal_token(&plain, &self.binding("ask cookie", &[]));
        self.cookie(&BROWSER, &value, self.page.life.as_secs().max(1))
    }

    /// Returns the browser that sent a request. Returns `None` if no question was opened in this browser.
    pub(crate) fn browser(&self, headers: &HeaderMap, now: u64) -> Option<Browser> {
        self.cookies(&BROWSER, headers).find_map(|cookie| {
            let plain = self.seal.open_token(cookie, &self.binding("ask cookie", &[])).ok()?;
            let (expires, browser) = plain.split_first_chunk::<8>()?;
            let browser = String::from_utf8(browser.to_vec()).ok()?;
            (now < u64::from_le_bytes(*expires)).then_some(Browser(browser))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asking::page::{
        AskPage,
        tests::{at, site, task, with_users},
    };

    fn visit(user: Option<&str>) -> Parts {
        let mut request = http::Request::get("/");
        if let Some(user) = user {
            request = request.header("x-user", user);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn known_caller_is_the_only_visitor() {
        let (ada, bob, nobody) = (visit(Some("ada")), visit(Some("bob")), visit(None));
        let known = task(Some("ada"));
        let admits = |site: &Site, named: &Named, parts: &Parts| match site.admission(named, parts) {
            Admission::Admitted => true,
            Admission::Denied => false,
            other => panic!("{other:?}: visitors do not sign in on this page"),
        };
        let strict = site(&with_users(at()));
        assert!(admits(&strict, &known, &ada));
        assert!(!admits(&strict, &known, &bob) && !admits(&strict, &known, &nobody));
        let weak = site(&with_users(at()).allow_bearer_links());
        assert!(admits(&weak, &known, &ada) && admits(&weak, &known, &nobody));
        assert!(!admits(&weak, &known, &bob));
        let closed = site(&at());
        assert!(!admits(&closed, &known, &ada), "the page does not know its visitors");
        assert!(admits(&closed, &task(None), &nobody) && admits(&strict, &task(None), &nobody));
    }

    #[test]
    fn cookie_is_protected_and_expires() {
        let browser = Browser::new();
        let secure = site(&at());
        let cookie = secure.set_cookie(&browser, 1000);
        assert!(cookie.starts_with("__Host-ask="), "{cookie}");
        assert!(cookie.ends_with("; Path=/; Max-Age=900; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
        let mut headers = HeaderMap::new();
        let sent = format!("theme=dark; {}", cookie.split_once(';').unwrap().0);
        headers.insert(header::COOKIE, sent.parse().unwrap());
        assert_eq!(secure.browser(&headers, 1000), Some(browser.clone()));
        assert_eq!(secure.browser(&headers, 901_000), None);
        assert_eq!(site(&at()).browser(&headers, 1000), None, "another server has another key");
        for local in [AskPage::loopback(), AskPage::at("http://127.0.0.1:8000")] {
            let cookie = site(&local).set_cookie(&browser, 1000);
            assert!(cookie.starts_with("ask=") && cookie.ends_with("SameSite=Strict"), "{cookie}");
        }
    }
}
