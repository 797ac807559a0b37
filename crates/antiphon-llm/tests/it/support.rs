//! A server that writes down what it is asked, and providers that ask it.

use std::{
    env,
    sync::{Arc, Mutex},
    time::Duration,
};

use antiphon_llm::{
    Error, Model, Reply, Request,
    providers::{Anthropic, Gemini, Ollama, OpenAi, OpenAiCompatible, OpenAiResponses, ProviderConfig},
};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Response, Uri},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// The key all providers here have; it must be seen nowhere but in headers.
pub(crate) const KEY: &str = "sk-do-not-tell-anybody";

/// What a variable says. Unset, the test is skipped, but not where all tests must run.
pub(crate) fn variable(name: &str) -> Option<String> {
    let value = env::var(name).ok().filter(|value| !value.is_empty());
    if value.is_none() {
        assert!(env::var_os("CI").is_none(), "`{name}` must be set in CI");
        eprintln!("skipped: `{name}` is not set");
    }
    value
}

/// A provider and the API behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Chat,
    Responses,
    Compatible,
    Anthropic,
    Gemini,
    Ollama,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Chat, Self::Responses, Self::Compatible, Self::Anthropic, Self::Gemini, Self::Ollama];

    pub(crate) fn open(self, config: ProviderConfig) -> Result<Arc<dyn Model>, Error> {
        Ok(match self {
            Self::Chat => Arc::new(OpenAi::new(config)?),
            Self::Responses => Arc::new(OpenAiResponses::new(config)?),
            Self::Compatible => Arc::new(OpenAiCompatible::new(config)?),
            Self::Anthropic => Arc::new(Anthropic::new(config)?),
            Self::Gemini => Arc::new(Gemini::new(config)?),
            Self::Ollama => Arc::new(Ollama::new(config)?),
        })
    }

    /// A model of the provider's.
    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Chat => "gpt-4.1",
            Self::Responses => "gpt-5.2",
            Self::Compatible | Self::Ollama => "qwen3",
            Self::Anthropic => "claude-sonnet-4-5",
            Self::Gemini => "gemini-3.8-flash",
        }
    }

    /// The body of an answer that says `text`.
    pub(crate) fn says(self, text: &str) -> Value {
        match self {
            Self::Chat | Self::Compatible => json!({
                "id": "c1", "object": "chat.completion", "created": 1, "model": "the-model",
                "choices": [{
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }],
                "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
            }),
            Self::Responses => json!({
                "id": "r1", "object": "response", "created_at": 1, "model": "the-model", "status": "completed",
                "output": [{
                    "type": "message", "id": "m1", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": text, "annotations": []}],
                }],
                "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
                "usage": {
                    "input_tokens": 11, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                    "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 0},
                    "total_tokens": 18,
                },
            }),
            Self::Anthropic => json!({
                "id": "a1", "type": "message", "role": "assistant", "model": "the-model",
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn", "stop_sequence": null,
                "usage": {"input_tokens": 11, "output_tokens": 7},
            }),
            Self::Gemini => json!({
                "candidates": [{
                    "index": 0,
                    "content": {"role": "model", "parts": [{"text": text}]},
                    "finishReason": "STOP",
                }],
                "modelVersion": "the-model",
                "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18},
            }),
            Self::Ollama => json!({
                "model": "the-model", "created_at": "2026-01-01T00:00:00Z",
                "message": {"role": "assistant", "content": text},
                "done": true, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 7,
            }),
        }
    }
}

/// What a server was asked.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// What it answers.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    pub(crate) after: Duration,
}

impl Answer {
    pub(crate) fn ok(body: Value) -> Self {
        Self::status(200, body)
    }

    pub(crate) fn status(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body: body.to_string(), after: Duration::ZERO }
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

type Answers = Arc<dyn Fn(usize, &Seen) -> Answer + Send + Sync>;

/// A server on a port of its own.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Answers the n-th request, from 0, as `answer` says.
    pub(crate) async fn start(answer: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answer: Answers = Arc::new(answer);
        let app = Router::new().fallback(handle).with_state((Arc::clone(&seen), answer));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, seen, task }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// A configuration that leads here, and is in no mood to wait.
    pub(crate) fn config(&self, kind: Kind) -> ProviderConfig {
        let short = Duration::from_millis(2);
        let config = ProviderConfig::new(KEY).with_base_url(&self.url).with_model(kind.model());
        config.with_backoff(short, short * 20).with_timeout(Duration::from_secs(20))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn handle(
    State((seen, answer)): State<(Arc<Mutex<Vec<Seen>>>, Answers)>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let asked = Seen { uri, headers, body: serde_json::from_slice(&body).unwrap_or_default() };
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(asked.clone());
        seen.len() - 1
    };
    let answer = answer(number, &asked);
    tokio::time::sleep(answer.after).await;
    let mut response = Response::builder().status(answer.status).header("content-type", "application/json");
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    response.body(Body::from(answer.body)).unwrap()
}

/// What `kind` sends for `request`, and what it makes of an answer that says `text`.
pub(crate) async fn exchange(
    kind: Kind,
    configure: impl Fn(ProviderConfig) -> ProviderConfig,
    request: &Request,
    text: &str,
) -> (Option<Value>, Result<Reply, Error>) {
    answered(kind, configure, request, kind.says(text)).await
}

/// What `kind` sends for `request`, and what it makes of `answer`.
pub(crate) async fn answered(
    kind: Kind,
    configure: impl Fn(ProviderConfig) -> ProviderConfig,
    request: &Request,
    answer: Value,
) -> (Option<Value>, Result<Reply, Error>) {
    let server = Server::start(move |_, _| Answer::ok(answer.clone())).await;
    let model = kind.open(configure(server.config(kind))).unwrap();
    let reply = model.reply(request).await;
    (server.seen().first().map(|seen| seen.body.clone()), reply)
}
