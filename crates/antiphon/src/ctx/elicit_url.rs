use std::{
    borrow::Cow,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use antiphon_replay::Op;
use serde_json::json;

use super::{Ctx, ask::Ask};
use crate::{
    error::Result,
    protocol::{Note, Revision},
    url_elicitation::KEY_META,
};

impl Ctx {
    /// Sends the person to a page: to sign in, to pay, to enter what must not pass through the
    /// client.
    ///
    /// The answer says only that they agreed to go. When the page is done with them, call
    /// [`Server::elicitation_complete`](crate::Server::elicitation_complete) in the handler that the page comes back to,
    /// or [`elicitation_complete`](Self::elicitation_complete) if the tool itself finds out.
    ///
    /// # Errors
    ///
    /// When the client has not declared URL mode.
    pub fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> ElicitUrl<'_> {
        ElicitUrl { ask: Ask::new(self, "url"), message: message.into(), url: PageUrl::Fixed(url.into()) }
    }

    /// As [`elicit_url`](Self::elicit_url), with a URL that is made from the elicitation's ID: so the page can say which
    /// elicitation it belongs to when it comes back, for example in the `state` of OAuth.
    ///
    /// Percent-encode the ID. It contains characters such as `#` and `/` if a run asks more than once, or in a branch.
    ///
    /// # Errors
    ///
    /// As [`elicit_url`](Self::elicit_url).
    ///
    /// # Replay
    ///
    /// `url` is called in every leg, with the same ID. It must return the same URL.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// # fn encode(id: &str) -> String { id.to_owned() }
    /// async fn pay(ctx: &Ctx, _: ()) -> Result<String> {
    ///     let page = |id: &str| format!("https://shop.example/pay?order={}", encode(id));
    ///     let visited = ctx.elicit_url_with("Pay for your order", page).await?;
    ///     Ok(if visited.agreed { "thank you" } else { "another time, then" }.into())
    /// }
    /// ```
    pub fn elicit_url_with<'a>(
        &'a self,
        message: impl Into<String>,
        url: impl Fn(&str) -> String + Send + 'a,
    ) -> ElicitUrl<'a> {
        ElicitUrl { ask: Ask::new(self, "url"), message: message.into(), url: PageUrl::OfId(Box::new(url)) }
    }

    /// Tells a 2025-11-25 client that what `id` sent its person to do is done. On 2026-07-28, which
    /// has no such notification, it does nothing.
    ///
    /// In a call, the client that called is told. In a task, the session that was sent the elicitation is told.
    /// Outside of a run, use [`Server::elicitation_complete`](crate::Server::elicitation_complete).
    pub fn elicitation_complete(&self, id: &str) {
        if self.run.client.revision() == Revision::Session {
            self.run.note(Note::ElicitationComplete { id: id.to_owned() });
        }
    }
}

/// A visit to a page, not yet asked for. `.await` asks.
#[must_use = "a question is asked when it is awaited"]
#[derive(Debug)]
pub struct ElicitUrl<'a> {
    ask: Ask<'a>,
    message: String,
    url: PageUrl<'a>,
}

/// The URL of a page, or how to make it from the elicitation's ID.
enum PageUrl<'a> {
    Fixed(String),
    OfId(Box<dyn Fn(&str) -> String + Send + 'a>),
}

impl fmt::Debug for PageUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(url) => url.fmt(f),
            Self::OfId(_) => f.write_str("OfId"),
        }
    }
}

/// What a person made of being sent to a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlElicited {
    /// The elicitation's id, for [`Server::elicitation_complete`](crate::Server::elicitation_complete) and for the page
    /// to report back with.
    pub id: String,
    /// Whether they agreed to go.
    pub agreed: bool,
}

impl ElicitUrl<'_> {
    /// Sets the question's key.
    pub fn key(mut self, key: &str) -> Self {
        self.ask.rename(key);
        self
    }

    /// The id this elicitation has, in every round. [`Ctx::elicit_url_with`] puts it into the page's URL.
    pub fn id(&self) -> String {
        format!("{}.{}", self.ask.ctx().run_id(), self.ask.key())
    }
}

impl Future for ElicitUrl<'_> {
    type Output = Result<UrlElicited>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let id = self.id();
        let Self { ask, message, url } = &mut *self;
        let url = match url {
            PageUrl::Fixed(url) => Cow::Borrowed(url.as_str()),
            PageUrl::OfId(make) => Cow::Owned(make(&id)),
        };
        let answer = ready!(ask.poll(
            cx,
            |_| Ok(Op::ask_parts(&format!("visit `{message}`"), &[message.as_bytes(), url.as_bytes()])),
            |key| json!({
                "method": "elicitation/create",
                "params": {
                    "mode": "url", "message": message, "url": &*url, "elicitationId": id,
                    "_meta": {KEY_META: key.name()},
                },
            }),
        ))?;
        Poll::Ready(Ok(UrlElicited { id, agreed: answer["action"] == "accept" }))
    }
}
