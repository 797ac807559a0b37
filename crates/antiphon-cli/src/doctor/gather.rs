//! Collects facts about a server, without a call of its tools.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use antiphon::testing::{HostProfile, Revision};
use antiphon_host::{
    Connection, Endpoint, Error as HostError, Form, HostBuilder, Page, Shown, StrayOutput, model::Tool,
};
use antiphon_llm::{BoxFuture, Error as ModelError, Model, Reply, Request};
use anyhow::Result;
use clap::ValueEnum as _;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    report::{Attempt, Declared, Failure, Report, SeenBy},
    web, words,
};
use crate::{
    config::{Definition, Kind},
    exit,
    global::App,
    secrets,
    target::{ConnectionArgs, ProtocolChoice},
};

/// Timeout to connect to a server, and to list its items. `npx` can need time to download the server.
const PATIENCE: Duration = Duration::from_mins(1);

/// A model for a host that declares sampling. The model is never called, because `antiphon doctor` does not call tools.
#[derive(Debug)]
struct Nobody;

impl Model for Nobody {
    fn reply<'a>(&'a self, _: &'a Request) -> BoxFuture<'a, antiphon_llm::Result<Reply>> {
        Box::pin(async { Err(ModelError::Unavailable("nobody is here".to_owned())) })
    }

    fn name(&self) -> &'static str {
        "nobody"
    }
}

/// The first line that a server program has written to its standard output and that is not an MCP message.
type Stray = Arc<Mutex<Option<StrayOutput>>>;

/// Returns a host that has no capabilities and that stores stray output in `stray`.
fn bare_host(stray: &Stray) -> HostBuilder {
    let kept = Arc::clone(stray);
    App::host().with_stray_output(move |stray| {
        kept.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| stray.clone());
    })
}

/// Returns a host with all capabilities, so that the server lists all its tools.
fn able(stray: &Stray) -> HostBuilder {
    bare_host(stray)
        .with_model(Nobody)
        .with_forms(|_: Form| async { Shown::Cancel })
        .with_pages(|_: Page| async { false })
        .with_roots([])
}

pub(crate) async fn gather(app: &App, server: &str, reach: &ConnectionArgs) -> Result<Report> {
    let definition = Definition::find(server, &app.config)?.reached(reach);
    let endpoint = definition.endpoint(reach, app.verbose)?;
    let mut report = Report { server: server.to_owned(), ..Report::default() };
    let kind = definition.expanded()?;
    let kind = kind.kind()?;
    let stray = Stray::default();
    for choice in ProtocolChoice::value_variants() {
        // Test each revision, unless the user selected a revision.
        if reach.revision.is_some_and(|selected| selected != *choice) {
            continue;
        }
        let lifecycle = choice.lifecycle();
        let host = able(&stray).with_lifecycle(lifecycle);
        let (attempt, connection) = attempt(&endpoint, url_of(kind), choice.version(), host).await;
        report.attempts.push(attempt);
        let Some(connection) = connection else { continue };
        // The newest revision is tried first, so the first successful attempt has the newest revision.
        if report.declared.is_none() {
            report.declared = Some(declared(&connection).await);
            let bare = tools_for(&endpoint, bare_host(&stray).with_lifecycle(lifecycle)).await;
            report.bare_tools = bare.map(|tools| tools.iter().filter_map(name_of).collect());
        }
        connection.close().await;
    }
    let stray = stray.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Users share reports, so remove secrets.
    report.stray = stray.map(|stray| secrets::in_output(stray.line()));
    if let Kind::Http(url) = kind {
        report.web = web::probe(url, &definition, reach).await;
    }
    Ok(report)
}

/// Collects the facts about a server that a host with the given profile receives.
pub(crate) async fn gather_as(
    app: &App,
    server: &str,
    reach: &ConnectionArgs,
    profile: HostProfile,
) -> Result<Report> {
    let definition = Definition::find(server, &app.config)?.reached(reach);
    let endpoint = definition.endpoint(reach, app.verbose)?;
    let kind = definition.expanded()?;
    let kind = kind.kind()?;
    let choice = reach.revision.unwrap_or(match profile.revision() {
        Revision::V2025_11_25 => ProtocolChoice::Legacy,
        Revision::V2026_07_28 => ProtocolChoice::Modern,
    });
    let revision = match choice {
        ProtocolChoice::Legacy => Revision::V2025_11_25,
        ProtocolChoice::Modern => Revision::V2026_07_28,
    };
    let stray = Stray::default();
    let host = |profile: HostProfile| {
        let host = bare_host(&stray).with_lifecycle(choice.lifecycle());
        host.with_capabilities(profile.capabilities(revision))
    };
    let mut report = Report { server: server.to_owned(), ..Report::default() };
    let (attempt, connection) = attempt(&endpoint, url_of(kind), choice.version(), host(profile)).await;
    report.attempts.push(attempt);
    if let Some(connection) = connection {
        report.declared = Some(declared(&connection).await);
        connection.close().await;
        let all_tools = tools_for(&endpoint, host(HostProfile::Generic)).await.unwrap_or_default();
        report.host = Some(SeenBy { profile, revision, all_tools });
    }
    let stray = stray.lock().unwrap_or_else(PoisonError::into_inner).take();
    report.stray = stray.map(|stray| secrets::in_output(stray.line()));
    Ok(report)
}

fn url_of(kind: Kind<'_>) -> Option<&str> {
    match kind {
        Kind::Http(url) | Kind::Sse(url) | Kind::WebSocket(url) => Some(url),
        Kind::Program(_) => None,
    }
}

async fn attempt(
    endpoint: &Endpoint,
    url: Option<&str>,
    asked: &'static str,
    host: HostBuilder,
) -> (Attempt, Option<Connection>) {
    let begun = Instant::now();
    let connected = timeout(PATIENCE, host.build().connect(endpoint.clone())).await;
    let took = begun.elapsed();
    let failed = |failure| Attempt { asked, took, ended: Err(failure), capabilities: Value::Null };
    match connected {
        Err(_) => (failed(Failure::TimedOut(PATIENCE)), None),
        Ok(Err(HostError::Unauthorized { .. } | HostError::Authorization { .. })) => {
            (failed(Failure::Unauthorized), None)
        }
        Ok(Err(error)) => {
            let cause = cause(&error);
            // Users share reports, so remove secrets.
            let cause = match url {
                Some(url) => secrets::in_text(&cause, url),
                None => secrets::in_output(&cause),
            };
            (failed(Failure::Other { cause, hint: exit::hint(&error) }), None)
        }
        Ok(Ok(connection)) => {
            let info = connection.server().await;
            let attempt = Attempt { asked, took, ended: Ok(info.revision), capabilities: info.capabilities };
            (attempt, Some(connection))
        }
    }
}

/// Returns the root cause of an error. The other errors in the chain of causes only name the operation that failed.
fn cause(error: &HostError) -> String {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    let mut above = None;
    while let Some(next) = cause.source() {
        above = Some(cause);
        cause = next;
    }
    match above {
        // A line of output does not describe the failed operation, so the text also contains the error above the
        // line.
        Some(above) if cause.is::<StrayOutput>() => format!("{above}: {cause}"),
        _ => cause.to_string(),
    }
}

async fn declared(connection: &Connection) -> Declared {
    let info = connection.server().await;
    let mut declared = Declared {
        title: words::title(&info),
        revision: info.revision,
        instructions: info.instructions,
        capabilities: info.capabilities,
        ..Declared::default()
    };
    let offers = |what: &str| !declared.capabilities[what].is_null();
    let (tools, prompts, resources) = (offers("tools"), offers("prompts"), offers("resources"));
    if tools {
        match listed(connection.tools()).await {
            Ok(tools) => declared.tools = values(&tools),
            Err(error) => declared.unlisted.push(("tools", error)),
        }
    }
    if prompts {
        match listed(connection.prompts()).await {
            Ok(prompts) => declared.prompts = prompts.len(),
            Err(error) => declared.unlisted.push(("prompts", error)),
        }
    }
    if resources {
        match listed(connection.resources()).await {
            Ok(resources) => declared.resources = resources.len(),
            Err(error) => declared.unlisted.push(("resources", error)),
        }
        // No capability declares resource templates, so a server possibly does not support this method.
        declared.templates = listed(connection.resource_templates()).await.map_or(0, |it| it.len());
    }
    declared
}

async fn listed<T>(listing: impl Future<Output = antiphon_host::Result<Vec<T>>>) -> Result<Vec<T>, String> {
    match timeout(PATIENCE, listing).await {
        Ok(Ok(items)) => Ok(items),
        // The error can contain a line of the program's output. Users share reports, so remove secrets.
        Ok(Err(error)) => Err(secrets::in_output(&format!("{:#}", anyhow::Error::from(error)))),
        Err(_) => Err(format!("no response within {PATIENCE:?}")),
    }
}

/// Lists the tools that the server offers to another host.
async fn tools_for(endpoint: &Endpoint, host: HostBuilder) -> Option<Vec<Value>> {
    let connection = timeout(PATIENCE, host.build().connect(endpoint.clone())).await.ok()?.ok()?;
    let tools = listed(connection.tools()).await.ok();
    connection.close().await;
    Some(values(&tools?))
}

fn values(tools: &[Tool]) -> Vec<Value> {
    tools.iter().filter_map(|tool| serde_json::to_value(tool).ok()).collect()
}

fn name_of(tool: &Value) -> Option<String> {
    tool["name"].as_str().map(str::to_owned)
}
