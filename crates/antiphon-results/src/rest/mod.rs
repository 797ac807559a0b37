//! The HTTP routes.
//!
//! | route | action |
//! |---|---|
//! | `GET /{id}` | returns the metadata of a result set |
//! | `POST /{id}` | returns a page of the result set's rows, or all rows as NDJSON or CSV |
//! | `GET /{id}/rows` | returns the same rows as `POST /{id}`, for caches and browsers |
//! | `GET /{id}/manifest` | returns the metadata of a result set and the list of its chunks |
//! | `GET /{id}/export` | exports a result set as NDJSON, CSV, Arrow, Parquet or an Excel workbook, with byte ranges |
//! | `GET /{id}/chunks/{index}` | exports one chunk of a result set |
//! | `GET /{id}/stats` | returns statistics of the columns of a result set |
//! | `POST /{id}/aggregate` | returns aggregates of a result set's rows, such as counts and sums, for each group |
//! | `POST /{id}/query` | creates a new result set with an SQL query over an existing set |
//! | `GET /{id}/view` | returns a web page that shows a result set |
//! | `PUT /{id}` | pins or unpins a result set, or extends the lifetime of a set |
//! | `DELETE /{id}` | deletes a result set |
//! | `POST /{id}/links` | signs a link to a result set |
//! | `DELETE /{id}/links` | revokes all links to a result set |
//! | `GET /openapi.json` | returns the description of all routes: [`openapi`] |
//!
//! Request and response bodies follow the dual response specification exactly. Response headers contain additional
//! data. The header `Link` contains the URL of the next page, including a cursor. `Antiphon-Consistency` indicates
//! whether all pages show the same data. `Antiphon-Truncated` is present if the last rows were omitted because of a
//! limit.
//!
//! The server rejects requests with an unknown `Host`, and requests from web pages of unknown origins. The response to
//! a rejected request has status 403, and the server does not read a result set for the request.
//!
//! If rows are still being saved, or a sorted or filtered view is still being built, the response has status 202 and
//! the header `Retry-After`.
//!
//! The server logs audit events and the details of internal errors. Responses do not contain the details of internal
//! errors. The server's log never contains a signed link. A signed link is in the query string of the URL. If you add
//! a trace layer around the router, do not log the query string.

mod accept;
mod ask;
mod body;
mod cache;
mod call;
mod csv;
mod error;
mod export;
mod guard;
mod links;
mod openapi;
mod range;
mod routes;
mod sets;
mod stream;
mod viewer;

use axum::{
    Router,
    extract::RawPathParams,
    middleware,
    response::IntoResponse as _,
    routing::{MethodRouter, get, post},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};

pub use self::openapi::openapi;
pub use crate::server::Authenticate;
use crate::server::DualResponseServer;

impl DualResponseServer {
    /// Returns an axum router with all routes, and starts the periodic clean-up of expired result sets. Mount the
    /// router at the path of the server's base URL.
    ///
    /// Call this method within a Tokio runtime.
    ///
    /// ```
    /// use antiphon_results::{DualResponseServer, DualResponseServerOptions};
    /// use axum::Router;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = DualResponseServer::new(DualResponseServerOptions::new("https://api.example.com/resources"))?;
    /// let app: Router = Router::new().nest("/resources", server.router());
    /// # Ok(())
    /// # }
    /// ```
    pub fn router(&self) -> Router {
        self.begin_cleaning();
        let document = Bytes::from(openapi::for_server(self.base_url()).to_string());
        let router = routes(document)
            .into_iter()
            .fold(Router::new(), |router, (path, methods)| router.route(path, methods))
            .method_not_allowed_fallback(error::method_not_allowed)
            .fallback(error::no_such_route)
            .with_state(self.clone())
            .layer(guard::compression());
        let router = match guard::cors(&self.inner.options.allowed_origins) {
            Some(cors) => router.layer(cors),
            None => router,
        };
        let door = guard::door(&self.inner.base, &self.inner.options);
        router
            .layer(middleware::from_fn_with_state(door, guard::admit))
            .layer(middleware::from_fn(guard::guard))
    }
}

/// Returns every path, with a router for the methods of the path. A test compares the paths and methods with
/// `openapi.json`.
fn routes(document: Bytes) -> Vec<(&'static str, MethodRouter<DualResponseServer>)> {
    let document = move || std::future::ready(json(document.clone()));
    let page = viewer::Page::new();
    let view = move |names: RawPathParams, headers: HeaderMap| {
        std::future::ready(viewer::view(page.clone(), &names, &headers))
    };
    let set = get(routes::describe).post(routes::page).put(routes::set_expiry).delete(routes::delete);
    vec![
        ("/openapi.json", get(document)),
        ("/{id}", set),
        ("/{id}/rows", get(routes::rows)),
        ("/{id}/manifest", get(sets::manifest)),
        ("/{id}/export", get(export::export)),
        ("/{id}/chunks/{index}", get(export::chunk)),
        ("/{id}/stats", get(sets::stats)),
        ("/{id}/aggregate", post(sets::aggregate)),
        ("/{id}/query", post(sets::query)),
        ("/{id}/view", get(view)),
        ("/{id}/links", post(links::mint).delete(links::revoke)),
    ]
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Returns a response with a JSON body.
fn json(text: impl Into<axum::body::Body>) -> axum::response::Response {
    ([(header::CONTENT_TYPE, JSON)], text.into()).into_response()
}
