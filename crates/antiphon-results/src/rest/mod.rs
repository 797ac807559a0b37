//! The routes.
//!
//! | route | what it does |
//! |---|---|
//! | `GET /{id}` | says what is known of a set |
//! | `POST /{id}` | a page of its rows, or all of them as NDJSON or CSV |
//! | `GET /{id}/rows` | the same, for caches and for browsers |
//! | `GET /{id}/manifest` | what is known of it, and where its parts are |
//! | `GET /{id}/export` | all of it as NDJSON, CSV, Arrow, Parquet or a workbook, whole or in parts |
//! | `GET /{id}/chunks/{index}` | one part of it |
//! | `GET /{id}/stats` | what is in its columns |
//! | `POST /{id}/aggregate` | its rows grouped and measured |
//! | `POST /{id}/query` | makes a new set by a query over it |
//! | `GET /{id}/view` | a page that shows it |
//! | `PUT /{id}` | pins it, unpins it, or lets it live longer |
//! | `DELETE /{id}` | deletes it |
//! | `POST /{id}/links` | signs a link to it |
//! | `DELETE /{id}/links` | makes all its links no longer good |
//! | `GET /openapi.json` | all this for programs: [`openapi`] |
//!
//! The bodies are those of the specification, to the letter. What has no place in them is in headers: `Link` leads
//! to the next page by cursor, `Antiphon-Consistency` says what pages have to do with each other, and
//! `Antiphon-Truncated` that rows are missing at the end.
//!
//! Who asks by a name that is not ours, or is a page that was not named, is answered with 403 before anything is read.
//!
//! What is not there yet is answered with 202 and `Retry-After`: rows that are still being saved, a view that is still
//! being sorted.
//!
//! Nothing here is written to a log but what the server is asked to keep to itself: errors from inside. A signed
//! link is in the query, so whoever puts a trace layer around the router must leave the query out of it.

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
    /// The routes, to be mounted where the base URL says. From then on what has expired is removed.
    ///
    /// Must be called within a Tokio runtime.
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

/// Every path and its methods. A test compares them with `openapi.json`.
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

/// An answer that is JSON.
fn json(text: impl Into<axum::body::Body>) -> axum::response::Response {
    ([(header::CONTENT_TYPE, JSON)], text.into()).into_response()
}
