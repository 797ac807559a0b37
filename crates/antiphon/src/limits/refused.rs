//! What whoever comes too often, or too early, is told.

use std::time::Duration;

use serde_json::{Value, json};

/// Which bound of a [`Quota`](super::Quota) was reached, and what is known of when it will not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Rate(Duration),
    Concurrent(usize),
    Bytes(Duration),
}

/// Whose bound it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose<'a> {
    Principal,
    Tool(&'a str),
}

/// Why a request is not taken, and when to come again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    message: String,
    limit: &'static str,
    retry_after: Duration,
    /// Whether it is about this caller, not about the server.
    own: bool,
}

/// When to come again where nobody can know.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Refused {
    /// The server has enough to do.
    pub(super) fn full(in_flight: usize) -> Self {
        Self {
            message: format!("the server is working on {in_flight} requests, its limit; try again later"),
            limit: "in_flight",
            retry_after: RETRY_AFTER,
            own: false,
        }
    }

    /// Too many wait already.
    pub(super) fn waiting(most: usize) -> Self {
        Self {
            message: format!("{most} requests wait for people, the server's limit; try again later"),
            limit: "waiting",
            retry_after: RETRY_AFTER,
            own: false,
        }
    }

    pub(super) fn over(over: Over, whose: Whose<'_>) -> Self {
        let (limit, retry_after) = match over {
            Over::Rate(wait) => ("rate", wait),
            Over::Concurrent(_) => ("concurrent", RETRY_AFTER),
            Over::Bytes(wait) => ("bytes", wait),
        };
        let said = match (whose, over) {
            (Whose::Principal, Over::Rate(_)) => "you send requests faster than you may".to_owned(),
            (Whose::Principal, Over::Concurrent(most)) => {
                format!("you have {most} calls open, as many as you may")
            }
            (Whose::Principal, Over::Bytes(_)) => {
                "you have moved as many bytes as you may for now".to_owned()
            }
            (Whose::Tool(name), Over::Rate(_)) => format!("`{name}` is called faster than it may be"),
            (Whose::Tool(name), Over::Concurrent(most)) => {
                format!("`{name}` has {most} calls open, as many as it may")
            }
            (Whose::Tool(name), Over::Bytes(_)) => {
                format!("`{name}` has moved as many bytes as it may for now")
            }
        };
        let seconds = seconds(retry_after);
        let message = format!("{said}; try again in {seconds} s");
        Self { message, limit, retry_after, own: whose == Whose::Principal }
    }

    /// What is said to people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What is said to programs.
    pub(crate) fn data(&self) -> Value {
        json!({"limit": self.limit, "retryAfter": seconds(self.retry_after)})
    }

    /// Whether it is the caller's own limit, and when to come again, in seconds.
    pub(crate) fn advice(&self) -> (bool, u64) {
        (self.own, seconds(self.retry_after))
    }
}

/// As many whole seconds as it takes.
fn seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}
