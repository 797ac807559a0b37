//! A clock that tests turn, a source that tells what it was asked, servers with both, and a store of snapshots.

mod counted;
mod shelf;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicI64, Ordering},
};

use antiphon_results::{
    ColumnDefinition, CreateOptions, DualResponse, DualResponseServer, DualResponseServerOptions, Rows,
    Source, source::PageRequest,
};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

pub(crate) use self::{
    counted::{Counted, Counts},
    shelf::{CONTENT, Shelf},
};

pub(crate) const BASE: &str = "https://api.example.com/resources";

/// A clock that stands until it is turned.
#[derive(Clone, Debug)]
pub(crate) struct Clock(Arc<AtomicI64>);

impl Clock {
    /// The moment of the seed's examples.
    pub(crate) fn new() -> Self {
        let start: DateTime<Utc> = "2025-01-15T10:30:00Z".parse().unwrap();
        Self(Arc::new(AtomicI64::new(start.timestamp_millis())))
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0.load(Ordering::SeqCst)).unwrap()
    }

    pub(crate) fn turn(&self, by: TimeDelta) {
        self.0.fetch_add(by.num_milliseconds(), Ordering::SeqCst);
    }
}

/// Options with this clock.
pub(crate) fn options(clock: &Clock) -> DualResponseServerOptions {
    let clock = clock.clone();
    DualResponseServerOptions::new(BASE).with_clock(move || clock.now())
}

pub(crate) fn server(clock: &Clock) -> DualResponseServer {
    DualResponseServer::new(options(clock)).unwrap()
}

/// Institution number `at`.
pub(crate) fn institution(at: u64) -> Value {
    json!({
        "id": at,
        "name": format!("Institution {at}"),
        "state": if at.is_multiple_of(2) { "NJ" } else { "CA" },
        "enrollment": (at * 7919) % 50_000,
    })
}

/// The first `count` institutions.
pub(crate) fn institutions(count: u64) -> Rows {
    let mut rows = Rows::new();
    (1..=count).for_each(|at| rows.push(&institution(at)).unwrap());
    rows
}

pub(crate) fn columns() -> Vec<ColumnDefinition> {
    vec![
        ColumnDefinition::number("id"),
        ColumnDefinition::string("name"),
        ColumnDefinition::string("state"),
        ColumnDefinition::number("enrollment"),
    ]
}

/// A source of `count` institutions, and what it was asked for.
pub(crate) fn asked(count: u64) -> (Source, Arc<Mutex<Vec<PageRequest>>>, Arc<AtomicI64>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let counts = Arc::new(AtomicI64::new(0));
    let (seen, counted) = (Arc::clone(&requests), Arc::clone(&counts));
    let source = Source::closures(
        move |page: PageRequest| {
            seen.lock().unwrap().push(page.clone());
            let end = count.min(page.offset.saturating_add(page.limit));
            let mut rows = Rows::new();
            (page.offset + 1..=end).for_each(|at| rows.push(&institution(at)).unwrap());
            async move { Ok(rows) }
        },
        move || {
            counted.fetch_add(1, Ordering::SeqCst);
            async move { Ok(count) }
        },
    );
    (source, requests, counts)
}

/// The seed's set: 847 institutions.
pub(crate) async fn search(server: &DualResponseServer) -> DualResponse {
    let (source, ..) = asked(847);
    let options = CreateOptions::new("Institution Search Results", source).with_columns(columns());
    server.create_response(options).await.unwrap()
}

/// A set of rows in hand.
pub(crate) async fn kept(server: &DualResponseServer, count: u64) -> DualResponse {
    let options = CreateOptions::new("Institutions", Source::rows(institutions(count)));
    server.create_response(options).await.unwrap()
}
