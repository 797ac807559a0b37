use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use antiphon_replay::Op;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Ctx, ask::Ask};
use crate::error::Result;

impl Ctx {
    /// Asks the client for its roots. A root is a folder, or another place, in which the user works.
    ///
    /// MCP 2026-07-28 deprecates roots, but clients of this protocol revision can still support roots.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the client has not declared `roots`.
    pub fn roots(&self) -> Roots<'_> {
        Roots { ask: Ask::new(self, "roots") }
    }
}

/// A root that the client declared. A root is a folder, or another place, in which the user works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Root {
    /// The URI of the root. The scheme of this URI is `file`.
    pub uri: String,
    /// The name of the root, if the client has sent a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A question that asks the client for its roots. To send the question, `.await` this value.
#[must_use = "a question is asked when it is awaited"]
#[derive(Debug)]
pub struct Roots<'a> {
    ask: Ask<'a>,
}

impl Roots<'_> {
    /// Sets the question key, which identifies this question in MCP messages and in the journal. Default: `roots`.
    pub fn key(mut self, key: &str) -> Self {
        self.ask.rename(key);
        self
    }
}

impl Future for Roots<'_> {
    type Output = Result<Vec<Root>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        #[derive(Deserialize)]
        struct Answer {
            roots: Vec<Root>,
        }
        let answer = ready!(self.ask.poll(
            cx,
            |_| Ok(Op::ask_parts("roots", &[])),
            |_| json!({"method": "roots/list"})
        ))?;
        let Answer { roots } = serde_json::from_value(answer)?;
        Poll::Ready(Ok(roots))
    }
}
