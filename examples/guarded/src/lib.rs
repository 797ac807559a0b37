//! Reports that not everybody may read, and fewer may publish.

use antiphon::{
    ServerBuilder,
    auth::{ApiKey, Auth, AuthBuilder, Introspection, Issuer},
    prelude::*,
};

/// What everybody needs who calls at all.
pub const READ: &str = "reports:read";
/// What whoever publishes needs besides.
pub const WRITE: &str = "reports:write";

/// Who may call: whoever these vouch for.
#[derive(Clone, Debug, Default)]
pub struct Trusted {
    /// An authorization server, whose signed tokens are taken.
    pub issuer: Option<String>,
    /// A client of its and the client's secret, to ask about tokens that say nothing by themselves.
    pub introspection: Option<(String, String)>,
    /// People and the SHA-256 of their keys, who may do everything.
    pub keys: Vec<(String, String)>,
}

impl Trusted {
    /// How callers show who they are to the server that they know as `resource`.
    pub fn auth(self, resource: &str) -> AuthBuilder {
        let Self { issuer, introspection, keys } = self;
        let keys = keys.into_iter().map(|(who, hash)| ApiKey::hashed(who, &hash).with_scopes([READ, WRITE]));
        let mut auth = Auth::builder(resource).with_scopes([READ]).with_api_keys(keys);
        if let Some(issuer) = issuer {
            if let Some((client, secret)) = introspection {
                auth = auth.with_introspection(Introspection::new(&*issuer, client, secret));
            }
            auth = auth.with_issuer(Issuer::new(issuer));
        }
        auth
    }
}

#[derive(Deserialize, JsonSchema)]
struct Report {
    /// Which report.
    name: String,
}

async fn read_report(ctx: &Ctx, report: Report) -> Result<String> {
    Ok(format!("{}, as {} may read it", report.name, ctx.principal().unwrap_or("anybody")))
}

#[derive(Deserialize, JsonSchema)]
struct Sure {
    /// Everybody will see it.
    sure: bool,
}

async fn publish_report(ctx: &Ctx, report: Report) -> Result<String> {
    let Sure { sure } = ctx.elicit("Publish it?").await?.accepted()?;
    if !sure {
        return Err(Error::tool("not published"));
    }
    Ok(format!("{}, published by {}", report.name, ctx.principal().unwrap_or("anybody")))
}

/// The server. Over HTTP it is guarded by `auth`; over stdio it asks nobody.
pub fn server(auth: Auth) -> ServerBuilder {
    let publish = Tool::new("publish_report", "Publishes a report", publish_report);
    Server::builder("reports", "1.0.0")
        .with_auth(auth)
        .tool(Tool::new("read_report", "Shows a report", read_report))
        .tool(publish.with_scopes([WRITE]))
}
