use antiphon_results::{
    ColumnType, ErrorCode,
    client::{DualResponseClient, DualResponseClientOptions},
};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{client, structured, tool_result};

fn reader() -> DualResponseClient {
    client(DualResponseClientOptions::new().with_endpoint_origin("https://api.example.com/mcp"))
}

fn moment(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

#[test]
fn structured_content_is_read() {
    let parsed = reader().parse(&tool_result("https://api.example.com/resources/abc123")).unwrap();
    assert_eq!(parsed.sample().len(), 2);
    assert_eq!(parsed.sample()[1]["name"], "row 1");
    assert_eq!(parsed.total_count(), 847);
    assert_eq!(parsed.name(), Some("People"));
    assert_eq!(parsed.resource_uri(), "resource://abc123");
    assert_eq!(parsed.resource_url().unwrap(), "https://api.example.com/resources/abc123");
    assert_eq!(parsed.columns()[0].kind, ColumnType::Number);
    assert_eq!(parsed.expires_at(), Some(moment("2025-01-15T10:45:00Z")));
    assert_eq!(parsed.executed_at(), Some(moment("2025-01-15T10:30:00Z")));
}

#[test]
fn text_that_is_a_dual_response_is_read_where_nothing_is_structured() {
    let text = structured(&json!({"uri": "data://abc123"})).to_string();
    let result = json!({"content": [
        {"type": "text", "text": "Found some."},
        {"type": "text", "text": "{not json"},
        {"type": "text", "text": text},
    ]});
    assert_eq!(reader().parse(&result).unwrap().resource_uri(), "data://abc123");
}

#[test]
fn text_is_read_where_what_is_structured_is_something_else() {
    let text = structured(&json!({"uri": "resource://abc123"})).to_string();
    let result = json!({"structuredContent": {"answer": 42}, "content": [{"type": "text", "text": text}]});
    assert!(reader().parse(&result).is_some());
}

#[test]
fn what_is_no_dual_response_is_none() {
    for result in [
        json!({"content": [{"type": "text", "text": "It is sunny."}]}),
        json!({"content": [], "structuredContent": {"temperature": 20}}),
        json!({}),
        json!(null),
        json!("text"),
    ] {
        assert!(reader().parse(&result).is_none(), "{result}");
        assert_eq!(reader().parse_strict(&result).unwrap_err().code(), ErrorCode::ParseError);
    }
    assert!(reader().parse_structured(&json!({"results": []})).is_none());
    assert!(reader().parse_structured(&structured(&json!({"uri": "resource://abc123"}))).is_some());
}

#[test]
fn an_error_of_a_tool_is_no_dual_response() {
    let mut result = tool_result("https://api.example.com/resources/abc123");
    result["isError"] = json!(true);
    assert!(reader().parse(&result).is_none());
}

#[test]
fn strict_parsing_says_what_is_missing() {
    let whole = tool_result("https://api.example.com/resources/abc123");
    let without = |path: &str| {
        let mut result = whole.clone();
        let (parent, name) = path.rsplit_once('/').unwrap();
        let parent = result["structuredContent"].pointer_mut(parent).unwrap();
        parent.as_object_mut().unwrap().remove(name);
        reader().parse_strict(&result).unwrap_err().to_string()
    };
    assert_eq!(without("/results"), "the tool result is not a dual response: `results` is not an array");
    assert_eq!(without("/resource"), "the tool result is not a dual response: `resource` is missing");
    assert_eq!(without("/metadata"), "the tool result is not a dual response: `metadata` is missing");
    let count = "`metadata.total_count` is missing or is not a whole number";
    assert!(without("/metadata/total_count").ends_with(count));
}

#[test]
fn an_expiry_that_cannot_be_read_is_an_error_and_not_for_ever() {
    let mut result = tool_result("https://api.example.com/resources/abc123");
    result["structuredContent"]["metadata"]["expires_at"] = json!("soon");
    let error = reader().parse_strict(&result).unwrap_err();
    assert!(error.to_string().contains("`metadata.expires_at`"), "{error}");
}

#[test]
fn columns_may_be_names_only() {
    let mut content = structured(&json!({"uri": "resource://abc123"}));
    content["metadata"]["columns"] = json!(["id", {"name": "name"}]);
    let parsed = reader().parse_structured(&content).unwrap();
    assert_eq!(parsed.columns()[1].name, "name");
    assert_eq!(parsed.columns()[0].kind, ColumnType::Json);
}

#[test]
fn expiry_goes_by_the_clock() {
    let at = |now: &'static str, expires_at: Value| {
        let options = DualResponseClientOptions::new().with_clock(move || moment(now));
        let mut content = structured(&json!({"uri": "resource://abc123"}));
        content["metadata"]["expires_at"] = expires_at;
        client(options).parse_structured(&content).unwrap().is_expired()
    };
    assert!(!at("2025-01-15T10:44:59Z", json!("2025-01-15T10:45:00Z")));
    assert!(at("2025-01-15T10:45:00Z", json!("2025-01-15T10:45:00Z")));
    assert!(!at("2999-01-01T00:00:00Z", Value::Null));
}

#[test]
fn the_base_url_of_the_application_comes_first_then_that_of_the_response_then_the_fallback() {
    let url = |options: DualResponseClientOptions, resource: Value| {
        let parsed = client(options).parse_structured(&structured(&resource)).unwrap();
        parsed.resource_url().map(str::to_owned).map_err(|error| error.code())
    };
    let options = DualResponseClientOptions::new;
    let full = json!({"uri": "resource://abc123", "url": "https://api.example.com/sets/xyz"});
    let bare = json!({"uri": "warehouse://abc123"});
    let near = options().with_endpoint_origin("https://api.example.com");

    let base = near.clone().with_base_url("https://data.example.com/r/");
    assert_eq!(url(base, full.clone()).unwrap(), "https://data.example.com/r/abc123");
    let fallback = near.clone().with_fallback_base_url("https://data.example.com/r?key=1");
    assert_eq!(url(fallback.clone(), full.clone()).unwrap(), "https://api.example.com/sets/xyz");
    assert_eq!(url(fallback, bare.clone()).unwrap(), "https://data.example.com/r/abc123?key=1");
    let told = json!({"uri": "resource://abc123", "base_url": "https://api.example.com/sets"});
    assert_eq!(url(near.clone(), told).unwrap(), "https://api.example.com/sets/abc123");
    let only_url = json!({"url": "https://api.example.com/sets/xyz?token=1"});
    let moved = options().with_base_url("https://data.example.com");
    assert_eq!(url(moved, only_url).unwrap(), "https://data.example.com/xyz");
    assert_eq!(url(near, bare).unwrap_err(), ErrorCode::Configuration);
    assert_eq!(url(options(), full).unwrap_err(), ErrorCode::UrlRefused);
}

#[test]
fn options_that_cannot_work_are_refused_at_once() {
    let options = DualResponseClientOptions::new;
    for (wrong, expected) in [
        (options().with_base_url("not a url"), "is not a valid URL or origin"),
        (options().with_base_url("ftp://example.com"), "is not a valid origin"),
        (options().with_base_url("https://user:secret@example.com/r"), "is not a valid origin"),
        (options().allow_origin("https://example.com/path"), "is not a valid origin"),
        (options().with_header("x-key", "1"), "no origin to send them to"),
        (options().with_header_provider(|_| http::HeaderMap::new()), "no origin to send them to"),
        (options().with_base_url("https://a.test").with_header("x\r\ny", "1"), "is not a valid header name"),
        (options().with_base_url("https://a.test").with_header("x", "1\r\nevil: 1"), "invalid characters"),
        (options().with_base_url("https://a.test").with_header("Host", "b.test"), "the HTTP client sets it"),
    ] {
        let error = DualResponseClient::new(wrong).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Configuration);
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn secrets_are_not_in_debug_output() {
    let options = DualResponseClientOptions::new()
        .with_base_url("https://api.example.com/r?key=hunter2")
        .with_header("authorization", "Bearer hunter2");
    assert!(!format!("{options:?}").contains("hunter2"), "{options:?}");
    let client = client(options);
    assert!(!format!("{client:?}").contains("hunter2"));
    let parsed = client.parse(&tool_result("https://api.example.com/r/abc123")).unwrap();
    assert!(!format!("{parsed:?}").contains("hunter2"), "{parsed:?}");
}
