//! The tasks of 2025-11-25, which the SDK drops, reach the handler and the client.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use antiphon_transport::{
    legacy_tasks,
    sse::{SseConfig, SseTransport},
    websocket::{WebSocketConfig, WebSocketTransport},
};
use axum::serve::ListenerExt as _;
use futures_util::SinkExt as _;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        ClientRequest, CustomRequest, CustomResult, ExperimentalCapabilities, ServerCapabilities,
        ServerConfig, ServerResult,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

use crate::{
    sse::Raw,
    support::{Kind, Obliging, connect, laws},
    websocket::{INITIALIZE, INITIALIZED, next_text, raw},
};

type Seen = Arc<Mutex<Vec<(String, Option<Value>)>>>;

/// Answers what it is asked by our names, and keeps it.
#[derive(Clone, Default)]
struct Tasks(Seen);

impl ServerHandler for Tasks {
    fn get_info(&self) -> ServerConfig {
        let tasks = json!({"list": {}}).as_object().cloned().unwrap();
        let experimental = ExperimentalCapabilities::from([(legacy_tasks::TASKS.to_owned(), tasks)]);
        ServerConfig::new(ServerCapabilities::builder().enable_experimental_with(experimental).build())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let result = match &*request.method {
            "antiphon/tools/list" => json!({"tools": [
                {"name": "a", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
            ]}),
            "antiphon/tasks/get" => json!({
                "taskId": "t", "status": "working", "ttl": null, "pollInterval": 5,
                "createdAt": "2025-11-25T10:30:00Z", "lastUpdatedAt": "2025-11-25T10:40:00Z",
            }),
            _ => json!({"task": {"taskId": "t", "ttl": 7}}),
        };
        self.0.lock().unwrap().push((request.method, request.params));
        Ok(CustomResult::new(result))
    }
}

async fn serve(kind: Kind) -> (SocketAddr, Seen) {
    let tasks = Tasks::default();
    let seen = Arc::clone(&tasks.0);
    let app = match kind {
        Kind::WebSocket => antiphon_transport::websocket::router(
            WebSocketConfig::default().with_tasks(true),
            move |connection: WebSocketTransport| run(tasks.clone(), connection),
        ),
        Kind::Sse => antiphon_transport::sse::router(
            SseConfig::default().with_tasks(true),
            move |session: SseTransport| run(tasks.clone(), session),
        ),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, seen)
}

async fn run(tasks: Tasks, transport: impl rmcp::transport::Transport<RoleServer> + 'static) {
    if let Ok(running) = rmcp::serve_server(tasks, transport).await {
        let _ = running.waiting().await;
    }
}

/// Says `messages` without our client, and returns what is answered to the requests among them.
async fn said(kind: Kind, address: SocketAddr, messages: &[&str]) -> Vec<Value> {
    let mut answers = Vec::new();
    match kind {
        Kind::WebSocket => {
            let mut socket = raw(address).await;
            for message in messages {
                socket.send(Message::text(*message)).await.unwrap();
                if message.contains(r#""id":"#) {
                    answers.push(serde_json::from_str(&next_text(&mut socket).await).unwrap());
                }
            }
        }
        Kind::Sse => {
            let mut session = Raw::at(address).await;
            for message in messages {
                assert_eq!(session.post((*message).to_owned()).await, 202);
                if message.contains(r#""id":"#) {
                    let event = session.event().await;
                    let data = event.strip_prefix("event: message\ndata: ").expect("a message");
                    answers.push(serde_json::from_str(data).unwrap());
                }
            }
        }
    }
    answers
}

async fn a_call_with_a_task_reaches_the_handler_whole(kind: Kind) {
    let (address, seen) = serve(kind).await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":1},"task":{"ttl":60000}}}"#;
    let answers = said(kind, address, &[INITIALIZE, INITIALIZED, call]).await;
    assert_eq!(answers[0]["result"]["capabilities"], json!({"tasks": {"list": {}}}));
    assert_eq!(answers[1], json!({"jsonrpc": "2.0", "id": 1, "result": {"task": {"taskId": "t", "ttl": 7}}}));
    let params = json!({"name": "a", "arguments": {"x": 1}, "task": {"ttl": 60000}});
    assert_eq!(*seen.lock().unwrap(), [("antiphon/tasks/call".to_owned(), Some(params))]);
}

async fn a_request_may_have_no_params(kind: Kind) {
    let (address, seen) = serve(kind).await;
    let messages = [
        INITIALIZE,
        INITIALIZED,
        r#"{"jsonrpc":"2.0","id":1,"method":"tasks/list"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":null}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{}}"#,
    ];
    assert_eq!(said(kind, address, &messages).await.len(), 4);
    let seen = seen.lock().unwrap();
    let names: Vec<&str> = seen.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(names, ["antiphon/tasks/list", "antiphon/tools/list", "antiphon/tasks/result"]);
}

async fn a_client_sees_what_its_sdk_would_drop(kind: Kind) {
    let (address, seen) = serve(kind).await;
    let client = connect(kind, address, Obliging::default()).await;
    let info = client.peer_info().unwrap();
    let experimental = info.capabilities.experimental.clone().unwrap_or_default();
    assert_eq!(json!(experimental), json!({legacy_tasks::TASKS: {"list": {}}}));
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(json!(tools[0].meta), json!({legacy_tasks::EXECUTION: {"taskSupport": "optional"}}));
    let ask = async |method: &str, params: Value| {
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)));
        client.send_request(request).await.unwrap()
    };
    let ServerResult::CustomResult(created) =
        ask("antiphon/tasks/call", json!({"name": "a", "task": {}})).await
    else {
        panic!("a created task is read as something else");
    };
    assert_eq!(created.0, json!({"task": {"taskId": "t", "ttl": 7}}));
    let got = serde_json::to_value(ask("antiphon/tasks/get", json!({"taskId": "t"})).await).unwrap();
    assert_eq!(got["task"]["pollInterval"], 5, "{got}");
    assert_eq!(got["task"]["ttl"], Value::Null, "{got}");
    let seen = seen.lock().unwrap();
    let names: Vec<&str> = seen.iter().map(|(method, _)| method.as_str()).collect();
    assert_eq!(names, ["antiphon/tools/list", "antiphon/tasks/call", "antiphon/tasks/get"]);
}

laws! {
    a_call_with_a_task_reaches_the_handler_whole,
    a_request_may_have_no_params,
    a_client_sees_what_its_sdk_would_drop,
}
