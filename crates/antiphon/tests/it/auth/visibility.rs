//! Tools that callers without their scopes cannot see.

use antiphon::{http::HttpConfig, prelude::*, task::TaskPolicy, testing::Revision};
use axum::Router;
use http::StatusCode;
use serde_json::{Value, json};

use super::{Answer, authority::Authority, caller::Caller, signer::Signer, trusting, whoami};

/// A server with an open tool, a hidden tool, and tools that are visible to some callers.
async fn world() -> (Router, Signer, Authority) {
    let signer = Signer::new("1");
    let authority = Authority::start(&[&signer]).await;
    let server = Server::builder("guarded", "1.0.0")
        .tool(Tool::new("whoami", "Says who is calling", whoami))
        .tool(Tool::new("erase", "Erases everything", whoami).with_scopes(["erase"]).hidden_without_scopes())
        .tool(Tool::new("audit", "Reads the log", whoami).visible_if(|request| {
            let team = request.identity().and_then(|identity| identity.claim("team"));
            team.is_some_and(|team| team == "audit") || request.has_scope("audit")
        }))
        .tool(
            Tool::new("repair", "Repairs the log", whoami)
                .with_scopes(["repair"])
                .visible_if(|request| request.has_scope("audit")),
        )
        .tool(
            Tool::new("erase_later", "Erases everything", whoami)
                .with_scopes(["erase"])
                .hidden_without_scopes()
                .with_tasks(TaskPolicy::Always),
        )
        .with_auth(trusting(&authority).build().unwrap())
        .with_tasks(crate::tasks::quick())
        .build()
        .unwrap();
    (server.router(HttpConfig::default()), signer, authority)
}

async fn tools(caller: &Caller) -> Vec<String> {
    let listed = caller.ask("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}")).iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the parts of an answer that a caller can compare: status, challenge and body, without the name.
fn seen(answer: &Answer, name: &str) -> (StatusCode, Option<String>, Value) {
    let message = answer.message().to_string().replace(name, "…");
    (answer.status, answer.challenge.clone(), serde_json::from_str(&message).unwrap())
}

/// Requires that a tool does not exist for a caller, in every kind of call.
async fn assert_unknown(caller: &Caller, tool: &str) {
    let task = |name: &str| json!({"name": name, "arguments": {}, "task": {}});
    let mut calls = vec![("tools/call", json!({})), ("tools/call", json!({"wrong": true}))];
    if caller.revision == Revision::V2025_11_25 {
        calls.push(("antiphon/tasks/call", json!({})));
    }
    for (method, arguments) in calls {
        for with_task in [false, true] {
            let params = |name: &str| {
                let mut params = if with_task { task(name) } else { json!({"name": name}) };
                params["arguments"] = arguments.clone();
                params
            };
            let hidden = caller.send(method, params(tool)).await;
            let unknown = caller.send(method, params("nothing")).await;
            assert_eq!(seen(&hidden, tool), seen(&unknown, "nothing"), "{method} {}", hidden.body);
            assert_eq!(hidden.challenge, None);
            assert!(hidden.message()["error"]["code"].is_i64(), "{}", hidden.body);
        }
    }
}

#[tokio::test]
async fn tool_is_hidden_from_callers_without_its_scopes() {
    let (app, signer, authority) = world().await;
    let token = |scope: &str| signer.sign(&authority.claims_of("ada", scope));
    for revision in Revision::BOTH {
        let ada = Caller::new(&app, &token("use"), revision).await;
        assert_eq!(tools(&ada).await, ["whoami"]);
        for tool in ["erase", "audit", "repair", "erase_later"] {
            assert_unknown(&ada, tool).await;
        }
        // With another token the same session sees the tool, and the first token does not see it after that.
        let more = ada.with(&token("use erase"));
        assert_eq!(tools(&more).await, ["whoami", "erase", "erase_later"]);
        let answer = more.call("erase").await;
        assert!(answer["result"]["content"][0]["text"].is_string(), "{answer}");
        assert_unknown(&ada, "erase").await;
        let audit = ada.with(&token("use audit"));
        assert_eq!(tools(&audit).await, ["whoami", "audit", "repair"]);
        assert!(audit.call("audit").await["result"].is_object());
    }
}

/// The claims of a token decide, too.
#[tokio::test]
async fn condition_reads_the_claims_of_a_token() {
    let (app, signer, authority) = world().await;
    let mut claims = authority.claims_of("ada", "use");
    claims["team"] = "audit".into();
    for revision in Revision::BOTH {
        let ada = Caller::new(&app, &signer.sign(&claims), revision).await;
        assert_eq!(tools(&ada).await, ["whoami", "audit"]);
        assert!(ada.call("audit").await["result"].is_object());
    }
}

/// The HTTP layer sends no challenge for a tool that can be hidden. The error names the scopes to callers who see it.
#[tokio::test]
async fn visible_tool_names_the_scopes_that_are_missing() {
    let (app, signer, authority) = world().await;
    for revision in Revision::BOTH {
        let token = signer.sign(&authority.claims_of("ada", "use audit"));
        let ada = Caller::new(&app, &token, revision).await;
        let answer = ada.call("repair").await;
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        assert_eq!(answer["error"]["data"]["error"], "insufficient_scope");
        assert!(answer["error"]["data"]["scope"].as_str().unwrap().contains("repair"), "{answer}");
    }
}

#[tokio::test]
async fn task_of_a_hidden_tool_does_not_exist_for_a_lesser_token() {
    let (app, signer, authority) = world().await;
    let token = |scope: &str| signer.sign(&authority.claims_of("ada", scope));
    for revision in Revision::BOTH {
        let ada = Caller::new(&app, &token("use erase"), revision).await;
        let less = ada.with(&token("use"));
        let mut call = json!({"name": "erase_later", "arguments": {}});
        if revision == Revision::V2025_11_25 {
            call["task"] = json!({});
        }
        let created = ada.send("tools/call", call).await.message();
        let id = created["result"]["taskId"].as_str().or(created["result"]["task"]["taskId"].as_str());
        let id = id.unwrap_or_else(|| panic!("{created}")).to_owned();
        let methods: &[&str] = match revision {
            Revision::V2025_11_25 => &["tasks/get", "tasks/result", "tasks/cancel"],
            Revision::V2026_07_28 => &["tasks/get", "tasks/update", "tasks/cancel"],
        };
        for method in methods {
            let of = |id: &str| json!({"taskId": id, "inputResponses": {}});
            let unknown = "0".repeat(32);
            let hidden = less.send(method, of(&id)).await;
            let other = less.send(method, of(&unknown)).await;
            assert_eq!(seen(&hidden, &id), seen(&other, &unknown), "{method}");
            assert!(hidden.message()["error"].is_object(), "{}", hidden.body);
        }
        let read = ada.send("tasks/get", json!({"taskId": id})).await.message();
        assert!(read["result"].is_object(), "{read}");
    }
}
