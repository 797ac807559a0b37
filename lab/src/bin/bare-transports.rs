//! What comes in goes out again, by the libraries the transports stand on and nothing else.
//!
//! `--stdio` echoes lines; `--websocket --http ADDRESS` echoes frames; `--http ADDRESS` has the paths of
//! `antiphon-transports`, each echoing in the form in which that one answers.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Sse, sse::Event},
    routing::{get, post},
};
use futures_util::{
    SinkExt as _, Stream, StreamExt as _,
    stream::{once, unfold},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if lab::programs::is_asked("--stdio") {
        return lines().await;
    }
    if lab::programs::is_asked("--websocket") {
        return frames().await;
    }
    let router = Router::new()
        .route("/mcp", post(json))
        .route("/session", post(event))
        .route("/sse", get(open))
        .route("/message", post(message))
        .with_state(Streams::default());
    lab::programs::serve(router).await
}

async fn lines() -> anyhow::Result<()> {
    let mut input = BufReader::new(tokio::io::stdin());
    let mut output = tokio::io::stdout();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).await? > 0 {
        output.write_all(&line).await?;
        output.flush().await?;
        line.clear();
    }
    Ok(())
}

async fn frames() -> anyhow::Result<()> {
    let listener = TcpListener::bind(lab::programs::address()?).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // A connection that breaks is the client's affair.
        tokio::spawn(async move { drop(echo_frames(stream).await) });
    }
}

async fn echo_frames(stream: TcpStream) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    let mut socket = tokio_tungstenite::accept_async(stream).await?;
    while let Some(message) = socket.next().await {
        let message = message?;
        if message.is_text() {
            socket.send(message).await?;
        }
    }
    Ok(())
}

async fn json(body: Bytes) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], body)
}

async fn event(body: String) -> impl IntoResponse {
    Sse::new(once(async move { Ok::<_, Infallible>(Event::default().data(body)) }))
}

/// The open streams; a stream's place is its id.
type Streams = Arc<Mutex<Vec<mpsc::Sender<String>>>>;

async fn open(State(streams): State<Streams>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (queue, queued) = mpsc::channel::<String>(32);
    let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
    let endpoint = Event::default().event("endpoint").data(format!("/message?sessionId={}", streams.len()));
    streams.push(queue);
    let messages = unfold(queued, async |mut queued| {
        let event = Event::default().event("message").data(queued.recv().await?);
        Some((Ok(event), queued))
    });
    Sse::new(once(async { Ok(endpoint) }).chain(messages))
}

async fn message(State(streams): State<Streams>, uri: Uri, body: String) -> StatusCode {
    let id = uri.query().and_then(|query| query.strip_prefix("sessionId=")?.parse::<usize>().ok());
    let queue = id.and_then(|id| streams.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned());
    match queue {
        Some(queue) if queue.send(body).await.is_ok() => StatusCode::ACCEPTED,
        _ => StatusCode::NOT_FOUND,
    }
}
