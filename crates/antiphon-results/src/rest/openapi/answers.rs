//! What is answered.

use serde_json::{Map, Value, json};

use crate::snapshot::ExportFormat;

/// Every error: its status, its name here, its word, its code, and what it means.
const ERRORS: [(u16, &str, &str, &str, &str); 20] = [
    (
        202,
        "NotReady",
        "not_ready",
        "RESOURCE_NOT_READY",
        "Rows are still being saved, or put in order; `Retry-After` says when to ask again.",
    ),
    (
        400,
        "InvalidRequest",
        "invalid_request",
        "INVALID_REQUEST",
        "The request makes no sense; `message` says what would.",
    ),
    (
        401,
        "Unauthorized",
        "unauthorized",
        "UNAUTHORIZED",
        "The request does not show who is calling, or its link is not good. What is wrong with a link is not said.",
    ),
    (403, "Forbidden", "forbidden", "FORBIDDEN", "The link is good, but not for this."),
    (
        404,
        "NotFound",
        "not_found",
        "RESOURCE_NOT_FOUND",
        "There is no such set for this caller, or it has expired; `code` tells which.",
    ),
    (
        405,
        "MethodNotAllowed",
        "method_not_allowed",
        "INVALID_REQUEST",
        "The route has other methods, which `Allow` lists.",
    ),
    (
        406,
        "NotAcceptable",
        "not_acceptable",
        "INVALID_REQUEST",
        "Rows come as JSON, NDJSON or CSV, and the caller accepts none of them.",
    ),
    (408, "RequestTimeout", "request_timeout", "TIMEOUT", "The body took too long to arrive."),
    (
        409,
        "NotSupported",
        "not_supported",
        "NOT_SUPPORTED",
        "This cannot be done with such a set, or not by this server; `message` says what is missing.",
    ),
    (413, "TooLarge", "too_large", "LIMIT_EXCEEDED", "The body is too large."),
    (414, "UriTooLong", "uri_too_long", "LIMIT_EXCEEDED", "The query is too long."),
    (415, "UnsupportedMediaType", "unsupported_media_type", "INVALID_REQUEST", "The body is not JSON."),
    (
        416,
        "RangeNotSatisfiable",
        "range_not_satisfiable",
        "INVALID_REQUEST",
        "There are fewer bytes than the range begins after; `Content-Range` says how many.",
    ),
    (
        422,
        "LimitExceeded",
        "limit_exceeded",
        "LIMIT_EXCEEDED",
        "More than a limit allows: one row alone is larger than a page may be, or too much is saved already. `message` says what to do.",
    ),
    (
        429,
        "TooManyRequests",
        "too_many_requests",
        "TOO_MANY_REQUESTS",
        "Too much at once; `Retry-After` says when to come back.",
    ),
    (
        500,
        "InternalError",
        "internal_error",
        "INTERNAL_ERROR",
        "Something broke inside, or the server is not set up for this.",
    ),
    (501, "NotImplemented", "not_implemented", "CONFIGURATION", "This server signs no links."),
    (
        502,
        "QueryFailed",
        "query_failed",
        "QUERY_EXECUTION_FAILED",
        "Where the rows come from could not be asked; or with the code `SNAPSHOT_FAILED`, they could not all be saved.",
    ),
    (
        503,
        "StorageFailed",
        "storage_failed",
        "STORAGE_ERROR",
        "Where result sets are kept could not be asked.",
    ),
    (504, "Timeout", "timeout", "TIMEOUT", "Where the rows come from took too long."),
];

/// All errors, to be referred to.
pub(super) fn errors() -> Value {
    let errors = ERRORS.map(|(status, name, error, code, description)| {
        let message = match status {
            404 => "Resource not found or expired",
            _ => description,
        };
        let mut response = json!({
            "description": description,
            "content": {"application/json": {
                "schema": {"$ref": "#/components/schemas/Error"},
                "example": {"error": error, "message": message, "code": code}
            }}
        });
        let header = match status {
            401 => Some("WWW-Authenticate"),
            405 => Some("Allow"),
            202 | 429 => Some("Retry-After"),
            416 => Some("Content-Range"),
            _ => None,
        };
        if let Some(header) = header {
            response["headers"] = json!({header: {"$ref": format!("#/components/headers/{header}")}});
        }
        (name.to_owned(), response)
    });
    let mut errors = Map::from_iter(errors);
    let known = json!({
        "description": "The caller has it already.",
        "headers": Tagged::Always.headers(),
    });
    errors.insert("NotModified".into(), known);
    Value::Object(errors)
}

/// An answer and the errors that may come in its place.
pub(super) fn answers(status: &str, answer: Value, others: &[u16]) -> Value {
    let mut answers = Map::new();
    answers.insert(status.to_owned(), answer);
    for other in others {
        let known = ERRORS.iter().find(|(status, ..)| status == other);
        let name = known.map_or("NotModified", |(_, name, ..)| name);
        answers.insert(other.to_string(), json!({"$ref": format!("#/components/responses/{name}")}));
    }
    Value::Object(answers)
}

/// Rows, in whatever form, and the errors that may come in their place.
pub(super) fn page_answers(tagged: Tagged, others: &[u16]) -> Value {
    let mut headers = tagged.headers();
    for name in ["Antiphon-Consistency", "Antiphon-Truncated", "Link", "Content-Disposition"] {
        headers[name] = json!({"$ref": format!("#/components/headers/{name}")});
    }
    let lines = json!({"schema": {
        "type": "string",
        "description": "A row a line, each a JSON object.",
        "examples": ["{\"id\":1,\"name\":\"Ada\"}\n{\"id\":2,\"name\":\"Grace\"}\n"]
    }});
    let answer = json!({
        "description": "The rows.",
        "headers": headers,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Page"}},
            "application/x-ndjson": lines,
            "application/jsonl": lines,
            "text/csv": {"schema": {
                "type": "string",
                "description": "The names of the columns, then a line a row, after RFC 4180.",
                "examples": ["id,name\r\n1,Ada\r\n2,Grace\r\n"]
            }}
        }
    });
    answers("200", answer, others)
}

/// All rows in a format, and the errors that may come in their place.
pub(super) fn export_answers(formats: &[ExportFormat], redirects: bool, others: &[u16]) -> Value {
    let reference = |name: &str| json!({"$ref": format!("#/components/headers/{name}")});
    let names = [
        "Antiphon-Consistency",
        "Antiphon-Truncated",
        "Accept-Ranges",
        "Content-Disposition",
        "Cache-Control",
        "Vary",
        "Repr-Digest",
    ];
    let mut headers = Map::from_iter(names.map(|name| (name.to_owned(), reference(name))));
    headers.insert(
        "ETag".into(),
        json!({"description": "A strong validator, for `If-None-Match` and `If-Range`. A weak one, where the body is compressed on its way. Rows that may change have none.", "schema": {"type": "string"}}),
    );
    let content = |format: &ExportFormat| {
        let essence = format.media_type().split(';').next().unwrap_or_default();
        (essence.to_owned(), json!({"schema": {"type": "string", "contentMediaType": essence}}))
    };
    let content = Value::Object(formats.iter().map(content).collect());
    let mut answers =
        answers("200", json!({"description": "All of it.", "headers": headers, "content": content}), others);
    headers.insert("Content-Range".into(), reference("Content-Range"));
    answers["206"] =
        json!({"description": "The part that was asked for.", "headers": headers, "content": content});
    if redirects {
        answers["307"] = json!({
            "description": "The stored file is at the object store, for a while, without credentials.",
            "headers": {"Location": reference("Location")}
        });
    }
    answers
}

/// Whether an answer has a validator.
#[derive(Clone, Copy)]
pub(super) enum Tagged {
    Always,
    /// Not when rows that may change are streamed.
    Maybe,
    Never,
}

impl Tagged {
    pub(super) fn headers(self) -> Value {
        match self {
            Self::Always => json!({
                "ETag": {"required": true, "description": "A weak validator, for `If-None-Match`.", "schema": {"type": "string"}},
                "Cache-Control": {"$ref": "#/components/headers/Cache-Control"},
                "Vary": {"$ref": "#/components/headers/Vary"}
            }),
            Self::Maybe => json!({
                "ETag": {"description": "A weak validator, for `If-None-Match`. Rows that may change have none when they are streamed.", "schema": {"type": "string"}},
                "Cache-Control": {"$ref": "#/components/headers/Cache-Control"},
                "Vary": {"$ref": "#/components/headers/Vary"}
            }),
            Self::Never => json!({}),
        }
    }
}

/// The headers, to be referred to.
pub(super) fn headers() -> Value {
    let text = |required: bool, description: &str, example: &str| json!({"required": required, "description": description, "schema": {"type": "string"}, "example": example});
    json!({
        "Antiphon-Consistency": {
            "required": true,
            "description": "What pages of this set have to do with each other. `fixed`: all come from the same data. `keyset`: each shows the data as they are; who goes on by cursor sees no row twice and misses none that stayed. `offset`: each shows the data as they are, and rows are counted off.",
            "schema": {"type": "string", "enum": ["fixed", "keyset", "offset"]}
        },
        "Link": text(false, "Where the next page is, by cursor.", "<https://api.example.com/resources/rs_abc/rows?cursor=eyJvIjoxMDB9&limit=100>; rel=\"next\""),
        "Antiphon-Truncated": {
            "description": "That rows are missing at the end of the set, and why. Where it is not, none are.",
            "schema": {"type": "string", "enum": ["row_limit", "byte_limit"]}
        },
        "Accept-Ranges": text(false, "Whether parts can be asked for: `bytes`, or `none`. A body that is compressed on its way does not say.", "bytes"),
        "Content-Range": text(false, "Which part it is, of how many bytes.", "bytes 0-1023/146515"),
        "Repr-Digest": text(false, "The digest of the whole, where it is the stored file.", "sha-256=:d435Qo+nKZ+gLcUHn7GQtQ72hiBVAgqoLsZnZPiTGPk=:"),
        "Location": text(false, "Where it is.", "https://api.example.com/resources/rs_abc"),
        "Content-Disposition": text(false, "What the file is called.", "attachment; filename=\"People.csv\"; filename*=UTF-8''People.csv"),
        "Cache-Control": text(true, "For how long the answer may be kept, by the caller alone.", "private, max-age=899"),
        "Vary": text(true, "What the answer depends on.", "Accept, Authorization"),
        "WWW-Authenticate": text(true, "How to show who is calling.", "Bearer"),
        "Allow": text(true, "The methods that the route has.", "GET,HEAD"),
        "Retry-After": {
            "required": true,
            "description": "In how many seconds to come back.",
            "schema": {"type": "integer", "minimum": 1}
        }
    })
}
