//! Ollama's `/api/chat` in front of a server that speaks as OpenAI's chat does.

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::{Answer, Server};

/// An Ollama whose models are those of `upstream`, an address that ends in `/v1`.
pub(crate) async fn ollama(upstream: String) -> Server {
    Server::start(move |_, seen| {
        assert_eq!(seen.uri.path(), "/api/chat");
        let upstream = upstream.clone();
        let (asked, model) = (to_chat(&seen.body), seen.body["model"].clone());
        // The server's answers are not async; a thread of its own is.
        let answer = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(post(&format!("{upstream}/chat/completions"), &asked))
        });
        match answer.join().unwrap() {
            (200, answer) => Answer::ok(from_chat(&answer, model)),
            (status, answer) => Answer::status(status, json!({"error": answer["error"]["message"]})),
        }
    })
    .await
}

fn to_chat(body: &Value) -> Value {
    let message = |message: &Value| {
        let mut message = message.clone();
        let fields = message.as_object_mut().unwrap();
        assert!(fields.remove("images").is_none(), "the toy reads no images");
        fields.remove("tool_name");
        for call in fields.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten() {
            call["type"] = "function".into();
            call["function"]["arguments"] = call["function"]["arguments"].to_string().into();
        }
        message
    };
    let messages: Vec<Value> = body["messages"].as_array().unwrap().iter().map(message).collect();
    let mut chat = json!({"model": body["model"], "messages": messages});
    let options = &body["options"];
    let format = match &body["format"] {
        Value::Null => Value::Null,
        Value::String(json) => {
            assert_eq!(json, "json");
            json!({"type": "json_object"})
        }
        schema => json!({"type": "json_schema", "json_schema": {"name": "format", "schema": schema}}),
    };
    let fields = [
        ("tools", &body["tools"]),
        ("response_format", &format),
        ("max_tokens", &options["num_predict"]),
        ("temperature", &options["temperature"]),
        ("stop", &options["stop"]),
    ];
    for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
        chat[name] = value.clone();
    }
    chat
}

fn from_chat(answer: &Value, model: Value) -> Value {
    let choice = &answer["choices"][0];
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    message.insert("content".into(), choice["message"]["content"].as_str().unwrap_or_default().into());
    if let Some(calls) = choice["message"]["tool_calls"].as_array() {
        let call = |call: &Value| {
            let arguments = call["function"]["arguments"].as_str().unwrap();
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            // No id: Ollama gave none for years.
            json!({"function": {"name": call["function"]["name"], "arguments": arguments}})
        };
        message.insert("tool_calls".into(), calls.iter().map(call).collect());
    }
    json!({
        "model": model,
        "created_at": "2026-01-01T00:00:00Z",
        "message": message,
        "done": true,
        "done_reason": if choice["finish_reason"] == "length" { "length" } else { "stop" },
        "prompt_eval_count": answer["usage"]["prompt_tokens"],
        "eval_count": answer["usage"]["completion_tokens"],
    })
}

/// Sends `body`, over plain HTTP.
async fn post(url: &str, body: &Value) -> (u16, Value) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "POST /{path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}
