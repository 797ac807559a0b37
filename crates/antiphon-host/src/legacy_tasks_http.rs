//! Preserves the fields for tasks of MCP 2025-11-25 over streamable HTTP. The SDK would discard the fields for these
//! tasks.
//!
//! `antiphon_transport::legacy_tasks` converts the messages. The SDK passes sent messages and received events to the
//! client `LegacyTasksHttp`. But the SDK parses JSON responses itself, and would lose fields of some responses. So
//! `LegacyTasksHttp` itself sends the requests whose responses would lose fields.

use std::{collections::HashMap, io, sync::Arc};

use antiphon_transport::{legacy_tasks, revision::Revision};
use futures_util::{StreamExt as _, stream::BoxStream};
use http::{HeaderName, HeaderValue, header};
use reqwest::StatusCode;
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, GetMeta as _, JsonRpcMessage, ProtocolVersion,
        ServerJsonRpcMessage,
    },
    transport::streamable_http_client::{
        StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::{Error as SseError, Sse, SseStream};

type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Result<T, E = StreamableHttpError<reqwest::Error>> = std::result::Result<T, E>;

const SESSION: &str = "mcp-session-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// The maximum size of an event in bytes, as in the SDK.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// An HTTP client that converts messages in both directions.
#[derive(Clone, Debug)]
pub(crate) struct LegacyTasksHttp(pub(crate) reqwest::Client);

impl StreamableHttpClient for LegacyTasksHttp {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse> {
        self.post_message_with_max_sse_event_size(uri, message, session_id, token, headers, MAX_EVENT_BYTES)
            .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        mut message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        max_event_bytes: usize,
    ) -> Result<StreamableHttpPostResponse> {
        // The SDK rejects headers that its users must not set.
        let reserved = |name: &HeaderName| ["accept", SESSION, "last-event-id"].contains(&name.as_str());
        let loses = loses(&message) && !headers.keys().any(reserved);
        if let JsonRpcMessage::Request(request) = &mut message
            && let ClientRequest::CustomRequest(request) = &mut request.request
            && let Some(name) = legacy_tasks::official(&request.method)
        {
            name.clone_into(&mut request.method);
        }
        if loses {
            let mut post = self.0.post(&*uri).header(header::ACCEPT, format!("{EVENTS}, {JSON}"));
            if let Some(token) = &token {
                post = post.bearer_auth(token);
            }
            if let Some(session) = &session_id {
                post = post.header(SESSION, &**session);
            }
            for (name, value) in &headers {
                post = post.header(name, value);
            }
            let body = serde_json::to_vec(&message)?;
            let post = post.header(header::CONTENT_TYPE, JSON).body(body);
            let response = post.send().await.map_err(StreamableHttpError::Client)?;
            // A rejected request had no effect. The SDK sends the request again, because the SDK handles all kinds of
            // rejections.
            if response.status().is_success() {
                return read(response, max_event_bytes).await;
            }
        }
        let sent = self.0.post_message_with_max_sse_event_size(
            uri,
            message,
            session_id,
            token,
            headers,
            max_event_bytes,
        );
        Ok(match sent.await? {
            StreamableHttpPostResponse::Sse(events, session) => {
                StreamableHttpPostResponse::Sse(revised(events), session)
            }
            other => other,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<()> {
        self.0.delete_session(uri, session_id, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            token,
            headers,
            MAX_EVENT_BYTES,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: Headers,
        max_event_bytes: usize,
    ) -> Result<Events> {
        let events = self.0.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            token,
            headers,
            max_event_bytes,
        );
        Ok(revised(events.await?))
    }
}

/// Returns whether the SDK would lose fields of the response to the request `message`. All requests for which `loses`
/// returns `true` are idempotent.
fn loses(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    match &request.request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::ListToolsRequest(_) => {
            let version = request.request.get_meta().protocol_version();
            match Revision::of(version.as_ref().map(ProtocolVersion::as_str)) {
                Revision::Session => true,
                Revision::Rounds => false,
            }
        }
        ClientRequest::CustomRequest(custom) => {
            matches!(&*custom.method, "antiphon/tools/list" | "antiphon/tasks/get" | "antiphon/tasks/cancel")
        }
        _ => false,
    }
}

/// Converts a response, and then reads it in the same way as the SDK.
async fn read(response: reqwest::Response, max_bytes: usize) -> Result<StreamableHttpPostResponse> {
    if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    let text = |name: &str| {
        let value = response.headers().get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let (session, kind) = (text(SESSION), text(header::CONTENT_TYPE.as_str()));
    match kind.as_deref() {
        Some(kind) if kind.starts_with(JSON) => {
            let body = response.bytes().await.map_err(StreamableHttpError::Client)?;
            let revised = legacy_tasks::client_in(&body);
            let message: ServerJsonRpcMessage = serde_json::from_slice(revised.as_deref().unwrap_or(&body))
                .map_err(|error| {
                let what = format!("the response is not a JSON-RPC message: {error}");
                StreamableHttpError::UnexpectedServerResponse(what.into())
            })?;
            Ok(StreamableHttpPostResponse::Json(message, session))
        }
        Some(kind) if kind.starts_with(EVENTS) => {
            let mut left = max_bytes;
            let chunks = response.bytes_stream().map(move |chunk| {
                let chunk = chunk.map_err(io::Error::other)?;
                // All events belong to one response, so the size limit of one event applies to all these events
                // together.
                left = left
                    .checked_sub(chunk.len())
                    .ok_or_else(|| io::Error::other("the response is too long"))?;
                Ok::<_, io::Error>(chunk)
            });
            let events = SseStream::from_bytes_stream(chunks).boxed();
            Ok(StreamableHttpPostResponse::Sse(revised(events), session))
        }
        _ => Err(StreamableHttpError::UnexpectedContentType(kind)),
    }
}

fn revised(events: Events) -> Events {
    let revise = |mut event: Sse| {
        let revised = event.data.as_ref().and_then(|data| legacy_tasks::client_in(data.as_bytes()));
        if let Some(data) = revised.and_then(|data| String::from_utf8(data).ok()) {
            event.data = Some(data);
        }
        event
    };
    events.map(move |event| event.map(revise)).boxed()
}

#[cfg(test)]
mod tests {
    use axum::{Json, Router, http::StatusCode, routing::post};
    use rmcp::model::{CustomRequest, JsonRpcRequest, RequestId, ServerResult};
    use serde_json::{Value, json};

    use super::*;

    /// Sends a request to a test server. The test server responds with a task that contains the name of the requested
    /// method.
    async fn ask(status: StatusCode, method: &str) -> Result<StreamableHttpPostResponse> {
        let echo = move |Json(message): Json<Value>| async move {
            let result = json!({
                "taskId": message["method"], "status": "working", "ttl": null, "pollInterval": 5,
                "createdAt": "2025-11-25T10:30:00Z", "lastUpdatedAt": "2025-11-25T10:40:00Z",
            });
            (status, Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})))
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let uri = format!("http://{}/", listener.local_addr()?).into();
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(echo))).await });
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(json!({"taskId": "t"}))));
        let message = JsonRpcMessage::Request(JsonRpcRequest::new(RequestId::Number(1), request));
        LegacyTasksHttp(reqwest::Client::new()).post_message(uri, message, None, None, Headers::new()).await
    }

    #[tokio::test]
    async fn a_request_goes_out_by_the_name_that_servers_know_and_its_task_comes_back_whole() {
        for (ours, official) in
            [("antiphon/tasks/get", "tasks/get"), ("antiphon/tasks/cancel", "tasks/cancel")]
        {
            let answer = ask(StatusCode::OK, ours).await.expect("an answer");
            let StreamableHttpPostResponse::Json(JsonRpcMessage::Response(answer), None) = answer else {
                panic!("{answer:?}");
            };
            let answer = serde_json::to_value(answer.result).expect("JSON");
            assert_eq!(answer["task"]["taskId"], official, "{answer}");
            assert_eq!(answer["task"]["pollInterval"], 5, "{answer}");
        }
    }

    #[tokio::test]
    async fn a_call_is_made_by_the_sdk_under_its_official_name() {
        let answer = ask(StatusCode::OK, "antiphon/tasks/call").await.expect("an answer");
        let StreamableHttpPostResponse::Json(JsonRpcMessage::Response(answer), None) = answer else {
            panic!("{answer:?}");
        };
        let ServerResult::GetTaskResult(task) = answer.result else { panic!("{:?}", answer.result) };
        assert_eq!(task.task.task.task_id, "tools/call");
    }

    #[tokio::test]
    async fn a_refusal_is_what_the_sdk_says_it_is() {
        let error = ask(StatusCode::SERVICE_UNAVAILABLE, "antiphon/tasks/get").await.expect_err("a refusal");
        assert!(matches!(error, StreamableHttpError::HttpStatus(_)), "{error:?}");
    }
}
