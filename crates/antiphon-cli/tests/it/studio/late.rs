//! A 2025-11-25 server that also samples when no call is under way.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::State,
    response::{
        IntoResponse as _, Response,
        sse::{Event, Sse},
    },
    routing::post,
};
use futures_util::stream;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::world::{BOTH, Studio, model};
use crate::support::serve_router;

/// What it says on its stream, and whether its first sample was answered.
struct Late {
    says: mpsc::UnboundedSender<Value>,
    said: Mutex<Option<mpsc::UnboundedReceiver<Value>>>,
    answered: Notify,
}

fn sample(id: &str) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": id}});
    let params = json!({"messages": [message], "maxTokens": 9});
    json!({"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": params})
}

async fn hear(State(late): State<Arc<Late>>, Json(message): Json<Value>) -> Response {
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": BOTH[1], "capabilities": {"tools": {}},
            "serverInfo": {"name": "kitchen", "version": "1.0.0"},
        }),
        Some("tools/list") => json!({"tools": [{"name": "rhyme", "inputSchema": {"type": "object"}}]}),
        Some("tools/call") => {
            for id in ["first", "second"] {
                late.says.send(sample(id)).unwrap();
                late.answered.notified().await;
            }
            json!({"content": []})
        }
        None if message.get("result").is_some() => {
            late.answered.notify_one();
            return StatusCode::ACCEPTED.into_response();
        }
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    ([("mcp-session-id", "1")], Json(reply)).into_response()
}

async fn talk(State(late): State<Arc<Late>>) -> Response {
    let Some(said) = late.said.lock().unwrap().take() else {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    };
    let events = stream::unfold(said, |mut said| async move {
        let message = said.recv().await?;
        Some((Ok::<_, Infallible>(Event::default().data(message.to_string())), said))
    });
    Sse::new(events).into_response()
}

#[tokio::test]
async fn what_is_approved_for_a_call_is_not_for_what_comes_after_it() {
    let model = model().await;
    let studio = Studio::start(&["--model-url", &model, "--model", "poet"]).await;
    let (says, said) = mpsc::unbounded_channel();
    let late = Arc::new(Late { says, said: Mutex::new(Some(said)), answered: Notify::new() });
    let router = Router::new().route("/mcp", post(hear).get(talk)).with_state(Arc::clone(&late));
    let session = studio.connect(&(serve_router(router).await + "/mcp"), BOTH[1]).await;
    let mut events = studio.events(&session, 0).await;
    studio.call(&session, "rhyme").await;
    let ask = events.until("ask").await;
    assert_eq!(ask["inCall"], true, "{ask}");
    studio.answer(&ask, json!({"action": "accept", "all": true})).await;
    let ask = events.until("ask").await;
    assert_eq!(ask["unseen"], true, "{ask}");
    events.until("result").await;
    late.says.send(sample("third")).unwrap();
    let ask = events.until("ask").await;
    assert_eq!((ask.get("unseen"), &ask["inCall"]), (None, &json!(false)), "{ask}");
    assert_eq!(studio.answer(&ask, json!({"action": "accept", "all": true})).await, StatusCode::NO_CONTENT);
    // There was no call to approve all of, so the next one is shown too.
    events.until("sampled").await;
    late.says.send(sample("fourth")).unwrap();
    let ask = events.until("ask").await;
    assert_eq!(ask.get("unseen"), None, "{ask}");
}
