// ANCHOR: server
use antiphon::prelude::*;
use antiphon_openapi::{Credential, OpenApi};

fn server(document: &str, token: String) -> anyhow::Result<Server> {
    let github = OpenApi::parse(document)?
        .with_paths(["/repos/*/*/issues/**", "/search/issues"])
        .rename("issues/list-for-repo", "list_issues")
        .with_bearer(Credential::token(token))
        .tools()?;
    anyhow::ensure!(github.report.refused.is_empty(), "{}", github.report);
    Ok(Server::builder("issues", "1.0.0").tools(github.tools).build()?)
}
// ANCHOR_END: server

// ANCHOR: credentials
use antiphon_openapi::Caller;

/// Returns a token for the caller, for example from the cache of an OAuth client.
async fn token_for(caller: Caller) -> Result<String> {
    let principal = caller.principal.ok_or_else(|| Error::tool("sign in first"))?;
    Ok(format!("token-of-{principal}"))
}

fn credentials(api: OpenApi) -> OpenApi {
    api.with_credential("api_key", Credential::token("from-your-configuration"))
        .with_credential("basic", Credential::basic("user", "password"))
        .with_credential("oauth", Credential::from_fn(token_for))
}
// ANCHOR_END: credentials

// ANCHOR: results
use antiphon::results::DualResponseServer;
use antiphon_openapi::PageLimits;

fn with_rows(api: &OpenApi, results: DualResponseServer) -> anyhow::Result<Server> {
    let limits = PageLimits::new().with_pages(20).with_rows(10_000);
    let tools = api.clone().with_result_sets(limits).tools()?.tools;
    Ok(Server::builder("issues", "1.0.0").with_results(results).tools(tools).build()?)
}
// ANCHOR_END: results

// ANCHOR: limits
use std::time::Duration;

use antiphon_openapi::HttpLimits;

fn limited(api: OpenApi) -> OpenApi {
    let limits = HttpLimits::new().with_timeout(Duration::from_secs(10)).with_response_bytes(256 * 1024);
    api.with_base_url("http://inventory.internal:8080/v2").with_limits(limits)
}
// ANCHOR_END: limits
