//! The settings of the answer page, on which users answer questions.
//!
//! The module `links` contains the tokens of links and forms. `visitors` checks visitors, and `sign_in` signs visitors
//! in. `texts` contains the texts for models. `html` creates the HTML. `server/http/ask_page.rs` contains the HTTP
//! routes.

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

/// Replacements for the sign-in module, if the feature `auth` is off.
#[cfg(not(feature = "auth"))]
#[expect(clippy::unused_self, reason = "the same signatures with and without the feature")]
mod sign_in {
    use http::HeaderMap;

    use super::{AskPage, Site};
    use crate::task::Owner;

    /// The client for the sign-in. Without the feature `auth`, this type has no values.
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

/// The answer page: a web page of the server on which users answer questions that their client does not show. Pass
/// this value to [`AskPolicy::with_page`](crate::elicitation::AskPolicy::with_page).
///
/// If a client shows neither forms nor MCP Apps, the model receives a link and shows it to the user. The user opens
/// the link in a browser and answers on the page. The client and the model do not receive the answer.
///
/// A link identifies a run, but it does not authenticate the person who opens the link:
///
/// - If the caller of the run is authenticated, the page shows the question only to a visitor with the same principal.
///   For all other visitors, the response is the same as for an unknown link. With
///   [`with_visitor`](Self::with_visitor), the page identifies visitors by the sessions of your application. With
///   `with_sign_in` (feature `auth`), visitors sign in with OpenID Connect. If the server authenticates callers, and
///   you set neither of the two, [`build`](crate::ServerBuilder::build) returns an error.
/// - If the caller is not authenticated, everyone who has the link can read and answer the question.
/// - A link is valid for 15 minutes ([`with_life`](Self::with_life)), but not longer than the question is open. Only
///   the first answer to a question counts.
/// - The first page behind a link does not show the question. The user must press a button first. So programs that
///   fetch links learn nothing and change nothing.
///
/// [`Server::router`](crate::Server::router) and [`Server::serve_http`](crate::Server::serve_http) serve the page. To
/// serve the page in another application, use [`Server::ask_router`](crate::Server::ask_router).
///
/// The page does not need JavaScript. It needs a browser that sends the header `Sec-Fetch-Site`. All browsers since
/// 2023 send this header.
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

/// The address at which browsers reach the answer page.
#[derive(Clone, Debug)]
enum PageAddress {
    At(String),
    /// The page is on this machine, at a random port.
    Loopback,
}

type VisitorHook = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// How the page identifies its visitor. The session of the application has priority.
#[derive(Clone, Default)]
struct SignIn {
    /// The function that reads the application's own session.
    session: Option<VisitorHook>,
    /// The client for a sign-in on the page itself.
    open_id: Option<sign_in::OpenId>,
}

impl SignIn {
    /// Returns the principal of the visitor, from the application's own session.
    fn visitor(&self, parts: &Parts) -> Option<String> {
        self.session.as_ref().and_then(|session| session(parts))
    }

    /// Returns whether the page can identify visitors, by the application's session or by a sign-in.
    fn is_set(&self) -> bool {
        self.session.is_some() || self.open_id.is_some()
    }
}

impl AskPage {
    /// Creates a page for browsers that reach your server at `base`, for example `https://mcp.example.com`. The path
    /// of the page is `/ask/…` under this address.
    ///
    /// The address must begin with `https://`, unless its host is `localhost`, `127.0.0.1` or `[::1]`. The address can
    /// have a path, if your application nests the routes under this path.
    pub fn at(base: impl Into<String>) -> Self {
        Self::new(PageAddress::At(base.into()))
    }

    /// Creates a page on the user's own machine. Use this method for a server that the user's client starts
    /// ([`Server::serve_stdio`](crate::Server::serve_stdio)).
    ///
    /// The server listens on `127.0.0.1` at a random port, but only while a question waits. HTTP callers do not get
    /// links to this page.
    ///
    /// Other users of the same machine cannot read the link. But if they get the link in another way, they can answer
    /// the question.
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
    /// The principal must be equal to the principal of the MCP caller, which comes from
    /// [`ServerBuilder::with_principal`](crate::ServerBuilder::with_principal) or from the server's authentication. If
    /// the function returns `None`, the visitor is not signed in. The response is then the same as for an unknown
    /// link. If you also set `with_sign_in` (feature `auth`), this visitor can sign in on the page.
    pub fn with_visitor(
        mut self,
        visitor: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.sign_in.session = Some(Arc::new(visitor));
        self
    }

    /// Adds a sign-in for visitors with OpenID Connect, at the provider of your users. Use this method if the page is
    /// not part of an application that has sessions. Default: none.
    ///
    /// Register the redirect URL `<address>/ask/callback` at the provider, where `<address>` is the address of
    /// [`at`](Self::at). The server uses the authorization code flow with PKCE. The server does not store data about
    /// the sign-in. Two encrypted cookies in the browser contain this data. If you run several replicas, give the same
    /// [`KeyRing`](crate::seal::KeyRing) to all of them.
    ///
    /// A visitor can open the question if the visitor's principal is equal to the principal of the MCP caller:
    ///
    /// - If the server has [`ServerBuilder::with_auth`](crate::ServerBuilder::with_auth), a user who signs in gets the
    ///   principal that the user's tokens have. The server must accept tokens of the same issuer.
    /// - If the server has [`ServerBuilder::with_principal`](crate::ServerBuilder::with_principal), you must also set
    ///   a function with [`OpenIdConnect::with_principal`]. This is also necessary if the issuer of the sign-in is not
    ///   the issuer of the tokens.
    ///
    /// A visitor stays signed in for the duration of [`with_life`](Self::with_life). If the function of
    /// [`with_visitor`](Self::with_visitor) also returns a principal, this principal has priority.
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

    /// Sets how long a link is valid. Default: 15 minutes. To get a new link, the model calls the tool `task_result`.
    pub fn with_life(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }

    /// Also accepts visitors who are not signed in, for runs of authenticated callers. Default: no.
    ///
    /// This setting is less secure than [`with_visitor`](Self::with_visitor), because everyone who has a link can read
    /// the question and answer it. The model, the client, and everyone who can read the conversation have the link.
    /// The MCP specification requires a server to verify that the user who opens the page is the user who started the
    /// request. With this setting, the server does not verify this. The server still rejects a visitor who is signed
    /// in as another principal.
    pub fn allow_bearer_links(mut self) -> Self {
        self.bearer_links = true;
        self
    }

    /// Sets whether the server opens the page in the user's browser. Default: no. This setting needs
    /// [`loopback`](Self::loopback).
    ///
    /// The model then does not receive a link, so the model cannot open the page. To open the browser, the server
    /// starts `xdg-open`, `open` or `rundll32`, depending on the operating system. While this program starts, other
    /// users of the machine can read the link in the list of processes.
    pub fn open_browser(mut self, open_browser: bool) -> Self {
        self.opens_browser = open_browser;
        self
    }

    /// Returns descriptions of the configuration problems, one per line. `knows_callers` is whether the server
    /// authenticates callers.
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

/// The answer page of a server, with the encryption keys for its links.
pub(crate) struct Site {
    page: AskPage,
    /// The address of the page. `None` if the page is on this machine, because its port then changes.
    base: Option<Base>,
    seal: SealConfig,
    audience: String,
    listener: OnceLock<Box<dyn Listener>>,
    /// The expiry times of the links that were opened in the browser, by the questions of each link.
    opened: Mutex<BTreeMap<String, u64>>,
}

impl Site {
    /// Creates the answer page of a server. Returns `None` if the address of the page is not valid.
    /// `AskPage::problems` reports this problem.
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

    /// Returns the address of the page. Returns `None` if the page is on this machine. Such a page needs a
    /// [`Listener`].
    pub(crate) fn base(&self) -> Option<&Base> {
        self.base.as_ref()
    }

    /// Sets the listener for a page on this machine.
    pub(crate) fn set_listener(&self, listener: Box<dyn Listener>) {
        let _ = self.listener.set(listener);
    }

    /// Returns whether the user of this client can reach the page. If the page is on this machine, only the user of
    /// the client that started the server can reach it.
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
