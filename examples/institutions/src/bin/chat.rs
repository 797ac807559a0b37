//! Asks a model a question that it answers with the reporting server.
//!
//! `chat http://127.0.0.1:3001/mcp "Show me public universities in California"`, with `MODEL_URL` (and `MODEL`,
//! `MODEL_KEY`) naming any server that speaks as OpenAI's does.

use antiphon::llm::providers::{OpenAiCompatible, ProviderConfig};
use antiphon_host::{Endpoint, Host};
use anyhow::Context as _;
use institutions::chat;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a chat talks")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(question)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: chat http://127.0.0.1:3001/mcp \"Show me public universities in California\"");
    };
    let model_url =
        std::env::var("MODEL_URL").context("MODEL_URL is not set; use an OpenAI-compatible server")?;
    let mut config = ProviderConfig::local()
        .with_base_url(model_url)
        .with_model(std::env::var("MODEL").unwrap_or_else(|_| "default".into()));
    if let Ok(key) = std::env::var("MODEL_KEY") {
        config = config.with_key(key);
    }
    let model = OpenAiCompatible::new(config)?;
    let host = Host::builder("institutions-chat", "1.0.0").build();
    let server = host.connect(Endpoint::http(url)).await?;
    let said = chat::answer(&model, &server, &question, |set, rows| {
        println!("{} rows in all\n{}\n", set.total_count(), chat::table(set, rows));
    });
    println!("{}", said.await?);
    Ok(())
}
