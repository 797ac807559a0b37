//! The everything server.
fn main() {}
