//! The document that describes the routes.

use antiphon_results::rest::openapi;
use axum::body::Body;
use serde_json::Value;

use super::House;

#[test]
fn what_the_document_refers_to_is_there() {
    fn check(document: &Value, value: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                members.values().for_each(|value| check(document, value));
            }
            Value::Array(items) => items.iter().for_each(|value| check(document, value)),
            _ => {}
        }
    }
    let document = openapi();
    check(&document, &document);
}

#[tokio::test]
async fn the_document_is_served_with_the_servers_own_address() {
    let house = House::with_callers();
    let answer = house.ask("GET", "/resources/openapi.json", Body::empty()).await;
    assert_eq!(answer.status, 200, "whoever is calling");
    let served = answer.json();
    assert_eq!(served["servers"][0]["url"], "https://api.example.com/resources");
    assert_eq!(served["paths"], openapi()["paths"]);
}
