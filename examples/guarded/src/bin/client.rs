//! Reads a report, and publishes it: `guarded-client http://127.0.0.1:8000/mcp <client>`, with the client's secret in
//! `GUARDED_SECRET`.
//!
//! It knows the server's address and its own secret, and nothing else. Where tokens are to be had the server says, and what
//! publishing needs beyond reading it says when it is asked to.

use antiphon_host::{AuthConfig, Form, Host, HttpEndpoint, Shown};
use anyhow::Context as _;
use serde_json::json;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "it shows what came of it")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, client] = &arguments[..] else { anyhow::bail!("usage: guarded-client URL CLIENT") };
    let secret = std::env::var("GUARDED_SECRET").context("GUARDED_SECRET, the client secret, is not set")?;
    let endpoint = HttpEndpoint::new(url).with_auth(AuthConfig::client_secret(client, secret));
    let yes = |_: Form| async { Shown::Accept(json!({"sure": true})) };
    let host = Host::builder("guarded-client", "1.0.0").with_forms(yes).build();
    let server = host.connect(endpoint).await?;
    for tool in ["read_report", "publish_report"] {
        let result = server.call(tool, json!({"name": "Q3"})).await?;
        for block in result.content {
            if let Some(text) = block.as_text() {
                println!("{}", text.text);
            }
        }
    }
    Ok(())
}
