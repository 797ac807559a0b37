//! The web page on which users answer questions: its settings, its links, and the tokens of its forms.
//!
//! `html` writes the page, and `server/ask_page.rs` has its HTTP routes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use http::{Uri, request::Parts};

use super::{Asking, forms, ticket::Ticket};
use crate::{
    base::{digest, lock, millis, now_millis, random_id},
    run::Client,
    seal::SealConfig,
    task::{Owner, TaskView, Tasks},
};

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
///   session of your application. Without it, [`build`](crate::ServerBuilder::build) returns an error if the server
///   authenticates callers.
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
    place: Place,
    sign_in: SignIn,
    life: Duration,
    bearer_links: bool,
    opens_browser: bool,
}

/// Where browsers reach the page.
#[derive(Clone, Debug)]
enum Place {
    At(String),
    /// On this machine, at a random port.
    Loopback,
}

type VisitorHook = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// How the page finds out who its visitor is. A visitor who must sign in at another server would be a variant here, and
/// a redirect in `server/ask_page.rs`.
#[derive(Clone)]
enum SignIn {
    /// Visitors are unknown.
    None,
    /// The application's own session.
    Session(VisitorHook),
}

impl SignIn {
    /// Returns the principal of the visitor, if the visitor is signed in.
    fn visitor(&self, parts: &Parts) -> Option<String> {
        match self {
            Self::None => None,
            Self::Session(hook) => hook(parts),
        }
    }
}

/// The maximum length of the page's address, in bytes. The texts for models contain it and are small.
const MAX_ADDRESS: usize = 256;

impl AskPage {
    /// Creates a page that browsers reach at `base`, for example `https://mcp.example.com`. The page has the path
    /// `/ask/…` below it.
    ///
    /// The address must begin with `https://`, unless its host is `localhost`, `127.0.0.1` or `[::1]`. It can have a
    /// path, if your application nests the routes under this path.
    pub fn at(base: impl Into<String>) -> Self {
        Self::new(Place::At(base.into()))
    }

    /// Creates a page on the user's own machine, for servers that the user's client starts
    /// ([`Server::serve_stdio`](crate::Server::serve_stdio)).
    ///
    /// The server listens on `127.0.0.1` at a random port, but only while a question waits. Callers over HTTP do not
    /// get links to this page.
    ///
    /// Other users of the same machine cannot read the link, but they can answer if they get it.
    pub fn loopback() -> Self {
        Self::new(Place::Loopback)
    }

    fn new(place: Place) -> Self {
        Self {
            place,
            sign_in: SignIn::None,
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
    /// the function returns `None`, the visitor is not signed in, and gets the response for an unknown link.
    pub fn with_visitor(
        mut self,
        visitor: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.sign_in = SignIn::Session(Arc::new(visitor));
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
        let Place::At(base) = &self.place else { return problems };
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
        if knows_callers && !self.bearer_links && matches!(self.sign_in, SignIn::None) {
            problems.push(
                "the server authenticates callers, but its `AskPage` cannot identify visitors, so they could not answer; add `AskPage::with_visitor`"
                    .to_owned(),
            );
        }
        problems
    }
}

impl fmt::Debug for AskPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskPage")
            .field("place", &self.place)
            .field("life", &self.life)
            .field("bearer_links", &self.bearer_links)
            .field("opens_browser", &self.opens_browser)
            .finish_non_exhaustive()
    }
}

/// The address below which the routes of the page are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// Scheme, host and port, as browsers write them in the header `Origin`.
    pub(crate) origin: String,
    /// The path, without a slash at its end.
    pub(crate) path: String,
    /// Whether only this machine can reach the page.
    pub(crate) is_loopback: bool,
}

impl Base {
    /// Returns the base of a page on this machine.
    pub(crate) fn loopback(origin: String) -> Self {
        Self { origin, path: String::new(), is_loopback: true }
    }

    /// Parses an address, or returns the reason why it cannot be the address of a page.
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_ADDRESS {
            return Err("it has more than 256 bytes");
        }
        let uri: Uri = text.parse().map_err(|_| "it is not a valid URL")?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err("it has no scheme or no host");
        };
        if authority.as_str().contains('@') || uri.query().is_some() || text.contains('#') {
            return Err("it has a user name, a query or a fragment");
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
        if !uri.path().bytes().all(is_plain) {
            return Err("its path has special characters");
        }
        let host = authority.host().to_ascii_lowercase();
        let is_loopback = matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]");
        let usual = match scheme {
            "https" => 443,
            "http" if is_loopback => 80,
            _ => return Err("it does not begin with `https://`"),
        };
        // Browsers leave the usual port out.
        let port = authority.port_u16().filter(|port| *port != usual);
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { origin: format!("{scheme}://{host}{port}"), path, is_loopback })
    }

    /// Returns whether browsers reach the page over TLS.
    fn is_secure(&self) -> bool {
        self.origin.starts_with("https://")
    }
}

/// Serves the page on this machine, and starts browsers.
pub(crate) trait Listener: Send + Sync {
    /// Listens until the task has ended or its link has expired. Returns the origin of the page.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot listen.
    fn listen(&self, task: &Named) -> io::Result<String>;

    /// Starts the user's browser.
    ///
    /// # Errors
    ///
    /// Returns an error if the browser cannot be started.
    fn open(&self, link: &str) -> io::Result<()>;
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

/// The task that a link names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) task: String,
    pub(crate) owner: Owner,
    /// The end of the link, in milliseconds since 1970.
    pub(crate) expires: u64,
}

/// A browser that has opened a question: the random content of its cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Browser(String);

impl Browser {
    pub(crate) fn new() -> Self {
        Self(random_id())
    }
}

/// The number of browser starts at which old ones are forgotten.
const OPENED: usize = 1024;

impl Site {
    /// Creates the page of a server. Returns `None` if its address is invalid, which `AskPage::problems` reports.
    pub(super) fn new(page: &AskPage, seal: &SealConfig, audience: &str) -> Option<Self> {
        let base = match &page.place {
            Place::At(base) => Some(Base::parse(base).ok()?),
            Place::Loopback => None,
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

    /// Returns how the user reaches the questions of a task, as text for a model. If the server starts the browser, it
    /// does so once for each question, and once more if `again`.
    pub(super) fn step(&self, view: &TaskView, again: bool) -> String {
        let step =
            if self.page.opens_browser { self.start_browser(view, again) } else { self.show_link(view) };
        step.unwrap_or_else(|error| {
            tracing::warn!(%error, "the web page with a question could not be shown; check that the server can listen on 127.0.0.1 and start a browser");
            "The server cannot show the web page with the question now. Tell the user so.".to_owned()
        })
    }

    fn show_link(&self, view: &TaskView) -> io::Result<String> {
        let (link, _) = self.link(view)?;
        let signs_in = view.owner.number().is_some() && !self.page.bearer_links;
        let there = if signs_in { "They sign in and answer there." } else { "They answer there." };
        Ok(format!(
            "Show the user this link: {link} {there} Do not open the link yourself. It expires soon: `task_result` returns a new one."
        ))
    }

    fn start_browser(&self, view: &TaskView, again: bool) -> io::Result<String> {
        let questions: Vec<_> = forms(view).map(|(key, _)| key.as_str()).collect();
        let questions = format!("{} {}", view.id, questions.join(" "));
        let now = now_millis();
        let is_open = lock(&self.opened).get(&questions).is_some_and(|end| *end > now);
        if again || !is_open {
            let (link, end) = self.link(view)?;
            self.listener()?.open(&link)?;
            let mut opened = lock(&self.opened);
            if opened.len() >= OPENED {
                opened.retain(|_, end| *end > now);
            }
            opened.insert(questions, end);
        }
        Ok("The question is open in the user's web browser. They answer there.".to_owned())
    }

    /// Returns a link to the questions of a task, and the time at which it expires.
    fn link(&self, view: &TaskView) -> io::Result<(String, u64)> {
        let end = now_millis().saturating_add(millis(self.page.life));
        let expires = view.questions_end.map_or(end, |questions_end| questions_end.min(end));
        let named = Named { task: view.id.clone(), owner: view.owner.clone(), expires };
        let place = match &self.base {
            Some(base) => format!("{}{}", base.origin, base.path),
            None => self.listener()?.listen(&named)?,
        };
        Ok((format!("{place}/ask/{}", self.token(&named)), expires))
    }

    fn listener(&self) -> io::Result<&dyn Listener> {
        let listener = self.listener.get().ok_or_else(|| io::Error::other("the server is not built"))?;
        Ok(&**listener)
    }

    /// Returns the binding of sealed data. Data of one purpose cannot be used for another.
    fn binding(&self, purpose: &str, parts: &[&str]) -> Vec<u8> {
        let parts = [[self.audience.as_str()].as_slice(), parts].concat();
        [purpose.as_bytes(), digest(&parts).as_bytes()].concat()
    }

    /// Returns the token of a link. It has the same length for every task.
    fn token(&self, named: &Named) -> String {
        let task = u128::from_str_radix(&named.task, 16).unwrap_or_default();
        let owner = named.owner.number();
        let mut plain = Vec::with_capacity(41);
        plain.extend_from_slice(&named.expires.to_le_bytes());
        plain.extend_from_slice(&task.to_le_bytes());
        plain.extend_from_slice(&owner.unwrap_or_default().to_le_bytes());
        plain.push(owner.is_some().into());
        self.seal.seal_token(&plain, &self.binding("ask page", &[]))
    }

    /// Returns the task that the token of a link names. Returns `None` if the token is forged or has expired.
    pub(crate) fn named(&self, token: &str, now: u64) -> Option<Named> {
        let plain = self.seal.open_token(token, &self.binding("ask page", &[])).ok()?;
        let (expires, rest) = plain.split_first_chunk::<8>()?;
        let (task, rest) = rest.split_first_chunk::<16>()?;
        let (owner, is_known) = rest.split_first_chunk::<16>()?;
        let owner = (is_known == [1_u8]).then(|| u128::from_le_bytes(*owner));
        let named = Named {
            task: format!("{:032x}", u128::from_le_bytes(*task)),
            owner: Owner::of_number(owner),
            expires: u64::from_le_bytes(*expires),
        };
        (now < named.expires).then_some(named)
    }

    /// Returns whether the sender of a request can see the questions of a task.
    pub(crate) fn admits(&self, named: &Named, parts: &Parts) -> bool {
        if named.owner.number().is_none() {
            // The callers of these tasks are not known, so the page cannot compare them with the visitor.
            return true;
        }
        match self.page.sign_in.visitor(parts) {
            Some(visitor) => Tasks::owner(Some(&visitor)) == named.owner,
            None => self.page.bearer_links,
        }
    }

    /// Returns the name of the cookie.
    pub(crate) fn cookie_name(&self) -> &'static str {
        // Browsers accept the prefix only over TLS. It stops other hosts of the same domain from setting the cookie.
        if self.base.as_ref().is_some_and(Base::is_secure) { "__Host-ask" } else { "ask" }
    }

    /// Returns the header value that sets the cookie of a browser.
    pub(crate) fn set_cookie(&self, browser: &Browser, now: u64) -> String {
        let expires = now.saturating_add(millis(self.page.life));
        let plain = [expires.to_le_bytes().as_slice(), browser.0.as_bytes()].concat();
        let value = self.seal.seal_token(&plain, &self.binding("ask cookie", &[]));
        let (name, seconds) = (self.cookie_name(), self.page.life.as_secs().max(1));
        let secure = if self.base.as_ref().is_some_and(Base::is_secure) { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
    }

    /// Returns the browser that has this cookie. Returns `None` if the cookie is forged or has expired.
    pub(crate) fn browser(&self, cookie: &str, now: u64) -> Option<Browser> {
        let plain = self.seal.open_token(cookie, &self.binding("ask cookie", &[])).ok()?;
        let (expires, browser) = plain.split_first_chunk::<8>()?;
        let browser = String::from_utf8(browser.to_vec()).ok()?;
        (now < u64::from_le_bytes(*expires)).then_some(Browser(browser))
    }

    fn form_binding(&self, named: &Named, browser: &Browser) -> Vec<u8> {
        let owner = named.owner.number().map(|number| number.to_string()).unwrap_or_default();
        self.binding("ask form", &[&browser.0, &owner])
    }

    /// Returns the token of a form with these questions. Only the same browser can use it.
    pub(crate) fn form_token(
        &self,
        named: &Named,
        browser: &Browser,
        questions: BTreeSet<String>,
        questions_end: Option<u64>,
    ) -> String {
        let end = questions_end.map_or(named.expires, |end| end.min(named.expires));
        let ticket = Ticket::new(&named.task, questions, (now_millis(), self.page.life), Some(end));
        let plain = serde_json::to_vec(&ticket).unwrap_or_default();
        self.seal.seal_token(&plain, &self.form_binding(named, browser))
    }

    /// Returns the questions of a form. Returns `None` if its token is forged, has expired, or belongs to another
    /// browser or another task.
    pub(crate) fn questions(
        &self,
        token: &str,
        named: &Named,
        browser: &Browser,
        now: u64,
    ) -> Option<BTreeSet<String>> {
        let plain = self.seal.open_token(token, &self.form_binding(named, browser)).ok()?;
        let ticket: Ticket = serde_json::from_slice(&plain).ok()?;
        (ticket.task == named.task && now < ticket.expires).then_some(ticket.questions)
    }
}

impl Asking {
    /// Returns how the user reaches the web page with the questions of a task. Returns `None` if the page is not a
    /// channel of the task.
    pub(super) fn page_step(&self, view: &TaskView, again: bool) -> Option<String> {
        let site = self.site.as_ref().filter(|_| view.channels.page)?;
        Some(site.step(view, again))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{asking::waiting::tests::waits, run::Channels, seal::KeyRing};

    fn site(page: &AskPage) -> Site {
        Site::new(page, &SealConfig::default(), "shop").unwrap()
    }

    fn at() -> AskPage {
        AskPage::at("https://mcp.example.com")
    }

    fn task(principal: Option<&str>) -> Named {
        Named { task: "7c".repeat(16), owner: Tasks::owner(principal), expires: 1000 }
    }

    fn view(principal: Option<&str>) -> TaskView {
        let channels = Channels { page: true, ..Channels::default() };
        let questions_end = Some(now_millis() + 60_000);
        TaskView { owner: Tasks::owner(principal), questions_end, ..waits("May they start?", channels) }
    }

    fn visit(user: Option<&str>) -> Parts {
        let mut request = http::Request::get("/");
        if let Some(user) = user {
            request = request.header("x-user", user);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn with_users(page: AskPage) -> AskPage {
        page.with_visitor(|parts| parts.headers.get("x-user")?.to_str().ok().map(ToOwned::to_owned))
    }

    #[test]
    fn address_must_be_https_or_local() {
        let parsed = |text: &str| Base::parse(text).map(|base| (base.origin, base.path, base.is_loopback));
        let parts = |origin: &str, path: &str, local| Ok((origin.to_owned(), path.to_owned(), local));
        assert_eq!(parsed("https://MCP.example.com:443/"), parts("https://mcp.example.com", "", false));
        assert_eq!(parsed("https://example.com:8443/app/"), parts("https://example.com:8443", "/app", false));
        assert_eq!(parsed("http://localhost:8000"), parts("http://localhost:8000", "", true));
        assert_eq!(parsed("http://[::1]:80"), parts("http://[::1]", "", true));
        let long = format!("https://example.com/{}", "a".repeat(300));
        for wrong in [
            "http://example.com",
            "http://localhost.example.com",
            "ftp://localhost",
            "mcp.example.com",
            "/ask",
            "",
            "https://user@example.com",
            "https://example.com/?a=1",
            "https://example.com/#a",
            "https://example.com/\"a",
            &long,
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
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

    #[test]
    fn token_names_its_task_until_it_expires_and_has_a_constant_length() {
        let site = site(&at());
        for named in [task(Some("ada")), task(None)] {
            let token = site.token(&named);
            assert_eq!(token.len(), 132);
            assert_eq!(site.named(&token, 999), Some(named.clone()));
            assert_eq!(site.named(&token, 1000), None);
        }
    }

    #[test]
    fn forged_tokens_name_nothing() {
        let (site, other) = (site(&at()), site(&at()));
        let named = task(Some("ada"));
        let token = site.token(&named);
        for at in 0..token.len() {
            let digit = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
            let changed = format!("{}{digit}{}", &token[..at], &token[at + 1..]);
            assert_eq!(site.named(&changed, 1), None, "{at}");
        }
        let browser = Browser::new();
        let form = site.form_token(&named, &browser, BTreeSet::new(), None);
        let cookie = site.set_cookie(&browser, 1);
        let cookie = cookie.split_once('=').unwrap().1.split_once(';').unwrap().0;
        let (foreign, short, long) = (other.token(&named), "A".repeat(132), "A".repeat(100_000));
        for wrong in ["", "ask", &form, cookie, &foreign, &short, &long] {
            assert_eq!(site.named(wrong, 1), None, "{wrong:.80}");
        }
        let keys = |audience| {
            let seal = SealConfig::default().with_keys(KeyRing::new(1, [1; 32]));
            Site::new(&at(), &seal, audience).unwrap()
        };
        assert_eq!(keys("bank").named(&keys("shop").token(&named), 1), None);
    }

    #[test]
    fn known_caller_is_the_only_visitor() {
        let (ada, bob, nobody) = (visit(Some("ada")), visit(Some("bob")), visit(None));
        let known = task(Some("ada"));
        let strict = site(&with_users(at()));
        assert!(strict.admits(&known, &ada));
        assert!(!strict.admits(&known, &bob) && !strict.admits(&known, &nobody));
        let weak = site(&with_users(at()).allow_bearer_links());
        assert!(weak.admits(&known, &ada) && weak.admits(&known, &nobody) && !weak.admits(&known, &bob));
        let closed = site(&at());
        assert!(!closed.admits(&known, &ada), "the page does not know its visitors");
        assert!(closed.admits(&task(None), &nobody) && strict.admits(&task(None), &nobody));
    }

    #[test]
    fn form_belongs_to_one_browser_and_one_task() {
        let site = site(&at());
        let now = now_millis();
        let named = Named { expires: now + 60_000, ..task(Some("ada")) };
        let (browser, other) = (Browser::new(), Browser::new());
        let questions = BTreeSet::from(["approval".to_owned()]);
        let form = site.form_token(&named, &browser, questions.clone(), Some(now + 30_000));
        assert_eq!(site.questions(&form, &named, &browser, now), Some(questions));
        assert_eq!(site.questions(&form, &named, &browser, now + 30_000), None);
        assert_eq!(site.questions(&form, &named, &other, now), None);
        let elsewhere = Named { task: "0a".repeat(16), ..named.clone() };
        assert_eq!(site.questions(&form, &elsewhere, &browser, now), None);
        let bobs = Named { owner: Tasks::owner(Some("bob")), ..named };
        assert_eq!(site.questions(&form, &bobs, &browser, now), None);
    }

    #[test]
    fn cookie_is_protected_and_expires() {
        let browser = Browser::new();
        let secure = site(&at());
        let cookie = secure.set_cookie(&browser, 1000);
        assert!(cookie.starts_with("__Host-ask="), "{cookie}");
        assert!(cookie.ends_with("; Path=/; Max-Age=900; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
        let value = cookie.split_once('=').unwrap().1.split_once(';').unwrap().0;
        assert_eq!(secure.browser(value, 1000), Some(browser.clone()));
        assert_eq!(secure.browser(value, 901_000), None);
        assert_eq!(site(&at()).browser(value, 1000), None, "another server has another key");
        for local in [AskPage::loopback(), AskPage::at("http://127.0.0.1:8000")] {
            let cookie = site(&local).set_cookie(&browser, 1000);
            assert!(cookie.starts_with("ask=") && cookie.ends_with("SameSite=Strict"), "{cookie}");
        }
    }

    #[test]
    fn model_receives_a_link_that_expires_with_the_question() {
        let site = site(&with_users(at()));
        let view = view(Some("ada"));
        let text = site.step(&view, false);
        let (before, rest) = text.split_once("https://mcp.example.com/ask/").unwrap();
        assert_eq!(before, "Show the user this link: ");
        let (token, rest) = rest.split_once(' ').unwrap();
        assert!(rest.starts_with("They sign in and answer there."), "{rest}");
        let named = site.named(token, now_millis()).unwrap();
        assert_eq!((named.task, named.owner), (view.id, view.owner));
        assert_eq!(Some(named.expires), view.questions_end);
    }

    /// Counts what it is asked for.
    #[derive(Default)]
    struct Fake {
        starts: Arc<AtomicUsize>,
        is_broken: bool,
    }

    impl Listener for Fake {
        fn listen(&self, _: &Named) -> io::Result<String> {
            Ok("http://127.0.0.1:1".to_owned())
        }

        fn open(&self, link: &str) -> io::Result<()> {
            assert!(link.starts_with("http://127.0.0.1:1/ask/"), "{link}");
            self.starts.fetch_add(1, Ordering::Relaxed);
            if self.is_broken { Err(io::Error::other("no browser was found")) } else { Ok(()) }
        }
    }

    #[test]
    fn browser_is_started_once_for_each_question_and_the_model_receives_no_link() {
        let (site, fake) = (site(&AskPage::loopback().open_browser(true)), Fake::default());
        let starts = Arc::clone(&fake.starts);
        site.set_listener(Box::new(fake));
        let mut view = view(None);
        let text = site.step(&view, false);
        assert_eq!(text, "The question is open in the user's web browser. They answer there.");
        assert_eq!(site.step(&view, false), text);
        assert_eq!(starts.load(Ordering::Relaxed), 1);
        site.step(&view, true);
        assert_eq!(starts.load(Ordering::Relaxed), 2);
        let question = view.asks.remove("approval").unwrap();
        view.asks.insert("approval@2".to_owned(), question);
        site.step(&view, false);
        assert_eq!(starts.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn browser_that_does_not_start_is_reported_without_the_link_and_tried_again() {
        let site = site(&AskPage::loopback().open_browser(true));
        let fake = Fake { is_broken: true, ..Fake::default() };
        let starts = Arc::clone(&fake.starts);
        site.set_listener(Box::new(fake));
        for tries in 1..=2 {
            let text = site.step(&view(None), false);
            assert!(text.starts_with("The server cannot show") && !text.contains("http"), "{text}");
            assert_eq!(starts.load(Ordering::Relaxed), tries);
        }
    }

    #[test]
    fn page_on_this_machine_gives_its_link_if_it_does_not_start_a_browser() {
        let site = site(&AskPage::loopback());
        site.set_listener(Box::new(Fake::default()));
        let text = site.step(&view(None), false);
        assert!(text.starts_with("Show the user this link: http://127.0.0.1:1/ask/"), "{text}");
        assert!(text.contains(" They answer there. Do not open the link yourself."), "{text}");
    }
}
