//! `hello`: the example that every build contains. The example `hello` needs neither a database nor a model.

use antiphon::{ServerBuilder, prelude::*};

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// What shall I call you?
    name: String,
}

async fn greet(ctx: &Ctx, _: ()) -> Result<String> {
    let Name { name } = ctx.elicit("Who are you?").await?.accepted()?;
    Ok(format!("Hello, {name}!"))
}

pub(super) fn server() -> ServerBuilder {
    Server::builder("hello", env!("CARGO_PKG_VERSION")).with_traces(true).tool(Tool::new(
        "greet",
        "Greets you by name",
        greet,
    ))
}
