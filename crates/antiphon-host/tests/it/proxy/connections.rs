//! The connections to the server behind the proxy: how many there are, and how long calls wait for them.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use antiphon::Server;
use antiphon_host::{Endpoint, Host, Lifecycle, Proxy};
use serde_json::json;
use tokio::{task::AbortHandle, time::Instant};

use super::{
    BOTH, config, front, listen,
    replicas::{self, asked},
    server, text, until, user,
};
use crate::support::endpoint;

/// The pipes to a server in this process.
#[derive(Clone, Default)]
struct Pipes {
    open: Arc<AtomicUsize>,
    all: Arc<Mutex<Vec<AbortHandle>>>,
    /// Whether new pipes open, but have no server.
    is_dead: Arc<AtomicBool>,
}

/// An open pipe. Drop subtracts it from the number of open pipes.
struct Pipe(Arc<AtomicUsize>);

impl Drop for Pipe {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Pipes {
    fn endpoint(&self, server: &Server) -> Endpoint {
        let (server, pipes) = (server.clone(), self.clone());
        Endpoint::new("in-process", move || {
            let (near, far) = tokio::io::duplex(1 << 20);
            let (server, is_dead) = (server.clone(), pipes.is_dead.load(Ordering::SeqCst));
            pipes.open.fetch_add(1, Ordering::SeqCst);
            let pipe = Pipe(Arc::clone(&pipes.open));
            let serving = tokio::spawn(async move {
                let _pipe = pipe;
                if is_dead {
                    let _far = far;
                    std::future::pending::<()>().await;
                } else {
                    let _ = server.serve_stream(far).await;
                }
            });
            pipes.all.lock().unwrap().push(serving.abort_handle());
            std::future::ready(Ok::<_, std::io::Error>(near))
        })
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Closes all pipes. New pipes open, but receive no answer.
    fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        for pipe in self.all.lock().unwrap().drain(..) {
            pipe.abort();
        }
    }
}

/// A front of `proxy`, whose callers have the principal `name`.
async fn front_of(proxy: &Proxy, name: Option<&'static str>) -> Endpoint {
    let builder = Server::builder("front", "1.0.0").with_principal(move |_| name.map(str::to_owned));
    Endpoint::http(listen(proxy.add_to(builder).await.unwrap().build().unwrap()).await)
}

#[tokio::test]
async fn questions_that_a_caller_leaves_open_do_not_block_other_callers() {
    for (ada, bob) in [(Some("ada"), Some("bob")), (None, None)] {
        let (behind, _) = server::server();
        let limits = config(Lifecycle::Legacy).with_max_connections(2).with_timeout(Duration::from_secs(5));
        let proxy = Proxy::connect_with(endpoint(&behind), limits).await.unwrap();
        let host = user("Ada", Lifecycle::Modern).build();
        let waiting = host.connect(front_of(&proxy, ada).await).await.unwrap();
        let first = asked(&waiting, "greet").await;
        let second = asked(&waiting, "greet").await;
        let host = user("Bob", Lifecycle::Modern).build();
        let other = host.connect(front_of(&proxy, bob).await).await.unwrap();
        assert_eq!(text(&other.call("work", json!({})).await.unwrap()), "worked");
        let cancelled = waiting.request("tools/call", first).await.unwrap();
        assert_eq!(cancelled["isError"], true, "{cancelled}");
        let reason = "later calls reached the limit of 1 calls that wait for answers";
        assert!(replicas::text(&cancelled).contains(reason), "{cancelled}");
        let answered = waiting.request("tools/call", second).await.unwrap();
        assert_eq!(replicas::text(&answered), "Hello, Ada!");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unused_connection_closes_without_further_calls() {
    let (behind, _) = server::server();
    let pipes = Pipes::default();
    let front = front(&pipes.endpoint(&behind), config(Lifecycle::Legacy)).await;
    let connection = user("Ada", Lifecycle::Modern).build().connect(endpoint(&front)).await.unwrap();
    connection.call("credentials", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4 * 60)).await;
    assert_eq!(pipes.open(), 2, "the connection of the lists, and the connection of the call");
    // A later call starts the five minutes again.
    connection.call("credentials", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4 * 60)).await;
    assert_eq!(pipes.open(), 2);
    tokio::time::sleep(Duration::from_secs(2 * 60)).await;
    until(|| pipes.open() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn an_unused_connection_closes_for_a_new_one_at_the_limit() {
    let (behind, seen) = server::server();
    let pipes = Pipes::default();
    let limits = config(Lifecycle::Legacy).with_max_connections(1);
    let front = front(&pipes.endpoint(&behind), limits).await;
    let connection = user("Ada", Lifecycle::Modern).build().connect(endpoint(&front)).await.unwrap();
    connection.call("credentials", json!({})).await.unwrap();
    assert_eq!(pipes.open(), 2);
    // The connection of Ada declares other capabilities, so this call needs a new connection.
    let host = Host::builder("client", "1").with_lifecycle(Lifecycle::Modern).build();
    let other = host.connect(endpoint(&front)).await.unwrap();
    let sleeping = tokio::spawn(async move { other.call("sleep", json!({})).await });
    until(|| seen.sleepers.load(Ordering::SeqCst) == 1).await;
    until(|| pipes.open() == 2).await;
    sleeping.abort();
}

#[tokio::test(start_paused = true)]
async fn calls_to_a_server_that_does_not_answer_fail_within_the_timeout() {
    for behind in BOTH {
        let (server, _) = server::server();
        let pipes = Pipes::default();
        let limits = config(behind).with_timeout(Duration::from_secs(1));
        let front = front(&pipes.endpoint(&server), limits).await;
        let mut callers = Vec::new();
        for _ in 0..10 {
            let host = user("Ada", Lifecycle::Modern).build();
            callers.push(host.connect(endpoint(&front)).await.unwrap());
        }
        pipes.die();
        // The proxy notices the end of the pipe.
        tokio::time::sleep(Duration::from_millis(100)).await;
        for _ in 0..2 {
            let began = Instant::now();
            let calls = callers.iter().map(|caller| async move {
                let result = caller.call("credentials", json!({})).await.unwrap();
                assert!(text(&result).contains("is not available"), "{behind:?}: {}", text(&result));
            });
            futures_util::future::join_all(calls).await;
            assert!(began.elapsed() < Duration::from_secs(2), "{behind:?}: {:?}", began.elapsed());
        }
    }
}
