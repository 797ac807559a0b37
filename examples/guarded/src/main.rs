//! Serves the reports.
//!
//! `guarded --http 127.0.0.1:8000 --resource http://127.0.0.1:8000/mcp --issuer https://login.example.com`, or, without an
//! authorization server, `--key ada=<sha256 of her key>`. With `--introspection <client>` and the client's secret in
//! `GUARDED_SECRET`, opaque tokens are taken, too.

use antiphon::http::{HttpConfig, shutdown_signal};
use anyhow::Context as _;
use guarded::Trusted;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let values = |flag: &'static str| {
        let pairs = arguments.iter().zip(arguments.iter().skip(1));
        pairs.filter(move |(name, _)| *name == flag).map(|(_, value)| value.clone())
    };
    let secret = || std::env::var("GUARDED_SECRET").context("GUARDED_SECRET, the client secret, is not set");
    let introspection = values("--introspection").next().map(|client| anyhow::Ok((client, secret()?)));
    let keys = values("--key").map(|key| {
        let (who, hash) = key.split_once('=').context("--key is not valid; write NAME=SHA256")?;
        Ok((who.to_owned(), hash.to_owned()))
    });
    let trusted = Trusted {
        issuer: values("--issuer").next(),
        introspection: introspection.transpose()?,
        keys: keys.collect::<anyhow::Result<_>>()?,
    };
    let address = values("--http").next().unwrap_or_else(|| "127.0.0.1:8000".into());
    let resource = values("--resource").next().unwrap_or_else(|| format!("http://{address}/mcp"));
    let server = guarded::server(trusted.auth(&resource).build()?).build()?;
    let listener =
        TcpListener::bind(&address).await.with_context(|| format!("cannot listen on {address}"))?;
    Ok(server.serve_listener(listener, HttpConfig::default(), shutdown_signal()).await?)
}
