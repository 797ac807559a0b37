//! `antiphon-http` without `antiphon`.

mod auth;
mod endpoint;
