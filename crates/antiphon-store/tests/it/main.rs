//! The contracts through the front door: laws, and who keeps them.

mod broken;
#[cfg(feature = "tls")]
mod certificates;
#[cfg(all(feature = "nats", feature = "postgres", feature = "redis"))]
mod connect;
mod memory;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod retrying;

/// A name that nobody else has, and that every engine takes, as a schema too.
#[cfg(any(feature = "postgres", feature = "redis", feature = "tls"))]
fn unique(name: &str) -> String {
    let mut random = [0; 8];
    getrandom::fill(&mut random).expect("there is randomness");
    format!("{name}_{:016x}", u64::from_ne_bytes(random))
}

/// A port that a server of this test can use, with the port 10000 above it free for a cluster. Both are below the ports
/// that the system gives to clients, and each test process has ports of its own. So nobody else takes the port before
/// the server listens.
#[cfg(any(feature = "nats", feature = "postgres", feature = "redis"))]
fn free_port() -> u16 {
    use std::{
        net::TcpListener,
        sync::atomic::{AtomicU32, Ordering},
    };
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id().wrapping_mul(8).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 12_000 + u16::try_from(number % 10_000).expect("it is less than 10000");
        let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if is_free(port) && is_free(port + 10_000) {
            return port;
        }
    }
}
