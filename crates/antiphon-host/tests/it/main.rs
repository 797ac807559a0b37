//! The host through its front door.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asks;
mod calls;
mod lifecycle;
mod pages;
mod support;
