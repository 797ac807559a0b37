//! Asks the user on the web page to fill in forms, open pages and approve sampling requests.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use antiphon_host::{Approval, BoxFuture, Form, FormHandler, Page, PageHandler, Refused, Shown};
use antiphon_llm::{Model, Reply, Request};
use serde_json::{Value, json};

use super::{
    asks::{Action, Asks},
    feed::Feed,
};
use crate::person::hand;

/// The questions that a session asks the user on the web page. A clone of `PendingQuestions` is a handle to the same
/// questions.
#[derive(Clone)]
pub(super) struct PendingQuestions {
    inner: Arc<Inner>,
}

struct Inner {
    feed: Arc<Feed>,
    asks: Arc<Asks>,
    /// The number of the running call. The number is 0 between calls, because a 2025-11-25 server can ask questions
    /// even between calls.
    call: AtomicU64,
    /// The call whose sampling requests are approved automatically, or 0.
    lets_through: AtomicU64,
    /// Sampling requests that the model is processing, with their question IDs on the web page.
    sampling: Mutex<Vec<Sampling>>,
    /// Whether the user replies in place of a model.
    by_hand: AtomicBool,
}

struct Sampling {
    request: Request,
    ask: String,
    review: bool,
    /// The reply that the user wrote.
    written: Option<Reply>,
}

impl PendingQuestions {
    pub(super) fn new(feed: Arc<Feed>, asks: Arc<Asks>) -> Self {
        let (call, lets_through) = (AtomicU64::new(0), AtomicU64::new(0));
        let by_hand = AtomicBool::new(false);
        let inner = Inner { feed, asks, call, lets_through, sampling: Mutex::default(), by_hand };
        Self { inner: Arc::new(inner) }
    }

    /// Starts a call. Invariant: call numbers are unique and greater than 0.
    pub(super) fn begin(&self, call: u64) {
        self.sampling().clear();
        self.inner.call.store(call, Ordering::SeqCst);
    }

    /// Ends the call and its automatic approval.
    pub(super) fn end(&self) {
        self.inner.call.store(0, Ordering::SeqCst);
    }

    /// Wraps a model, so that its replies are shown on the web page.
    pub(super) fn watched(&self, model: Arc<dyn Model>) -> Watched {
        Watched { model, questions: self.clone() }
    }

    /// Returns a model whose replies the user writes. After this call, the user replies to all further sampling
    /// requests.
    pub(super) fn by_hand(&self) -> Arc<dyn Model> {
        self.inner.by_hand.store(true, Ordering::SeqCst);
        Arc::new(ByHand(self.clone()))
    }

    fn sampling(&self) -> std::sync::MutexGuard<'_, Vec<Sampling>> {
        self.inner.sampling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, request: &Request) -> Option<(String, bool)> {
        let sampling = self.sampling();
        sampling.iter().find(|it| it.request == *request).map(|it| (it.ask.clone(), it.review))
    }

    /// Removes a sampling request.
    fn forget(&self, ask: &str) {
        self.sampling().retain(|it| it.ask != ask);
    }
}

impl FormHandler for PendingQuestions {
    fn show(&self, form: Form) -> BoxFuture<'_, Shown> {
        Box::pin(async move {
            let asks = &self.inner.asks;
            let Form { key, message, schema, context, .. } = form;
            let question = json!({
                "kind": "form", "key": key, "message": message, "schema": schema, "context": context,
            });
            match asks.ask(&asks.next_id(), question).await {
                Some(answer) => match answer.action {
                    Action::Accept => Shown::Accept(answer.content),
                    Action::Decline => Shown::Decline,
                    Action::Cancel => Shown::Cancel,
                },
                None => Shown::Cancel,
            }
        })
    }
}

impl PageHandler for PendingQuestions {
    fn open(&self, page: Page) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let asks = &self.inner.asks;
            let question = json!({"kind": "page", "message": page.message, "url": page.url});
            let answer = asks.ask(&asks.next_id(), question).await;
            answer.is_some_and(|answer| answer.action == Action::Accept)
        })
    }
}

impl Approval for PendingQuestions {
    fn request(&self, request: Request) -> BoxFuture<'_, Result<Request, Refused>> {
        Box::pin(async move {
            let Inner { feed, asks, lets_through, .. } = &*self.inner;
            let id = asks.next_id();
            let call = self.inner.call.load(Ordering::SeqCst);
            let in_call = call != 0;
            let mut question = json!({"kind": "sample", "request": request, "inCall": in_call});
            let (mut review, mut written) = (false, None);
            if self.inner.by_hand.load(Ordering::SeqCst) {
                question["byHand"] = json!(true);
                let answer = asks.ask(&id, question).await.ok_or(Refused)?;
                if answer.action != Action::Accept {
                    return Err(Refused);
                }
                written = Some(written_reply(answer.content));
            } else if in_call && lets_through.load(Ordering::SeqCst) == call {
                question["ask"] = json!(id);
                question["unseen"] = json!(true);
                feed.tell("ask", question);
                asks.settle(&id, "accept");
            } else {
                let answer = asks.ask(&id, question).await.ok_or(Refused)?;
                if answer.action != Action::Accept {
                    return Err(Refused);
                }
                if answer.all {
                    // The approval applies to the call that asked, even if another call is running now.
                    lets_through.store(call, Ordering::SeqCst);
                }
                review = answer.review;
            }
            self.sampling().push(Sampling { request: request.clone(), ask: id, review, written });
            Ok(request)
        })
    }

    fn reply<'a>(&'a self, request: &'a Request, reply: Reply) -> BoxFuture<'a, Result<Reply, Refused>> {
        Box::pin(async move {
            let Some((ask, review)) = self.find(request) else { return Ok(reply) };
            self.forget(&ask);
            if !review {
                return Ok(reply);
            }
            let asks = &self.inner.asks;
            let question = json!({"kind": "reply", "of": ask, "reply": reply});
            let answer = asks.ask(&asks.next_id(), question).await.ok_or(Refused)?;
            if answer.action == Action::Accept { Ok(reply) } else { Err(Refused) }
        })
    }
}

/// A model whose replies are shown on the web page.
pub(super) struct Watched {
    model: Arc<dyn Model>,
    questions: PendingQuestions,
}

impl Model for Watched {
    fn reply<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, antiphon_llm::Result<Reply>> {
        Box::pin(async move {
            let began = Instant::now();
            let replied = self.model.reply(request).await;
            let Some((ask, _)) = self.questions.find(request) else { return replied };
            let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let mut event = json!({"ask": ask, "tookMs": took});
            match &replied {
                Ok(reply) => event["reply"] = json!(reply),
                Err(error) => {
                    event["error"] = Value::String(chain(error));
                    self.questions.forget(&ask);
                }
            }
            self.questions.inner.feed.tell("sampled", event);
            replied
        })
    }

    fn name(&self) -> &str {
        self.model.name()
    }
}

/// A model whose replies the user writes on the web page.
struct ByHand(PendingQuestions);

impl Model for ByHand {
    fn reply<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, antiphon_llm::Result<Reply>> {
        let sampling = self.0.sampling();
        let written = sampling.iter().find(|it| it.request == *request).and_then(|it| it.written.clone());
        drop(sampling);
        let missing = || antiphon_llm::Error::Unavailable("the user did not reply".into());
        Box::pin(std::future::ready(written.ok_or_else(missing)))
    }

    fn name(&self) -> &str {
        hand::NAME
    }
}

impl fmt::Debug for ByHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByHand").finish_non_exhaustive()
    }
}

/// Returns the reply in an answer from the web page: `{"text": …}`, or `{"tool": …, "input": {…}}`.
fn written_reply(mut content: Value) -> Reply {
    match content["tool"].as_str().map(str::to_owned) {
        Some(tool) => hand::called(&tool, content["input"].take()),
        None => hand::said(content["text"].as_str().unwrap_or_default()),
    }
}

/// Formats an error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("model", &self.model).finish_non_exhaustive()
    }
}
