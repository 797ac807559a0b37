//! The examples that `antiphon serve` can run.

use std::time::Duration;

use antiphon::{
    ServerBuilder,
    http::{HttpConfig, ServeConfig, shutdown_signal},
    seal::{KeyRing, SealConfig},
};
use antiphon_results::DualResponseServerOptions;
use antiphon_store::{Backend, QueueConfig};
use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use sqlx::Connection as _;
use tokio::{net::TcpListener, time::timeout};

use super::Serve;
use crate::{
    exit::{Misused, Outcome},
    global::App,
    print,
};

/// The maximum time to connect to a database.
const DATABASE: Duration = Duration::from_secs(30);

/// An example.
struct Example {
    name: &'static str,
    about: &'static str,
    /// The arguments of a call to the example.
    call: &'static str,
    /// The server, or `None` if the example needs more than a server. `institutions` then serves it.
    server: Option<fn() -> ServerBuilder>,
}

const EXAMPLES: &[Example] = &[
    Example {
        name: "checkout",
        about: "a tool that must not charge twice",
        call: "checkout --item tea --price 300",
        server: Some(|| checkout::server(checkout::Ledger::new("ledger.txt"))),
    },
    Example {
        name: "institutions",
        about: "an answer with more rows than a model can read; needs --http and --database",
        call: "search_institutions --state NJ",
        server: None,
    },
    Example {
        name: "onboarding",
        about: "a run that takes days, as a task",
        call: "onboard --name Ada --first-week 5",
        server: Some(onboarding::server),
    },
    Example {
        name: "play_ttt",
        about: "a game of tic-tac-toe against a model; --model-url for clients that have none",
        call: "play_ttt",
        server: Some(play_ttt::server),
    },
];

pub(super) async fn serve(serve: &Serve, app: &App) -> Result<Outcome> {
    let Some(name) = &serve.example else { return Ok(list(app)) };
    let Some(example) = EXAMPLES.iter().find(|example| example.name == name) else {
        let names: Vec<&str> = EXAMPLES.iter().map(|example| example.name).collect();
        let names = names.join(", ");
        return Err(Misused(format!("the example `{name}` does not exist; the examples are {names}")).into());
    };
    if example.server.is_none() && (serve.http.is_none() || serve.database.is_none()) {
        return Err(Misused(format!(
            "`{name}` needs `--http 127.0.0.1:8000` to serve its rows, and `--database postgres://…` to read them"
        ))
        .into());
    }
    let listener = match &serve.http {
        Some(address) => {
            let failed = || format!("cannot listen on {address}; choose another port");
            Some(TcpListener::bind(address).await.with_context(failed)?)
        }
        None => None,
    };
    let keys = match (&serve.keys, serve.store.as_str()) {
        (Some(keys), _) => keys.parse::<KeyRing>()?,
        (None, "memory:") => KeyRing::random(),
        (None, _) => {
            let message = "a shared store needs the same encryption keys in all processes; pass `--keys 1=<64 hex digits>`, for example from `openssl rand -hex 32`";
            return Err(Misused(message.into()).into());
        }
    };
    let backend = Backend::connect(&serve.store, example.name, QueueConfig::default())
        .await
        .context("the store of `--store` cannot be reached")?;
    let model = serve.model.or(&app.config.model).open()?;
    let build = |server: fn() -> ServerBuilder| {
        let seal = SealConfig::default().with_keys(keys.clone());
        let server = server().with_backend(backend.clone()).with_seal(seal);
        match model.clone() {
            Some(model) => server.with_model(model).build(),
            None => server.build(),
        }
    };
    match (example.server, listener) {
        (Some(server), Some(listener)) => {
            let server = build(server)?;
            announce(example, &listener)?;
            server.serve_listener(listener, HttpConfig::default(), shutdown_signal()).await?;
        }
        (Some(server), None) => {
            let server = build(server)?;
            eprintln!("serving {name} on standard input and output; in another terminal:");
            eprintln!("  antiphon call \"antiphon serve {name}\" {}", example.call);
            server.serve_stdio().await?;
        }
        (None, Some(listener)) => institutions(example, serve, backend, listener).await?,
        (None, None) => {}
    }
    Ok(Outcome::Done)
}

async fn institutions(
    example: &Example,
    serve: &Serve,
    backend: Backend,
    listener: TcpListener,
) -> Result<()> {
    let database = serve.database.as_deref().unwrap_or_default();
    let unreachable = "the database cannot be reached";
    // A pool repeats a refused connection for 30 seconds, and its error does not contain the cause.
    let Ok(connected) = timeout(DATABASE, sqlx::PgConnection::connect(database)).await else {
        bail!("{unreachable}: it did not answer within {DATABASE:?}; check the address of `--database`");
    };
    // The connection was only a test.
    let _ = connected.context(unreachable)?.close().await;
    let pool = sqlx::PgPool::connect(database).await.context(unreachable)?;
    institutions::data::prepare(&pool).await.context("the table of institutions could not be created")?;
    let options = DualResponseServerOptions::new(format!("http://{}/resources", listener.local_addr()?))
        .with_store(antiphon_results::SharedStore::new(backend));
    let results = institutions::results(options, pool)?;
    let server = institutions::server(&results).map_err(|error| anyhow::anyhow!("{error:#}"))?;
    let app = server.router(HttpConfig::default()).nest("/resources", results.router());
    announce(example, &listener)?;
    server.serve_router(listener, app, ServeConfig::default(), shutdown_signal()).await;
    results.shutdown().await?;
    Ok(())
}

fn announce(example: &Example, listener: &TcpListener) -> Result<()> {
    let url = format!("http://{}/mcp", listener.local_addr()?);
    eprintln!("{} listens on {url}; in another terminal:", example.name);
    eprintln!("  antiphon call {url} {}", example.call);
    Ok(())
}

fn list(app: &App) -> Outcome {
    let all: Vec<Value> = EXAMPLES.iter().map(|it| json!({"name": it.name, "about": it.about})).collect();
    print::print(app.json, &Value::from(all), || {
        let mut table = print::table(["EXAMPLE", "ABOUT"]);
        for example in EXAMPLES {
            table.add_row([example.name, example.about]);
        }
        print::trimmed(&table)
    });
    Outcome::Done
}
