//! The everything client: what the official MCP conformance suite expects of a client.
//!
//! The suite starts it once for every scenario. The server's address is the last argument; the rest is in
//! `MCP_CONFORMANCE_SCENARIO`, `MCP_CONFORMANCE_CONTEXT` and `MCP_CONFORMANCE_PROTOCOL_VERSION`. Most
//! scenarios want the same: connect, list, call. What differs is who answers and who authorizes. With
//! `--auto` the revision it is told does not matter: it finds out.
//!
//! It ends with an error when something went otherwise than the scenario wants, also when a server that
//! should have been refused was not.

use std::time::Duration;

use antiphon_host::{
    AuthConfig, Connection, Defaults, Enterprise, Error, FieldKind, Form, Host, HttpEndpoint, Lifecycle,
    Root, Shown, SigningAlgorithm, Unattended, model::Tool,
};
use antiphon_llm::{Reply, Scripted};
use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Less than what the suite is told to wait: an error says more than being killed.
const LIMIT: Duration = Duration::from_secs(100);
/// Where the suite's authorization servers send people back to. Nobody listens there.
const REDIRECT: &str = "http://localhost:3000/callback";
/// The client metadata document that the suite's authorization servers believe to have fetched.
const METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// What the suite says beside the server's address.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Context {
    #[serde(alias = "toolCalls")]
    tool_calls: Vec<Planned>,
    client_id: String,
    client_secret: Option<String>,
    private_key_pem: String,
    signing_algorithm: String,
    idp_client_id: String,
    idp_id_token: String,
    idp_issuer: String,
    idp_token_endpoint: String,
}

/// A call the suite wants to see.
#[derive(Debug, Deserialize)]
struct Planned {
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (auto, url) = match &arguments[..] {
        [url] => (false, url),
        [auto, url] if auto == "--auto" => (true, url),
        _ => bail!("usage: everything-client [--auto] URL"),
    };
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let scenario = variable("MCP_CONFORMANCE_SCENARIO");
    let context = match variable("MCP_CONFORMANCE_CONTEXT") {
        text if text.is_empty() => Context::default(),
        text => serde_json::from_str(&text).context("the scenario's context has another form")?,
    };
    let lifecycle = match variable("MCP_CONFORMANCE_PROTOCOL_VERSION").as_str() {
        // Nobody says which: the newest that both know.
        revision if auto || revision.is_empty() => Lifecycle::Auto,
        revision if revision >= "2026-07-28" => Lifecycle::Modern,
        _ => Lifecycle::Legacy,
    };
    let ran = tokio::time::timeout(LIMIT, run(&scenario, url, lifecycle, context)).await;
    ran.with_context(|| format!("`{scenario}` was not over after {LIMIT:?}"))?
}

async fn run(scenario: &str, url: &str, lifecycle: Lifecycle, context: Context) -> anyhow::Result<()> {
    let mut endpoint = HttpEndpoint::new(url);
    if scenario.starts_with("auth/") {
        endpoint = endpoint.with_auth(auth(scenario, &context)?);
    }
    let host = host(scenario, lifecycle);
    let used = async {
        let server = host.connect(endpoint).await?;
        exercise(&server, scenario, &context.tool_calls).await?;
        server.close().await;
        Ok::<(), Error>(())
    };
    match (scenario, used.await) {
        // Servers that must not be trusted with a token.
        (
            "auth/resource-mismatch"
            | "auth/iss-supported-missing"
            | "auth/iss-wrong-issuer"
            | "auth/iss-unexpected"
            | "auth/iss-normalized"
            | "auth/metadata-issuer-mismatch",
            used,
        ) => ensure!(matches!(used, Err(Error::Authorization { .. })), "this server was trusted: {used:?}"),
        // A server that nothing satisfies.
        ("auth/scope-retry-limit", used) => {
            ensure!(matches!(used, Err(Error::Unauthorized { .. })), "this server was satisfied: {used:?}");
        }
        (_, used) => used?,
    }
    Ok(())
}

fn host(scenario: &str, lifecycle: Lifecycle) -> Host {
    let host = Host::builder("everything-client", env!("CARGO_PKG_VERSION"))
        .with_lifecycle(lifecycle)
        .with_model(Scripted::new().otherwise(|_| Ok(Reply::new("everything", "A model says this."))))
        .with_roots([Root::new("file:///workspace").with_name("Workspace")]);
    match scenario {
        "elicitation-sep1034-client-defaults" => host.with_forms(Defaults).build(),
        _ => host.with_forms(|form: Form| async move { Shown::Accept(fill_in(&form)) }).build(),
    }
}

/// What the form suggests, and something that fits where it suggests nothing.
fn fill_in(form: &Form) -> Value {
    let value = |kind: &FieldKind| match kind {
        FieldKind::Boolean => json!(true),
        FieldKind::Number { integer: true, .. } => json!(1),
        FieldKind::Number { .. } => json!(1.5),
        FieldKind::Choice(choices) => json!(choices.first().map(|choice| &choice.value)),
        FieldKind::Choices(_) => json!([]),
        _ => json!("something"),
    };
    let fields = form.fields.iter().map(|field| {
        let given = field.default.clone().unwrap_or_else(|| value(&field.kind));
        (field.name.clone(), given)
    });
    Value::Object(fields.collect())
}

/// Who authorizes, and as which client.
fn auth(scenario: &str, context: &Context) -> anyhow::Result<AuthConfig> {
    let Context { client_id, client_secret, .. } = context;
    let person = AuthConfig::person(REDIRECT, Unattended).with_client_name("everything-client");
    Ok(match scenario {
        "auth/pre-registration" => person.with_client(client_id, client_secret.clone()),
        "auth/client-credentials-basic" => {
            let secret = client_secret.clone().context("the scenario gives no secret")?;
            AuthConfig::client_secret(client_id, secret)
        }
        "auth/client-credentials-jwt" => {
            let algorithm = match context.signing_algorithm.as_str() {
                "RS256" => SigningAlgorithm::Rs256,
                "RS384" => SigningAlgorithm::Rs384,
                "RS512" => SigningAlgorithm::Rs512,
                "ES256" => SigningAlgorithm::Es256,
                "ES384" => SigningAlgorithm::Es384,
                other => bail!("nobody here signs with `{other}`"),
            };
            AuthConfig::client_key(client_id, context.private_key_pem.as_bytes(), algorithm)
        }
        "auth/enterprise-managed-authorization" => {
            let id_token = context.idp_id_token.clone();
            let signed_in = move || std::future::ready(Ok::<_, std::io::Error>(id_token.clone()));
            let enterprise = Enterprise::new(&context.idp_issuer, &context.idp_token_endpoint, signed_in)
                .with_idp_client(&context.idp_client_id, None)
                .with_client(client_id, client_secret.clone());
            AuthConfig::enterprise(enterprise)
        }
        _ => person.with_client_metadata(METADATA),
    })
}

/// Lists what there is, and calls it.
async fn exercise(server: &Connection, scenario: &str, planned: &[Planned]) -> Result<(), Error> {
    let tools = server.tools().await?;
    if matches!(scenario, "initialize" | "json-schema-ref-no-deref") {
        return Ok(());
    }
    if scenario == "json-schema-2020-12-preservation" {
        let found = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
        let schema = found.map(|tool| json!(tool.input_schema));
        return server.call("json_schema_echo", json!({"schema": schema})).await.map(drop);
    }
    for Planned { name, arguments } in planned {
        server.call(name, arguments).await?;
    }
    for tool in tools.iter().filter(|_| planned.is_empty()) {
        server.call(&tool.name, plausible(tool)).await?;
    }
    if scenario == "http-standard-headers" {
        for resource in server.resources().await? {
            server.read(&resource.uri).await?;
        }
        for prompt in server.prompts().await? {
            server.prompt(&prompt.name, json!({})).await?;
        }
    }
    Ok(())
}

/// Arguments that fit what the tool requires.
fn plausible(tool: &Tool) -> Value {
    let schema = json!(tool.input_schema);
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("integer") => json!(2),
        Some("number") => json!(2.5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("something"),
    };
    Value::Object(required.map(|name| (name.to_owned(), value(name))).collect::<Map<_, _>>())
}
