//! MCP tools from an [OpenAPI](https://spec.openapis.org/oas/latest.html) document of version 3.0 or 3.1.
//!
//! [`OpenApi`] reads a document and converts its operations into [`Tool`](antiphon::Tool)s of an Antiphon server. A
//! call of a tool sends one HTTP request to the API. The [`Report`] lists the operations that became tools, those that
//! did not, and the parts of the document that the tools do not have.
//!
//! - **Arguments**: path, query, header and cookie parameters, and the fields of a JSON or form body. If a body is not
//!   an object with fixed fields, it is the argument `body`. The schemas are JSON Schema 2020-12.
//! - **Credentials**: the server holds them ([`Credential`]). The security schemes of the document decide where they
//!   are sent. Models receive neither credentials nor the parameters that carry them.
//! - **Limits**: arguments cannot change the host or leave the path of the server. Redirects to other origins are not
//!   followed. Time and size are limited ([`HttpLimits`]).
//! - **Replay**: a request with another method than GET and HEAD is a [step](antiphon::Ctx::step). Replay does not send
//!   it again. If the outcome of such a request is unknown, a task does not retry it, unless the operation has a header
//!   `Idempotency-Key`, which the server fills.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `results` | | `OpenApi::with_result_sets`: operations that return pages of rows answer with a result set |
//! | `yaml` | | `OpenApi::parse_yaml`: documents in YAML |
#![cfg_attr(docsrs, feature(doc_cfg))]

mod auth;
mod call;
mod document;
mod error;
mod http;
mod names;
mod openapi;
mod operation;
#[cfg(feature = "results")]
mod pages;
mod report;
mod request;
mod schema;
#[cfg(feature = "yaml")]
mod yaml;

/// Types of the crate `http` that settings need.
#[doc(no_inline)]
pub use ::http::{HeaderName, Method};

#[cfg(feature = "results")]
pub use self::pages::PageLimits;
pub use self::{
    auth::{Caller, Credential},
    error::{Error, Result},
    http::HttpLimits,
    openapi::OpenApi,
    report::{Converted, OpenApiTools, Refused, Report, Warning},
};
