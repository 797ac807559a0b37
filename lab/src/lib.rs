//! What the programs that the laboratory starts have in common, and tests that need several crates.

#[cfg(feature = "bench")]
pub mod programs;

// Not in `tests/`: with an integration test, cargo builds all programs of this package whenever tests run.
#[cfg(all(test, feature = "conformance"))]
mod tests;
// The tests are shared with `antiphon`, where these modules are at the root.
#[cfg(all(test, feature = "conformance"))]
use tests::{checked, replicas};
