//! MCP tools from an [OpenAPI](https://spec.openapis.org/oas/latest.html) document of version 3.0 or 3.1.
//!
//! [`OpenApi`] reads a document and converts its operations into [`Tool`](antiphon::Tool)s of an Antiphon server. A
//! call of a tool sends one HTTP request to the API. The [`Report`] lists the operations that became tools, and the
//! operations that did not become tools. The report also lists the parts of the document that the tools do not
//! support.
//!
//! - **Arguments**: path, query, header and cookie parameters, and the fields of a JSON or form body. If a body is not
//!   an object with fixed fields, the whole body is one argument with the name `body`. The input schemas of the tools
//!   are JSON Schema 2020-12.
//! - **Credentials**: only the server has the credentials ([`Credential`]). The security schemes of the document
//!   determine where the credentials are sent. Models receive neither credentials nor the parameters that contain
//!   credentials.
//! - **Limits**: the arguments of a tool call cannot change the host of a request, and cannot lead to a path outside
//!   of the server's path. Tools do not follow redirects to other origins. The time of a request and the size of a
//!   response are limited ([`HttpLimits`]).
//! - **Replay**: a request with a method other than GET and HEAD is a [step](antiphon::Ctx::step), so replay does not
//!   send the request again. If a request failed but was possibly executed, a task retries the request only if the
//!   operation has a header `Idempotency-Key`. The server sets the value of the header `Idempotency-Key`.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `results` | | `OpenApi::with_result_sets`: a tool returns a result set if its operation returns pages of rows |
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

/// Types of the crate `http` that the settings of this crate use.
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
