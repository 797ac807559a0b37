//! Bytes on a real connection: what no HTTP library would send.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::House;

/// Serves on a port of its own.
async fn serve(house: &House) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = house.router.clone();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Sends bytes as they are, and gives what came back until the other side closed, or waits for more that never comes.
async fn exchange(address: std::net::SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The other side may close before it has read it all.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(2), stream.read_to_end(&mut answer)).await;
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_smuggled_past_the_end_of_a_request() {
    let house = House::open();
    let set = house.people(3).await;
    let address = serve(&house).await;
    let hidden = format!("DELETE {set} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let length = hidden.len();
    let cases = [
        (
            "two lengths",
            format!(
                "POST {set} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: {length}\r\n\r\n{hidden}"
            ),
        ),
        (
            "two lengths in one",
            format!("POST {set} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0, {length}\r\n\r\n{hidden}"),
        ),
        (
            "a signed length",
            format!("POST {set} HTTP/1.1\r\nHost: localhost\r\nContent-Length: +0\r\n\r\n{hidden}"),
        ),
        (
            "a negative length",
            format!("POST {set} HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n{hidden}"),
        ),
        (
            "a hexadecimal length",
            format!("POST {set} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x0\r\n\r\n{hidden}"),
        ),
        (
            "an unknown coding",
            format!(
                "POST {set} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"
            ),
        ),
        (
            "chunked not last",
            format!(
                "POST {set} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}"
            ),
        ),
        (
            "a bad chunk size",
            format!(
                "POST {set} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n{hidden}"
            ),
        ),
        (
            "a space before the colon",
            format!("POST {set} HTTP/1.1\r\nHost: localhost\r\nContent-Length : 0\r\n\r\n{hidden}"),
        ),
        (
            "a folded header",
            format!("POST {set} HTTP/1.1\r\nHost: localhost\r\nX: a\r\n Content-Length: 0\r\n\r\n{hidden}"),
        ),
        ("a header with NUL", format!("POST {set} HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n{hidden}")),
        (
            "a lone CR in a value",
            format!("POST {set} HTTP/1.1\r\nHost: localhost\r\nX: a\rContent-Length: 0\r\n\r\n{hidden}"),
        ),
        ("a space in the target", format!("POST {set} x HTTP/1.1\r\nHost: localhost\r\n\r\n{hidden}")),
        ("an unknown version", format!("POST {set} HTTP/9.9\r\nHost: localhost\r\n\r\n{hidden}")),
    ];
    let count = cases.len();
    for (name, request) in cases {
        let answer = String::from_utf8_lossy(&exchange(address, request.as_bytes()).await).into_owned();
        assert!(answer.starts_with("HTTP/1.1 4"), "{name}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{name}: {answer}");
        assert_eq!(house.ask("GET", &set, "").await.status, 200, "{name}: the hidden request was obeyed");
    }
    assert_eq!(count, 14);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_and_chunks_are_one_request() {
    let house = House::open();
    let set = house.people(3).await;
    let address = serve(&house).await;
    // Chunks count, and the length does not: what is in them is the body, and is no JSON.
    let hidden = format!("DELETE {set} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let chunk = format!("{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len());
    let request = format!(
        "POST {set} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"
    );
    let answer = String::from_utf8(exchange(address, request.as_bytes()).await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    assert_eq!(house.ask("GET", &set, "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_paths_are_refused_and_never_break_anything() {
    let house = House::open();
    let set = house.people(3).await;
    let address = serve(&house).await;
    let targets: [&[u8]; 9] = [
        b"/resources/\xff\xfe",
        b"/resources/<script>",
        b"/resources/a b",
        b"/resources/a\"b",
        b"//resources/x",
        b"/resources/../../etc/passwd",
        b"http://evil.example/resources/x",
        b"*",
        b"/resources/x#y",
    ];
    for target in targets {
        let request =
            [b"GET ", target, b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"].concat();
        let answer = exchange(address, &request).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 4"), "{}: {answer}", String::from_utf8_lossy(target));
    }
    assert_eq!(house.ask("GET", &set, "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_has_no_end_on_the_wire() {
    let house = House::open();
    let set = house.people(200_000).await;
    let address = serve(&house).await;
    let whole = exchange(address, ask_for(&set).as_bytes()).await;
    assert!(whole.ends_with(b"0\r\n\r\n"), "a whole one has an end");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(ask_for(&set).as_bytes()).await.unwrap();
    let mut part = vec![0; 1000];
    stream.read_exact(&mut part).await.unwrap();
    assert!(part.starts_with(b"HTTP/1.1 200"));
    house.ask("DELETE", &set, "").await;
    // It ends without an end, or is reset.
    let _ = stream.read_to_end(&mut part).await;
    assert!(part.len() < whole.len() && !part.ends_with(b"0\r\n\r\n"), "a part must not look like the whole");
}

fn ask_for(set: &str) -> String {
    format!(
        "POST {set} HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\nConnection: close\r\n\r\n"
    )
}
