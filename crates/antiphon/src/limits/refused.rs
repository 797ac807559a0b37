//! Rejections of requests that would exceed a limit.

use std::time::Duration;

use serde_json::{Value, json};

/// The limit of a [`Quota`](super::Quota) that a request would exceed. The value is the time to wait, or the maximum
/// number of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Rate(Duration),
    Concurrent(usize),
    Bytes(Duration),
}

/// The owner of the quota that a request would exceed: the caller or a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose<'a> {
    Principal,
    Tool(&'a str),
}

/// A rejected request, and the time that the caller should wait before a retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    message: String,
    limit: &'static str,
    retry_after: Duration,
    /// Whether the caller has used up the caller's own quota. If false, the request would exceed a limit of the server.
    own: bool,
}

/// The wait that the server recommends if it cannot compute when a retry can succeed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Refused {
    /// Creates the rejection for a server that already processes too many requests.
    pub(super) fn full(in_flight: usize) -> Self {
        Self {
            message: format!(
                "the server has reached its limit of {in_flight} concurrent requests; try again later"
            ),
            limit: "in_flight",
            retry_after: RETRY_AFTER,
            own: false,
        }
    }

    /// Creates the rejection for a server on which too many requests already wait for users.
    pub(super) fn waiting(most: usize) -> Self {
        Self {
            message: format!(
                "the server has reached its limit of {most} requests that wait for users; try again later"
            ),
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
            (Whose::Principal, Over::Rate(_)) => "you exceeded your rate limit".to_owned(),
            (Whose::Principal, Over::Concurrent(most)) => {
                format!("you reached your limit of {most} concurrent calls")
            }
            (Whose::Principal, Over::Bytes(_)) => "you reached your limit of transferred bytes".to_owned(),
            (Whose::Tool(name), Over::Rate(_)) => format!("the tool `{name}` exceeded its rate limit"),
            (Whose::Tool(name), Over::Concurrent(most)) => {
                format!("the tool `{name}` reached its limit of {most} concurrent calls")
            }
            (Whose::Tool(name), Over::Bytes(_)) => {
                format!("the tool `{name}` reached its limit of transferred bytes")
            }
        };
        let seconds = seconds(retry_after);
        let message = format!("{said}; try again in {seconds} s");
        Self { message, limit, retry_after, own: whose == Whose::Principal }
    }

    /// Returns the error message of the rejection.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the `data` of the JSON-RPC error.
    pub(crate) fn data(&self) -> Value {
        json!({"limit": self.limit, "retryAfter": seconds(self.retry_after)})
    }

    /// Returns whether the caller exceeded the caller's own quota, and how many seconds the caller should wait.
    pub(crate) fn advice(&self) -> (bool, u64) {
        (self.own, seconds(self.retry_after))
    }
}

/// Rounds a duration up to whole seconds. The returned number of seconds is at least one.
fn seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}
