//! A tool that reads a bug report with a model and answers with data.
//!
//! It works with a client that samples. With one that does not, it asks the server at `MODEL_URL`, if
//! that is set: any server that speaks as OpenAI's does, such as llama.cpp.
use antiphon::llm::providers::{OpenAiCompatible, ProviderConfig};
use antiphon::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Report {
    /// The report, as somebody wrote it.
    text: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Ticket {
    /// One line.
    #[schemars(length(min = 1, max = 80))]
    title: String,
    severity: Severity,
    /// From 1, a shrug, to 5, somebody is shouting.
    #[schemars(range(min = 1, max = 5))]
    urgency: u8,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum Severity {
    Cosmetic,
    Broken,
    DataLoss,
}

async fn triage(ctx: &Ctx, report: Report) -> Result<Json<Ticket>> {
    let prompt = format!("File this bug report as a ticket:\n\n{}", report.text);
    Ok(Json(ctx.sample_schema::<Ticket>(prompt).max_tokens(300).await?.parsed))
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut server = Server::builder("triage", "1.0.0").tool(Tool::new(
        "triage",
        "Makes a ticket of a bug report",
        triage,
    ));
    if let Ok(url) = std::env::var("MODEL_URL") {
        let config = ProviderConfig::local().with_base_url(url).with_model("default");
        server = server.with_model(OpenAiCompatible::new(config)?);
    }
    server.build()?.serve_stdio().await?;
    Ok(())
}
