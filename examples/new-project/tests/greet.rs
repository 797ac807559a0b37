//! A test client calls the server and answers its question.

use antiphon::testing::{Answers, Client, Revision};
use serde_json::json;

#[tokio::test]
async fn greeting_contains_the_name_of_the_user() {
    let server = new_project::server().build().unwrap();
    // On 2025-11-25 the server sends the question. On 2026-07-28 it returns the question, and the client calls again.
    for revision in Revision::BOTH {
        let answers = Answers::new().accept("name", json!({"name": "Ada"}));
        let client = Client::connect(&server, revision).await.unwrap();
        let mut client = client.with_answers(answers);
        let arguments = json!({"language": "pt"});
        let talk = client.call("greet", arguments).await.unwrap();
        assert_eq!(talk.text(), "Olá, Ada!");
        assert_eq!(talk.asked.len(), 1);
    }
}

#[tokio::test]
async fn run_waits_in_a_host_without_forms() {
    let server = new_project::server().build().unwrap();
    // The host shows MCP Apps instead, so `with_asking` in `src/lib.rs` asks in a form of the server.
    let apps = json!({"extensions": {"io.modelcontextprotocol/ui": {}}});
    for revision in Revision::BOTH {
        let mut client = Client::connect_with(&server, revision, apps.clone()).await.unwrap();
        let talk = client.call("greet", json!({})).await.unwrap();
        assert!(talk.text().starts_with("NOT FINISHED"), "{}", talk.text());
    }
}
