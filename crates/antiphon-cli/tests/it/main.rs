//! The command against a real server.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod connect;
mod dev;
mod doctor;
mod ground;
mod help;
mod install;
mod new;
mod pack;
mod results;
mod results_explore;
mod results_export;
mod runs;
mod seal;
mod serve;
mod streams;
mod studio;
mod support;
mod talk;
mod talk_asks;
mod talk_calls;
mod talk_lists;
mod terminal;
mod tmux;
