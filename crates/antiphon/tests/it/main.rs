//! The crate through its front door.
#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking, and its helpers read better by value"
)]

#[cfg(feature = "http")]
mod ask_page;
mod asking;
#[cfg(feature = "http")]
mod asking_attacks;
mod asking_callers;
mod asking_clients;
mod asking_links;
mod asking_races;
mod asking_relay;
#[cfg(feature = "auth")]
mod auth;
mod bad_input;
mod bad_models;
mod checked;
mod conversation;
mod docs;
#[cfg(feature = "http")]
mod drain;
mod elicit;
mod exchange;
mod flow;
mod handoff;
#[cfg(feature = "http")]
mod hosts;
#[cfg(feature = "http")]
mod http;
mod keep;
mod ladder;
mod legacy_tasks_layer;
mod limits;
mod lines;
#[cfg(all(feature = "http", target_os = "linux"))]
mod memory;
mod middleware;
#[cfg(all(feature = "http", feature = "results"))]
mod model_view;
mod mount;
mod notes;
mod profiles;
mod protocol;
#[cfg(feature = "http")]
mod replicas;
#[cfg(feature = "http")]
mod replicas_memory;
#[cfg(feature = "results")]
mod results;
#[cfg(feature = "results")]
mod results_app;
mod sample;
mod sample_schema;
mod sample_tools;
mod sampling_again;
mod sampling_edges;
mod seal;
mod shapes;
#[cfg(feature = "http")]
mod slow;
mod stored;
mod tasks;
#[cfg(feature = "telemetry")]
mod telemetry;
mod tools;
mod traces;
mod update;
mod visibility;
