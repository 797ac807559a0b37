//! What the chores have in common with the package `lab`: the workspace's layout, tables, and how its commands start.

#![expect(clippy::print_stderr, reason = "a command line tool talks to its user")]

pub mod fixtures;
pub mod lab;
pub mod project;
pub mod table;
