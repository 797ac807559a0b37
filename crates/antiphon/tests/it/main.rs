//! The crate through its front door.

mod conversation;
