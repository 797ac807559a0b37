//! `antiphon studio`: serves a local web page that acts as an MCP host.

mod api;
mod asks;
mod assets;
mod call;
mod feed;
mod guard;
mod questions;
mod refusal;
mod session;
mod sessions;
mod viewer;

use std::{
    fmt::Write as _,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use antiphon::http::ServeConfig;
use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::net::TcpListener;

use self::{session::Sampler, sessions::Sessions};
use crate::{
    config::ModelChoice, doorway::Doorway, exit::Outcome, global::App, print, target::ConnectionArgs,
};

/// Open a web page to call tools, answer their questions, and watch their runs.
///
/// The page is served only on this machine. Access requires the printed URL.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  antiphon studio
  antiphon studio http://127.0.0.1:8000/mcp --model-url http://127.0.0.1:8080/v1
  antiphon studio 'npx -y @modelcontextprotocol/server-everything' --no-open
  antiphon studio 'cargo run --quiet' --samples hand")]
pub(crate) struct Studio {
    /// The server to connect to first: its name in the configuration, its URL, or a program with its arguments, in
    /// quotes.
    #[arg(value_name = "SERVER")]
    server: Option<String>,
    /// Serve the page on this port [default: a free port].
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Print the URL, and do not open a browser.
    #[arg(long)]
    no_open: bool,
    /// Choose how to answer sampling requests.
    #[arg(long, value_enum, default_value_t = Samples::Ask, help_heading = "Questions")]
    samples: Samples,
    #[command(flatten)]
    reach: ConnectionArgs,
    #[command(flatten)]
    model: ModelChoice,
}

/// How to answer sampling requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Samples {
    /// Show each request, and send it to the model after approval.
    Ask,
    /// Reply to each request yourself, in place of a model.
    Hand,
}

impl Studio {
    pub(crate) async fn run(self, app: &App) -> Result<Outcome> {
        let sampler = if self.samples == Samples::Hand {
            Sampler::Hand
        } else {
            self.model.or(&app.config.model).open()?.map_or(Sampler::None, Sampler::Model)
        };
        if let Some(server) = &self.server {
            // Report an unknown server before the web page is opened.
            crate::config::Definition::find(server, &app.config)?;
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}; omit `--port` to use a free port"))?;
        let address = listener.local_addr()?;
        let token = token()?;
        let url = format!("http://{address}/?token={token}");
        let first = self.server.map(|server| (server, self.reach));
        let sessions = Arc::new(Sessions::new(app, sampler, first));
        let router = api::router(sessions, &guard::Guard::new(address.port(), token));
        print::print(app.json, &json!({"url": url}), || url.clone());
        // Keep the file until the end, because the browser can open the file late.
        let _doorway = if self.no_open {
            eprintln!("Open this address in a browser. Ctrl-C stops.");
            None
        } else {
            let opened = Doorway::open(&url, "Antiphon studio");
            match &opened {
                Ok(_) => {
                    eprintln!("Opened in the browser. If it shows nothing, open this address. Ctrl-C stops.");
                }
                Err(_) => eprintln!("No browser could be opened; open this address yourself. Ctrl-C stops."),
            }
            opened.ok()
        };
        antiphon::http::serve(listener, router, ServeConfig::default(), std::future::pending()).await;
        Ok(Outcome::Done)
    }
}

/// Returns 256 random bits as hex digits.
fn token() -> Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).context("the operating system returned no random numbers")?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
