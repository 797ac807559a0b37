//! The web page on which users answer questions: its settings.
//!
//! `links` has the tokens of links and forms, `visitors` checks visitors, `sign_in` signs visitors in,
//! and `texts` has the texts for models. `html` writes the page, and `server/http/ask_page.rs` has its HTTP routes.

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

/// Without the feature `auth`, visitors cannot sign in on the page.
#[cfg(not(feature = "auth"))]
#[expect(clippy::unused_self, reason = "the same signatures with and without the feature")]
mod sign_in {
    use http::HeaderMap;

    use super::{AskPage, Site};
    use crate::task::Owner;

    /// There is no sign-in.
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

/// A web page of the server on which users answer questions that their client does not show. Pass it to
/// [`AskPolicy::with_page`](crate::elicitation::AskPolicy::with_page).
///
/// If a client shows neither forms nor MCP Apps, the model receives a link and shows it to the user. The user opens the
/// link in a browser and answers there. The answer does not pass through the client or the model.
///
/// A link names a run and does not authenticate its holder:
///
/// - If the caller of the run is authenticated, the page shows the question only to the same principal. All other
///   visitors get the response for an unknown link. [`with_visitor`](Self::with_visitor) identifies visitors by the
///   session of your application. With the feature `auth`, `with_sign_in` signs visitors in with OpenID Connect.
///   Without both, [`build`](crate::ServerBuilder::build) returns an error if the server authenticates callers.
/// - If the caller is not authenticated, each holder of the link can read and answer the question.
/// - A link is valid for 15 minutes ([`with_life`](Self::with_life)), and at most as long as the question. A question
///   takes one answer: the first.
/// - The link itself shows no question, so programs that fetch links learn nothing and change nothing. The user must
///   press a button first.
///
/// [`Server::router`](crate::Server::router) and [`Server::serve_http`](crate::Server::serve_http) serve the page, and
/// [`Server::ask_router`](crate::Server::ask_router) returns its routes for another application.
///
/// The page needs no JavaScript. It needs a browser that sends the header `Sec-Fetch-Site`, as all browsers since 2023
/// do.
///
/// # Examples
///
/// The application has its own sessions. Its middleware adds the user to each request:
///
/// ```no_run
/// use antiphon::{
///     elicitation::{AskPage, AskPolicy},
///     http::HttpConfig,
///     prelude::*,
/// };
///
/// /// The user of the session, from the middleware of the application.
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
/// let app = server.router(HttpConfig::default()); // also has the routes of the page, under `/ask`
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

/// Where browsers reach the page.
#[derive(Clone, Debug)]
enum PageAddress {
    At(String),
    /// On this machine, at a random port.
    Loopback,
}

type VisitorHook = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// How the page finds out who its visitor is. The session of the application comes first.
#[derive(Clone, Default)]
struct SignIn {
    /// The application's own session.
    session: Option<VisitorHook>,
    /// A sign-in on the page itself.
    open_id: Option<sign_in::OpenId>,
}

impl SignIn {
    /// Returns the principal of the visitor in the application's own session.
    fn visitor(&self, parts: &Parts) -> Option<String> {
        self.session.as_ref().and_then(|session| session(parts))
    }

    /// Returns whether visitors are identified in any way.
    fn is_set(&self) -> bool {
        self.session.is_some() || self.open_id.is_some()
    }
}

impl AskPage {
    /// Creates a page that browsers reach at `base`, for example `https://mcp.example.com`. The page has the path
    /// `/ask/…` below it.
    ///
    /// The address must begin with `https://`, unless its host is `localhost`, `127.0.0.1` or `[::1]`. It can have a
    /// path, if your application nests the routes under this path.
    pub fn at(base: impl Into<String>) -> Self {
        Self::new(PageAddress::At(base.into()))
    }

    /// Creates a page on the user's own machine, for servers that the user's client starts
    /// ([`Server::serve_stdio`](crate::Server::serve_stdio)).
    ///
    /// The server listens on `127.0.0.1` at a random port, but only while a question waits. Callers over HTTP do not
    /// get links to this page.
    ///
    /// Other users of the same machine cannot read the link, but they can answer if they get it.
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

    /// Sets a function that returns the principal of a visitor from the session of your application. The function reads
    /// data that your middleware has added to the request, or a cookie. Default: none.
    ///
    /// The principal must be the same text as the principal of the MCP caller: of
    /// [`ServerBuilder::with_principal`](crate::ServerBuilder::with_principal), or of the server's authentication. If
    /// the function returns `None`, the visitor is not signed in, and gets the response for an unknown link. With the
    /// feature `auth` and `with_sign_in`, this visitor can sign in on the page.
    pub fn with_visitor(
        mut self,
        visitor: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.sign_in.session = Some(Arc::new(visitor));
        self
    }

    /// Signs visitors in with OpenID Connect, at the provider of your users. Use this method if no application with
    /// sessions serves the page. Default: none.
    ///
    /// Register the redirect URL `<address>/ask/callback` at the provider, where `<address>` is the address of
    /// [`at`](Self::at). The server uses the authorization code flow with PKCE. It keeps no data about the sign-in: two
    /// encrypted cookies of the browser contain it. Replicas need the same [`KeyRing`](crate::seal::KeyRing).
    ///
    /// A visitor can open the question if the principal of the visitor is the principal of the MCP caller:
    ///
    /// - With [`ServerBuilder::with_auth`](crate::ServerBuilder::with_auth), the principal of the visitor is the
    ///   principal that a token of the same user has. The server must accept tokens of the same issuer.
    /// - [`OpenIdConnect::with_principal`] sets another function. Your server needs it with
    ///   [`ServerBuilder::with_principal`](crate::ServerBuilder::with_principal), and if the page has another issuer
    ///   than the tokens.
    ///
    /// A visitor stays signed in for the time of [`with_life`](Self::with_life). If
    /// [`with_visitor`](Self::with_visitor) is also set and identifies a visitor, its principal counts.
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

    /// Sets how long a link is valid. Default: 15 minutes. The tool `task_result` returns a new link.
    pub fn with_life(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }

    /// Also accepts visitors who are not signed in, for the questions of authenticated callers. Default: no.
    ///
    /// This setting is weaker than [`with_visitor`](Self::with_visitor): each holder of a link can then read the
    /// question and answer it. The holders include the model, the client, and everyone who can read the conversation.
    /// The MCP specification requires that a server verifies that the user who opens a page is the user who started
    /// the request. With this setting, the server does not verify it. A visitor who is signed in as another principal
    /// is still rejected.
    pub fn allow_bearer_links(mut self) -> Self {
        self.bearer_links = true;
        self
    }

    /// Sets whether the server starts the user's browser with the page. Default: no. This setting needs
    /// [`loopback`](Self::loopback).
    ///
    /// The model then receives no link, so it cannot open the page itself. The server starts `xdg-open`, `open` or
    /// `rundll32`, depending on the operating system. While this program starts, other users of the machine can read
    /// the link in the list of processes.
    pub fn open_browser(mut self, open_browser: bool) -> Self {
        self.opens_browser = open_browser;
        self
    }

    /// Returns the problems of the configuration, one line each. `knows_callers` is whether the server authenticates
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

/// The page of a server, and the keys of its links.
pub(crate) struct Site {
    page: AskPage,
    /// The address of the page. `None` if it is on this machine, where the address changes.
    base: Option<Base>,
    seal: SealConfig,
    audience: String,
    listener: OnceLock<Box<dyn Listener>>,
    /// The ends of the links with which browsers were started, by questions.
    opened: Mutex<BTreeMap<String, u64>>,
}

impl Site {
    /// Creates the page of a server. Returns `None` if its address is invalid, which `AskPage::problems` reports.
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

    /// Returns the address of the page. Returns `None` if the page is on this machine, and needs a [`Listener`].
    pub(crate) fn base(&self) -> Option<&Base> {
        self.base.as_ref()
    }

    /// Sets the listener of a page on this machine.
    pub(crate) fn set_listener(&self, listener: Box<dyn Listener>) {
        let _ = self.listener.set(listener);
    }

    /// Returns whether the user of this client can reach the page. A page on this machine is for the client that
    /// started the server.
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
