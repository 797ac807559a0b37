//! What can be asked for.

use serde_json::{Value, json};

use super::{
    answers::{Tagged, answers, page_answers},
    sets,
};

const BY_CALLER: &str = "bearer";

pub(super) fn paths() -> Value {
    json!({
        "/{id}": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "get": describe(),
            "post": page(),
            "put": set_life(),
            "delete": delete(),
        },
        "/{id}/rows": {"parameters": [{"$ref": "#/components/parameters/id"}], "get": rows()},
        "/{id}/manifest": on_set("get", &sets::manifest()),
        "/{id}/export": on_set("get", &sets::export()),
        "/{id}/chunks/{index}": on_set("get", &sets::chunk()),
        "/{id}/stats": on_set("get", &sets::stats()),
        "/{id}/aggregate": on_set("post", &sets::aggregate()),
        "/{id}/query": on_set("post", &sets::query()),
        "/{id}/view": on_set("get", &sets::view()),
        "/{id}/links": {
            "parameters": [{"$ref": "#/components/parameters/id"}],
            "post": mint(),
            "delete": revoke(),
        },
        "/openapi.json": {"get": {
            "operationId": "describeRoutes",
            "tags": ["sets"],
            "summary": "This document.",
            "security": [],
            "responses": {"200": {
                "description": "This document.",
                "content": {"application/json": {"schema": {"type": "object"}}}
            }}
        }}
    })
}

fn on_set(method: &str, operation: &Value) -> Value {
    json!({"parameters": [{"$ref": "#/components/parameters/id"}], method: operation})
}

fn describe() -> Value {
    json!({
        "operationId": "describeSet",
        "tags": ["sets"],
        "summary": "Says what is known of a set. This is no access.",
        "security": by_caller_or_link(),
        "parameters": [{"$ref": "#/components/parameters/ifNoneMatch"}],
        "responses": answers("200", json!({
            "description": "What is known of it.",
            "headers": Tagged::Always.headers(),
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Metadata"}}}
        }), &[304, 401, 403, 404, 414, 500, 503])
    })
}

fn page() -> Value {
    json!({
        "operationId": "readPage",
        "tags": ["rows"],
        "summary": "A page of its rows, or all of them as NDJSON or CSV.",
        "description": "Without a body: the first 100. As NDJSON or CSV all rows from `offset` on are streamed, or `limit` of them; what breaks off breaks the connection.",
        "security": by_caller_or_link(),
        "parameters": [{"$ref": "#/components/parameters/csvSafe"}],
        "requestBody": {
            "required": false,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/PageRequest"}}}
        },
        "responses": page_answers(Tagged::Never, &[202, 400, 401, 403, 404, 406, 408, 409, 413, 414, 415, 422, 429, 500, 502, 503, 504])
    })
}

fn rows() -> Value {
    let parameter = |name: &str, description: &str, schema: Value| json!({"name": name, "in": "query", "required": false, "description": description, "schema": schema});
    let number =
        |least: u64| json!({"type": "integer", "minimum": least, "maximum": 9_007_199_254_740_991_u64});
    json!({
        "operationId": "readRows",
        "tags": ["rows"],
        "summary": "The same, for caches and for browsers.",
        "security": by_caller_or_link(),
        "parameters": [
            parameter("offset", "Where to begin, counted from 0.", number(0)),
            parameter("limit", "How many rows. A page has 100 if nobody says, and never more than the server allows.", number(1)),
            parameter("sort", "By which column. Of saved rows by up to four: `state,-enrollment`.", json!({"type": "string", "examples": ["enrollment"]})),
            parameter("order", "Which way, where `sort` is given.", json!({"type": "string", "enum": ["asc", "desc"], "default": "asc"})),
            parameter("cursor", "Where an earlier page ended, from its header `Link`. It takes the place of `offset` and `sort`.", json!({"type": "string"})),
            {"$ref": "#/components/parameters/filter"},
            {"$ref": "#/components/parameters/columns"},
            {"$ref": "#/components/parameters/csvSafe"},
            {"$ref": "#/components/parameters/ifNoneMatch"}
        ],
        "responses": page_answers(Tagged::Maybe, &[202, 304, 400, 401, 403, 404, 406, 409, 414, 422, 429, 500, 502, 503, 504])
    })
}

fn set_life() -> Value {
    json!({
        "operationId": "setLife",
        "tags": ["sets"],
        "summary": "Pins a set, unpins it, or lets it live longer.",
        "description": "Without a body it is pinned: it lives until it is deleted.",
        "security": by_caller_or_link(),
        "requestBody": {
            "required": false,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/LifeRequest"}}}
        },
        "responses": answers("200", json!({
            "description": "How long it lives now.",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Life"}}}
        }), &[400, 401, 403, 404, 408, 413, 414, 415, 500, 503])
    })
}

fn delete() -> Value {
    json!({
        "operationId": "deleteSet",
        "tags": ["sets"],
        "summary": "Deletes a set and its rows.",
        "security": by_caller_or_link(),
        "responses": answers("204", json!({"description": "It is gone."}), &[401, 403, 404, 414, 500, 503])
    })
}

fn mint() -> Value {
    json!({
        "operationId": "signLink",
        "tags": ["links"],
        "summary": "Signs a link to a set.",
        "description": "Whoever has it can use it. A link signs no links.",
        "security": [{BY_CALLER: []}, {}],
        "requestBody": {
            "required": false,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/LinkRequest"}}}
        },
        "responses": answers("201", json!({
            "description": "The link.",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Link"}}}
        }), &[400, 401, 403, 404, 408, 413, 414, 415, 500, 501, 503])
    })
}

fn revoke() -> Value {
    json!({
        "operationId": "revokeLinks",
        "tags": ["links"],
        "summary": "Makes all links to a set that were signed so far no longer good.",
        "security": [{BY_CALLER: []}, {}],
        "responses": answers("204", json!({"description": "They open nothing any more."}), &[401, 403, 404, 414, 500, 503])
    })
}

/// A server that does not ask who is calling takes a caller who does not say.
pub(super) fn by_caller_or_link() -> Value {
    json!([{BY_CALLER: []}, {"link": []}, {}])
}

pub(super) fn parameters() -> Value {
    let mut parameters = json!({
        "id": {
            "name": "id",
            "in": "path",
            "required": true,
            "description": "The set's id: what follows `://` in the link of a dual response.",
            "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
            "example": "rs_mzxw6ytboi4tsmzxw6ytboi4tsmzxw6y"
        },
        "filter": {
            "name": "filter",
            "in": "query",
            "required": false,
            "description": "What must all be true of a row, of saved rows.",
            "content": {"application/json": {"schema": {"type": "array", "items": {"$ref": "#/components/schemas/Filter"}}}}
        },
        "columns": {
            "name": "columns",
            "in": "query",
            "required": false,
            "description": "Which columns in which order, of saved rows. Default: all.",
            "style": "form",
            "explode": false,
            "schema": {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[^,]+$"}}
        },
        "csvSafe": {
            "name": "csv_safe",
            "in": "query",
            "required": false,
            "description": "Whether cells of CSV that a spreadsheet would run as a formula begin with `'`.",
            "schema": {"type": "boolean", "default": true}
        },
        "ifNoneMatch": {
            "name": "If-None-Match",
            "in": "header",
            "required": false,
            "description": "What the caller has already: `ETag` of earlier answers, or `*`.",
            "schema": {"type": "string"}
        }
    });
    for (name, parameter) in sets::range_parameters() {
        parameters[name] = parameter;
    }
    parameters
}
