//! The examples that `antiphon serve` can run.

use antiphon::{
    ServerBuilder,
    http::{HttpConfig, shutdown_signal},
    seal::{KeyRing, SealConfig},
};
use antiphon_store::{Backend, QueueConfig};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Serve, hello};
use crate::{
    exit::{Misused, Outcome},
    global::App,
    print,
};

/// An example that `antiphon serve` can run.
struct Example {
    name: &'static str,
    about: &'static str,
    /// The command line arguments of an example call, which the CLI shows to the user.
    call: &'static str,
    /// The server of the example, or `None` if the example needs a database. The module `database` serves examples that
    /// need a database.
    server: Option<fn() -> ServerBuilder>,
}

/// The examples that this build of the CLI contains.
const EXAMPLES: &[Example] = &[
    Example {
        name: "hello",
        about: "a tool that asks for your name",
        call: "greet",
        server: Some(hello::server),
    },
    #[cfg(feature = "examples")]
    Example {
        name: "checkout",
        about: "a tool that must not charge twice",
        call: "checkout --item tea --price 300",
        server: Some(|| checkout::server(checkout::Ledger::new("ledger.txt"))),
    },
    #[cfg(feature = "backends")]
    Example {
        name: "institutions",
        about: "an answer with more rows than a model can read; needs --http and --database",
        call: "search_institutions --state NJ",
        server: None,
    },
    #[cfg(feature = "examples")]
    Example {
        name: "onboarding",
        about: "a run that takes days, as a task",
        call: "onboard --name Ada --first-week 5",
        server: Some(onboarding::server),
    },
    #[cfg(feature = "examples")]
    Example {
        name: "play_ttt",
        about: "a game of tic-tac-toe against a model; --model-url for clients that have none",
        call: "play_ttt",
        server: Some(play_ttt::server),
    },
];

/// The features of this crate that add examples, with the names of these examples.
const OPTIONAL: [(&str, &[&str]); 2] =
    [("examples", &["checkout", "onboarding", "play_ttt"]), ("backends", &["institutions"])];

pub(super) async fn serve(serve: &Serve, app: &App) -> Result<Outcome> {
    let Some(name) = &serve.example else { return Ok(list(app)) };
    let Some(example) = EXAMPLES.iter().find(|example| example.name == name) else {
        let names: Vec<&str> = EXAMPLES.iter().map(|example| example.name).collect();
        return Err(unknown(name, &names).into());
    };
    if !cfg!(feature = "backends") && serve.store != "memory:" {
        let message =
            format!("this build of `antiphon` supports only `--store memory:`; {}", rebuild("backends"));
        return Err(Misused(message).into());
    }
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
        #[cfg(feature = "backends")]
        (None, Some(listener)) => {
            let database = serve.database.as_deref().unwrap_or_default();
            super::database::serve(database, backend, listener, |listener| announce(example, listener))
                .await?;
        }
        (None, _) => {}
    }
    Ok(Outcome::Done)
}

/// Returns the error for an example that this build does not contain. `names` contains the names of the examples in
/// this build.
fn unknown(name: &str, names: &[&str]) -> Misused {
    let optional = OPTIONAL.iter().find(|(_, names)| names.contains(&name));
    Misused(match optional {
        Some((feature, _)) => {
            format!("this build of `antiphon` does not contain the example `{name}`; {}", rebuild(feature))
        }
        None => format!("the example `{name}` does not exist; the examples are {}", names.join(", ")),
    })
}

/// Returns a text that describes how to get a build with the feature `feature`.
fn rebuild(feature: &str) -> String {
    format!(
        "in a clone of Antiphon's repository, run `cargo install --path crates/antiphon-cli --features {feature}`"
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_that_a_build_leaves_out_names_its_feature() {
        let told = |name: &str| unknown(name, &["hello"]).to_string();
        assert_eq!(
            told("play_ttt"),
            "this build of `antiphon` does not contain the example `play_ttt`; in a clone of Antiphon's \
             repository, run `cargo install --path crates/antiphon-cli --features examples`"
        );
        assert!(told("institutions").ends_with("--features backends`"));
        assert_eq!(told("zebra"), "the example `zebra` does not exist; the examples are hello");
    }

    #[test]
    fn each_example_of_a_feature_is_in_its_build() {
        let enabled = [("examples", cfg!(feature = "examples")), ("backends", cfg!(feature = "backends"))];
        for ((feature, names), (enabled_feature, enabled)) in OPTIONAL.iter().zip(enabled) {
            assert_eq!(*feature, enabled_feature);
            for name in *names {
                let found = EXAMPLES.iter().any(|example| example.name == *name);
                assert_eq!(found, enabled, "{name}");
            }
        }
    }
}
