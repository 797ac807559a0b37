//! The contracts through the front door: laws, and who keeps them.

mod broken;
#[cfg(feature = "tls")]
mod certificates;
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
