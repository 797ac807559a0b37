//! The crate through its front door, one file a subject.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and its helpers too")]

mod client;
mod create;
mod edges;
mod life;
mod own_store;
mod pages;
mod parts;
mod replicas;

mod response;
mod rest;
mod saved;
#[cfg(all(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod sql;
mod store;
mod support;
