//! The contracts through the front door: laws, and who keeps them.

mod broken;
mod memory;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod steady;
