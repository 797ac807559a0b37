//! Documents become tools, and a report.

use antiphon_openapi::{Error, Method, OpenApi};
use serde_json::{Value, json};

use crate::api::document;

fn schema(openapi: &OpenApi, at: usize) -> Value {
    let tools = openapi.tools().unwrap().tools;
    let schema = Value::Object((*tools[at].definition().input_schema).clone());
    jsonschema::meta::validate(&schema).unwrap();
    schema
}

fn api(paths: Value) -> OpenApi {
    document(paths).with_base_url("https://api.example.com")
}

#[test]
fn parameters_and_the_fields_of_a_body_are_one_object() {
    let api = api(json!({"/pets/{id}": {
        "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
        "put": {
            "operationId": "replacePet",
            "summary": "Replaces a pet",
            "description": "The pet keeps its ID.",
            "parameters": [
                {"name": "id", "in": "query", "schema": {"type": "integer"}},
                {"name": "X-Trace", "in": "header", "schema": {"type": "string"}, "description": "A trace"},
                {"name": "Accept", "in": "header", "schema": {"type": "string"}},
            ],
            "requestBody": {"required": true, "content": {"application/json": {"schema": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            }}}},
        },
    }}));
    assert_eq!(
        schema(&api, 0),
        json!({
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "id_query": {"type": "integer"},
                "X-Trace": {"type": "string", "description": "A trace"},
                "name": {"type": "string"},
                "age": {"type": "integer"},
            },
            "additionalProperties": false,
            "required": ["id", "name"],
        })
    );
    let tool = &api.tools().unwrap().tools[0];
    assert_eq!(tool.name(), "replace_pet");
    let definition = tool.definition();
    assert_eq!(definition.description.as_deref(), Some("Replaces a pet\n\nThe pet keeps its ID."));
    let annotations = definition.annotations.as_ref().unwrap();
    assert_eq!(annotations.read_only_hint, Some(false));
    assert_eq!(annotations.idempotent_hint, Some(true));
    assert_eq!(annotations.open_world_hint, Some(true));
}

#[test]
fn a_body_that_is_not_flat_is_one_argument() {
    let body = |schema: Value| json!({"requestBody": {"content": {"application/json": {"schema": schema}}}});
    for schema_of_body in [
        json!({"type": "array", "items": {"type": "string"}}),
        json!({"anyOf": [{"type": "object"}, {"type": "string"}]}),
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
        json!({"type": "object", "properties": {"a b": {"type": "string"}}}),
    ] {
        let api = api(json!({"/": {"post": body(schema_of_body.clone())}}));
        assert_eq!(schema(&api, 0)["properties"], json!({"body": schema_of_body}));
    }
}

#[test]
fn a_body_with_keywords_beside_its_reference_is_one_argument() {
    let base = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let body = |version: &str, of: Value| {
        let schemas = json!({"Base": base, "Alias": {
            "$ref": "#/components/schemas/Base", "properties": {"b": {"type": "string"}}, "required": ["b"],
        }});
        let body = json!({"required": true, "content": {"application/json": {"schema": of}}});
        let document = json!({
            "openapi": version,
            "paths": {"/": {"post": {"requestBody": body}}},
            "components": {"schemas": schemas},
        });
        schema(&OpenApi::from_value(document).unwrap().with_base_url("https://api.example.com"), 0)
    };
    let beside = json!({
        "$ref": "#/components/schemas/Base", "properties": {"b": {"type": "string"}}, "required": ["b"],
    });
    let whole = body("3.1.0", beside.clone());
    let both = json!({"$ref": "#/$defs/Base", "properties": {"b": {"type": "string"}}, "required": ["b"]});
    assert_eq!(whole["properties"], json!({"body": both}));
    assert_eq!(whole["$defs"], json!({"Base": base}));
    let whole = body("3.1.0", json!({"$ref": "#/components/schemas/Alias"}));
    assert_eq!(whole["properties"], json!({"body": {"$ref": "#/$defs/Alias"}}));
    // Annotations do not restrict the body, and OpenAPI 3.0 ignores keywords beside a reference.
    let described = json!({"$ref": "#/components/schemas/Base", "description": "A thing", "x-order": 1});
    assert_eq!(body("3.1.0", described)["properties"], base["properties"]);
    assert_eq!(body("3.0.3", beside)["properties"], base["properties"]);
}

#[test]
fn annotations_follow_the_method() {
    let api = api(json!({"/a": {"get": {}, "delete": {}, "post": {}}}));
    let tools = api.tools().unwrap().tools;
    let hints: Vec<_> = tools
        .iter()
        .map(|tool| {
            let annotations = tool.definition().annotations.clone().unwrap();
            (annotations.read_only_hint, annotations.destructive_hint, annotations.idempotent_hint)
        })
        .collect();
    assert_eq!(
        hints,
        [(Some(true), None, None), (Some(false), Some(true), Some(true)), (Some(false), None, None)]
    );
}

#[test]
fn an_operation_that_cannot_be_a_tool_does_not_affect_the_others() {
    let upload = |media_type: &str| json!({"requestBody": {"content": {media_type: {"schema": {}}}}});
    let api = api(json!({
        "/a": {"post": upload("multipart/form-data"), "put": upload("application/octet-stream")},
        "/b": {"get": {"parameters": [{"$ref": "#/components/parameters/Missing"}]}},
        "/c": {"get": {"operationId": "works", "parameters": [{"name": "q", "in": "query", "schema": "odd"}]}},
        "/d": {"trace": {}},
        "/e": "odd",
        "/f": {"$ref": "other.json#/f"},
        "x-extension": "odd",
    }));
    let converted = api.tools().unwrap();
    let names: Vec<&str> = converted.tools.iter().map(antiphon::Tool::name).collect();
    assert_eq!(names, ["works"]);
    let refused: Vec<&str> = converted.report.refused.iter().map(|it| it.operation.as_str()).collect();
    assert_eq!(refused, ["POST /a", "PUT /a", "GET /b", "TRACE /d", "/e", "/f"]);
    assert!(converted.report.refused[0].reason.contains("`multipart/form-data`"));
    assert!(converted.report.refused[5].reason.contains("`other.json#/f`"));
    assert!(converted.report.warnings[0].text.contains("not an object"));
    assert!(converted.report.to_string().contains("1 operations converted, 6 refused"));
    let refused = |api: OpenApi| api.tools().unwrap().report.refused.len();
    assert_eq!(refused(api.clone().with_paths(["/f"])), 1);
    assert_eq!(refused(api.with_operations(["works"])), 0);
}

#[test]
fn a_path_with_a_query_is_refused() {
    let api = api(json!({
        "/b/{key}?tagging": {"delete": {}},
        "/s?q={q}": {"get": {}},
        "/files/{id}#share-{how}": {"get": {}},
    }));
    let refused = api.tools().unwrap().report.refused;
    let operations: Vec<&str> = refused.iter().map(|it| it.operation.as_str()).collect();
    assert_eq!(operations, ["DELETE /b/{key}?tagging", "GET /s?q={q}"]);
    assert!(refused.iter().all(|it| it.reason.contains("query")), "{refused:?}");
    // A request does not contain the fragment.
    assert_eq!(schema(&api, 0)["properties"], json!({"id": {"type": "string"}}));
}

#[test]
fn lost_parts_of_an_operation_are_in_the_report() {
    let text = "d".repeat(400);
    let openapi = || {
        api(json!({"/a": {"post": {
            "description": "e".repeat(1_100),
            "parameters": [{"name": "q", "in": "query", "description": text, "schema": {"type": "string"}}],
            "requestBody": {"content": {"application/json": {"schema": {
                "type": "object",
                "patternProperties": {"(": {"type": "string"}, "^x": {"type": "string"}},
            }}}},
        }}}))
    };
    let report = openapi().tools().unwrap().report;
    let warnings: Vec<&str> = report.warnings.iter().map(|it| it.text.as_str()).collect();
    for part in ["with_max_argument_description", "`patternProperties`", "with_max_description"] {
        assert!(warnings.iter().any(|it| it.contains(part)), "{part}: {warnings:?}");
    }
    let patterns = &schema(&openapi(), 0)["properties"]["body"]["patternProperties"];
    assert_eq!(*patterns, json!({"^x": {"type": "string"}}));
    let longer = openapi().with_max_argument_description(400).with_max_description(1_100);
    assert_eq!(schema(&longer, 0)["properties"]["q"]["description"], text);
    assert_eq!(longer.tools().unwrap().report.warnings.len(), 1);
}

#[test]
fn operations_are_selected_and_renamed() {
    let paths = json!({
        "/pets": {"get": {"operationId": "listPets", "tags": ["pets"]}, "post": {"tags": ["pets"]}},
        "/pets/{id}": {"get": {"tags": ["pets"]}},
        "/users": {"get": {"tags": ["users"]}},
    });
    let names = |openapi: OpenApi| -> Vec<String> {
        openapi.tools().unwrap().tools.iter().map(|tool| tool.name().to_owned()).collect()
    };
    assert_eq!(names(api(paths.clone()).with_tags(["users"])), ["get_users"]);
    assert_eq!(names(api(paths.clone()).with_paths(["/pets/*"])), ["get_pets_by_id"]);
    assert_eq!(names(api(paths.clone()).with_methods([Method::POST])), ["post_pets"]);
    assert_eq!(
        names(api(paths.clone()).with_operations(["listPets", "GET /users"])),
        ["list_pets", "get_users"]
    );
    let renamed =
        api(paths.clone()).with_tags(["pets"]).with_methods([Method::GET]).rename("listPets", "pets");
    assert_eq!(names(renamed.clone()), ["pets", "get_pets_by_id"]);
    assert_eq!(renamed.tools().unwrap().report.omitted, 2);

    for wrong in [
        api(paths.clone()).with_tags(["cats"]),
        api(paths.clone()).with_paths(["/cats"]),
        api(paths.clone()).with_operations(["listCats"]),
        api(paths.clone()).rename("listCats", "cats"),
        api(paths.clone()).rename("listPets", "no spaces"),
        api(paths.clone()).rename("listPets", "get_users"),
        api(paths.clone()).with_credential("key", antiphon_openapi::Credential::token("k")),
        api(paths.clone()).with_base_url("ftp://example.com"),
    ] {
        assert!(matches!(wrong.tools(), Err(Error::Setting(_))), "{wrong:?}");
    }
}

#[test]
fn a_document_needs_a_server() {
    let paths = json!({"/a": {"get": {}}});
    let error = document(paths).tools().unwrap_err();
    assert!(error.to_string().contains("with_base_url"), "{error}");
    let relative = json!({"openapi": "3.0.0", "servers": [{"url": "/v1"}], "paths": {"/a": {"get": {}}}});
    assert!(OpenApi::from_value(relative).unwrap().tools().is_err());
}

#[test]
fn large_schemas_lose_descriptions_and_then_are_refused() {
    let api = || {
        api(
            json!({"/a": {"get": {"parameters": [{"name": "q", "in": "query", "description": "kept", "schema": {
                "type": "object",
                "properties": {"description": {"type": "string", "description": "d".repeat(200)}},
            }}]}}}),
        )
    };
    let short = api().with_max_schema_bytes(250);
    let kept = &schema(&short, 0)["properties"]["q"];
    assert_eq!(kept["description"], "kept");
    assert_eq!(kept["properties"]["description"], json!({"type": "string"}));
    let refused = api().with_max_schema_bytes(50).tools().unwrap().report.refused;
    assert!(refused[0].reason.contains("with_max_schema_bytes"));
}

#[test]
fn documents_in_yaml_are_read() {
    let text = "openapi: 3.0.3\npaths:\n  /pets:\n    get:\n      operationId: listPets\n      responses:\n        200: {description: ok}\n";
    let openapi = OpenApi::parse_yaml(text).unwrap().with_base_url("https://api.example.com");
    assert_eq!(openapi.tools().unwrap().tools[0].name(), "list_pets");
    assert!(matches!(OpenApi::parse("{"), Err(Error::Json(_))));

    let text = "openapi: 3.1.0\nx-common: &common\n  summary: Lists pets\npaths:\n  /pets:\n    get:\n      <<: *common\n      operationId: listPets\n";
    let openapi = OpenApi::parse_yaml(text).unwrap().with_base_url("https://api.example.com");
    let tool = &openapi.tools().unwrap().tools[0];
    assert_eq!(tool.name(), "list_pets");
    assert_eq!(tool.definition().description.as_deref(), Some("Lists pets"));
}
