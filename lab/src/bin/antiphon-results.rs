//! Pages of the same query through result sets.
//!
//! `POST /new` makes a set of the query, and `POST /new-rows` one of a hundred megabytes in hand; both answer with
//! the set's id.

use antiphon_results::{
    ColumnDefinition, CreateOptions, DualResponseServer, DualResponseServerOptions, ResultLimits, Rows,
    SharedStore, Source, source::SqlQuery,
};
use antiphon_store::{Backend, QueueConfig};
use axum::{Router, routing::post};
use lab::programs::rows::{SQL, STATE, argument, pool};
use serde_json::json;

const IN_HAND: u64 = 600_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let query =
        SqlQuery::postgres(pool().await?, SQL).with_parameters(["state"]).with_key(["id"]).with_columns([
            ColumnDefinition::integer("id"),
            ColumnDefinition::string("name"),
            ColumnDefinition::string("city"),
            ColumnDefinition::string("state"),
            ColumnDefinition::string("control"),
            ColumnDefinition::integer("enrollment"),
            ColumnDefinition::number("tuition"),
            ColumnDefinition::boolean("open"),
        ]);
    let limits = ResultLimits::default().with_rows_bytes(1 << 30);
    let base = format!("http://{}/resources", lab::programs::address()?);
    let mut options =
        DualResponseServerOptions::new(base).with_query("institutions", query).with_limits(limits);
    if let Ok(store) = argument("--store") {
        let backend = Backend::connect(&store, "bench-results", QueueConfig::default()).await?;
        options = options.with_store(SharedStore::new(backend));
    }
    let results = DualResponseServer::new(options)?;
    let app = Router::new()
        .route("/new", make(results.clone(), || Source::query("institutions", json!({"state": STATE}))))
        .route("/new-rows", make(results.clone(), || Source::rows(in_hand())))
        .nest("/resources", results.router());
    lab::programs::serve(app).await
}

/// A handler that makes a set and answers with its id.
fn make<S: Clone + Send + Sync + 'static>(
    results: DualResponseServer,
    source: fn() -> Source,
) -> axum::routing::MethodRouter<S> {
    post(move || {
        let results = results.clone();
        async move {
            let made = results.create_response(CreateOptions::new("Institutions", source())).await;
            made.map(|response| response.resource_id).map_err(|error| error.to_string())
        }
    })
}

fn in_hand() -> Rows {
    let mut rows = Rows::new();
    for n in 0..IN_HAND {
        let row = json!({
            "id": n, "name": format!("Institution {n}"), "city": format!("City {}", n % 900), "state": "NJ",
            "control": if n % 3 == 0 { "public" } else { "private" }, "enrollment": n * 7919 % 60_000,
            "tuition": n * 104_729 % 7_000_000, "open": n % 7 != 0,
        });
        rows.push(&row).expect("a row is an object");
    }
    rows
}
