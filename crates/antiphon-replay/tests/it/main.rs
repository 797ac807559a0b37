//! The rules of replay, told as stories and as properties.

mod edges;
mod golden;
mod harness;
#[cfg(feature = "__mutations")]
mod mutations;
mod prefixes;
mod stories;
