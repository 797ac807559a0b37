//! An authorization server on a socket: metadata, keys, introspection.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{RESOURCE, signer::Signer};

pub(super) struct Authority {
    pub(super) issuer: String,
    pub(super) desk: Arc<Desk>,
}

/// What it is asked, and how it answers.
#[derive(Default)]
pub(super) struct Desk {
    issuer: String,
    keys: Mutex<Value>,
    /// What is known of opaque tokens.
    tokens: Mutex<HashMap<String, Value>>,
    pub(super) fetched: AtomicUsize,
    pub(super) asked: AtomicUsize,
    /// Whether it answers nothing that makes sense.
    pub(super) down: AtomicBool,
    /// How long it takes for an answer.
    pub(super) slow: Mutex<Duration>,
}

impl Authority {
    pub(super) async fn start(keys: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let desk = Arc::new(Desk { issuer: issuer.clone(), ..Desk::default() });
        let app = Router::new()
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/jwks", get(jwks))
            .route("/introspect", post(introspect))
            .with_state(Arc::clone(&desk));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let authority = Self { issuer, desk };
        authority.rotate(keys);
        authority
    }

    /// Shows these keys from now on, and no others.
    pub(super) fn rotate(&self, keys: &[&Signer]) {
        self.show(json!({"keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>()}));
    }

    pub(super) fn show(&self, keys: Value) {
        *self.desk.keys.lock().unwrap() = keys;
    }

    /// Makes a token known that says nothing by itself.
    pub(super) fn issue(&self, token: &str, said: Value) {
        self.desk.tokens.lock().unwrap().insert(token.to_owned(), said);
    }

    pub(super) fn fetched(&self) -> usize {
        self.desk.fetched.load(Ordering::SeqCst)
    }

    pub(super) fn asked(&self) -> usize {
        self.desk.asked.load(Ordering::SeqCst)
    }

    /// What a good token says of Ada.
    pub(super) fn claims(&self) -> Value {
        self.claims_of("ada", "use")
    }

    pub(super) fn claims_of(&self, subject: &str, scope: &str) -> Value {
        json!({
            "iss": self.issuer,
            "aud": RESOURCE,
            "sub": subject,
            "client_id": "chat",
            "iat": now(),
            "exp": now() + 300,
            "scope": scope,
        })
    }
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Desk {
    async fn answers(&self) -> Result<(), Response> {
        let slow = *self.slow.lock().unwrap();
        tokio::time::sleep(slow).await;
        if self.down.load(Ordering::SeqCst) {
            return Err(StatusCode::BAD_GATEWAY.into_response());
        }
        Ok(())
    }
}

async fn metadata(State(desk): State<Arc<Desk>>) -> Result<Json<Value>, Response> {
    desk.answers().await?;
    let issuer = &desk.issuer;
    Ok(Json(json!({
        "issuer": issuer,
        "jwks_uri": format!("{issuer}/jwks"),
        "introspection_endpoint": format!("{issuer}/introspect"),
    })))
}

async fn jwks(State(desk): State<Arc<Desk>>) -> Result<Json<Value>, Response> {
    desk.fetched.fetch_add(1, Ordering::SeqCst);
    desk.answers().await?;
    Ok(Json(desk.keys.lock().unwrap().clone()))
}

async fn introspect(
    State(desk): State<Arc<Desk>>,
    headers: HeaderMap,
    body: String,
) -> Result<Json<Value>, Response> {
    desk.asked.fetch_add(1, Ordering::SeqCst);
    desk.answers().await?;
    // `reports server:s3cr3t+`, each half encoded as in a form.
    let known = headers.get("authorization").is_some_and(|it| it == "Basic cmVwb3J0cytzZXJ2ZXI6czNjcjN0JTJC");
    let by_body = body.contains("client_id=reports+server&client_secret=s3cr3t%2B");
    if !known && !by_body {
        return Err(StatusCode::UNAUTHORIZED.into_response());
    }
    let fields: HashMap<_, _> = url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let tokens = desk.tokens.lock().unwrap();
    Ok(Json(tokens.get(&fields["token"]).cloned().unwrap_or_else(|| json!({"active": false}))))
}
