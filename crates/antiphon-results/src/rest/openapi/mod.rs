//! The routes, for programs: an `OpenAPI` document.

mod answers;
mod paths;
mod schemas;
mod sets;

use serde_json::{Value, json};

/// The routes as an `OpenAPI` 3.1 document: every route, parameter, body, answer, header and error.
///
/// The same is in the crate's `openapi.json`, and is served at `GET /openapi.json` with the address of the server
/// that serves it.
///
/// ```
/// let document = antiphon_results::rest::openapi();
/// assert_eq!(document["openapi"], "3.1.0");
/// assert!(document["paths"]["/{id}/rows"]["get"].is_object());
/// ```
pub fn openapi() -> Value {
    for_server("/resources")
}

/// The same, for the server at this address.
pub(super) fn for_server(url: &str) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Result sets",
            "summary": "What is behind the link of a dual response",
            "description": "A tool answers a model with a preview and a link. Here the application gets all the rows behind the link.\n\nOne shape of error everywhere: `error` is a word, `message` is for people, `code` is for programs. A set that has expired and one that never was are both 404; `code` tells them apart. Another caller's set is one that never was.",
            "version": crate::SPECIFICATION,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"}
        },
        "servers": [{"url": url}],
        "tags": [
            {"name": "sets", "description": "What is known of a result set, and how long it lives."},
            {"name": "rows", "description": "What is in it."},
            {"name": "links", "description": "Signed links: they open one set, for a while, for some things."}
        ],
        "paths": paths::paths(),
        "components": {
            "parameters": paths::parameters(),
            "headers": answers::headers(),
            "responses": answers::errors(),
            "schemas": schemas::schemas(),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Who is calling, where the server asks. How it is shown is the server's to say; a bearer token is usual."
                },
                "link": {
                    "type": "apiKey",
                    "in": "query",
                    "name": "link",
                    "description": "The token of a signed link. It decides alone, whoever is calling. Keep it out of logs."
                }
            }
        }
    })
}
