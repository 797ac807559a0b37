//! Messages that would take too much memory.

use antiphon_transport::weight::MemoryBudget;
use futures_util::SinkExt as _;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};

use crate::{
    sse::Raw,
    support::{Kind, Tweaks, serve, until},
    websocket::{closing, next_text, ready},
};

const KIB: usize = 1024;

fn echo(id: u32, bytes: usize) -> String {
    let text = "x".repeat(bytes);
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
    )
}

#[tokio::test]
async fn message_of_many_small_values_is_answered_and_the_connection_goes_on() {
    let dense = format!("[{}0]", "0,".repeat(300_000));
    let list =
        |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{"x":{dense}}}}}"#);
    let served = serve(Kind::WebSocket, Tweaks::default()).await;
    let mut socket = ready(served.address).await;
    socket.send(Message::text(list(7))).await.unwrap();
    let refused = next_text(&mut socket).await;
    assert!(refused.contains(r#""id":7"#) && refused.contains("-32600"), "{refused}");
    assert!(refused.contains("raise `max_parsed_bytes`"), "{refused}");
    socket.send(Message::text(echo(8, 10))).await.unwrap();
    assert!(next_text(&mut socket).await.contains("xxxx"));
    let served = serve(Kind::Sse, Tweaks::default()).await;
    let raw = Raw::ready(&served).await;
    assert_eq!(raw.post(list(7)).await, 400);
    assert_eq!(raw.post(echo(8, 10)).await, 202);
}

/// A budget of 1 MiB, a quarter of which is for small messages.
fn small_budget() -> (MemoryBudget, Tweaks) {
    let bodies = MemoryBudget::new(1024 * KIB);
    (bodies.clone(), Tweaks { bodies, ..Tweaks::default() })
}

/// Whether 600 KiB are left.
fn has_room(bodies: &MemoryBudget) -> bool {
    bodies.take(600 * KIB).is_some()
}

#[tokio::test]
async fn websockets_share_the_memory_for_messages_that_are_not_complete() {
    let (bodies, tweaks) = small_budget();
    let served = serve(Kind::WebSocket, tweaks).await;
    let mut slow = ready(served.address).await;
    // A text frame of 600 KiB, masked with zeros, of which 500 KiB are sent.
    let mut part = vec![0x81, 0x80 | 0x7f];
    part.extend((600 * KIB as u64).to_be_bytes());
    part.extend([0; 4]);
    part.resize(part.len() + 500 * KIB, b'x');
    slow.get_mut().write_all(&part).await.unwrap();
    until("the budget is taken", || !has_room(&bodies)).await;

    let mut large = ready(served.address).await;
    large.send(Message::text(echo(1, 400 * KIB))).await.unwrap();
    assert_eq!(closing(&mut large).await, CloseCode::Again);
    let mut small = ready(served.address).await;
    small.send(Message::text(echo(2, 10))).await.unwrap();
    assert!(next_text(&mut small).await.contains("xxxx"));

    drop(slow);
    until("the budget is given back", || has_room(&bodies)).await;
    let mut large = ready(served.address).await;
    large.send(Message::text(echo(3, 100 * KIB))).await.unwrap();
    assert!(next_text(&mut large).await.contains("xxxx"));
}

#[tokio::test]
async fn posts_over_sse_share_the_memory_for_messages_that_are_not_complete() {
    let (bodies, tweaks) = small_budget();
    let served = serve(Kind::Sse, tweaks).await;
    let (slow, other) = (Raw::ready(&served).await, Raw::ready(&served).await);
    let path = slow.endpoint.split_once(&served.address.to_string()).unwrap().1;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        served.address,
        600 * KIB
    );
    let mut post = TcpStream::connect(served.address).await.unwrap();
    post.write_all(head.as_bytes()).await.unwrap();
    post.write_all(&vec![b'x'; 500 * KIB]).await.unwrap();
    until("the budget is taken", || !has_room(&bodies)).await;

    assert_eq!(other.post(echo(1, 400 * KIB)).await, 503);
    assert_eq!(other.post(echo(2, 10)).await, 202);

    drop(post);
    until("the budget is given back", || has_room(&bodies)).await;
    assert_eq!(other.post(echo(3, 100 * KIB)).await, 202);
}
