//! The HTTP routes of the answer page.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
    time::Duration,
};

use antiphon_transport::guard::Guard;
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Path, Query, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts},
    middleware::{self, Next},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Server, auth};
use crate::{
    asking::{
        Asking, deliver,
        page::{
            Admission, Base, Browser, Named, Site,
            html::{self, FormOf, Given, Step},
        },
        settled,
    },
    base::now_millis,
    mcp::Service,
    run::Channel,
    task::{Delivered, OpenQuestions, Tasks},
};

/// The maximum size of a submitted form, in bytes.
const MAX_BODY: usize = 64 * 1024;

/// The maximum time that a browser can take to send a form.
const READ: Duration = Duration::from_secs(30);

/// After a user's answer, how long the server waits for the next question of the tool before it responds to the
/// browser. If the next question arrives within this time, the browser can show this question immediately.
const PATIENCE: Duration = Duration::from_secs(5);

/// The maximum number of times that the browser reloads a page while the page waits for the tool's next question.
const TURNS: u32 = 40;

impl Server {
    /// Returns the HTTP routes of the answer page, which you set with
    /// [`AskPolicy::with_page`](crate::elicitation::AskPolicy::with_page). [`router`](Self::router) already contains
    /// the routes of the answer page. So merge the routes of the answer page only into an application that does not use
    /// `router`.
    ///
    /// | route | effect |
    /// |---|---|
    /// | `GET /ask/{token}` | shows a button, and has no other effect |
    /// | `POST /ask/{token}/open` | shows the question, and sets a cookie |
    /// | `POST /ask/{token}` | stores the answer |
    /// | `GET /ask/{token}/next` | shows the next question, or a message that the tool has finished |
    /// | `GET /ask/{token}/sign-in` | with `AskPage::with_sign_in`: redirects to the OpenID provider, and sets a cookie |
    /// | `GET /ask/callback` | with `AskPage::with_sign_in`: completes the sign-in, and sets a cookie |
    ///
    /// Serve the routes of the answer page under the address that you passed to
    /// [`AskPage::at`](crate::elicitation::AskPage::at). If you use
    /// [`AskPage::with_visitor`](crate::elicitation::AskPage::with_visitor), your session middleware must also apply to
    /// the routes of the answer page. If the server has no answer page that
    /// [`AskPage::at`](crate::elicitation::AskPage::at) created, the returned router is empty.
    ///
    /// ```
    /// # fn example(server: &antiphon::Server, app: axum::Router) -> axum::Router {
    /// app.merge(server.ask_router())
    /// # }
    /// ```
    pub fn ask_router(&self) -> Router {
        let service = &self.shared.service;
        let site = service.asking.as_ref().and_then(|asking| asking.site.as_ref());
        site.and_then(|site| site.base()).map(|base| routes(service, base)).unwrap_or_default()
    }
}

/// The answer page at one address.
pub(super) struct Pages {
    pub(super) service: Arc<Service>,
    asking: Arc<Asking>,
    pub(super) site: Arc<Site>,
    tasks: Arc<Tasks>,
    base: Base,
}

/// Returns the routes of the answer page at this address.
pub(super) fn routes(service: &Arc<Service>, base: &Base) -> Router {
    let (Some(asking), Some(tasks)) = (&service.asking, &service.tasks) else { return Router::new() };
    let Some(site) = &asking.site else { return Router::new() };
    let pages = Pages {
        service: Arc::clone(service),
        asking: Arc::clone(asking),
        site: Arc::clone(site),
        tasks: Arc::clone(tasks),
        base: base.clone(),
    };
    // A web page from another host could send requests to this machine (DNS rebinding), so this code checks the host.
    // For other addresses, TLS prevents this attack. The handlers check the origin, because only some requests must
    // have an origin.
    let host = base.origin.split_once("://").map(|(_, host)| host.to_owned()).filter(|_| base.is_loopback);
    let door = host.map(|host| Guard::new(&[host], &["*".to_owned()]));
    let layer = middleware::from_fn(move |request: Request, next: Next| {
        let door = door.clone();
        async move {
            let (parts, body) = request.into_parts();
            let mut response = match door.map_or(Ok(()), |door| door.admit(&parts)) {
                Ok(()) => next.run(Request::from_parts(parts, body)).await,
                Err(refused) => refused.into_response(),
            };
            protect(response.headers_mut());
            response
        }
    });
    let router: Router<Arc<Pages>> = Router::new()
        .route("/ask/{token}", get(landing).post(answer))
        .route("/ask/{token}/open", post(open))
        .route("/ask/{token}/next", get(next_question));
    let router = if pages.site.has_sign_in() { router.merge(auth::sign_in_routes()) } else { router };
    router.layer(layer).with_state(Arc::new(pages))
}

/// Adds the security headers that every response needs.
fn protect(headers: &mut HeaderMap) {
    static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
        let policy = format!(
            "default-src 'none'; style-src '{}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
            html::style()
        );
        HeaderValue::try_from(policy).expect("the policy is ASCII")
    });
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    for (name, value) in [
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("x-robots-tag"), "noindex"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// The reason why the answer page rejects a request.
pub(super) enum Refusal {
    /// The link is invalid or has expired, or it belongs to another user. The visitor receives the same response in
    /// these three cases.
    NotFound,
    /// The visitor is not signed in, but can sign in at this address.
    SignIn(String),
    /// Another web page sent the request, not the answer page itself.
    Foreign,
    /// The form has expired, or belongs to another browser. The visitor can open the question at this address.
    Stale(String),
    /// The question was already answered.
    Used,
    TooLarge,
    TooSlow,
    Malformed,
    Unavailable,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, title, text, step) = match &self {
            Self::NotFound => (
                StatusCode::NOT_FOUND,
                "No open question",
                "The link is wrong or has expired, or the question belongs to another account. Sign in with the account that you use in the chat, or ask the assistant for a new link.",
                None,
            ),
            Self::SignIn(address) => (
                StatusCode::FORBIDDEN,
                "You are not signed in",
                "Nothing was sent to the tool. Sign in, and open the question again.",
                Some(Step::SignIn(address)),
            ),
            Self::Foreign => (
                StatusCode::FORBIDDEN,
                "The request was rejected",
                "It did not come from this page. Open the link from the chat again, in a current browser.",
                None,
            ),
            Self::Stale(open) => (
                StatusCode::FORBIDDEN,
                "The form has expired",
                "Your answer was not used. Open the question again.",
                Some(Step::Open(open)),
            ),
            Self::Used => (
                StatusCode::CONFLICT,
                "The question was already answered",
                "The first answer counts. You can close this page. Go back to the chat and say that you have answered.",
                None,
            ),
            Self::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "The answer is too long",
                "An answer can have at most 64 KiB. Go back and shorten it.",
                None,
            ),
            Self::TooSlow => (
                StatusCode::REQUEST_TIMEOUT,
                "The answer did not arrive",
                "The connection was too slow. Go back and submit the answer again.",
                None,
            ),
            Self::Malformed => (
                StatusCode::BAD_REQUEST,
                "The request was rejected",
                "The server cannot read the form. Open the link from the chat again.",
                None,
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "The server is not available",
                "The server cannot read the question now. Try again later.",
                None,
            ),
        };
        (status, Html(html::message(title, text, step))).into_response()
    }
}

#[derive(Deserialize)]
pub(super) struct Link {
    pub(super) token: String,
}

#[derive(Deserialize)]
struct Turn {
    /// The number of times that the browser has reloaded the page.
    #[serde(default)]
    turn: u32,
}

pub(super) type AllPages = State<Arc<Pages>>;

/// Shows the first page behind a link, which contains only a button. Link previews, scanners and prefetching browsers
/// also load the page behind a link. So a request for this first page has no effect, and the first page does not show
/// the question.
async fn landing(
    State(pages): AllPages,
    Path(Link { token }): Path<Link>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, _) = request.into_parts();
    let named = pages.named(&token)?;
    Ok(pages.landing(&token, pages.site.admission(&named, &parts)))
}

/// Shows the question, and sets the cookie of the browser.
async fn open(
    State(pages): AllPages,
    Path(Link { token }): Path<Link>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, _) = request.into_parts();
    let named = pages.enter(&token, &parts)?;
    let found = pages.load(&named).await?;
    // This code keeps the browser's cookie, so that another open form in the same browser stays valid.
    let browser = pages.site.browser(&parts.headers, now_millis()).unwrap_or_else(Browser::new);
    let cookie = pages.site.set_cookie(&browser, now_millis());
    let page = pages.show(&token, &named, &browser, &found, 0);
    Ok(([(header::SET_COOKIE, cookie)], page).into_response())
}

/// Shows the next question, or a message that the tool has finished.
async fn next_question(
    State(pages): AllPages,
    Path(Link { token }): Path<Link>,
    Query(Turn { turn }): Query<Turn>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, _) = request.into_parts();
    let named = pages.named(&token)?;
    let admission = pages.site.admission(&named, &parts);
    let browser = pages.site.browser(&parts.headers, now_millis());
    let browser = browser.filter(|_| admission != Admission::Unknown && !is_prefetch(&parts.headers));
    let Some(browser) = browser else { return Ok(pages.landing(&token, admission)) };
    pages.admit(&token, admission)?;
    let found = pages.load(&named).await?;
    Ok(pages.show(&token, &named, &browser, &found, turn).into_response())
}

/// Stores the answer from a submitted form.
async fn answer(
    State(pages): AllPages,
    Path(Link { token }): Path<Link>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let named = pages.enter(&token, &parts)?;
    let stale = || Refusal::Stale(pages.address(&token, "/open"));
    let browser = pages.site.browser(&parts.headers, now_millis()).ok_or_else(stale)?;
    let given = read(&parts.headers, body).await?;
    let form = given.get("form").unwrap_or_default();
    let questions = pages.site.questions(form, &named, &browser, now_millis()).ok_or_else(stale)?;
    let answers = match given.get("action") {
        Some("decline") => declined(&questions),
        Some("accept") => {
            let found = pages.load(&named).await?;
            let sheet = pages.asking.sheet(&pages.service.registry(), &found);
            let submitted = sheet.read(&questions, &given).ok_or(Refusal::Used)?;
            if !submitted.problems.is_empty() {
                let action = pages.address(&token, "");
                let form = FormOf { action: &action, token: form, questions: &questions };
                let page = sheet.form(form, Some(&given), &submitted.problems);
                return Ok((StatusCode::UNPROCESSABLE_ENTITY, Html(page)).into_response());
            }
            submitted.answers
        }
        _ => return Err(Refusal::Malformed),
    };
    let (tasks, owner) = (&pages.tasks, &named.owner);
    let delivered = deliver(tasks, owner, &named.task, answers, Channel::Page).await;
    match delivered.map_err(|error| unavailable(&error))?.ok_or(Refusal::NotFound)? {
        Delivered::Used => Err(Refusal::Used),
        Delivered::Taken(view) | Delivered::Repeated(view) => {
            // If the tool has no next question yet, or if the store fails now, the next page waits for the tool.
            let _ = settled(tasks, owner, view, &questions, PATIENCE).await;
            let next = [(header::LOCATION, pages.address(&token, "/next"))];
            Ok((StatusCode::SEE_OTHER, next).into_response())
        }
    }
}

fn declined(questions: &BTreeSet<String>) -> BTreeMap<String, Value> {
    questions.iter().map(|question| (question.clone(), json!({"action": "decline"}))).collect()
}

/// Parses the values of a submitted form.
async fn read(headers: &HeaderMap, body: Body) -> Result<Given, Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(Refusal::Malformed);
    }
    match tokio::time::timeout(READ, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => Given::parse(&bytes).ok_or(Refusal::Malformed),
        Ok(Err(_)) => Err(Refusal::TooLarge),
        Err(_) => Err(Refusal::TooSlow),
    }
}

fn unavailable(error: &crate::Error) -> Refusal {
    tracing::warn!(%error, "a request to the web page with questions failed");
    Refusal::Unavailable
}

/// Returns `true` if the browser prefetches the page, so that the user has not opened the page yet.
pub(super) fn is_prefetch(headers: &HeaderMap) -> bool {
    let purposes = headers.get_all("sec-purpose").iter().chain(headers.get_all("purpose"));
    purposes.filter_map(|purpose| purpose.to_str().ok()).any(|purpose| purpose.contains("prefetch"))
}

impl Pages {
    /// Returns the path of a route, without the origin.
    pub(super) fn address(&self, token: &str, route: &str) -> String {
        format!("{}/ask/{token}{route}", self.base.path)
    }

    /// Decrypts the token of a link, and returns the task that the link refers to.
    pub(super) fn named(&self, token: &str) -> Result<Named, Refusal> {
        self.site.named(token, now_millis()).ok_or(Refusal::NotFound)
    }

    /// Returns the first page behind a link.
    pub(super) fn landing(&self, token: &str, admission: Admission) -> Response {
        let (open, sign_in) = (self.address(token, "/open"), self.address(token, "/sign-in"));
        let step = match admission {
            Admission::Admitted | Admission::Denied => Step::Open(&open),
            Admission::Unknown | Admission::Other => Step::SignIn(&sign_in),
        };
        Html(self.asking.landing(step, admission == Admission::Other)).into_response()
    }

    /// Checks whether a visitor can see the questions of a task.
    fn admit(&self, token: &str, admission: Admission) -> Result<(), Refusal> {
        match admission {
            Admission::Admitted => Ok(()),
            Admission::Unknown => Err(Refusal::SignIn(self.address(token, "/sign-in"))),
            Admission::Other | Admission::Denied => Err(Refusal::NotFound),
        }
    }

    /// Checks a request that shows or answers a question. Returns the contents of the link.
    fn enter(&self, token: &str, parts: &Parts) -> Result<Named, Refusal> {
        let named = self.named(token)?;
        if !self.is_own(&parts.headers) {
            return Err(Refusal::Foreign);
        }
        self.admit(token, self.site.admission(&named, parts))?;
        Ok(named)
    }

    /// Returns `true` if the answer page itself sent the request. The function checks headers that other web pages
    /// cannot set.
    fn is_own(&self, headers: &HeaderMap) -> bool {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let (origin, None) = (origins.next(), origins.next()) else { return false };
        let is_origin = |origin: &HeaderValue| origin.as_bytes() == self.base.origin.as_bytes();
        match headers.get("sec-fetch-site") {
            // With the referrer policy `no-referrer`, browsers send `Origin: null` even for requests from the answer
            // page itself.
            Some(site) => {
                site.as_bytes() == b"same-origin"
                    && origin.is_none_or(|origin| origin.as_bytes() == b"null" || is_origin(origin))
            }
            None => origin.is_some_and(is_origin),
        }
    }

    async fn load(&self, named: &Named) -> Result<OpenQuestions, Refusal> {
        let found = self.tasks.questions(&named.owner, &named.task).await;
        found.map_err(|error| unavailable(&error))?.ok_or(Refusal::NotFound)
    }

    /// Returns the page with the open questions of a task. If the task has no open questions, returns the page with
    /// the state of the task.
    fn show(
        &self,
        token: &str,
        named: &Named,
        browser: &Browser,
        found: &OpenQuestions,
        turn: u32,
    ) -> Html<String> {
        let sheet = self.asking.sheet(&self.service.registry(), found);
        let questions = sheet.questions();
        if questions.is_empty() {
            let next = (turn < TURNS).then(|| format!("{}?turn={}", self.address(token, "/next"), turn + 1));
            return Html(sheet.state(next.as_deref()));
        }
        let form = self.site.form_token(named, browser, questions.clone(), found.view.questions_end);
        let action = self.address(token, "");
        let form = FormOf { action: &action, token: &form, questions: &questions };
        Html(sheet.form(form, None, &BTreeMap::new()))
    }
}
