use antiphon::{ServerBuilder, prelude::*};

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

async fn echo(_: &Ctx, args: Echo) -> Result<String> {
    Ok(args.text)
}

// ANCHOR: server
fn server() -> ServerBuilder {
    Server::builder("echo", "1.0.0").tool(Tool::new("echo", "Says it again", echo))
}
// ANCHOR_END: server
