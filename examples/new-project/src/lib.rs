//! A tool that asks the user a question before it returns. Replace it with your own tool.

use antiphon::{ServerBuilder, elicitation::AskPolicy, prelude::*};

/// The arguments of the tool.
#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// The language to greet in: `en` or `pt`.
    language: Option<String>,
}

/// The answer of the user. Each field is a field of the form.
#[derive(Deserialize, JsonSchema)]
struct Name {
    /// Your name
    name: String,
}

async fn greet(ctx: &Ctx, args: Greet) -> Result<String> {
    let Name { name } = ctx.elicit("Who are you?").await?.accepted()?;
    Ok(match args.language.as_deref() {
        Some("pt") => format!("Olá, {name}!"),
        _ => format!("Hello, {name}!"),
    })
}

/// Returns the server with its tools.
pub fn server() -> ServerBuilder {
    Server::builder(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
        // In hosts without forms that show MCP Apps, the user answers in a form of the server.
        .with_asking(AskPolicy::default())
        .tool(Tool::new("greet", "Greets you by name", greet))
}
