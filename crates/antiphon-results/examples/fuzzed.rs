//! A server for `cargo xtask results fuzz`: sets of every kind, as many to be deleted as anybody asks for, and a clock
//! that stands still, so that nothing ends but what is deleted.
//!
//! `fuzzed --http ADDRESS --ids FILE [--callers]` serves, and writes down which sets there are; with `--callers` only `Authorization: Bearer fuzz` gets in.

use std::{net::SocketAddr, time::Duration};

use antiphon_results::{
    BoxError, ColumnDefinition, CreateOptions, DualResponseServer, DualResponseServerOptions, LinkKeys,
    MemoryStore, Order, Owner, ResourceStore, Result, Rows, Sort,
    source::{PageRequest, Query, Source},
    store::{Removal, Resource, ResourceUpdate, TombstoneEntry},
};
use async_trait::async_trait;
use axum::Router;
use chrono::{DateTime, Utc};
use http::request::Parts;
use serde_json::{Value, json};

/// How many people there are.
const PEOPLE: u64 = 500;

/// How many sets of each kind stay.
const STAY: usize = 8;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| word == name).ok_or_else(|| format!("{name} is missing"))?;
        words.get(at + 1).ok_or_else(|| format!("{name} needs a value"))
    };
    let address: SocketAddr = after("--http")?.parse()?;
    let callers = words.iter().any(|word| word == "--callers");
    let now = Utc::now();
    let owner = if callers { Owner::principal("fuzz") } else { Owner::nobody() };
    let store = Doomed { kept: MemoryStore::new(), owner: owner.clone(), now };
    let mut options = DualResponseServerOptions::new(format!("http://{address}/resources"))
        .with_link_keys(LinkKeys::random())
        .with_query("people", People::new())
        .with_store(store)
        .with_clock(move || now);
    if callers {
        options = options.with_authenticate(|parts: &Parts| {
            (parts.headers.get("authorization")? == "Bearer fuzz").then(|| Owner::principal("fuzz"))
        });
    }
    let server = DualResponseServer::new(options)?;
    let ids = make(&server, &owner).await?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    std::fs::write(after("--ids")?, ids.to_string())?;
    axum::serve(listener, Router::new().nest("/resources", server.router())).await?;
    Ok(())
}

async fn make(server: &DualResponseServer, owner: &Owner) -> Result<Value, BoxError> {
    let kept = people(&PageRequest::new(0, PEOPLE))?;
    let live =
        Source::closures(|page| async move { Ok::<_, BoxError>(people(&page)?) }, || async { Ok(PEOPLE) });
    let mut stay = Vec::new();
    for source in [Source::rows(kept), live, Source::query("people", Value::Null)] {
        for _ in 0..STAY {
            let options = CreateOptions::new("People", source.clone()).for_owner(owner.clone());
            stay.push(server.create_response(options).await?.resource_id);
        }
    }
    Ok(json!(stay))
}

/// People in the order of their numbers, which is that of their names too.
fn people(page: &PageRequest) -> Result<Rows, serde_json::Error> {
    let descending = page.sort.as_ref().is_some_and(|Sort { order, .. }| *order == Order::Desc);
    let place = |at: u64| if descending { PEOPLE - 1 - at } else { at };
    let begin = match page.after.as_ref().and_then(|key| key.last()).and_then(Value::as_u64) {
        Some(last) if last < PEOPLE => place(last) + 1,
        Some(_) => PEOPLE,
        None => page.offset,
    };
    let mut rows = Rows::new();
    for at in begin..PEOPLE.min(begin.saturating_add(page.limit)) {
        let id = place(at);
        rows.push(&json!({"id": id, "name": format!("Person {id:04}")}))?;
    }
    Ok(rows)
}

/// A store where every set whose id begins with `go_` is there until it is deleted.
#[derive(Debug)]
struct Doomed {
    kept: MemoryStore,
    owner: Owner,
    now: DateTime<Utc>,
}

#[async_trait]
impl ResourceStore for Doomed {
    async fn save(&self, resource: Resource) -> Result<String> {
        self.kept.save(resource).await
    }

    async fn get(&self, id: &str) -> Result<Option<Resource>> {
        let found = self.kept.get(id).await?;
        if found.is_none() && id.starts_with("go_") && self.kept.tombstone(id).await?.is_none() {
            let mut resource = Resource::new(id, "Doomed", self.now, Duration::from_secs(60));
            resource.owner = self.owner.clone();
            self.kept.save(resource).await?;
            return self.kept.get(id).await;
        }
        Ok(found)
    }

    async fn update(&self, id: &str, update: ResourceUpdate) -> Result<Option<Resource>> {
        self.kept.update(id, update).await
    }

    async fn delete(&self, id: &str, removal: Removal) -> Result<bool> {
        self.kept.delete(id, removal).await
    }

    async fn find_expired(&self, at: DateTime<Utc>) -> Result<Vec<String>> {
        self.kept.find_expired(at).await
    }

    async fn tombstone(&self, id: &str) -> Result<Option<TombstoneEntry>> {
        self.kept.tombstone(id).await
    }

    async fn put_rows(&self, id: &str, rows: Rows) -> Result<()> {
        self.kept.put_rows(id, rows).await
    }

    async fn rows(&self, id: &str, offset: u64, limit: u64) -> Result<Rows> {
        self.kept.rows(id, offset, limit).await
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn close(&self) -> Result<()> {
        self.kept.close().await
    }
}

/// People as a named query with a key.
#[derive(Debug)]
struct People {
    columns: Vec<ColumnDefinition>,
    key: Vec<String>,
}

impl People {
    fn new() -> Self {
        let columns = vec![ColumnDefinition::integer("id"), ColumnDefinition::string("name")];
        Self { columns, key: vec!["id".to_owned()] }
    }
}

#[async_trait]
impl Query for People {
    fn columns(&self) -> &[ColumnDefinition] {
        &self.columns
    }

    fn key(&self) -> &[String] {
        &self.key
    }

    fn sorts(&self) -> bool {
        true
    }

    async fn count(&self, _: &Value) -> Result<u64, BoxError> {
        Ok(PEOPLE)
    }

    async fn page(&self, _: &Value, page: &PageRequest) -> Result<Rows, BoxError> {
        Ok(people(page)?)
    }
}
