//! The code of the book's guides and recipes. The pages repeat parts of it, and the tests run some of it.
#![expect(dead_code, reason = "it is read, and called by nobody")]

mod asking;
mod auth;
mod backends;
mod compose;
mod concurrency;
mod connect;
mod deploying;
mod development;
mod errors;
mod explore;
mod forms;
mod hosting;
mod hosts_without_forms;
mod limits;
mod migrating;
mod models;
mod new_code;
mod openapi;
mod pages;
mod proxy;
mod recipes;
mod results;
mod server;
mod tasks;
mod telemetry;
mod testing;
mod tools;
mod visibility;
