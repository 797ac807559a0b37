//! Our host as one client among others, for `cargo xtask interop`.
//!
//! `interop-host legacy|modern CALLS URL`, or a command with its arguments instead of the URL. A URL that
//! ends in `/sse` is an HTTP+SSE server. `CALLS` is what to call, as JSON: `[{"cell", "tool", "arguments"}]`.
//!
//! Prints a line of JSON for the server and one for every call: what came back, what was asked on the way,
//! what was said beside it. It judges nothing. The clients of other makers in `lab/conformance/interop/clients`
//! take the same arguments and print the same lines.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use antiphon_host::{
    Connection, Endpoint, Event, Field, FieldKind, Form, Host, HostLimits, Lifecycle, Shown,
};
use antiphon_llm::{Message, Reply, Request, Scripted};
use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const LIMIT: Duration = Duration::from_secs(20);

/// Notices are told while their call is answered, each in a task of its own: the last may come after it.
const GRACE: Duration = Duration::from_millis(50);

/// What every client answers, by the name of the field.
const ANSWERS: [(&str, &str); 6] = [
    ("name", "Ada"),
    ("destination", "Lisbon"),
    ("month", "May"),
    ("hotel", "Aurora"),
    ("meal", "fish"),
    ("seat", "window"),
];

#[derive(Debug, Deserialize)]
struct Planned {
    cell: String,
    tool: String,
    arguments: Value,
}

/// What a server asked and said since the last call.
#[derive(Debug, Default)]
struct Heard {
    asked: Vec<String>,
    sampled: Vec<String>,
    /// How far it has come. A value may be told twice: to whoever listens to the call, and to all.
    progress: Vec<f64>,
    logs: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [era, calls, target, rest @ ..] = &arguments[..] else {
        bail!("usage: interop-host legacy|modern CALLS URL|COMMAND [ARGUMENT...]");
    };
    let lifecycle = match era.as_str() {
        "legacy" => Lifecycle::Legacy,
        "modern" => Lifecycle::Modern,
        other => bail!("`{other}` is neither `legacy` nor `modern`"),
    };
    let calls: Vec<Planned> = serde_json::from_str(calls).context("the calls are not as they should be")?;
    let heard = Arc::new(Mutex::new(Heard::default()));
    let host = host(lifecycle, &heard);
    let server = host.connect(endpoint(target, rest)).await?;

    let tools = server.tools().await?;
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    let info = server.server().await;
    print(&json!({"revision": info.revision, "server": info.name, "tools": names}));
    if lifecycle == Lifecycle::Legacy && info.capabilities["logging"].is_object() {
        server.set_log_level("debug").await?;
    }
    for planned in calls {
        let line = call(&server, &planned, &heard).await;
        print(&line);
    }
    server.close().await;
    Ok(())
}

fn endpoint(target: &str, arguments: &[String]) -> Endpoint {
    if !target.starts_with("http") {
        return Endpoint::command(target, arguments.to_vec());
    }
    if target.ends_with("/sse") { Endpoint::sse(target) } else { Endpoint::http(target) }
}

fn host(lifecycle: Lifecycle, heard: &Arc<Mutex<Heard>>) -> Host {
    let forms = Arc::clone(heard);
    let samples = Arc::clone(heard);
    let events = Arc::clone(heard);
    let model = Scripted::new().otherwise(move |request: &Request| {
        let prompt = request.messages.last().map(Message::text).unwrap_or_default();
        let reply = Reply::new("scripted", format!("I was asked: {prompt}").as_str());
        lock(&samples).sampled.push(prompt);
        Ok(reply)
    });
    Host::builder("antiphon", env!("CARGO_PKG_VERSION"))
        .with_lifecycle(lifecycle)
        .with_limits(HostLimits::default().with_timeout(LIMIT))
        .with_model(model)
        .with_forms(move |form: Form| {
            lock(&forms).asked.extend(form.fields.first().map(|field| field.name.clone()));
            std::future::ready(Shown::Accept(fill_in(&form)))
        })
        .with_events(move |event| match event {
            Event::Log { .. } => lock(&events).logs += 1,
            Event::Progress(it) => lock(&events).progress.push(it.progress),
            _ => {}
        })
        .build()
}

/// What is known by name, what must be there, and nothing else.
fn fill_in(form: &Form) -> Value {
    let known = |name: &str| ANSWERS.iter().find(|(it, _)| *it == name).map(|(_, answer)| json!(answer));
    let mut content = Map::new();
    for field in &form.fields {
        let needed = || field.required.then(|| something(field));
        if let Some(answer) = known(&field.name).or_else(needed) {
            content.insert(field.name.clone(), answer);
        }
    }
    content.into()
}

fn something(field: &Field) -> Value {
    if let Some(default) = &field.default {
        return default.clone();
    }
    match &field.kind {
        FieldKind::Number { minimum, .. } => json!(minimum.unwrap_or(1.0)),
        FieldKind::Boolean => json!(true),
        FieldKind::Choice(choices) => json!(choices.first().map(|choice| &choice.value)),
        FieldKind::Choices(_) => json!([]),
        _ => json!("something"),
    }
}

async fn call(server: &Connection, planned: &Planned, heard: &Arc<Mutex<Heard>>) -> Value {
    *lock(heard) = Heard::default();
    let steps = Arc::clone(heard);
    let called = server
        .call(&planned.tool, &planned.arguments)
        .progress(move |it| lock(&steps).progress.push(it.progress))
        .log_level("debug")
        .await;
    tokio::time::sleep(GRACE).await;
    let Heard { asked, sampled, mut progress, logs } = std::mem::take(&mut *lock(heard));
    progress.sort_by(f64::total_cmp);
    progress.dedup();
    let result = match called {
        Ok(result) => result,
        Err(error) => {
            return json!({"cell": planned.cell, "ok": false, "text": format!("{:#}", anyhow::Error::from(error))});
        }
    };
    let text: Vec<&str> =
        result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.as_str()).collect();
    json!({
        "cell": planned.cell,
        "ok": result.is_error != Some(true),
        "text": text.join("\n"),
        "structured": result.structured_content,
        "asked": asked,
        "sampled": sampled,
        "progress": progress.len(),
        "logs": logs,
    })
}

fn lock(heard: &Mutex<Heard>) -> std::sync::MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::print_stdout, reason = "these lines are what it is started for")]
fn print(line: &Value) {
    println!("{line}");
}
