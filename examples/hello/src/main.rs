//! The smallest tool that asks. `hello` serves over stdio, `hello --http` on port 8000.

use antiphon::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Greet {
    /// The language to greet in.
    language: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// What shall I call you?
    name: String,
}

async fn greet(ctx: &Ctx, args: Greet) -> Result<String> {
    let Name { name } = ctx.elicit("Who are you?").await?.accepted()?;
    Ok(match args.language.as_deref() {
        Some("pt") => format!("Olá, {name}!"),
        _ => format!("Hello, {name}!"),
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    let server =
        Server::builder("hello", "1.0.0").tool(Tool::new("greet", "Greets you by name", greet)).build()?;
    if std::env::args().any(|argument| argument == "--http") {
        server.serve_http("127.0.0.1:8000").await?;
    } else {
        server.serve_stdio().await?;
    }
    Ok(())
}
