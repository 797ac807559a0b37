//! The settings of the answer page. The answer page is a web page on which users answer questions.
//!
//! The module `links` creates the tokens of links and forms. `visitors` checks whether a visitor can see a question,
//! and `sign_in` signs visitors in. `texts` creates the texts for models. `html` creates the HTML.
//! `server/http/ask_page.rs` contains the HTTP routes.

mod address;
#[cfg(any(all(test, feature = "auth"), feature = "__fuzz"))]
pub(crate) mod fuzz;
pub(crate) mod html;
mod links;
#[cfg(feature = "auth")]
mod sign_in;
mod texts;
mod visitors;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

#[cfg(feature = "auth")]
use antiphon_http::auth::OpenIdConnect;
use http::request::Parts;

pub(crate) use self::{
    address::Base,
    links::Named,
    texts::Listener,
    visitors::{Admission, Browser},
};
use crate::{run::Client, seal::SealConfig};

/// Replacements for the functions of the sign-in module, for builds without the feature `auth`.
#[cfg(not(feature = "auth"))]
#[expect(clippy::unused_self, reason = "the same signatures with and without the feature")]
mod sign_in {
    use http::HeaderMap;

    use super::{AskPage, Site};
    use crate::task::Owner;

    /// The OpenID Connect client with which visitors sign in. Without the feature `auth`, this type has no values.
    #[derive(Clone)]
    pub(super) enum OpenId {}

    impl AskPage {
        pub(super) fn sign_in_problems(&self, _: bool) -> Vec<String> {
            Vec::new()
        }
    }

    impl Site {
        pub(crate) fn has_sign_in(&self) -> bool {
            false
        }

        pub(super) fn signed_in(&self, _: &HeaderMap, _: u64) -> Option<Owner> {
            None
        }
    }
}

/// The answer page: a web page of the server on which users answer questions that their client does not show. Pass the
/// answer page to [`AskPolicy::with_page`](crate::elicitation::AskPolicy::with_page).
///
/// If a client shows neither forms nor MCP Apps, the model receives a link and shows this link to the user. The user
/// opens the link in a browser and answers on the answer page. The client and the model do not receive the answer.
///
/// A link identifies a run, but a link does not authenticate the person who opens the link:
///
/// - If the caller of the run is authenticated, the answer page shows the question only to a visitor with the same
///   principal. All other visitors receive the same response as for an unknown link. With
///   [`with_visitor`](Self::with_visitor), the answer page identifies visitors by the sessions of your application.
///   With `with_sign_in` (feature `auth`), visitors sign in with OpenID Connect. If the server authenticates callers,
///   you must set `with_visitor` or `with_sign_in`. If neither of the two is set,
///   [`build`](crate::ServerBuilder::build) returns an error.
/// - If the caller is not authenticated, everyone who has the link can read and answer the question.
/// - A link expires after 15 minutes ([`with_life`](Self::with_life)). If the question closes earlier, the link expires
///   when the question closes. Only the first answer to a question counts.
/// - The first web page behind a link does not show the question. To see the question, the user must press a button. So
///   programs that automatically fetch links cannot read or answer the question.
///
/// [`Server::router`](crate::Server::router) and [`Server::serve_http`](crate::Server::serve_http) serve the answer
/// page. To serve the answer page in another application, use [`Server::ask_router`](crate::Server::ask_router).
///
/// The answer page does not need JavaScript. The answer page requires a browser that sends the header `Sec-Fetch-Site`.
/// All browsers since 2023 send this header.
///
/// # Examples
///
/// In this example, the application has its own sessions. The middleware of the application adds the user to each
/// request:
///
/// ```no_run
/// use antiphon::{
///     elicitation::{AskPage, AskPolicy},
///     http::HttpConfig,
///     prelude::*,
/// };
///
/// /// The user of the session. The middleware of the application adds this value.
/// #[derive(Clone)]
/// struct User(String);
///
/// # async fn onboard(_: &Ctx, _: ()) -> Result<String> { Ok("done".into()) }
/// # fn example() -> Result<axum::Router> {
/// let page = AskPage::at("https://mcp.example.com")
///     .with_visitor(|parts| parts.extensions.get::<User>().map(|user| user.0.clone()));
/// let server = Server::builder("onboarding", "1.0.0")
///     .with_principal(|parts| parts.extensions.get::<User>().map(|user| user.0.clone()))
///     .with_asking(AskPolicy::default().with_page(page))
///     .tool(Tool::new("onboard", "Takes on a colleague", onboard))
///     .build()?;
/// let app = server.router(HttpConfig::default()); // contains the routes of the page, under `/ask`
/// # Ok(app)
/// # }
/// ```
#[derive(Clone)]
#[must_use = "an `AskPage` does nothing until `AskPolicy::with_page` takes it"]
pub struct AskPage {
    address: PageAddress,
    sign_in: SignIn,
    life: Duration,
    bearer_links: bool,
    opens_browser: bool,
}

/// The address at which browsers open the answer page.
#[derive(Clone, Debug)]
enum PageAddress {
    At(String),
    /// The answer page is served only on this machine, at a random port.
    Loopback,
}

type VisitorHook = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// The ways in which the answer page identifies its visitors. If a visitor has an application session and has also
/// signed in, the server uses the application session.
#[derive(Clone, Default)]
struct SignIn {
    /// The function that reads the principal of a visitor from the application's own session.
    session: Option<VisitorHook>,
    /// The OpenID Connect client, if visitors can sign in on the answer page.
    open_id: Option<sign_in::OpenId>,
}

impl SignIn {
    /// Returns the principal of the visitor, which the function for the application's own session returns.
    fn visitor(&self, parts: &Parts) -> Option<String> {
        self.session.as_ref().and_then(|session| session(parts))
    }

    /// Returns `true` if the answer page can identify visitors, either by the application's own session or by a
    /// sign-in.
    fn is_set(&self) -> bool {
        self.session.is_some() || self.open_id.is_some()
    }
}

impl AskPage {
    /// Creates an answer page for browsers that reach your server at `base`, for example `https://mcp.example.com`. The
    /// path of the answer page is `/ask/…` under the address `base`.
    ///
    /// The address `base` must begin with `https://`, unless its host is `localhost`, `127.0.0.1` or `[::1]`. If your
    /// application nests the routes of the server under a path, add this path to the address.
    pub fn at(base: impl Into<String>) -> Self {
        Self::new(PageAddress::At(base.into()))
    }

    /// Creates an answer page that runs on the user's own machine. Use this method for a server that the user's client
    /// starts ([`Server::serve_stdio`](crate::Server::serve_stdio)).
    ///
    /// The server listens on `127.0.0.1` at a random port, but only while a question waits for an answer. HTTP callers
    /// do not receive links to an answer page on the user's own machine.
    ///
    /// Other users of the same machine cannot read the link. But if another user gets the link in a different way, the
    /// other user can answer the question.
    pub fn loopback() -> Self {
        Self::new(PageAddress::Loopback)
    }

    fn new(address: PageAddress) -> Self {
        Self {
            address,
            sign_in: SignIn::default(),
            life: Duration::from_secs(15 * 60),
            bearer_links: false,
            opens_browser: false,
        }
    }

    /// Sets a function that returns the principal of a visitor from the session of your application. The function can
    /// read data that your middleware has added to the request, or a cookie. Default: none.
    ///
    /// The principal must be equal to the principal of the MCP caller. The server's authentication, or
    /// [`ServerBuilder::with_principal`](crate::ServerBuilder::with_principal), determines the principal of the MCP
    /// caller. If your function returns `None`, the visitor is not signed in, and receives the same response as for an
    /// unknown link. If you also set `with_sign_in` (feature `auth`), a visitor without a session can sign in on the
    /// answer page.
    pub fn with_visitor(
        mut self,
        visitor: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.sign_in.session = Some(Arc::new(visitor));
        self
    }

    /// Adds a sign-in with OpenID Connect for visitors, at the OpenID provider of your users. Use this method if your
    /// application does not have sessions that identify users. Default: none.
    ///
    /// Register the redirect URL `<address>/ask/callback` at the provider, where `<address>` is the address that you
    /// pass to [`at`](Self::at). The server uses the authorization code flow with PKCE. The server does not store
    /// sign-ins, because two encrypted cookies in the browser contain all data about a sign-in. If you run several
    /// replicas, give the same [`KeyRing`](crate::seal::KeyRing) to all replicas.
    ///
    /// A visitor can open the question if the visitor's principal is equal to the principal of the MCP caller:
    ///
    /// - If the server uses [`ServerBuilder::with_auth`](crate::ServerBuilder::with_auth), a visitor who signs in gets
    ///   the same principal as in the visitor's access tokens. The issuer of the sign-in must be an issuer whose tokens
    ///   the server accepts.
    /// - You must set a function with [`OpenIdConnect::with_principal`] if the server has
    ///   [`ServerBuilder::with_principal`](crate::ServerBuilder::with_principal). You must also set this function if
    ///   the issuer of the sign-in is not the issuer of the tokens.
    ///
    /// A visitor stays signed in for the duration that [`with_life`](Self::with_life) sets. If the function that you
    /// pass to [`with_visitor`](Self::with_visitor) also returns a principal, the server uses the principal of this
    /// function.
    ///
    /// ```
    /// use antiphon::{auth::OpenIdConnect, elicitation::AskPage};
    ///
    /// # let secret = "from the environment";
    /// let sign_in = OpenIdConnect::new("https://login.example.com", "onboarding-page", secret);
    /// let page = AskPage::at("https://mcp.example.com").with_sign_in(sign_in);
    /// # let _ = page;
    /// ```
    #[cfg(feature = "auth")]
    pub fn with_sign_in(mut self, sign_in: OpenIdConnect) -> Self {
        self.sign_in.open_id = Some(sign_in.build());
        self
    }

    /// Sets how long a link is valid. Default: 15 minutes. If a link has expired, the model can call the tool
    /// `task_result` to get a new link.
    pub fn with_life(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }

    /// Allows visitors who are not signed in to answer the questions of authenticated callers. Default: no.
    ///
    /// Links that work without a sign-in are less secure than [`with_visitor`](Self::with_visitor), because everyone
    /// who has a link can read and answer the question. The model, the client, and everyone who can read the
    /// conversation have the link. The MCP specification requires a server to verify that the user who opens the page
    /// is the user who started the request. With `allow_bearer_links`, the server does not verify that the two users
    /// are the same. The server still rejects a visitor who is signed in as another principal.
    pub fn allow_bearer_links(mut self) -> Self {
        self.bearer_links = true;
        self
    }

    /// Sets whether the server opens the answer page in the user's browser. Default: no. The server can open a browser
    /// only if [`loopback`](Self::loopback) created the answer page.
    ///
    /// If the server opens the answer page, the model does not receive a link. So the model cannot open the answer
    /// page. To open the browser, the server starts `xdg-open`, `open` or `rundll32`, depending on the operating
    /// system. During the start of this program, other users of the machine can read the link in the list of processes.
    pub fn open_browser(mut self, open_browser: bool) -> Self {
        self.opens_browser = open_browser;
        self
    }

    /// Returns one line for each problem of the configuration. `knows_callers` is true if the server authenticates
    /// callers.
    pub(super) fn problems(&self, knows_callers: bool) -> Vec<String> {
        let mut problems = Vec::new();
        if self.life.is_zero() {
            let problem = "`AskPage::with_life` is 0, so every link would expire at once; set a longer time";
            problems.push(problem.to_owned());
        }
        problems.extend(self.sign_in_problems(knows_callers));
        let PageAddress::At(base) = &self.address else { return problems };
        if let Err(why) = Base::parse(base) {
            problems.push(format!(
                "`AskPage::at` has the address `{base}`: {why}; write it like `https://mcp.example.com`"
            ));
        }
        if self.opens_browser {
            problems.push(
                "`AskPage::open_browser` is set for a page that is not on the user's machine; use `AskPage::loopback`"
                    .to_owned(),
            );
        }
        if knows_callers && !self.bearer_links && !self.sign_in.is_set() {
            problems.push(
                "the server authenticates callers, but its `AskPage` cannot identify visitors, so they could not answer; add `AskPage::with_visitor`, or `AskPage::with_sign_in` (feature `auth`)"
                    .to_owned(),
            );
        }
        problems
    }
}

impl fmt::Debug for AskPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskPage")
            .field("address", &self.address)
            .field("life", &self.life)
            .field("bearer_links", &self.bearer_links)
            .field("opens_browser", &self.opens_browser)
            .finish_non_exhaustive()
    }
}

/// The answer page of a server, and the encryption keys with which the server creates links.
pub(crate) struct Site {
    page: AskPage,
    /// The address of the answer page. The address is `None` for an answer page on this machine, because the port of
    /// such an answer page changes.
    base: Option<Base>,
    seal: SealConfig,
    audience: String,
    listener: OnceLock<Box<dyn Listener>>,
    /// The links that the server has opened in the browser. Each key identifies a task and its questions, and each
    /// value is the time at which the link expires.
    opened: Mutex<BTreeMap<String, u64>>,
}

impl Site {
    /// Creates the answer page of a server. Returns `None` if the address of the answer page is not valid.
    /// `AskPage::problems` reports an invalid address.
    pub(super) fn new(page: &AskPage, seal: &SealConfig, audience: &str) -> Option<Self> {
        let base = match &page.address {
            PageAddress::At(base) => Some(Base::parse(base).ok()?),
            PageAddress::Loopback => None,
        };
        Some(Self {
            page: page.clone(),
            base,
            seal: seal.clone(),
            audience: audience.to_owned(),
            listener: OnceLock::new(),
            opened: Mutex::default(),
        })
    }

    /// Returns the address of the answer page. Returns `None` if the answer page is on this machine. A [`Listener`]
    /// then serves the answer page.
    pub(crate) fn base(&self) -> Option<&Base> {
        self.base.as_ref()
    }

    /// Sets the listener that serves an answer page on this machine.
    pub(crate) fn set_listener(&self, listener: Box<dyn Listener>) {
        let _ = self.listener.set(listener);
    }

    /// Returns `true` if the user of this client can open the answer page. If the answer page is on this machine, only
    /// the user of the client that started the server can open the answer page.
    pub(super) fn reaches(&self, client: &Client) -> bool {
        self.base.is_some() || client.extensions().get::<Parts>().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Tasks;

    pub(super) fn site(page: &AskPage) -> Site {
        Site::new(page, &SealConfig::default(), "shop").unwrap()
    }

    pub(super) fn at() -> AskPage {
        AskPage::at("https://mcp.example.com")
    }

    pub(super) fn task(principal: Option<&str>) -> Named {
        Named { task: "7c".repeat(16), owner: Tasks::owner(principal), expires: 1000 }
    }

    pub(super) fn with_users(page: AskPage) -> AskPage {
        page.with_visitor(|parts| parts.headers.get("x-user")?.to_str().ok().map(ToOwned::to_owned))
    }

    #[test]
    fn page_for_known_callers_must_identify_visitors() {
        let problems = |page: AskPage, knows_callers| page.problems(knows_callers).len();
        assert_eq!(problems(at(), false), 0);
        assert_eq!(problems(at(), true), 1);
        assert_eq!(problems(with_users(at()), true), 0);
        assert_eq!(problems(at().allow_bearer_links(), true), 0);
        assert_eq!(problems(AskPage::loopback(), true), 0);
        assert_eq!(problems(AskPage::at("http://example.com"), false), 1);
        assert_eq!(problems(at().open_browser(true), false), 1);
        assert_eq!(problems(at().with_life(Duration::ZERO), false), 1);
    }
}
