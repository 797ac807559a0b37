//! Sign-in with OpenID Connect on the web page with questions. The provider is on a socket and signs real ID tokens.

mod provider;

use std::{collections::BTreeMap, sync::atomic::Ordering};

use antiphon::{
    ServerBuilder,
    auth::{Auth, AuthBuilder, Issuer, OpenIdConnect},
    elicitation::AskPage,
    http::HttpConfig,
    testing::Revision,
};
use axum::{Router, body::Body};
use http::{Method, Request, StatusCode, header};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use url::Url;

use self::provider::{CALLBACK, CLIENT, Forge, Provider, RESOURCE, SECRET, id_header, visit};
use super::{ANSWER, BASE, OWN, Reply, Waiting, assert_protected, builder, name_in, waiting};
use crate::{
    auth::signer::{Signer, forged},
    http::post_with,
};

/// The authentication of MCP callers with tokens of the provider.
fn tokens(provider: &Provider) -> AuthBuilder {
    Auth::builder(RESOURCE).with_issuer(Issuer::new(&*provider.issuer))
}

fn sign_in(provider: &Provider) -> OpenIdConnect {
    OpenIdConnect::new(&*provider.issuer, CLIENT, SECRET)
}

fn app_with(page: AskPage, auth: AuthBuilder) -> Router {
    builder(page).with_auth(auth.build().unwrap()).build().unwrap().router(HttpConfig::default())
}

/// A server whose callers and visitors sign in at the same provider.
fn app(provider: &Provider) -> Router {
    app_with(AskPage::at(BASE).with_sign_in(sign_in(provider)), tokens(provider))
}

/// Calls a tool with the token of a user, as a client that shows neither forms nor apps.
async fn call(app: &Router, token: &str, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    let mut request = post_with(Revision::V2026_07_28, "tools/call", params, json!({}));
    request.headers_mut().insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    let reply = Reply::read(app.clone().oneshot(request).await.unwrap()).await;
    let answer: Value = serde_json::from_str(&reply.body).unwrap();
    assert!(answer["result"].is_object(), "{tool}: {answer}");
    answer["result"].clone()
}

async fn onboards(app: &Router, token: &str) -> Waiting {
    waiting(&call(app, token, "onboard", json!({"name": "Grace"})).await, BASE)
}

async fn status(app: &Router, token: &str, id: &str) -> Value {
    let result = call(app, token, "task_result", json!({"id": id, "wait": 0})).await;
    result["structuredContent"]["task"]["status"].clone()
}

/// A browser with several cookies, which follows links to the provider.
struct Browser {
    app: Router,
    cookies: BTreeMap<String, String>,
    user: Option<String>,
}

impl Browser {
    fn new(app: &Router) -> Self {
        Self { app: app.clone(), cookies: BTreeMap::new(), user: None }
    }

    async fn send(&mut self, method: Method, path: &str, headers: &[(&str, &str)], body: String) -> Reply {
        let mut request = Request::builder().method(method).uri(path).header("host", "mcp.example.com");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(user) = &self.user {
            request = request.header("x-user", user);
        }
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = request.header("cookie", cookies.join("; ")).body(Body::from(body)).unwrap();
        let reply = Reply::read(self.app.clone().oneshot(request).await.unwrap()).await;
        assert_protected(&reply);
        for cookie in set_cookies(&reply) {
            let (name, rest) = cookie.split_once('=').unwrap();
            let (value, attributes) = rest.split_once(';').unwrap();
            if attributes.contains("Max-Age=0;") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        reply
    }

    async fn get(&mut self, path: &str) -> Reply {
        self.send(Method::GET, path, &[("sec-fetch-site", "cross-site")], String::new()).await
    }

    async fn open(&mut self, path: &str) -> Reply {
        self.send(Method::POST, &format!("{path}/open"), &OWN, String::new()).await
    }

    async fn answer(&mut self, path: &str) -> Reply {
        let form = self.open(path).await.form();
        self.send(Method::POST, path, &OWN, format!("form={form}&{ANSWER}")).await
    }

    /// Follows the link *Sign in* to the provider. Returns the path to which the provider sends the browser back.
    async fn authorize(&mut self, path: &str) -> String {
        let begun = self.get(&format!("{path}/sign-in")).await;
        assert_eq!(begun.status, StatusCode::SEE_OTHER, "{begun:?}");
        visit(begun.header("location")).await.strip_prefix(BASE).unwrap().to_owned()
    }

    /// Signs in at the provider, and returns to the page.
    async fn sign_in(&mut self, path: &str) -> Reply {
        let callback = self.authorize(path).await;
        self.get(&callback).await
    }
}

fn set_cookies(reply: &Reply) -> Vec<String> {
    let cookies = reply.headers.get_all(header::SET_COOKIE).iter();
    cookies.map(|cookie| cookie.to_str().unwrap().to_owned()).collect()
}

/// Checks that a callback did not sign the visitor in.
async fn assert_rejected(browser: &mut Browser, path: &str, reply: &Reply, about: &str) {
    assert!(!browser.cookies.contains_key("__Host-ask-user"), "{about}: {reply:?}");
    assert_eq!(reply.header("location"), "", "{about}");
    let opened = browser.open(path).await;
    assert_eq!(opened.status, StatusCode::FORBIDDEN, "{about}");
    assert!(opened.body.contains("You are not signed in"), "{about}: {}", opened.body);
    assert!(!opened.body.contains("Grace"), "{about}: {}", opened.body);
}

#[tokio::test]
async fn user_signs_in_and_answers() {
    for key in [Signer::ec("1"), Signer::rsa("1", Algorithm::RS256)] {
        let provider = Provider::start(key).await;
        let app = app(&provider);
        let token = provider.token("ada");
        let Waiting { id, path } = onboards(&app, &token).await;
        let mut ada = Browser::new(&app);
        let landing = ada.get(&path).await;
        assert_eq!(landing.status, StatusCode::OK);
        assert!(landing.body.contains(&format!("href=\"{path}/sign-in\"")), "{}", landing.body);
        assert!(!landing.body.contains("Grace") && ada.cookies.is_empty(), "{}", landing.body);

        let begun = ada.get(&format!("{path}/sign-in")).await;
        let cookie = begun.header("set-cookie");
        assert!(cookie.starts_with("__Host-ask-sign-in="), "{cookie}");
        assert!(cookie.ends_with("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
        let address = Url::parse(begun.header("location")).unwrap();
        assert_eq!(address.path(), "/authorize");
        let asked: BTreeMap<_, _> = address.query_pairs().into_owned().collect();
        let names: Vec<&str> = asked.keys().map(String::as_str).collect();
        let expected = [
            "client_id",
            "code_challenge",
            "code_challenge_method",
            "nonce",
            "redirect_uri",
            "response_type",
            "scope",
            "state",
        ];
        assert_eq!(names, expected);
        for secret in ["state", "nonce", "code_challenge"] {
            assert_eq!(asked[secret].len(), 43, "{secret} has 256 bits");
        }

        let ended = ada.sign_in(&path).await;
        assert_eq!(ended.status, StatusCode::SEE_OTHER, "{ended:?}");
        assert_eq!(ended.header("location"), path);
        let cookies = set_cookies(&ended);
        let [session, removed] = &cookies[..] else { panic!("{ended:?}") };
        assert!(session.starts_with("__Host-ask-user="), "{session}");
        assert!(session.ends_with("; Path=/; Max-Age=900; HttpOnly; SameSite=Lax; Secure"), "{session}");
        assert!(removed.starts_with("__Host-ask-sign-in=; Path=/; Max-Age=0;"), "{removed}");
        let landing = ada.get(&path).await;
        assert!(landing.body.contains(&format!("action=\"{path}/open\"")), "{}", landing.body);
        let again = ada.get(&format!("{path}/sign-in")).await;
        assert_eq!(again.header("location"), path, "the visitor is already signed in");
        let answered = ada.answer(&path).await;
        assert_eq!(answered.status, StatusCode::SEE_OTHER, "{answered:?}");
        let second = ada.get(&format!("{path}/next")).await;
        assert!(second.body.contains("Are you sure?"), "{}", second.body);
        assert_eq!(status(&app, &token, &id).await, "input_required");
        ada.cookies.remove("__Host-ask-user");
        let next = ada.get(&format!("{path}/next")).await;
        assert!(next.body.contains("Sign in") && !next.body.contains("sure"), "{}", next.body);
    }
}

#[tokio::test]
async fn other_user_cannot_open_the_question() {
    let provider = Provider::start(Signer::new("1")).await;
    let app = app(&provider);
    let token = provider.token("ada");
    let Waiting { id, path } = onboards(&app, &token).await;
    let mut browser = Browser::new(&app);
    provider.sign_in_as("bob");
    assert_eq!(browser.sign_in(&path).await.header("location"), path);
    let landing = browser.get(&path).await;
    assert!(landing.body.contains("You are signed in with another account"), "{}", landing.body);
    let unknown = format!("/ask/{}", "A".repeat(132));
    let pairs = [
        (browser.open(&path).await, browser.open(&unknown).await),
        (
            browser.send(Method::POST, &path, &OWN, format!("form=x&{ANSWER}")).await,
            browser.send(Method::POST, &unknown, &OWN, format!("form=x&{ANSWER}")).await,
        ),
    ];
    for (foreign, unknown) in pairs {
        assert_eq!(foreign.status, StatusCode::NOT_FOUND);
        assert_eq!((foreign.status, foreign.body), (unknown.status, unknown.body));
    }
    assert_eq!(status(&app, &token, &id).await, "input_required");
    // The provider asks again, so that the user can choose the other account.
    let begun = browser.get(&format!("{path}/sign-in")).await;
    assert!(begun.header("location").ends_with("&prompt=login"), "{begun:?}");
    provider.sign_in_as("ada");
    browser.sign_in(&path).await;
    assert_eq!(browser.answer(&path).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn wrong_id_tokens_sign_nobody_in() {
    let provider = Provider::start(Signer::new("1")).await;
    let app = app(&provider);
    let Waiting { path, .. } = onboards(&app, &provider.token("ada")).await;
    let changed = |change: fn(&mut Value)| {
        move |key: &Signer, mut claims: Value| {
            change(&mut claims);
            json!(key.sign_as(&id_header(key), &claims))
        }
    };
    let mut wrong: Vec<(&str, Forge)> = Vec::new();
    let mut forge = |about, forge: Forge| wrong.push((about, forge));
    forge("another nonce", Box::new(changed(|it| it["nonce"] = json!("another"))));
    forge("no nonce", Box::new(changed(|it| drop(it.as_object_mut().unwrap().remove("nonce")))));
    forge("another audience", Box::new(changed(|it| it["aud"] = json!("another-page"))));
    forge("the audience of access tokens", Box::new(changed(|it| it["aud"] = json!(RESOURCE))));
    forge("several audiences", Box::new(changed(|it| it["aud"] = json!([CLIENT, "another-page"]))));
    forge("another party", Box::new(changed(|it| it["azp"] = json!("another-page"))));
    forge("expired", Box::new(changed(|it| it["exp"] = json!(get_current_timestamp() - 61))));
    forge("no end", Box::new(changed(|it| drop(it.as_object_mut().unwrap().remove("exp")))));
    forge("another issuer", Box::new(changed(|it| it["iss"] = json!("https://other.example"))));
    forge("no subject", Box::new(changed(|it| drop(it.as_object_mut().unwrap().remove("sub")))));
    forge("no token", Box::new(|_: &Signer, _| Value::Null));
    forge("no signature", Box::new(|_: &Signer, it| json!(forged(&json!({"alg": "none"}), &it, b""))));
    let stranger = Signer::new("1");
    let by_stranger = move |_: &Signer, it: Value| json!(stranger.sign_as(&id_header(&stranger), &it));
    forge("another key of the same name", Box::new(by_stranger));
    forge("the type of an access token", Box::new(|key: &Signer, claims| json!(key.sign(&claims))));
    let by_secret = |key: &Signer, claims: Value| {
        let public = key.jwk()["x"].as_str().unwrap().to_owned();
        let header = Header { kid: Some("1".into()), ..Header::new(Algorithm::HS256) };
        json!(encode(&header, &claims, &EncodingKey::from_secret(public.as_bytes())).unwrap())
    };
    forge("the public key as a secret", Box::new(by_secret));
    assert_eq!(wrong.len(), 15);
    for (about, forge) in wrong {
        provider.forge(forge);
        let mut browser = Browser::new(&app);
        let ended = browser.sign_in(&path).await;
        assert_eq!(ended.status, StatusCode::FORBIDDEN, "{about}: {ended:?}");
        assert!(ended.body.contains("The response of the sign-in server is not valid."), "{about}");
        assert_rejected(&mut browser, &path, &ended, about).await;
    }
    provider.forge(Box::new(changed(|it| it["aud"] = json!([CLIENT]))));
    let mut browser = Browser::new(&app);
    browser.sign_in(&path).await;
    assert_eq!(browser.open(&path).await.status, StatusCode::OK);
}

#[tokio::test]
async fn sign_in_belongs_to_one_browser_and_ends_once() {
    let provider = Provider::start(Signer::new("1")).await;
    let app = app(&provider);
    let Waiting { path, .. } = onboards(&app, &provider.token("ada")).await;
    let expired = "The sign-in has expired";
    let (mut ada, mut other) = (Browser::new(&app), Browser::new(&app));
    let callback = ada.authorize(&path).await;

    // A browser that has begun no sign-in, or another one.
    let reply = other.get(&callback).await;
    assert!(reply.status == StatusCode::BAD_REQUEST && reply.body.contains(expired), "{reply:?}");
    assert_rejected(&mut other, &path, &reply, "no cookie").await;
    let others = other.authorize(&path).await;
    let reply = other.get(&callback).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{reply:?}");
    assert_rejected(&mut other, &path, &reply, "the sign-in of another browser").await;

    // A forged or missing state, and a changed cookie.
    let (_, query) = callback.split_once('?').unwrap();
    let code = query.split('&').find(|pair| pair.starts_with("code=")).unwrap();
    let state = query.split('&').find(|pair| pair.starts_with("state=")).unwrap();
    for query in [code.to_owned(), format!("{code}&state="), format!("{code}&{state}x"), String::new()] {
        let reply = ada.get(&format!("/ask/callback?{query}")).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{query}");
        assert_rejected(&mut ada, &path, &reply, &query).await;
    }
    let mut stranger = Browser::new(&app);
    stranger.cookies.insert("__Host-ask-sign-in".to_owned(), "A".repeat(600));
    assert_eq!(stranger.get(&callback).await.status, StatusCode::BAD_REQUEST);

    // The code of another browser, in the sign-in of this one. Without PKCE, the nonce is wrong.
    for ignores_pkce in [false, true] {
        provider.desk.ignores_pkce.store(ignores_pkce, Ordering::SeqCst);
        let mine = other.authorize(&path).await;
        let (_, query) = mine.split_once('?').unwrap();
        let state = query.split('&').find(|pair| pair.starts_with("state=")).unwrap();
        let stolen = ada.authorize(&path).await;
        let (_, query) = stolen.split_once('?').unwrap();
        let code = query.split('&').find(|pair| pair.starts_with("code=")).unwrap();
        let reply = other.get(&format!("/ask/callback?{code}&{state}")).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{reply:?}");
        let why = if ignores_pkce { "is not valid" } else { "rejected it" };
        assert!(reply.body.contains(why), "{}", reply.body);
        assert_rejected(&mut other, &path, &reply, "the code of another browser").await;
    }
    assert_eq!(other.get(&others).await.status, StatusCode::BAD_REQUEST, "a later sign-in replaced it");

    // The same response again, without and with the removed cookie.
    let callback = ada.authorize(&path).await;
    let kept = ada.cookies.clone();
    assert_eq!(ada.get(&callback).await.header("location"), path);
    assert_eq!(ada.get(&callback).await.status, StatusCode::BAD_REQUEST);
    let mut replayed = Browser { cookies: kept, ..Browser::new(&app) };
    let reply = replayed.get(&callback).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN, "the provider accepts a code once: {reply:?}");
    assert_rejected(&mut replayed, &path, &reply, "a code again").await;
    assert_eq!(ada.open(&path).await.status, StatusCode::OK);
}

#[tokio::test]
async fn sign_in_leads_only_to_this_page() {
    let provider = Provider::start(Signer::new("1")).await;
    let app = app(&provider);
    let Waiting { path, .. } = onboards(&app, &provider.token("ada")).await;
    let evil = "next=https://evil.example&redirect_uri=https://evil.example&link=//evil.example";
    let mut ada = Browser::new(&app);
    let begun = ada.get(&format!("{path}/sign-in?{evil}")).await;
    assert!(!begun.header("location").contains("evil"), "{begun:?}");
    let callback = visit(begun.header("location")).await;
    assert!(callback.starts_with(CALLBACK), "{callback}");
    let callback = callback.strip_prefix(BASE).unwrap();
    let ended = ada.get(&format!("{callback}&{evil}")).await;
    assert_eq!(ended.header("location"), path);
    // Only the token of a link begins a sign-in.
    for wrong in ["/ask/x/sign-in", "/ask/%2F%2Fevil.example/sign-in"] {
        let reply = Browser::new(&app).get(wrong).await;
        assert_eq!((reply.status, reply.header("location")), (StatusCode::NOT_FOUND, ""), "{wrong}");
    }
    // A prefetch begins none.
    let prefetch = [("sec-purpose", "prefetch")];
    let mut scanner = Browser::new(&app);
    let reply = scanner.send(Method::GET, &format!("{path}/sign-in"), &prefetch, String::new()).await;
    assert!(reply.status == StatusCode::OK && scanner.cookies.is_empty(), "{reply:?}");
}

#[tokio::test]
async fn page_says_that_the_provider_failed() {
    let provider = Provider::start(Signer::new("1")).await;
    let app = app(&provider);
    let Waiting { path, .. } = onboards(&app, &provider.token("ada")).await;
    let again = format!("href=\"{path}/sign-in\"");
    let mut ada = Browser::new(&app);
    provider.desk.is_down.store(true, Ordering::SeqCst);
    let reply = ada.get(&format!("{path}/sign-in")).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(reply.body.contains("The sign-in server does not respond as expected."), "{}", reply.body);
    assert!(reply.body.contains(&again) && ada.cookies.is_empty(), "{}", reply.body);
    provider.desk.is_down.store(false, Ordering::SeqCst);

    // The user declines, and the provider fails later.
    provider.sign_in_as("");
    let reply = ada.sign_in(&path).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN, "{reply:?}");
    assert!(reply.body.contains("The sign-in server rejected it."), "{}", reply.body);
    assert!(reply.body.contains(&again), "{}", reply.body);
    assert_rejected(&mut ada, &path, &reply, "declined").await;
    provider.sign_in_as("ada");
    let callback = ada.authorize(&path).await;
    provider.desk.is_down.store(true, Ordering::SeqCst);
    let reply = ada.get(&callback).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{reply:?}");
    assert_rejected(&mut ada, &path, &reply, "down").await;
    provider.desk.is_down.store(false, Ordering::SeqCst);
    ada.sign_in(&path).await;
    assert_eq!(ada.open(&path).await.status, StatusCode::OK);
}

#[tokio::test]
async fn session_belongs_to_one_server() {
    let provider = Provider::start(Signer::new("1")).await;
    // Each server has its own random key.
    let (app, other) = (app(&provider), app(&provider));
    let token = provider.token("ada");
    let (own, foreign) = (onboards(&app, &token).await, onboards(&other, &token).await);
    let mut ada = Browser::new(&app);
    ada.sign_in(&own.path).await;
    assert_eq!(ada.open(&own.path).await.status, StatusCode::OK);
    let mut elsewhere = Browser { cookies: ada.cookies.clone(), ..Browser::new(&other) };
    let landing = elsewhere.get(&foreign.path).await;
    assert!(landing.body.contains("Sign in"), "{}", landing.body);
    assert_eq!(elsewhere.open(&foreign.path).await.status, StatusCode::FORBIDDEN);
    // The cookies of other purposes are not sessions either.
    for cookie in ["__Host-ask", "__Host-ask-sign-in"] {
        let mut browser = Browser::new(&app);
        browser.authorize(&own.path).await;
        let value = browser.cookies.get(cookie).or_else(|| ada.cookies.get(cookie)).unwrap().clone();
        browser.cookies.insert("__Host-ask-user".to_owned(), value);
        assert_eq!(browser.open(&own.path).await.status, StatusCode::FORBIDDEN, "{cookie}");
    }
}

#[tokio::test]
async fn session_of_the_application_comes_first() {
    let provider = Provider::start(Signer::new("1")).await;
    let page =
        AskPage::at(BASE).with_visitor(|parts| name_in(parts, "x-user")).with_sign_in(sign_in(&provider));
    let app = app_with(page, tokens(&provider));
    let Waiting { path, .. } = onboards(&app, &provider.token("ada")).await;
    let user = |name: &str| Some(format!("{}#{name}", provider.issuer));
    let mut ada = Browser { user: user("ada"), ..Browser::new(&app) };
    assert_eq!(ada.open(&path).await.status, StatusCode::OK);
    let mut browser = Browser::new(&app);
    assert_eq!(browser.open(&path).await.status, StatusCode::FORBIDDEN);
    browser.sign_in(&path).await;
    assert_eq!(browser.open(&path).await.status, StatusCode::OK);
    browser.user = user("bob");
    assert_eq!(browser.open(&path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(browser.get(&format!("{path}/sign-in")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn visitors_have_the_principals_of_callers() {
    let provider = Provider::start(Signer::new("1")).await;
    let email = |identity: &antiphon::auth::Identity| {
        identity.claim("email").and_then(Value::as_str).map(ToOwned::to_owned)
    };
    // The function of the tokens, and a function of the page.
    let page = |sign_in: OpenIdConnect| AskPage::at(BASE).with_sign_in(sign_in);
    let by_tokens = app_with(page(sign_in(&provider)), tokens(&provider).with_principal(email));
    let own = page(
        sign_in(&provider).with_principal(|user| user.subject().map(|name| format!("{name}@example.com"))),
    );
    let by_page = app_with(own, tokens(&provider).with_principal(email));
    let other = page(sign_in(&provider).with_principal(|_| Some("somebody".to_owned())));
    let by_other = app_with(other, tokens(&provider).with_principal(email));
    let (ok, not_found) = (StatusCode::OK, StatusCode::NOT_FOUND);
    for (app, status) in [(by_tokens, ok), (by_page, ok), (by_other, not_found)] {
        let Waiting { path, .. } = onboards(&app, &provider.token("ada")).await;
        let mut ada = Browser::new(&app);
        assert_eq!(ada.sign_in(&path).await.header("location"), path);
        assert_eq!(ada.open(&path).await.status, status);
    }
    let nobody = app_with(page(sign_in(&provider).with_principal(|_| None)), tokens(&provider));
    let Waiting { path, .. } = onboards(&nobody, &provider.token("ada")).await;
    let mut ada = Browser::new(&nobody);
    let ended = ada.sign_in(&path).await;
    assert!(ended.body.contains("this server does not know your account"), "{}", ended.body);
    assert_rejected(&mut ada, &path, &ended, "no principal").await;
}

#[test]
fn build_reports_a_sign_in_that_cannot_work() {
    let issuer = "https://login.example.com";
    let page = |sign_in| AskPage::at(BASE).with_sign_in(sign_in);
    let good = || OpenIdConnect::new(issuer, CLIENT, SECRET);
    let auth = |issuer: &str| Auth::builder(RESOURCE).with_issuer(Issuer::new(issuer)).build().unwrap();
    let problem = |builder: ServerBuilder| builder.build().map(drop).unwrap_err().to_string();

    let wrong = page(OpenIdConnect::new("http://login.example.com", " ", ""));
    let plain = problem(builder(wrong).with_auth(auth(issuer)));
    for expected in [
        "the issuer URL `http://login.example.com` is not valid; use an https URL",
        "the client ID of `OpenIdConnect` is empty; use the client ID",
        "the client secret of `OpenIdConnect` is empty; use the client secret",
    ] {
        assert!(plain.contains(expected), "{plain}");
    }
    let loopback = problem(builder(AskPage::loopback().with_sign_in(good())).with_auth(auth(issuer)));
    assert!(loopback.contains("use `AskPage::at`"), "{loopback}");
    let open = problem(builder(page(good())));
    assert!(open.contains("the server does not authenticate callers"), "{open}");
    let other = problem(builder(page(good())).with_auth(auth("https://other.example")));
    assert!(other.contains("the server accepts no tokens of this issuer"), "{other}");
    let hook = problem(builder(page(good())).with_principal(|_| None));
    assert!(hook.contains("add `OpenIdConnect::with_principal`"), "{hook}");

    let named = || good().with_principal(|user| user.subject().map(ToOwned::to_owned));
    assert!(builder(page(good())).with_auth(auth(issuer)).build().is_ok());
    assert!(builder(page(named())).with_auth(auth("https://other.example")).build().is_ok());
    assert!(builder(page(named())).with_principal(|_| None).build().is_ok());
}
