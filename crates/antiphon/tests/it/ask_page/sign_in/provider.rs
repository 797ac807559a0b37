//! An OpenID provider on a socket: metadata, authorization, tokens, keys.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Json, Router,
    extract::{Query, State},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use http::{HeaderMap, StatusCode, header};
use jsonwebtoken::{Header, get_current_timestamp};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use url::{Url, form_urlencoded};

use crate::auth::signer::Signer;

/// The audience of access tokens.
pub(super) const RESOURCE: &str = "https://mcp.example.com/mcp";

/// The registered client: its ID, its secret, and its redirect URL.
pub(super) const CLIENT: &str = "onboarding page";
pub(super) const SECRET: &str = "s3cr3t+";
pub(super) const CALLBACK: &str = "https://mcp.example.com/ask/callback";

/// Makes an ID token from its claims.
pub(super) type Forge = Box<dyn Fn(&Signer, Value) -> Value + Send + Sync>;

pub(super) struct Provider {
    pub(super) issuer: String,
    pub(super) desk: Arc<Desk>,
}

/// The state of the provider.
pub(super) struct Desk {
    issuer: String,
    key: Signer,
    /// The user of the browser at the provider. An empty name declines.
    user: Mutex<&'static str>,
    /// The codes that were not redeemed yet.
    grants: Mutex<HashMap<String, Grant>>,
    forge: Mutex<Forge>,
    pub(super) is_down: AtomicBool,
    pub(super) ignores_pkce: AtomicBool,
}

struct Grant {
    user: &'static str,
    nonce: String,
    challenge: String,
}

impl Provider {
    pub(super) async fn start(key: Signer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let forge: Forge = Box::new(|key, claims| json!(key.sign_as(&id_header(key), &claims)));
        let desk = Arc::new(Desk {
            issuer: issuer.clone(),
            key,
            user: Mutex::new("ada"),
            grants: Mutex::default(),
            forge: Mutex::new(forge),
            is_down: AtomicBool::new(false),
            ignores_pkce: AtomicBool::new(false),
        });
        let app = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/jwks", get(jwks))
            .with_state(Arc::clone(&desk));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { issuer, desk }
    }

    pub(super) fn sign_in_as(&self, user: &'static str) {
        *self.desk.user.lock().unwrap() = user;
    }

    /// Changes how ID tokens are made.
    pub(super) fn forge(&self, forge: Forge) {
        *self.desk.forge.lock().unwrap() = forge;
    }

    /// Returns an access token for the MCP server.
    pub(super) fn token(&self, user: &str) -> String {
        let now = get_current_timestamp();
        let email = format!("{user}@example.com");
        self.desk.key.sign(&json!({
            "iss": self.issuer, "aud": RESOURCE, "sub": user, "email": email, "iat": now, "exp": now + 300,
        }))
    }
}

/// Returns the header of an ID token.
pub(super) fn id_header(key: &Signer) -> Header {
    Header { typ: Some("JWT".into()), ..key.header() }
}

/// Opens an address of the provider in a browser. Returns the address to which the provider sends the browser.
pub(super) async fn visit(address: &str) -> String {
    let browser = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build();
    let response = browser.unwrap().get(address).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 302, "{address}");
    response.headers()["location"].to_str().unwrap().to_owned()
}

type OfDesk = State<Arc<Desk>>;

async fn metadata(State(desk): OfDesk) -> Result<Json<Value>, StatusCode> {
    if desk.is_down.load(Ordering::SeqCst) {
        return Err(StatusCode::BAD_GATEWAY);
    }
    let issuer = &desk.issuer;
    Ok(Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/jwks"),
    })))
}

async fn jwks(State(desk): OfDesk) -> Json<Value> {
    Json(json!({"keys": [desk.key.jwk()]}))
}

async fn authorize(State(desk): OfDesk, Query(asked): Query<HashMap<String, String>>) -> Response {
    let expected = [
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", CALLBACK),
        ("scope", "openid"),
        ("code_challenge_method", "S256"),
    ];
    let value = |name: &str| asked.get(name).cloned().unwrap_or_default();
    if expected.iter().any(|(name, expected)| value(name) != *expected) {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let user = *desk.user.lock().unwrap();
    let mut back = Url::parse(CALLBACK).unwrap();
    if user.is_empty() {
        back.query_pairs_mut().append_pair("error", "access_denied");
    } else {
        let mut grants = desk.grants.lock().unwrap();
        let code = format!("code {} {}", grants.len(), value("state"));
        let grant = Grant { user, nonce: value("nonce"), challenge: value("code_challenge") };
        grants.insert(code.clone(), grant);
        back.query_pairs_mut().append_pair("code", &code);
    }
    back.query_pairs_mut().append_pair("state", &value("state"));
    (StatusCode::FOUND, [(header::LOCATION, back.to_string())]).into_response()
}

async fn token(State(desk): OfDesk, headers: HeaderMap, body: String) -> Response {
    if desk.is_down.load(Ordering::SeqCst) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let failed = |status: StatusCode, error: &str| (status, Json(json!({"error": error}))).into_response();
    // Both values are encoded as in a form.
    let client = format!("Basic {}", STANDARD.encode("onboarding+page:s3cr3t%2B"));
    if headers.get(header::AUTHORIZATION).is_none_or(|given| *given != client) {
        return failed(StatusCode::UNAUTHORIZED, "invalid_client");
    }
    let fields: HashMap<String, String> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let is = |name: &str, value: &str| fields.get(name).is_some_and(|given| given == value);
    if !is("grant_type", "authorization_code") || !is("redirect_uri", CALLBACK) {
        return failed(StatusCode::BAD_REQUEST, "invalid_request");
    }
    let grant = fields.get("code").and_then(|code| desk.grants.lock().unwrap().remove(code));
    let verifier = fields.get("code_verifier").cloned().unwrap_or_default();
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    let ignores_pkce = desk.ignores_pkce.load(Ordering::SeqCst);
    let Some(grant) = grant.filter(|grant| ignores_pkce || grant.challenge == challenge) else {
        return failed(StatusCode::BAD_REQUEST, "invalid_grant");
    };
    let now = get_current_timestamp();
    let email = format!("{}@example.com", grant.user);
    let claims = json!({
        "iss": desk.issuer, "aud": CLIENT, "sub": grant.user, "email": email, "nonce": grant.nonce,
        "iat": now, "exp": now + 300,
    });
    let token = (desk.forge.lock().unwrap())(&desk.key, claims);
    Json(json!({"access_token": "unused", "token_type": "Bearer", "id_token": token})).into_response()
}
