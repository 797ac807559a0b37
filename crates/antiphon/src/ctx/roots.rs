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
    /// Asks the client for its roots: the folders its person works in.
    ///
    /// MCP has deprecated roots on 2026-07-28; they still work there.
    ///
    /// # Errors
    ///
    /// When the client has not declared `roots`.
    pub fn roots(&self) -> Roots<'_> {
        Roots { ask: Ask::new(self, "roots") }
    }
}

/// A folder, or another place, that the client's person works in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Root {
    /// Where it is: a `file://` URI.
    pub uri: String,
    /// What it is called, if it has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A question for roots, not yet asked. `.await` asks it.
#[must_use = "a question is asked when it is awaited"]
#[derive(Debug)]
pub struct Roots<'a> {
    ask: Ask<'a>,
}

impl Roots<'_> {
    /// Sets the question's key.
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
