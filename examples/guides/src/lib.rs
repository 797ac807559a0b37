//! What the guides of the book show. Nothing here is run: pages include it, part by part, and it compiles.
#![expect(dead_code, reason = "it is read, and called by nobody")]

mod asking;
mod auth;
mod backends;
mod deploying;
mod explore;
mod hosting;
mod limits;
mod migrating;
mod models;
mod pages;
mod results;
mod server;
mod tasks;
mod telemetry;
mod testing;
