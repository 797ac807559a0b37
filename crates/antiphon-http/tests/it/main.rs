//! `antiphon-http` without `antiphon`.

mod auth;
