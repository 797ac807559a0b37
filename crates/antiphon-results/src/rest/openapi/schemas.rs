//! What bodies are made of.

use serde_json::{Value, json};

use super::sets;

/// The greatest number that every JSON reader reads as it is.
const MOST: u64 = (1 << 53) - 1;

pub(super) fn schemas() -> Value {
    let mut schemas = requests();
    for more in [answers(), sets::schemas()] {
        if let (Value::Object(all), Value::Object(more)) = (&mut schemas, more) {
            all.extend(more);
        }
    }
    schemas
}

fn requests() -> Value {
    json!({
        "PageRequest": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "offset": {"type": "integer", "minimum": 0, "maximum": MOST, "default": 0, "description": "Where to begin, counted from 0."},
                "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "description": "How many rows. A page has 100 if nobody says, and never more than the server allows; a stream has all."},
                "sort": {"anyOf": [{"$ref": "#/components/schemas/Sort"}, {"type": "array", "maxItems": 4, "items": {"$ref": "#/components/schemas/Sort"}}, {"type": "null"}], "description": "In which order. By several columns only saved rows."},
                "filter": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/Filter"}, "description": "What must all be true of a row, of saved rows."},
                "columns": {"type": ["array", "null"], "items": {"type": "string"}, "description": "Which columns in which order, of saved rows. Default: all."},
                "cursor": {"type": ["string", "null"], "description": "Where an earlier page ended, from its header `Link`. It takes the place of `offset` and `sort`."}
            },
            "examples": [{"offset": 0, "limit": 100, "sort": {"field": "enrollment", "order": "desc"}}]
        },
        "Sort": {
            "type": "object",
            "additionalProperties": false,
            "required": ["field"],
            "properties": {
                "field": {"type": "string", "description": "The name of one of the set's columns."},
                "order": {"type": "string", "enum": ["asc", "desc"], "default": "asc"}
            }
        },
        "LifeRequest": {
            "type": "object",
            "additionalProperties": false,
            "maxProperties": 1,
            "properties": {
                "pinned": {"type": "boolean", "description": "`true` pins, as no body does; `false` unpins."},
                "expires_in": {"type": "integer", "minimum": 1, "maximum": MOST, "description": "Lets it live for so many seconds from now on. More than the server allows is that."}
            },
            "examples": [{"pinned": true}, {"expires_in": 3600}]
        },
        "LinkRequest": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "scopes": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Scope"}, "default": ["read"], "description": "What the link is to allow."},
                "expires_in": {"type": "integer", "minimum": 1, "maximum": MOST, "default": 300, "description": "For how many seconds. More than the server allows is that."}
            },
            "examples": [{"scopes": ["read"], "expires_in": 300}]
        },
        "Scope": {"type": "string", "enum": ["read", "pin", "delete", "query"]}
    })
}

fn answers() -> Value {
    let moment = json!({"type": "string", "format": "date-time"});
    let end = json!({"type": ["string", "null"], "format": "date-time", "description": "When it ends; never, if it is pinned."});
    let count = json!({"type": "integer", "minimum": 0});
    json!({
        "Metadata": {
            "type": "object",
            "additionalProperties": false,
            "required": ["status", "total_count", "columns", "created_at", "expires_at", "access_count"],
            "properties": {
                "status": {"type": "string", "enum": ["ready", "writing", "failed"], "description": "Whether all rows are there: those that are saved come in for a while."},
                "total_count": {"type": "integer", "minimum": 0, "description": "How many rows it had when it was made; while rows are being saved, how many came so far."},
                "columns": {"type": "array", "items": {"$ref": "#/components/schemas/Column"}},
                "created_at": moment,
                "expires_at": end,
                "access_count": {"type": "integer", "minimum": 0, "description": "How often its rows were read."}
            },
            "examples": [{
                "status": "ready",
                "total_count": 847,
                "columns": [{"name": "id", "type": "integer"}, {"name": "name", "type": "string"}],
                "created_at": "2025-01-15T10:30:00Z",
                "expires_at": "2025-01-15T10:45:00Z",
                "access_count": 3
            }]
        },
        "Column": {
            "type": "object",
            "required": ["name", "type"],
            "properties": {
                "name": {"type": "string"},
                "type": {"type": "string", "description": "`string`, `number`, `integer`, `boolean`, `date`, `timestamp`, `json`, or what another house calls it."},
                "nullable": {"type": "boolean"},
                "format": {"type": "string"},
                "description": {"type": "string"}
            }
        },
        "Page": {
            "type": "object",
            "additionalProperties": false,
            "required": ["data", "total_count", "returned_count", "offset", "has_next", "next_offset"],
            "properties": {
                "data": {"type": "array", "items": {"type": "object"}},
                "total_count": count,
                "returned_count": count,
                "offset": count,
                "has_next": {"type": "boolean"},
                "next_offset": {"type": ["integer", "null"], "minimum": 0, "description": "Where the next page begins; `null` on the last."}
            },
            "examples": [{
                "data": [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}],
                "total_count": 847,
                "returned_count": 2,
                "offset": 0,
                "has_next": true,
                "next_offset": 2
            }]
        },
        "Life": {
            "type": "object",
            "additionalProperties": false,
            "required": ["status", "expires_at"],
            "properties": {"status": {"type": "string", "enum": ["pinned", "ready"]}, "expires_at": end},
            "examples": [{"status": "pinned", "expires_at": null}]
        },
        "Link": {
            "type": "object",
            "additionalProperties": false,
            "required": ["url", "scopes", "expires_at"],
            "properties": {
                "url": {"type": "string", "format": "uri", "description": "The set's address with the token in it: `?link=…`. The token works on the other routes too."},
                "scopes": {"type": "array", "items": {"$ref": "#/components/schemas/Scope"}},
                "expires_at": moment
            }
        },
        "Error": {
            "type": "object",
            "additionalProperties": false,
            "required": ["error", "message", "code"],
            "properties": {
                "error": {"type": "string", "description": "What kind of error, in one word."},
                "message": {"type": "string", "description": "What to do about it, for people."},
                "code": {
                    "type": "string",
                    "description": "Which error exactly, for programs.",
                    "examples": ["RESOURCE_NOT_FOUND", "RESOURCE_EXPIRED", "INVALID_REQUEST"]
                },
                "rule": {"type": "string", "description": "Which rule a query broke that was refused, for programs.", "examples": ["one_statement", "unknown_table"]}
            }
        }
    })
}
