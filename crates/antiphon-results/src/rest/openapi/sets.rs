//! What can be asked for of rows that are saved.

use serde_json::{Value, json};

use super::{
    answers::{Tagged, answers, export_answers},
    paths::by_caller_or_link,
};
use crate::snapshot::ExportFormat;

pub(super) fn manifest() -> Value {
    json!({
        "operationId": "describeParts",
        "tags": ["sets"],
        "summary": "What is known of a set, whatever its state, and where its parts are. This is no access.",
        "security": by_caller_or_link(),
        "parameters": [{"$ref": "#/components/parameters/ifNoneMatch"}],
        "responses": answers("200", json!({
            "description": "What is known of it.",
            "headers": Tagged::Maybe.headers(),
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Manifest"}}}
        }), &[304, 401, 403, 404, 414, 500, 502, 503, 504])
    })
}

pub(super) fn export() -> Value {
    let formats = ExportFormat::ALL.map(ExportFormat::name);
    json!({
        "operationId": "exportSet",
        "tags": ["rows"],
        "summary": "All rows in a format, whole or in parts.",
        "description": "The bytes of saved rows are always the same: what broke off can be gone on with by `Range` and `If-Range`. A server may send the whole where a part was asked for. Rows that are not saved come as NDJSON or CSV.",
        "security": by_caller_or_link(),
        "parameters": [
            {"name": "format", "in": "query", "required": false, "description": "What rows come as. Default: by `Accept`.", "schema": {"type": "string", "enum": formats}},
            {"name": "sort", "in": "query", "required": false, "description": "By which columns: `state,-enrollment`.", "schema": {"type": "string"}},
            {"name": "order", "in": "query", "required": false, "description": "Which way, where `sort` is one column.", "schema": {"type": "string", "enum": ["asc", "desc"], "default": "asc"}},
            {"$ref": "#/components/parameters/filter"},
            {"$ref": "#/components/parameters/columns"},
            {"$ref": "#/components/parameters/csvSafe"},
            {"$ref": "#/components/parameters/ifNoneMatch"},
            {"$ref": "#/components/parameters/range"},
            {"$ref": "#/components/parameters/ifRange"}
        ],
        "responses": export_answers(&ExportFormat::ALL, true, &[202, 304, 400, 401, 403, 404, 406, 409, 414, 416, 422, 429, 500, 502, 503, 504])
    })
}

pub(super) fn chunk() -> Value {
    let formats = [ExportFormat::Arrow, ExportFormat::Parquet, ExportFormat::Ndjson, ExportFormat::Csv];
    json!({
        "operationId": "readChunk",
        "tags": ["rows"],
        "summary": "One of a set's parts, which its manifest lists.",
        "security": by_caller_or_link(),
        "parameters": [
            {"name": "index", "in": "path", "required": true, "description": "Which, counted from 0.", "schema": {"type": "integer", "minimum": 0, "maximum": 9_007_199_254_740_991_u64}},
            {"name": "format", "in": "query", "required": false, "description": "What rows come as.", "schema": {"type": "string", "enum": formats.map(ExportFormat::name), "default": "arrow"}},
            {"$ref": "#/components/parameters/csvSafe"},
            {"$ref": "#/components/parameters/ifNoneMatch"},
            {"$ref": "#/components/parameters/range"},
            {"$ref": "#/components/parameters/ifRange"}
        ],
        "responses": export_answers(&formats, false, &[202, 304, 400, 401, 403, 404, 409, 414, 416, 422, 429, 500, 502, 503, 504])
    })
}

pub(super) fn stats() -> Value {
    json!({
        "operationId": "readStats",
        "tags": ["rows"],
        "summary": "What is in each column of saved rows.",
        "security": by_caller_or_link(),
        "parameters": [{"$ref": "#/components/parameters/ifNoneMatch"}],
        "responses": answers("200", json!({
            "description": "What is in each column.",
            "headers": Tagged::Always.headers(),
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Stats"}}}
        }), &[202, 304, 401, 403, 404, 409, 414, 422, 429, 500, 502, 503, 504])
    })
}

pub(super) fn aggregate() -> Value {
    json!({
        "operationId": "aggregateRows",
        "tags": ["rows"],
        "summary": "Saved rows grouped and measured: what a chart shows.",
        "security": by_caller_or_link(),
        "requestBody": {
            "required": false,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/AggregateRequest"}}}
        },
        "responses": answers("200", json!({
            "description": "A row for each group.",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Groups"}}}
        }), &[202, 400, 401, 403, 404, 408, 409, 413, 414, 415, 422, 429, 500, 502, 503, 504])
    })
}

pub(super) fn query() -> Value {
    json!({
        "operationId": "querySet",
        "tags": ["sets"],
        "summary": "Makes a new set by a read-only query over saved rows.",
        "description": "The set itself is the table `result`. Nothing but the tables that are named is within reach. A link needs the scope `query`, and opens only its own set; the new one's address then has a link in it.",
        "security": by_caller_or_link(),
        "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/QueryRequest"}}}
        },
        "responses": answers("201", json!({
            "description": "The new set, and its first rows.",
            "headers": {"Location": {"$ref": "#/components/headers/Location"}},
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Derived"}}}
        }), &[202, 400, 401, 403, 404, 408, 409, 413, 414, 415, 422, 429, 500, 502, 503, 504])
    })
}

pub(super) fn view() -> Value {
    json!({
        "operationId": "viewSet",
        "tags": ["sets"],
        "summary": "A page that shows a set. It is the same for all of them, and asks the other routes.",
        "security": [],
        "responses": answers("200", json!({
            "description": "The page.",
            "content": {"text/html": {"schema": {"type": "string"}}}
        }), &[304, 404])
    })
}

/// What a part of a body is asked for with.
pub(super) fn range_parameters() -> [(&'static str, Value); 2] {
    let text = |name: &str, description: &str, example: &str| json!({"name": name, "in": "header", "required": false, "description": description, "schema": {"type": "string"}, "example": example});
    [
        ("range", text("Range", "One part of the bytes.", "bytes=1024-")),
        (
            "ifRange",
            text("If-Range", "The part, if the `ETag` is still this; otherwise the whole.", "\"3q2-7w\""),
        ),
    ]
}

pub(super) fn schemas() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    let moment = json!({"type": ["string", "null"], "format": "date-time"});
    let truncated = json!({"type": ["string", "null"], "enum": ["row_limit", "byte_limit", null], "description": "Why rows are missing at the end, if they are."});
    let status = json!({"type": "string", "enum": ["ready", "writing", "failed"]});
    let columns = json!({"type": "array", "items": {"$ref": "#/components/schemas/Column"}});
    let lineage = json!({"anyOf": [{"$ref": "#/components/schemas/Lineage"}, {"type": "null"}]});
    json!({
        "Filter": {
            "type": "object",
            "additionalProperties": false,
            "required": ["column", "op"],
            "properties": {
                "column": {"type": "string"},
                "op": {"type": "string", "enum": ["eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "starts_with", "is_null", "not_null"]},
                "value": {"description": "With what, as the column's values are written; a list for `in`."}
            },
            "examples": [{"column": "state", "op": "eq", "value": "NJ"}]
        },
        "AggregateRequest": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "groups": {"type": "array", "maxItems": 2, "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["column"],
                    "properties": {
                        "column": {"type": "string"},
                        "bucket": {
                            "description": "How values that are near each other are taken together.",
                            "oneOf": [
                                {"type": "string", "enum": ["minute", "hour", "day", "week", "month", "year"]},
                                {
                                    "type": "object",
                                    "additionalProperties": false,
                                    "required": ["width"],
                                    "properties": {"width": {"type": "number", "exclusiveMinimum": 0}}
                                },
                                {"type": "null"}
                            ]
                        }
                    }
                }},
                "measures": {"type": "array", "maxItems": 4, "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["op"],
                    "properties": {
                        "op": {"type": "string", "enum": ["count", "distinct", "sum", "mean", "min", "max"]},
                        "column": {"type": ["string", "null"]}
                    }
                }},
                "filter": {"type": "array", "items": {"$ref": "#/components/schemas/Filter"}},
                "limit": {"type": ["integer", "null"], "minimum": 0, "maximum": 10_000, "description": "Only so many groups, those with the greatest first measure."}
            },
            "examples": [{"groups": [{"column": "state"}], "measures": [{"op": "mean", "column": "enrollment"}]}]
        },
        "Groups": {
            "type": "object",
            "additionalProperties": false,
            "required": ["data", "groups"],
            "properties": {
                "data": {"type": "array", "items": {"type": "object"}, "description": "A member for each group, by its column, and `m0`, `m1` and so on for the measures."},
                "groups": {"type": "integer", "minimum": 0, "description": "How many are in `data`. With a `limit` there may have been more."}
            }
        },
        "QueryRequest": {
            "type": "object",
            "additionalProperties": false,
            "required": ["sql"],
            "properties": {
                "sql": {"type": "string", "description": "One `SELECT`."},
                "name": {"type": ["string", "null"], "description": "What people call the new set."},
                "tables": {"type": ["object", "null"], "additionalProperties": {"type": "string"}, "description": "Other sets of the same owner: the name in the query, and the id."},
                "sample": {"type": ["integer", "null"], "minimum": 0, "maximum": 9_007_199_254_740_991_u64, "description": "How many rows the preview has."}
            },
            "examples": [{"sql": "SELECT state, count(*) AS institutions FROM result GROUP BY state"}]
        },
        "Derived": {
            "type": "object",
            "additionalProperties": false,
            "required": ["id", "uri", "url", "name", "status", "total_count", "exact", "columns", "data", "truncated", "lineage", "expires_at"],
            "properties": {
                "id": {"type": "string"},
                "uri": {"type": "string"},
                "url": {"type": "string", "format": "uri"},
                "name": {"type": "string"},
                "status": status,
                "total_count": count,
                "exact": {"type": "boolean"},
                "columns": columns,
                "data": {"type": "array", "items": {"type": "object"}},
                "truncated": truncated,
                "lineage": lineage,
                "expires_at": moment
            }
        },
        "Lineage": {
            "type": "object",
            "required": ["sources", "query"],
            "properties": {
                "sources": {"type": "array", "items": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}, "description": "The name in the query, and the id."},
                "query": {"type": "string"}
            }
        },
        "Manifest": {
            "type": "object",
            "additionalProperties": false,
            "required": ["id", "name", "status", "rows", "exact", "bytes", "digest", "columns", "chunks", "truncated", "lineage", "formats", "can", "retrieval", "url", "url_expires_at", "created_at", "expires_at", "failure"],
            "properties": {
                "id": {"type": "string"},
                "name": {"type": "string"},
                "status": status,
                "rows": count,
                "exact": {"type": "boolean"},
                "bytes": {"type": ["integer", "null"], "minimum": 0},
                "digest": {"type": ["string", "null"], "description": "`sha-256:` and the digest of the stored bytes."},
                "columns": columns,
                "chunks": {"type": "array", "items": {
                    "type": "object",
                    "required": ["index", "row_offset", "row_count", "bytes"],
                    "properties": {"index": count, "row_offset": count, "row_count": count, "bytes": count}
                }},
                "truncated": truncated,
                "lineage": lineage,
                "formats": {"type": "array", "items": {"type": "string"}},
                "can": {
                    "type": "object",
                    "required": ["sort", "filter", "aggregate", "query", "stats"],
                    "properties": {"sort": {"type": "boolean"}, "filter": {"type": "boolean"}, "aggregate": {"type": "boolean"}, "query": {"type": "boolean"}, "stats": {"type": "boolean"}}
                },
                "retrieval": {"type": "string", "enum": ["proxy", "redirect", "direct"]},
                "url": {"type": ["string", "null"], "format": "uri", "description": "Where the stored file can be got without this server, for a while."},
                "url_expires_at": moment,
                "created_at": {"type": "string", "format": "date-time"},
                "expires_at": moment,
                "failure": {"type": ["string", "null"], "description": "Why it failed, for people."}
            }
        },
        "Stats": {
            "type": "object",
            "additionalProperties": false,
            "required": ["columns"],
            "properties": {"columns": {"type": "array", "items": {
                "type": "object",
                "required": ["name", "nulls"],
                "properties": {
                    "name": {"type": "string"},
                    "nulls": count,
                    "distinct": {"type": "integer", "minimum": 0, "description": "About how many different values there are."},
                    "min": {},
                    "max": {},
                    "mean": {"type": "number"},
                    "histogram": {"type": "array", "items": {"type": "object", "required": ["from", "to", "count"], "properties": {"from": {}, "to": {}, "count": count}}},
                    "frequent": {"type": "array", "items": {"type": "object", "required": ["value", "count"], "properties": {"value": {}, "count": count}}}
                }
            }}}
        }
    })
}
