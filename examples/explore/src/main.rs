//! `explore [--listen 127.0.0.1:3002] [--rows 1000000] [--data DIR|URL]`
//!
//! Without `--listen` it speaks MCP over standard input and output; rows are fetched at a port of this machine's either way.
//! With `--rows` it makes a set at start-up and prints one line of JSON when all rows are written: where MCP is, where to
//! look at the set, its id, and a link to it. `--data` is where rows are written: a folder, or `s3://…`, `gs://…`, `az://…`.
//! Without it they are kept in memory.

use antiphon::http::{HttpConfig, ServeConfig, shutdown_signal};
use antiphon::snapshot::Snapshots;
use anyhow::Context as _;
use explore::{results, server, show};
use serde_json::json;
use tokio::net::TcpListener;
use url::Url;

#[tokio::main]
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "whoever starts it wants to know where it is")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let rows = value("--rows").map(|rows| rows.replace('_', "").parse::<u64>()).transpose();
    let rows = rows.context("--rows must be a number, for example --rows 1000000")?;
    let listen = value("--listen");

    let snapshots = Snapshots::open(&place(value("--data"))?).context("--data cannot be used")?;
    let listener = TcpListener::bind(listen.unwrap_or("127.0.0.1:0")).await.context("cannot use --listen")?;
    let address = listener.local_addr()?;
    let results = results(&format!("http://{address}/resources"), snapshots)?;
    let server = server(&results).map_err(|error| anyhow::anyhow!("{error:#}"))?;
    let routes = axum::Router::new().nest("/resources", results.router());
    let app = if listen.is_some() { routes.merge(server.router(HttpConfig::default())) } else { routes };
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve_router(listener, app, ServeConfig::default(), shutdown_signal()).await }
    });

    let mcp = listen.map(|_| format!("http://{address}/mcp"));
    if let Some(rows) = rows {
        let shown = show(&results, rows).await.context("the rows could not be written")?;
        let line = json!({"mcp": mcp, "view": shown.view, "id": shown.id, "link": shown.link});
        // Over standard output MCP is spoken, if nobody listens elsewhere.
        if listen.is_some() { println!("{line}") } else { eprintln!("{line}") }
    }
    if let Some(mcp) = mcp {
        eprintln!("listening on {mcp}, result sets at {}", results.base_url());
        serving.await?;
    } else {
        server.serve_stdio().await?;
    }
    results.shutdown().await?;
    Ok(())
}

/// Where rows are kept, as an address.
fn place(data: Option<&str>) -> anyhow::Result<String> {
    match data {
        None => Ok("memory:".into()),
        Some(address) if address.contains("://") || address == "memory:" => Ok(address.into()),
        Some(folder) => {
            let folder = std::path::absolute(folder)?;
            let address = Url::from_directory_path(&folder);
            let address = address.map_err(|()| anyhow::anyhow!("`{}` is not a folder", folder.display()))?;
            Ok(address.into())
        }
    }
}
