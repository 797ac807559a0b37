//! Servers that want to know who is calling.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use antiphon::{http::HttpConfig, prelude::*};
use antiphon_host::{
    AuthConfig, CredentialError, CredentialStore, Error as HostError, Host, HttpEndpoint, Lifecycle,
    StoredCredentials, Unattended,
};
use axum::{
    Form, Json, Router,
    body::{Body, to_bytes},
    extract::{Query, Request, State},
    http::{StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::BOTH;

const REDIRECT: &str = "http://127.0.0.1:1/callback";

/// An MCP server with one tool, guarded by an authorization server that asks nobody.
#[derive(Clone)]
struct Guarded {
    base: String,
    works: Arc<AtomicUsize>,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// Who the authorization server says it is, beside where it is.
    issuer: String,
    registrations: Vec<Value>,
    authorizations: Vec<HashMap<String, String>>,
    exchanges: Vec<HashMap<String, String>>,
    /// Valid tokens, and what they are good for.
    tokens: HashMap<String, String>,
    /// What a call needs beyond the rest.
    needs: Option<&'static str>,
    expires_in: Option<u64>,
    denies: bool,
}

impl Guarded {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let works = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(Mutex::new(Seen { issuer: base.clone(), ..Seen::default() }));
        let guarded = Self { base, works, seen };
        let server = Server::builder("guarded", "1")
            .with_state(Arc::clone(&guarded.works))
            .tool(Tool::new("work", "Works", async |ctx: &Ctx, _: ()| -> Result<String> {
                Ok(ctx.state::<Arc<AtomicUsize>>()?.fetch_add(1, Ordering::SeqCst).to_string())
            }))
            .build()
            .unwrap();
        let mcp = server.router(HttpConfig::default()).layer(from_fn_with_state(guarded.clone(), guard));
        let router = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/other/.well-known/openid-configuration", get(metadata))
            .route("/.well-known/oauth-authorization-server/other", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(guarded.clone())
            .merge(mcp);
        tokio::spawn(async move { axum::serve(listener, router).await });
        guarded
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    fn url(&self) -> String {
        format!("{}/mcp", self.base)
    }

    fn endpoint(&self, auth: AuthConfig) -> HttpEndpoint {
        HttpEndpoint::new(self.url()).with_auth(auth)
    }

    fn challenge(&self, status: StatusCode, more: &str) -> Response {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.base);
        let header = format!("Bearer resource_metadata=\"{metadata}\"{more}");
        (status, [(header::WWW_AUTHENTICATE, header)]).into_response()
    }
}

async fn guard(State(guarded): State<Guarded>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let bearer =
        parts.headers.get(header::AUTHORIZATION).and_then(|it| it.to_str().ok()?.strip_prefix("Bearer "));
    let (scopes, needs) = {
        let seen = guarded.seen();
        (bearer.and_then(|token| seen.tokens.get(token).cloned()), seen.needs)
    };
    let Some(scopes) = scopes else {
        return guarded.challenge(StatusCode::UNAUTHORIZED, ", scope=\"basic\"");
    };
    if let Some(needs) = needs
        && message["method"] == "tools/call"
        && !scopes.split(' ').any(|scope| scope == needs)
    {
        let more = format!(", error=\"insufficient_scope\", scope=\"{needs}\"");
        return guarded.challenge(StatusCode::FORBIDDEN, &more);
    }
    next.run(Request::from_parts(parts, Body::from(body))).await
}

async fn resource(State(guarded): State<Guarded>) -> Json<Value> {
    let issuer = guarded.seen().issuer.clone();
    Json(json!({"resource": guarded.url(), "authorization_servers": [issuer]}))
}

async fn metadata(State(guarded): State<Guarded>) -> Json<Value> {
    let base = &guarded.base;
    Json(json!({
        "issuer": guarded.seen().issuer,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
    }))
}

async fn register(State(guarded): State<Guarded>, Json(client): Json<Value>) -> Response {
    let mut seen = guarded.seen();
    seen.registrations.push(client.clone());
    let id = format!("client-{}", seen.registrations.len());
    let registered = json!({"client_id": id, "redirect_uris": client["redirect_uris"]});
    (StatusCode::CREATED, Json(registered)).into_response()
}

async fn authorize(State(guarded): State<Guarded>, Query(query): Query<HashMap<String, String>>) -> Response {
    let mut seen = guarded.seen();
    let code = format!("code-{}", seen.authorizations.len());
    let answer = if seen.denies { "error=access_denied".to_owned() } else { format!("code={code}") };
    let location = format!("{}?{answer}&state={}", query["redirect_uri"], query["state"]);
    seen.authorizations.push(query);
    (StatusCode::FOUND, [(header::LOCATION, location)]).into_response()
}

async fn token(State(guarded): State<Guarded>, Form(form): Form<HashMap<String, String>>) -> Json<Value> {
    let mut seen = guarded.seen();
    seen.exchanges.push(form.clone());
    let scope = match form["grant_type"].as_str() {
        "authorization_code" => {
            let asked: usize = form["code"].strip_prefix("code-").unwrap().parse().unwrap();
            seen.authorizations[asked].get("scope").cloned().unwrap_or_default()
        }
        _ => form.get("scope").cloned().unwrap_or_else(|| "basic".into()),
    };
    let token = format!("token-{}", seen.exchanges.len());
    seen.tokens.insert(token.clone(), scope.clone());
    let mut answer = json!({"access_token": token, "token_type": "Bearer", "scope": scope});
    if let Some(seconds) = seen.expires_in {
        answer["expires_in"] = json!(seconds);
        answer["refresh_token"] = json!("refresh");
    }
    Json(answer)
}

fn person() -> AuthConfig {
    AuthConfig::person(REDIRECT, Unattended).with_client_name("tests")
}

fn host(lifecycle: Lifecycle) -> Host {
    Host::builder("h", "1").with_lifecycle(lifecycle).build()
}

#[tokio::test]
async fn a_server_that_wants_a_token_gets_one() {
    for lifecycle in [Lifecycle::Auto, Lifecycle::Legacy, Lifecycle::Modern] {
        let guarded = Guarded::start().await;
        let server = host(lifecycle).connect(guarded.endpoint(person())).await.unwrap();
        let result = server.call("work", json!({})).await.unwrap();
        assert_eq!(result.content[0].as_text().unwrap().text, "0", "{lifecycle:?}");

        let seen = guarded.seen();
        assert_eq!(seen.registrations.len(), 1, "{lifecycle:?}");
        assert_eq!(seen.registrations[0]["client_name"], "tests");
        let [asked] = &seen.authorizations[..] else { panic!("{:?}", seen.authorizations) };
        assert_eq!((asked["scope"].as_str(), asked["code_challenge_method"].as_str()), ("basic", "S256"));
        assert_eq!(asked["resource"], guarded.url());
        assert!(seen.exchanges[0].contains_key("code_verifier"));
        assert_eq!(seen.exchanges[0]["resource"], guarded.url());
    }
}

#[tokio::test]
async fn without_a_way_to_authorize_the_challenge_is_the_error() {
    let guarded = Guarded::start().await;
    for lifecycle in BOTH {
        let error = host(lifecycle).connect(HttpEndpoint::new(guarded.url())).await.unwrap_err();
        let HostError::Unauthorized { challenge, .. } = &error else { panic!("{error:?}") };
        assert!(challenge.contains("resource_metadata"), "{challenge}");
    }
}

#[tokio::test]
async fn connections_to_one_endpoint_share_a_token() {
    for lifecycle in BOTH {
        let guarded = Guarded::start().await;
        let (host, endpoint) = (host(lifecycle), guarded.endpoint(person()));
        for _ in 0..3 {
            let server = host.connect(endpoint.clone()).await.unwrap();
            server.call("work", json!({})).await.unwrap();
            server.close().await;
        }
        assert_eq!(guarded.seen().authorizations.len(), 1, "{lifecycle:?}");
    }
}

#[tokio::test]
async fn a_call_that_needs_more_asks_for_that_much_more_and_is_made_once() {
    for lifecycle in BOTH {
        let guarded = Guarded::start().await;
        guarded.seen().needs = Some("write");
        let server = host(lifecycle).connect(guarded.endpoint(person())).await.unwrap();
        server.call("work", json!({})).await.unwrap();

        assert_eq!(guarded.works.load(Ordering::SeqCst), 1);
        let seen = guarded.seen();
        let scopes: Vec<&str> = seen.authorizations.iter().map(|it| it["scope"].as_str()).collect();
        assert_eq!(scopes, ["basic", "basic write"], "{lifecycle:?}");
        assert_eq!(seen.registrations.len(), 1, "a client registers once");
    }
}

#[tokio::test]
async fn a_server_that_nothing_satisfies_does_not_send_the_person_round_and_round() {
    for lifecycle in BOTH {
        let guarded = Guarded::start().await;
        let server = host(lifecycle).connect(guarded.endpoint(person())).await.unwrap();
        // From now on no token is good enough, old or new.
        guarded.seen().needs = Some("the moon");
        let before = guarded.seen().authorizations.len();
        let error = server.call("work", json!({})).await.unwrap_err();
        assert!(matches!(error, HostError::Unauthorized { .. }), "{lifecycle:?}: {error:?}");
        assert!(guarded.seen().authorizations.len() - before <= 2, "{lifecycle:?}");
        assert_eq!(guarded.works.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn many_calls_that_are_refused_at_once_send_the_person_once() {
    for lifecycle in BOTH {
        let guarded = Guarded::start().await;
        let server = host(lifecycle).connect(guarded.endpoint(person())).await.unwrap();
        guarded.seen().tokens.clear();
        let calls = (0..20).map(|_| {
            let server = server.clone();
            tokio::spawn(async move { server.call("work", json!({})).await.map(drop) })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap().unwrap();
        }
        assert_eq!(guarded.seen().authorizations.len(), 2, "{lifecycle:?}");
        assert_eq!(guarded.works.load(Ordering::SeqCst), 20);
    }
}

#[tokio::test]
async fn a_token_that_is_over_is_refreshed_without_the_person() {
    for lifecycle in BOTH {
        let guarded = Guarded::start().await;
        // Less than what a request may take, so it counts as over at once.
        guarded.seen().expires_in = Some(1);
        let server = host(lifecycle).connect(guarded.endpoint(person())).await.unwrap();
        server.call("work", json!({})).await.unwrap();
        let seen = guarded.seen();
        assert_eq!(seen.authorizations.len(), 1, "{lifecycle:?}");
        assert!(seen.exchanges.iter().any(|it| it["grant_type"] == "refresh_token"), "{lifecycle:?}");
    }
}

#[tokio::test]
async fn a_person_who_would_rather_not_is_the_error() {
    let guarded = Guarded::start().await;
    let refusing =
        AuthConfig::person(REDIRECT, |_: String| async { Err::<String, _>("the window was closed") });
    let error = host(Lifecycle::Auto).connect(guarded.endpoint(refusing)).await.unwrap_err();
    assert_eq!(causes(&error).last().unwrap(), "the window was closed");

    guarded.seen().denies = true;
    let error = host(Lifecycle::Auto).connect(guarded.endpoint(person())).await.unwrap_err();
    assert_eq!(causes(&error).last().unwrap(), "the authorization server denied the request: access_denied");
}

#[tokio::test]
async fn an_answer_to_another_question_is_not_accepted() {
    let guarded = Guarded::start().await;
    let forged = AuthConfig::person(REDIRECT, |_: String| async {
        Ok::<_, std::io::Error>(format!("{REDIRECT}?code=stolen&state=guessed"))
    });
    let error = host(Lifecycle::Auto).connect(guarded.endpoint(forged)).await.unwrap_err();
    assert!(matches!(error, HostError::Authorization { .. }), "{error:?}");
    assert!(guarded.seen().exchanges.is_empty());
    assert!(!format!("{error:?}").contains("stolen"), "{error:?}");
}

#[tokio::test]
async fn a_client_known_to_one_authorization_server_is_not_shown_to_another() {
    let guarded = Guarded::start().await;
    let known = person().with_client("known", "s3cr3t".to_owned());
    let server = host(Lifecycle::Modern).connect(guarded.endpoint(known.clone())).await.unwrap();
    assert!(guarded.seen().registrations.is_empty());
    {
        let mut seen = guarded.seen();
        seen.issuer = format!("{}/other", guarded.base);
        seen.tokens.clear();
        seen.authorizations.clear();
    }
    let error = server.call("work", json!({})).await.unwrap_err();
    assert!(causes(&error).last().unwrap().contains("/other"), "{error:?}");
    assert!(guarded.seen().authorizations.is_empty());

    let pinned = known.with_issuer("https://login.example.com");
    let error = host(Lifecycle::Modern).connect(guarded.endpoint(pinned)).await.unwrap_err();
    assert!(matches!(error, HostError::Authorization { .. }), "{error:?}");
}

#[tokio::test]
async fn a_client_that_registered_itself_registers_again_elsewhere() {
    let guarded = Guarded::start().await;
    let server = host(Lifecycle::Modern).connect(guarded.endpoint(person())).await.unwrap();
    {
        let mut seen = guarded.seen();
        seen.issuer = format!("{}/other", guarded.base);
        seen.tokens.clear();
    }
    server.call("work", json!({})).await.unwrap();
    let seen = guarded.seen();
    let clients: Vec<&str> = seen.authorizations.iter().map(|it| it["client_id"].as_str()).collect();
    assert_eq!(clients, ["client-1", "client-2"]);
}

#[tokio::test]
async fn a_program_without_a_person_shows_its_secret() {
    for lifecycle in BOTH {
        let guarded = Guarded::start().await;
        let auth = AuthConfig::client_secret("robot", "s3cr3t").with_scopes(["basic"]);
        let server = host(lifecycle).connect(guarded.endpoint(auth)).await.unwrap();
        server.call("work", json!({})).await.unwrap();
        let seen = guarded.seen();
        assert!(seen.authorizations.is_empty());
        assert_eq!(seen.exchanges[0]["grant_type"], "client_credentials");
        assert_eq!(seen.exchanges[0]["client_secret"], "s3cr3t");
    }
}

/// Keeps what it is given where the test can see it.
#[derive(Clone, Default)]
struct Drawer(Arc<Mutex<Option<StoredCredentials>>>);

#[antiphon_host::async_trait]
impl CredentialStore for Drawer {
    async fn load(&self) -> Result<Option<StoredCredentials>, CredentialError> {
        Ok(self.0.lock().unwrap().clone())
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), CredentialError> {
        *self.0.lock().unwrap() = Some(credentials);
        Ok(())
    }

    async fn clear(&self) -> Result<(), CredentialError> {
        *self.0.lock().unwrap() = None;
        Ok(())
    }
}

#[tokio::test]
async fn a_token_in_the_store_outlives_the_program() {
    let guarded = Guarded::start().await;
    let drawer = Drawer::default();
    for _ in 0..2 {
        // Each is a program of its own: only the drawer is the same.
        let auth = person().with_store(drawer.clone());
        let server = host(Lifecycle::Modern).connect(guarded.endpoint(auth)).await.unwrap();
        server.call("work", json!({})).await.unwrap();
    }
    assert_eq!(guarded.seen().authorizations.len(), 1);
}

#[tokio::test]
async fn scopes_of_ones_own_are_asked_for_and_what_a_call_needs_beside_them() {
    let guarded = Guarded::start().await;
    guarded.seen().needs = Some("write");
    let drawer = Drawer::default();
    let auth = person().with_scopes(["own"]).with_store(drawer.clone());
    let server = host(Lifecycle::Modern).connect(guarded.endpoint(auth)).await.unwrap();
    server.call("work", json!({})).await.unwrap();

    // Another program with the same drawer does not forget what was granted.
    guarded.seen().needs = Some("delete");
    let auth = person().with_store(drawer);
    let server = host(Lifecycle::Modern).connect(guarded.endpoint(auth)).await.unwrap();
    server.call("work", json!({})).await.unwrap();
    let seen = guarded.seen();
    let scopes: Vec<&str> = seen.authorizations.iter().map(|it| it["scope"].as_str()).collect();
    assert_eq!(scopes, ["own", "own write", "own write delete"]);
}

#[tokio::test]
async fn no_secret_is_in_what_is_shown_of_an_endpoint() {
    let guarded = Guarded::start().await;
    let auth = person().with_client("known", "s3cr3t".to_owned());
    let endpoint = guarded.endpoint(auth);
    let server = host(Lifecycle::Modern).connect(endpoint.clone()).await.unwrap();
    let shown = format!("{endpoint:?} {server:?}");
    assert!(!shown.contains("s3cr3t") && !shown.contains("token-1"), "{shown}");
}

fn causes(error: &HostError) -> Vec<String> {
    let mut causes = vec![error.to_string()];
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    causes
}
