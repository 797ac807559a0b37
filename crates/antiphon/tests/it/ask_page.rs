//! Questions on the web page of the server: through the router, and over a socket for the page on this machine.

#[cfg(feature = "auth")]
mod sign_in;

use std::time::Duration;

use antiphon::{
    ServerBuilder,
    elicitation::{AskPage, AskPolicy},
    http::HttpConfig,
    prelude::*,
    task::RetryPolicy,
    testing::Revision,
};
use axum::{Router, body::Body};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, Method, Request, StatusCode, header, request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tower::ServiceExt as _;

use crate::{checked::connect_with, http::post_with, tasks::quick};

const BASE: &str = "https://mcp.example.com";

/// An answer to the first question.
const ANSWER: &str = "0.desk=4&0.floor=3&action=accept";

#[derive(Deserialize, JsonSchema)]
struct Colleague {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Approval {
    /// Which desk?
    desk: String,
    #[schemars(range(min = 1, max = 9))]
    floor: u8,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    sure: bool,
}

async fn onboard(ctx: &Ctx, Colleague { name }: Colleague) -> Result<String> {
    let message = format!("May <b>{name}</b> start?");
    let approval = ctx.elicit::<Approval>(message).await?.into_answer()?;
    let sure = ctx.elicit::<Confirmation>("Are you sure?").await?.into_answer()?;
    let Approval { desk, floor } = &approval.value;
    let via = (approval.via(), sure.via());
    Ok(format!("{name}: desk {desk}, floor {floor}, {}, {via:?}", sure.value.sure))
}

fn builder(page: AskPage) -> ServerBuilder {
    Server::builder("onboarding", "1.0.0")
        .with_title("Onboarding")
        .with_tasks(quick().with_retry(RetryPolicy::never()))
        .with_asking(AskPolicy::default().with_page(page))
        .tool(Tool::new("onboard", "Takes on a colleague", onboard))
}

fn name_in(parts: &request::Parts, header: &str) -> Option<String> {
    parts.headers.get(header)?.to_str().ok().map(ToOwned::to_owned)
}

/// A page that identifies its visitors.
fn page() -> AskPage {
    AskPage::at(BASE).with_visitor(|parts| name_in(parts, "x-user"))
}

/// A server that knows its callers.
fn known(page: AskPage) -> Router {
    let builder = builder(page).with_principal(|parts| name_in(parts, "x-caller"));
    builder.build().unwrap().router(HttpConfig::default())
}

/// Calls a tool as a client that shows neither forms nor apps.
async fn call(app: &Router, caller: Option<&str>, tool: &str, arguments: Value) -> Value {
    let answer = send(app, caller, tool, arguments).await;
    assert!(answer["result"].is_object(), "{tool}: {answer}");
    answer["result"].clone()
}

/// Calls a tool, and returns the message that answers the call.
async fn send(app: &Router, caller: Option<&str>, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let mut request = post_with(Revision::V2026_07_28, "tools/call", params, json!({}));
    if let Some(caller) = caller {
        request.headers_mut().insert("x-caller", caller.parse().unwrap());
    }
    let reply = Reply::read(app.clone().oneshot(request).await.unwrap()).await;
    serde_json::from_str(&reply.body).unwrap()
}

/// A run that waits for an answer on the page.
struct Waiting {
    id: String,
    /// The path of the link.
    path: String,
}

fn waiting(result: &Value, base: &str) -> Waiting {
    let about = result["structuredContent"]["about"].as_str().unwrap();
    assert_eq!(result["content"][0]["text"], about);
    assert!(about.starts_with("NOT FINISHED: `onboard` waits"), "{about}");
    let (_, link) = about.split_once("Show the user this link: ").unwrap();
    let link = link.split_whitespace().next().unwrap();
    let path = link.strip_prefix(base).unwrap().to_owned();
    assert!(path.starts_with("/ask/"), "{about}");
    Waiting { id: result["structuredContent"]["task"]["id"].as_str().unwrap().to_owned(), path }
}

async fn onboards(app: &Router, caller: Option<&str>) -> Waiting {
    waiting(&call(app, caller, "onboard", json!({"name": "Grace"})).await, BASE)
}

async fn status(app: &Router, caller: Option<&str>, id: &str) -> Value {
    let result = call(app, caller, "task_result", json!({"id": id, "wait": 0})).await;
    result["structuredContent"]["task"]["status"].clone()
}

#[derive(Debug)]
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Reply {
    async fn read(response: http::Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Self { status: parts.status, headers: parts.headers, body }
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// Returns the cookie that the reply sets, as browsers send it.
    fn cookie(&self) -> Option<String> {
        let cookie = self.headers.get(header::SET_COOKIE)?.to_str().unwrap();
        Some(cookie.split(';').next().unwrap().to_owned())
    }

    fn form(&self) -> String {
        form_in(&self.body)
    }
}

/// Returns the token of the form in a page.
fn form_in(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"form\" value=\"").unwrap_or_else(|| panic!("no form: {page}"));
    rest.split('"').next().unwrap().to_owned()
}

/// A browser and its user.
struct Browser {
    app: Router,
    user: Option<&'static str>,
    cookie: Option<String>,
}

impl Browser {
    fn new(app: &Router, user: Option<&'static str>) -> Self {
        Self { app: app.clone(), user, cookie: None }
    }

    /// Sends a request with these headers, and keeps the cookie of the reply.
    async fn send(&mut self, method: Method, path: &str, headers: &[(&str, &str)], body: String) -> Reply {
        let mut request = Request::builder().method(method).uri(path).header("host", "mcp.example.com");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(user) = self.user {
            request = request.header("x-user", user);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", format!("theme=dark; {cookie}"));
        }
        let response = self.app.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let reply = Reply::read(response).await;
        assert_protected(&reply);
        self.cookie = reply.cookie().or(self.cookie.take());
        reply
    }

    async fn get(&mut self, path: &str) -> Reply {
        self.send(Method::GET, path, &[("sec-fetch-site", "cross-site")], String::new()).await
    }

    /// Submits a form of the page itself.
    async fn post(&mut self, path: &str, body: String) -> Reply {
        self.send(Method::POST, path, &OWN, body).await
    }

    async fn open(&mut self, path: &str) -> Reply {
        self.post(&format!("{path}/open"), String::new()).await
    }

    /// Opens the question and answers it.
    async fn answer(&mut self, path: &str, answer: &str) -> Reply {
        let form = self.open(path).await.form();
        self.post(path, format!("form={form}&{answer}")).await
    }
}

/// The headers of a form that the page itself submits.
const OWN: [(&str, &str); 3] = [
    ("sec-fetch-site", "same-origin"),
    ("origin", "null"),
    ("content-type", "application/x-www-form-urlencoded"),
];

/// Checks the headers of every response.
fn assert_protected(reply: &Reply) {
    let policy = reply.header("content-security-policy");
    let (before, rest) = policy.split_once("'sha256-").unwrap_or_else(|| panic!("{reply:?}"));
    let (digest, after) = rest.split_once('\'').unwrap();
    assert_eq!(before, "default-src 'none'; style-src ");
    assert_eq!(after, "; form-action 'self'; frame-ancestors 'none'; base-uri 'none'");
    if let Some((_, style)) = reply.body.split_once("<style>") {
        let style = style.split_once("</style>").unwrap().0;
        assert_eq!(STANDARD.encode(Sha256::digest(style)), digest, "the browser applies the style sheet");
    }
    assert!(!reply.body.contains("<script"), "{}", reply.body);
    let others = [
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("x-robots-tag", "noindex"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
    ];
    for (name, value) in others {
        assert_eq!(reply.header(name), value, "{name}: {reply:?}");
    }
}

#[tokio::test]
async fn caller_answers_two_questions_in_a_row_on_the_page() {
    let app = known(page());
    let Waiting { id, path } = onboards(&app, Some("ada")).await;
    let mut ada = Browser::new(&app, Some("ada"));
    let landing = ada.get(&path).await;
    assert_eq!(landing.status, StatusCode::OK);
    assert!(landing.body.contains("Onboarding has a question"), "{}", landing.body);
    assert!(landing.body.contains(&format!("action=\"{path}/open\"")), "{}", landing.body);

    let opened = ada.open(&path).await;
    assert_eq!(opened.status, StatusCode::OK);
    let cookie = opened.header("set-cookie");
    assert!(cookie.starts_with("__Host-ask="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=900; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
    for shown in ["Question from Onboarding", "Takes on a colleague", "ada", "Grace", "Which desk?"] {
        assert!(opened.body.contains(shown), "{shown}: {}", opened.body);
    }

    let answered = ada.post(&path, format!("form={}&{ANSWER}", opened.form())).await;
    assert_eq!(answered.status, StatusCode::SEE_OTHER, "{answered:?}");
    let next = format!("{path}/next");
    assert_eq!(answered.header("location"), next);
    let second = ada.get(&next).await;
    assert!(second.body.contains("Are you sure?") && second.cookie().is_none(), "{second:?}");
    assert!(!second.body.contains("Which desk?"), "{}", second.body);
    let answered = ada.post(&path, format!("form={}&0.sure=1&action=accept", second.form())).await;
    assert_eq!(answered.status, StatusCode::SEE_OTHER, "{answered:?}");
    let done = ada.get(&next).await;
    let close = "You can close this page. Go back to the chat and say that you have answered.";
    assert!(done.body.contains("Done") && done.body.contains(close), "{}", done.body);

    let result = call(&app, Some("ada"), "task_result", json!({"id": id})).await;
    assert_eq!(result["content"][0]["text"], "Grace: desk 4, floor 3, true, (Page, Page)");
}

#[tokio::test]
async fn other_visitors_get_the_page_of_an_unknown_link() {
    let app = known(page());
    let Waiting { id, path } = onboards(&app, Some("ada")).await;
    let unknown = format!("/ask/{}", "A".repeat(132));
    let form = Browser::new(&app, Some("ada")).open(&path).await.form();
    // Bob has a question of his own, and so a valid cookie.
    let mut bob = Browser::new(&app, Some("bob"));
    let bobs = onboards(&app, Some("bob")).await;
    assert_eq!(bob.open(&bobs.path).await.status, StatusCode::OK);
    let others = [None, Some(""), Some("Ada")].map(|user| Browser::new(&app, user));
    for mut visitor in others.into_iter().chain([bob]) {
        let body = format!("form={form}&{ANSWER}");
        let pairs = [
            (visitor.open(&path).await, visitor.open(&unknown).await),
            (visitor.post(&path, body.clone()).await, visitor.post(&unknown, body).await),
        ];
        for (foreign, unknown) in pairs {
            assert_eq!(foreign.status, StatusCode::NOT_FOUND, "{:?}", visitor.user);
            assert_eq!((foreign.status, foreign.body), (unknown.status, unknown.body));
        }
        let next = visitor.get(&format!("{path}/next")).await;
        // Without a cookie, the visitor sees the button.
        let expected = if visitor.cookie.is_some() { StatusCode::NOT_FOUND } else { StatusCode::OK };
        assert_eq!(next.status, expected, "{:?}", visitor.user);
        assert!(!next.body.contains("Grace") && !next.body.contains(">ada<"), "{}", next.body);
    }
    assert_eq!(status(&app, Some("ada"), &id).await, "input_required");
    let answered = Browser::new(&app, Some("ada")).answer(&path, ANSWER).await;
    assert_eq!(answered.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn expired_and_forged_links_are_unknown() {
    let app = known(page().with_life(Duration::from_secs(1)));
    let Waiting { id, path } = onboards(&app, Some("ada")).await;
    let mut ada = Browser::new(&app, Some("ada"));
    let form = ada.open(&path).await.form();
    let (start, end) = path.split_at(path.len() / 2);
    let other = if end.starts_with('A') { "B" } else { "A" };
    let forged = [format!("{start}{other}{}", &end[1..]), start.to_owned(), "/ask/x".to_owned()];
    for path in &forged {
        assert_eq!(ada.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(ada.open(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let replies =
        [ada.get(&path).await, ada.open(&path).await, ada.post(&path, format!("form={form}&{ANSWER}")).await];
    for reply in replies {
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{reply:?}");
    }
    // The model gets a new link.
    let again = call(&app, Some("ada"), "task_result", json!({"id": id, "wait": 0})).await;
    let Waiting { path, .. } = waiting(&again, BASE);
    assert_eq!(ada.open(&path).await.status, StatusCode::OK);
}

#[tokio::test]
async fn answer_counts_once() {
    let app = known(page());
    let Waiting { id, path } = onboards(&app, Some("ada")).await;
    let (mut ada, mut other) = (Browser::new(&app, Some("ada")), Browser::new(&app, Some("ada")));
    let (form, others) = (ada.open(&path).await.form(), other.open(&path).await.form());
    let body = format!("form={form}&{ANSWER}");
    assert_eq!(ada.post(&path, body.clone()).await.status, StatusCode::SEE_OTHER);
    let replayed = [
        ada.post(&path, body).await,
        ada.post(&path, format!("form={form}&0.desk=5&0.floor=5&action=accept")).await,
        ada.post(&path, format!("form={form}&action=decline")).await,
        other.post(&path, format!("form={others}&{ANSWER}")).await,
    ];
    for reply in replayed {
        assert_eq!(reply.status, StatusCode::CONFLICT, "{reply:?}");
        assert!(reply.body.contains("The first answer counts."), "{}", reply.body);
    }
    // The form of the first question does not answer the second one.
    let second = ada.get(&format!("{path}/next")).await;
    let answered = ada.post(&path, format!("form={}&action=accept", second.form())).await;
    assert_eq!(answered.status, StatusCode::SEE_OTHER);
    let result = call(&app, Some("ada"), "task_result", json!({"id": id})).await;
    assert_eq!(result["content"][0]["text"], "Grace: desk 4, floor 3, false, (Page, Page)");
}

#[tokio::test]
async fn requests_of_other_web_pages_are_rejected() {
    const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
    let app = known(page());
    let Waiting { id, path } = onboards(&app, Some("ada")).await;
    let mut ada = Browser::new(&app, Some("ada"));
    let form = ada.open(&path).await.form();
    let body = format!("form={form}&{ANSWER}");
    let foreign: [&[(&str, &str)]; 7] = [
        &[FORM],
        &[FORM, ("origin", "null")],
        &[FORM, ("origin", "https://evil.example")],
        &[FORM, ("origin", "http://mcp.example.com")],
        &[FORM, ("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")],
        &[FORM, ("origin", "null"), ("sec-fetch-site", "same-site")],
        &[FORM, ("origin", BASE), ("origin", "https://evil.example")],
    ];
    for headers in foreign {
        for path in [path.clone(), format!("{path}/open")] {
            let reply = ada.send(Method::POST, &path, headers, body.clone()).await;
            assert_eq!(reply.status, StatusCode::FORBIDDEN, "{headers:?}");
        }
    }
    // The page itself, without the token of its form, or with the token of another browser.
    let mut other = Browser::new(&app, Some("ada"));
    let others = other.open(&path).await.form();
    for stolen in [String::new(), "form=".to_owned(), format!("form={others}"), "form=x".to_owned()] {
        let reply = ada.post(&path, format!("{stolen}&{ANSWER}")).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{stolen}");
        assert!(reply.body.contains("Open the question again."), "{}", reply.body);
    }
    let renamed = ada.cookie.as_ref().map(|cookie| cookie.replacen("__Host-", "", 1));
    let cookies = [None, Some("__Host-ask=x".to_owned()), renamed];
    for cookie in cookies {
        let mut stranger = Browser { cookie, ..Browser::new(&app, Some("ada")) };
        let reply = stranger.post(&path, body.clone()).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{:?}", stranger.cookie);
    }
    assert_eq!(status(&app, Some("ada"), &id).await, "input_required");
    // A browser without `Sec-Fetch-Site`.
    let reply = ada.send(Method::POST, &path, &[FORM, ("origin", BASE)], body).await;
    assert_eq!(reply.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn fetching_a_link_changes_nothing_and_shows_no_question() {
    let app = known(page());
    let Waiting { id, path } = onboards(&app, Some("ada")).await;
    let mut ada = Browser::new(&app, Some("ada"));
    let landing = ada.get(&path).await.body;
    let prefetch = [("sec-purpose", "prefetch;prerender")];
    let fetches: [(Method, &[(&str, &str)]); 3] =
        [(Method::GET, &[]), (Method::HEAD, &[]), (Method::GET, &prefetch)];
    for path in [path.clone(), format!("{path}/next")] {
        for (method, headers) in fetches.clone() {
            let is_head = method == Method::HEAD;
            let reply = ada.send(method, &path, headers, String::new()).await;
            assert_eq!(reply.status, StatusCode::OK);
            assert!(reply.cookie().is_none(), "{reply:?}");
            assert_eq!(reply.body, if is_head { "" } else { &landing });
        }
    }
    for secret in ["Grace", "start?", ">ada<", &id] {
        assert!(!landing.contains(secret), "{secret}: {landing}");
    }
    assert_eq!(ada.get(&format!("{path}/open")).await.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(status(&app, Some("ada"), &id).await, "input_required");
    // In a browser that has opened the question, a prefetch still shows nothing.
    ada.open(&path).await;
    let next = format!("{path}/next");
    assert_eq!(ada.send(Method::GET, &next, &prefetch, String::new()).await.body, landing);
    assert!(ada.get(&next).await.body.contains("Which desk?"));
}

#[tokio::test]
async fn text_of_a_question_stays_text() {
    let app = known(page());
    let evil = "</h2><script>alert(1)</script><img src=x onerror=\"alert(1)\">";
    let result = call(&app, Some("ada"), "onboard", json!({"name": evil})).await;
    let Waiting { path, .. } = waiting(&result, BASE);
    let opened = Browser::new(&app, Some("ada")).open(&path).await;
    assert!(!opened.body.contains("<script") && !opened.body.contains("<img"), "{}", opened.body);
    let escaped = "May &lt;b&gt;&lt;/h2&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=&quot;";
    assert!(opened.body.contains(escaped), "{}", opened.body);
}

#[tokio::test]
async fn misfit_is_shown_and_uses_nothing_up() {
    let app = known(page());
    let Waiting { id, path } = onboards(&app, Some("ada")).await;
    let mut ada = Browser::new(&app, Some("ada"));
    let misfit = ada.answer(&path, "0.desk=%3Cb%3E&0.floor=12&action=accept").await;
    assert_eq!(misfit.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(misfit.body.contains("12 is greater than the maximum of 9"), "{}", misfit.body);
    assert!(misfit.body.contains("value=\"&lt;b&gt;\""), "{}", misfit.body);
    assert_eq!(status(&app, Some("ada"), &id).await, "input_required");
    let empty = ada.answer(&path, "0.desk=&0.floor=x&action=accept").await;
    assert_eq!(empty.status, StatusCode::UNPROCESSABLE_ENTITY);
    for problem in ["An answer is required.", "Enter a whole number."] {
        assert!(empty.body.contains(problem), "{}", empty.body);
    }
    let corrected = ada.post(&path, format!("form={}&{ANSWER}", empty.form())).await;
    assert_eq!(corrected.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn declined_question_ends_the_tool() {
    let app = known(page());
    let Waiting { id, path } = onboards(&app, Some("ada")).await;
    let mut ada = Browser::new(&app, Some("ada"));
    let form = ada.open(&path).await.form();
    for _ in 0..2 {
        // The same answer again gets the same reply.
        let declined = ada.post(&path, format!("form={form}&action=decline")).await;
        assert_eq!(declined.status, StatusCode::SEE_OTHER, "{declined:?}");
    }
    let result = call(&app, Some("ada"), "task_result", json!({"id": id})).await;
    assert_eq!(result["isError"], true, "{result}");
}

#[tokio::test]
async fn bodies_are_limited_and_checked() {
    let app = known(page());
    let Waiting { id, path } = onboards(&app, Some("ada")).await;
    let mut ada = Browser::new(&app, Some("ada"));
    let form = ada.open(&path).await.form();
    let long = format!("form={form}&0.desk={}&0.floor=3&action=accept", "x".repeat(64 * 1024));
    assert_eq!(ada.post(&path, long).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    for wrong in [format!("form={form}&0.desk=%zz&action=accept"), format!("form={form}&action=approve")] {
        assert_eq!(ada.post(&path, wrong).await.status, StatusCode::BAD_REQUEST);
    }
    let headers = [("sec-fetch-site", "same-origin"), ("content-type", "application/json")];
    let reply = ada.send(Method::POST, &path, &headers, format!("form={form}&{ANSWER}")).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(status(&app, Some("ada"), &id).await, "input_required");
}

#[tokio::test]
async fn holder_of_a_link_answers_for_unknown_callers_and_with_bearer_links() {
    let unknown = builder(AskPage::at(BASE)).build().unwrap().router(HttpConfig::default());
    let bearer = known(page().allow_bearer_links());
    for (app, caller) in [(unknown, None), (bearer, Some("ada"))] {
        let result = call(&app, caller, "onboard", json!({"name": "Grace"})).await;
        let about = result["structuredContent"]["about"].as_str().unwrap();
        assert!(about.contains(" They answer there.") && !about.contains("sign in"), "{about}");
        let Waiting { path, .. } = waiting(&result, BASE);
        if caller.is_some() {
            let bob = Browser::new(&app, Some("bob")).open(&path).await;
            assert_eq!(bob.status, StatusCode::NOT_FOUND, "a visitor who is signed in must be the caller");
        }
        let answered = Browser::new(&app, None).answer(&path, ANSWER).await;
        assert_eq!(answered.status, StatusCode::SEE_OTHER, "{answered:?}");
    }
}

#[tokio::test]
async fn link_to_a_page_below_a_path_keeps_the_path() {
    let server = builder(AskPage::at("https://example.com/app/")).build().unwrap();
    let app = Router::new().nest("/app", server.ask_router());
    let result = call(&server.router(HttpConfig::default()), None, "onboard", json!({"name": "Grace"})).await;
    let about = result["structuredContent"]["about"].as_str().unwrap();
    let (_, rest) = about.split_once("https://example.com/app/ask/").unwrap();
    let path = format!("/app/ask/{}", rest.split(' ').next().unwrap());
    let mut browser = Browser::new(&app, None);
    let landing = browser.get(&path).await;
    assert!(landing.body.contains(&format!("action=\"{path}/open\"")), "{}", landing.body);
    let answered = browser.answer(&path, ANSWER).await;
    assert_eq!(answered.header("location"), format!("{path}/next"));
}

#[test]
fn build_reports_a_page_that_nobody_could_use() {
    let problem = |builder: ServerBuilder| builder.build().map(drop).unwrap_err().to_string();
    let strangers = problem(builder(AskPage::at(BASE)).with_principal(|_| None));
    assert!(strangers.contains("add `AskPage::with_visitor`"), "{strangers}");
    let plain = problem(builder(AskPage::at("http://mcp.example.com")));
    assert!(plain.contains("it does not begin with `https://`"), "{plain}");
    let local = builder(AskPage::at("http://localhost:8000")).build();
    assert!(local.is_ok());
}

#[tokio::test]
async fn form_of_an_app_comes_before_the_link() -> Result<()> {
    let server = builder(AskPage::at(BASE)).build()?;
    let ui = json!({"mimeTypes": ["text/html;profile=mcp-app"]});
    let apps = json!({"extensions": {"io.modelcontextprotocol/ui": ui}});
    for revision in Revision::BOTH {
        let mut client = connect_with(&server, revision, apps.clone()).await?;
        let talk = client.call("onboard", json!({"name": "Grace"})).await?;
        let text = talk.text();
        assert!(text.contains("Now call `task_question`") && !text.contains(BASE), "{text}");
        let id = talk.result["structuredContent"]["task"]["id"].clone();
        let shown = client.call("task_question", json!({"id": id})).await?;
        let text = shown.text();
        assert!(text.starts_with("The form is shown") && !text.contains(BASE), "{text}");
        let linked = client.call("task_question", json!({"id": id, "link": true})).await?;
        let link = format!("Show the user this link: {BASE}/ask/");
        assert!(linked.text().starts_with(&link), "{}", linked.text());
    }
    Ok(())
}

#[tokio::test]
async fn page_on_this_machine_listens_while_a_question_waits() -> Result<()> {
    let server = builder(AskPage::loopback()).build()?;
    // Callers over HTTP are on other machines.
    let app = server.router(HttpConfig::default());
    let remote = send(&app, None, "onboard", json!({"name": "Grace"})).await;
    assert_eq!(remote["error"]["code"], -32021, "{remote}");

    let browser =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build()?;
    let post = |link: String, cookie: Option<String>, body: String| {
        let mut request = browser.post(link).body(body);
        for (name, value) in OWN {
            request = request.header(name, value);
        }
        if let Some(cookie) = cookie {
            request = request.header("cookie", cookie);
        }
        request.send()
    };
    let mut client = connect_with(&server, Revision::V2025_11_25, json!({})).await?;
    let talk = client.call("onboard", json!({"name": "Grace"})).await?;
    let text = talk.text();
    let (_, link) = text.split_once("Show the user this link: ").unwrap();
    let link = link.split(' ').next().unwrap().to_owned();
    assert!(link.starts_with("http://127.0.0.1:"), "{text}");

    let landing = browser.get(&link).send().await?;
    assert_eq!(landing.status().as_u16(), 200);
    let rebound = browser.get(&link).header("host", "evil.example").send().await?;
    assert_eq!(rebound.status().as_u16(), 403);
    let opened = post(format!("{link}/open"), None, String::new()).await?;
    let cookie = opened.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("ask=") && !cookie.contains("Secure"), "{cookie}");
    let cookie = cookie.split(';').next().map(ToOwned::to_owned);
    let form = form_in(&opened.text().await?);
    let answered = post(link.clone(), cookie.clone(), format!("form={form}&{ANSWER}")).await?;
    assert_eq!(answered.status().as_u16(), 303);
    let next = format!("{link}/next");
    let second = browser.get(&next).header("cookie", cookie.clone().unwrap()).send().await?;
    let form = form_in(&second.text().await?);
    let answered = post(link.clone(), cookie, format!("form={form}&0.sure=1&action=accept")).await?;
    assert_eq!(answered.status().as_u16(), 303);
    let id = talk.result["structuredContent"]["task"]["id"].clone();
    let result = client.call("task_result", json!({"id": id})).await?;
    assert_eq!(result.text(), "Grace: desk 4, floor 3, true, (Page, Page)");

    // Nothing waits now, so the server stops listening.
    let stopped = async {
        while browser.get(&link).send().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), stopped).await.expect("the page is closed");
    Ok(())
}
