//! Sends HTTP requests that a host does not send, and records the server's responses.

use std::time::Duration;

use antiphon_transport::revision;
use reqwest::{Client, RequestBuilder, redirect::Policy};
use serde_json::json;

use super::report::Web;
use crate::{config::Definition, target::ConnectionArgs};

const PATIENCE: Duration = Duration::from_secs(10);
/// The origin of a foreign web page. Names under `.invalid` are never registered.
const FOREIGN: &str = "https://somebody-else.invalid";

/// Probes a server over HTTP. Returns `None` if the URL is invalid or the first request fails.
pub(crate) async fn probe(url: &str, definition: &Definition, reach: &ConnectionArgs) -> Option<Web> {
    let parsed = url::Url::parse(url).ok()?;
    let host = parsed.host_str()?;
    let mut web = Web {
        tls: parsed.scheme() == "https",
        loopback: matches!(host, "localhost" | "[::1]") || host.starts_with("127."),
        ..Web::default()
    };
    let client = Client::builder().timeout(PATIENCE).redirect(Policy::none()).build().ok()?;
    let request = || with_headers(initialize(&client, url), definition, reach);
    let foreign = request().header("Origin", FOREIGN).send().await.ok()?;
    web.foreign_origin = Some(foreign.status().as_u16());
    end(&client, url, definition, reach, &foreign).await;
    if let Ok(answer) = request().send().await
        && answer.status().is_success()
    {
        web.session = Some(answer.headers().contains_key(SESSION));
        end(&client, url, definition, reach, &answer).await;
    }
    Some(web)
}

const SESSION: &str = "mcp-session-id";

/// Ends the session, if the response started a session.
async fn end(
    client: &Client,
    url: &str,
    definition: &Definition,
    reach: &ConnectionArgs,
    answer: &reqwest::Response,
) {
    if let Some(id) = answer.headers().get(SESSION) {
        let request = with_headers(client.delete(url), definition, reach);
        let _ = request
            .header(SESSION, id.clone())
            .header("MCP-Protocol-Version", revision::SESSION)
            .send()
            .await;
    }
}

fn initialize(client: &Client, url: &str) -> RequestBuilder {
    let about = json!({"name": "antiphon-doctor", "version": env!("CARGO_PKG_VERSION")});
    let params = json!({"protocolVersion": revision::SESSION, "capabilities": {}, "clientInfo": about});
    client
        .post(url)
        .header("Accept", "application/json, text/event-stream")
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))
}

fn with_headers(
    mut request: RequestBuilder,
    definition: &Definition,
    reach: &ConnectionArgs,
) -> RequestBuilder {
    let headers = definition.expanded().and_then(|definition| definition.all_headers(reach));
    for (name, value) in headers.unwrap_or_default() {
        request = request.header(name, value);
    }
    request
}
