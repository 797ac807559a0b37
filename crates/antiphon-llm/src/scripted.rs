use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, PoisonError},
};

use crate::{
    error::{Error, Result},
    message::Block,
    model::{BoxFuture, Model},
    reply::Reply,
    request::Request,
};

type ByHand = Box<dyn Fn(&Request) -> Result<Reply> + Send + Sync>;

/// A model for tests, which returns fixed replies and records the requests that it receives.
///
/// ```
/// # use antiphon_llm::{Model, Request, Scripted};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let model = Scripted::new().say("Hello!");
/// let reply = model.reply(&Request::prompt("Hi")).await.unwrap();
/// assert_eq!(reply.text(), "Hello!");
/// assert_eq!(model.requests().len(), 1);
/// # }
/// ```
pub struct Scripted {
    replies: Mutex<VecDeque<Result<Reply>>>,
    by_hand: Option<ByHand>,
    requests: Mutex<Vec<Request>>,
}

impl Scripted {
    /// Creates a model without replies. Add replies with [`say`](Self::say), [`call`](Self::call) or
    /// [`then`](Self::then).
    pub fn new() -> Self {
        Self { replies: Mutex::default(), by_hand: None, requests: Mutex::default() }
    }

    /// Sets a function that creates the replies after all fixed replies are used. Default: none. If you do not set
    /// this function, a request fails after all fixed replies are used.
    #[must_use]
    pub fn otherwise(mut self, reply: impl Fn(&Request) -> Result<Reply> + Send + Sync + 'static) -> Self {
        self.by_hand = Some(Box::new(reply));
        self
    }

    /// Adds a reply that contains only text.
    #[must_use]
    pub fn say(self, text: &str) -> Self {
        self.then(Ok(Reply::new("scripted", text)))
    }

    /// Adds a reply with a call of the tool `tool`. For structured data, use [`SCHEMA_TOOL`](crate::SCHEMA_TOOL) as
    /// the tool.
    #[must_use]
    pub fn call(self, tool: &str, input: serde_json::Value) -> Self {
        let id = format!("call_{}", self.replies.lock().unwrap_or_else(PoisonError::into_inner).len() + 1);
        self.then(Ok(Reply::new("scripted", Block::tool_use(id, tool, input))))
    }

    /// Adds a reply, or an error that the model returns in place of a reply.
    #[must_use]
    pub fn then(self, reply: Result<Reply>) -> Self {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).push_back(reply);
        self
    }

    /// Returns the requests that the model has received, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Default for Scripted {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for Scripted {
    fn reply<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Reply>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        let next = self.replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let reply = next.or_else(|| self.by_hand.as_ref().map(|reply| reply(request))).unwrap_or_else(|| {
            Err(Error::Unavailable(
                "the `Scripted` model has no more replies; add replies to its script".into(),
            ))
        });
        Box::pin(std::future::ready(reply))
    }

    fn name(&self) -> &'static str {
        "scripted"
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").finish_non_exhaustive()
    }
}
