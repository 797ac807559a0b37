//! The `OpenAPI` document of the routes.

use serde_json::Value;

/// The JSON text of the `OpenAPI` document. The tests below compare the document with the routes and the query
/// parameters in the code.
const DOCUMENT: &str = include_str!("../../openapi.json");

/// Returns an `OpenAPI` 3.1 document that describes every route, parameter, body, response, header and error.
///
/// The document is the crate's `openapi.json`. A server returns the document, with the server's base URL, at `GET
/// /openapi.json`.
///
/// ```
/// let document = antiphon_results::rest::openapi();
/// assert_eq!(document["openapi"], "3.1.0");
/// assert!(document["paths"]["/{id}/rows"]["get"].is_object());
/// ```
pub fn openapi() -> Value {
    serde_json::from_str(DOCUMENT).expect("`openapi.json` is JSON, which a test checks")
}

/// Returns the `OpenAPI` document for the server at this URL.
pub(super) fn for_server(url: &str) -> Value {
    let mut document = openapi();
    document["servers"][0]["url"] = url.into();
    document
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::{
        Router,
        body::{Body, to_bytes},
    };
    use bytes::Bytes;
    use http::{Request, StatusCode, header};
    use serde_json::json;
    use tower::ServiceExt as _;

    use super::*;
    use crate::{
        rest::ask::PARAMETERS,
        rows::Rows,
        server::{CreateOptions, DualResponseServer, DualResponseServerOptions},
        snapshot::ExportFormat,
        source::Source,
    };

    /// The HTTP methods of operations in the document.
    const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

    /// Returns an invalid value of a query parameter. If a route reads the query parameter, the route rejects a
    /// request with the invalid value.
    fn wrong(parameter: &str) -> &'static str {
        match parameter {
            "columns" => ",",
            "sort" => "there_is_no_such_column",
            _ => "wrong",
        }
    }

    fn server() -> DualResponseServer {
        let options = DualResponseServerOptions::new("http://localhost/resources");
        DualResponseServer::new(options).unwrap()
    }

    /// Returns the operations of the `OpenAPI` document: path, method and content.
    fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
        let paths = document["paths"].as_object().unwrap();
        let each = paths.iter().flat_map(|(path, item)| {
            let methods =
                item.as_object().unwrap().iter().filter(|(name, _)| METHODS.contains(&name.as_str()));
            methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
        });
        each.collect()
    }

    /// Returns the names of an operation's query parameters.
    fn documented<'a>(document: &'a Value, operation: &'a Value) -> BTreeSet<&'a str> {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let resolved = parameters.map(|parameter| match parameter["$ref"].as_str() {
            Some(reference) => document.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
            None => parameter,
        });
        let query = resolved.filter(|parameter| parameter["in"] == "query");
        let mut names: BTreeSet<&str> = query.map(|parameter| parameter["name"].as_str().unwrap()).collect();
        // The document describes a link as a security scheme, not as a parameter. Each secured operation reads the
        // link.
        let scheme = &document["components"]["securitySchemes"]["link"];
        assert_eq!(scheme["in"], "query");
        if !operation["security"].as_array().unwrap().is_empty() {
            names.insert(scheme["name"].as_str().unwrap());
        }
        names
    }

    #[test]
    fn document_has_the_version_of_the_specification_and_a_server() {
        assert_eq!(openapi()["info"]["version"], crate::SPECIFICATION);
        assert_eq!(openapi()["servers"], json!([{"url": "/resources"}]));
        assert_eq!(for_server("https://a.example/r")["servers"], json!([{"url": "https://a.example/r"}]));
    }

    #[test]
    fn document_lists_every_export_format() {
        let document = openapi();
        let parameters = document["paths"]["/{id}/export"]["get"]["parameters"].as_array().unwrap();
        let format = parameters.iter().find(|parameter| parameter["name"] == "format").unwrap();
        assert_eq!(format["schema"]["enum"], json!(ExportFormat::ALL.map(ExportFormat::name)));
    }

    #[test]
    fn document_and_router_have_the_same_paths() {
        let document = openapi();
        let documented: BTreeSet<&str> =
            document["paths"].as_object().unwrap().keys().map(|path| &**path).collect();
        let routed: BTreeSet<&str> =
            crate::rest::routes(Bytes::new()).into_iter().map(|(path, _)| path).collect();
        assert_eq!(documented, routed);
    }

    #[tokio::test]
    async fn document_and_router_have_the_same_methods() {
        let (document, router) = (openapi(), server().router());
        for path in document["paths"].as_object().unwrap().keys() {
            let mut documented: BTreeSet<String> = operations(&document)
                .into_iter()
                .filter(|(of, ..)| of == path)
                .map(|(_, method, _)| method.to_uppercase())
                .collect();
            if documented.contains("GET") {
                documented.insert("HEAD".to_owned());
            }
            let request = Request::builder().method("TRACE").uri(address(path, "rs_1", ""));
            let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
            let allowed = answer.headers()[header::ALLOW].to_str().unwrap();
            let routed: BTreeSet<String> =
                allowed.split(',').map(|method| method.trim().to_owned()).collect();
            assert_eq!(documented, routed, "{path}");
        }
    }

    #[tokio::test]
    async fn document_and_code_have_the_same_query_parameters() {
        let (document, server) = (openapi(), server());
        let router = server.router();
        for (path, method, operation) in operations(&document) {
            let documented = documented(&document, operation);
            let plain = probe(&server, &router, method, path, "").await;
            let mut read = BTreeSet::new();
            for name in PARAMETERS {
                let query = format!("?{name}={}", wrong(name));
                if probe(&server, &router, method, path, &query).await != plain {
                    read.insert(name);
                }
            }
            assert_eq!(documented, read, "{method} {path}");
        }
    }

    /// Sends a request for a new result set. Returns the status of the response. For an error response, also returns
    /// the body.
    async fn probe(
        server: &DualResponseServer,
        router: &Router,
        method: &str,
        path: &str,
        query: &str,
    ) -> (StatusCode, Bytes) {
        let rows = Source::rows(Rows::try_from(&[json!({"id": 1}), json!({"id": 2})][..]).unwrap());
        let made = server.create_response(CreateOptions::new("x", rows)).await.unwrap();
        let request = Request::builder().method(&*method.to_uppercase());
        let request = request.uri(address(path, &made.resource_id, query)).header(header::HOST, "localhost");
        let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = answer.status();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, if status.is_success() { Bytes::new() } else { body })
    }

    fn address(path: &str, id: &str, query: &str) -> String {
        format!("{}{query}", path.replace("{id}", id).replace("{index}", "0"))
    }
}
