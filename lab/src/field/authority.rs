//! An authorization server that answers token introspection (RFC 7662). The scenario decides which tokens are active.

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::http::Message;

/// The client ID and the secret that a resource server introspects with.
pub(super) const CLIENT: &str = "deployed:secret-of-the-field-test";
/// The same as the value of an `authorization` header.
const AUTHORIZATION: &str = "Basic ZGVwbG95ZWQ6c2VjcmV0LW9mLXRoZS1maWVsZC10ZXN0";

/// One access token.
#[derive(Debug, Clone)]
pub(super) struct Token {
    /// The client that the token was issued to. All tokens belong to the same user.
    pub(super) client: &'static str,
    pub(super) scope: &'static str,
    pub(super) expires_at: Option<SystemTime>,
}

#[derive(Debug)]
struct Shared {
    issuer: String,
    audience: String,
    /// Whether every token is active and has every scope, whatever the scenario decides.
    is_broken: bool,
    tokens: Mutex<BTreeMap<&'static str, Token>>,
}

/// The server. Its threads end with this process.
#[derive(Debug)]
pub(super) struct Authority {
    shared: Arc<Shared>,
}

impl Authority {
    /// Starts one whose tokens are for `audience`.
    pub(super) fn start(audience: &str, is_broken: bool) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the authorization server")?;
        let address: SocketAddr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            issuer: format!("http://{address}"),
            audience: audience.to_owned(),
            is_broken,
            tokens: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                // A client that hangs up ends this thread; nobody waits for the outcome.
                thread::spawn(move || shared.serve(client));
            }
        });
        Ok(Self { shared })
    }

    pub(super) fn issuer(&self) -> &str {
        &self.shared.issuer
    }

    pub(super) fn issue(&self, name: &'static str, token: Token) {
        self.shared.tokens().insert(name, token);
    }

    pub(super) fn revoke(&self, name: &str) {
        if !self.shared.is_broken {
            self.shared.tokens().remove(name);
        }
    }
}

impl Shared {
    fn tokens(&self) -> MutexGuard<'_, BTreeMap<&'static str, Token>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, client: TcpStream) -> io::Result<()> {
        let mut client = BufReader::new(client);
        while let Some(request) = Message::read(&mut client)? {
            let (status, body) = self.answer(&request);
            let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
            let response = Message { start: format!("HTTP/1.1 {status}"), headers, body: body.into() };
            response.write(client.get_mut())?;
        }
        Ok(())
    }

    fn answer(&self, request: &Message) -> (&'static str, String) {
        if request.start.starts_with("GET /.well-known/oauth-authorization-server ") {
            let endpoint = format!("{}/introspect", self.issuer);
            return (
                "200 OK",
                json!({"issuer": self.issuer, "introspection_endpoint": endpoint}).to_string(),
            );
        }
        if !request.start.starts_with("POST /introspect ") {
            return ("404 Not Found", String::new());
        }
        if request.header("authorization") != Some(AUTHORIZATION) {
            return ("401 Unauthorized", String::new());
        }
        let form = String::from_utf8_lossy(&request.body).into_owned();
        let token = form.split('&').find_map(|pair| pair.strip_prefix("token=")).unwrap_or_default();
        ("200 OK", self.introspect(token).to_string())
    }

    fn introspect(&self, name: &str) -> Value {
        let inactive = json!({"active": false});
        let Some(token) = self.tokens().get(name).cloned() else { return inactive };
        let mut said = json!({
            "active": true,
            "iss": self.issuer,
            "aud": self.audience,
            "sub": "ada",
            "client_id": token.client,
            "scope": if self.is_broken { "errands" } else { token.scope },
        });
        if let Some(expires_at) = token.expires_at.filter(|_| !self.is_broken) {
            if expires_at <= SystemTime::now() {
                return inactive;
            }
            said["exp"] = expires_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().into();
        }
        said
    }
}
