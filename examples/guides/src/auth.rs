use antiphon::results::DualResponseServerOptions;
use antiphon::{
    auth::{ApiKey, AuthBuilder, Proxy},
    http::OperatorConfig,
};
use axum::{Router, routing::get};

async fn publish_report(_: &Ctx, _: ()) -> Result<String> {
    Ok(String::new())
}

async fn export() -> &'static str {
    ""
}

// ANCHOR: server
use antiphon::{
    auth::{Auth, Issuer},
    http::{HttpConfig, shutdown_signal},
    prelude::*,
};
use tokio::net::TcpListener;

async fn serve() -> Result<()> {
    let auth = Auth::builder("https://mcp.example.com/mcp") // the public URL, and the audience of tokens
        .with_issuer(Issuer::new("https://login.example.com")) // accepts its tokens
        .with_scopes(["reports:read"]) // required for every request
        .build()?;

    let server = Server::builder("reports", "1.0.0")
        .with_auth(auth)
        .tool(Tool::new("read_report", "Shows a report", read_report))
        .tool(
            Tool::new("publish_report", "Publishes a report", publish_report).with_scopes(["reports:write"]),
        )
        .build()?;
    let config = HttpConfig::default().with_allowed_hosts(["mcp.example.com"]); // other hosts get 403
    let listener = TcpListener::bind("0.0.0.0:8000").await?;
    server.serve_listener(listener, config, shutdown_signal()).await?;
    Ok(())
}
// ANCHOR_END: server

// ANCHOR: caller
async fn read_report(ctx: &Ctx, _: ()) -> Result<String> {
    let caller = ctx.principal().unwrap_or("anonymous"); // the same in all rounds of a run
    let publishes = ctx.identity().is_some_and(|identity| identity.has_scope("reports:write"));
    Ok(format!("the report for {caller}, who can publish it: {publishes}"))
}
// ANCHOR_END: caller

// ANCHOR: keys
fn nightly(auth: AuthBuilder, sha256: &str) -> AuthBuilder {
    auth.with_api_keys([ApiKey::hashed("nightly", sha256).with_scopes(["reports:read"])]) // printf %s "$KEY" | sha256sum
}
// ANCHOR_END: keys

// ANCHOR: proxy
fn behind_a_proxy(auth: AuthBuilder) -> AuthBuilder {
    let proxy = Proxy::new("x-client-subject", ["10.1.0.0/16"]).with_verified("x-client-verify", "SUCCESS");
    auth.with_proxy(proxy)
}
// ANCHOR_END: proxy

// ANCHOR: routes
fn routes(server: &Server, auth: &Auth) -> Result<Router> {
    // Callers with this scope are operators.
    let operators = OperatorConfig::scope("runs:operate").with_allowed_hosts(["mcp.example.com"]);
    let admin = server.operator_router(operators)?;
    // Your own routes can require a scope, too.
    let exports = Router::new().route("/export", get(export)).layer(auth.layer().with_scopes(["export"]));
    let config = HttpConfig::default().with_allowed_hosts(["mcp.example.com"]);
    Ok(server.router(config).nest("/admin", admin).merge(exports))
}

/// The routes of result sets use the same authentication.
fn options(auth: &Auth) -> DualResponseServerOptions {
    DualResponseServerOptions::new("https://mcp.example.com/resources").with_authenticate(auth.clone())
}
// ANCHOR_END: routes
