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
    url_elicitation::{Channel, KEY_META},
};

impl Ctx {
    /// Asks the user to open a web page, for example to sign in, to pay, or to enter data that the client must not see.
    ///
    /// The answer states only whether the user agreed to open the web page. When the user has finished, many web pages
    /// open a callback URL of your server. In the HTTP handler of this callback URL, call
    /// [`Server::elicitation_complete`](crate::Server::elicitation_complete). If the tool itself detects that the user
    /// has finished, call [`elicitation_complete`](Self::elicitation_complete).
    ///
    /// If the client has not declared URL mode, the link can be shown in the form of an MCP App or on the answer page.
    /// The server needs [`ServerBuilder::with_asking`](crate::ServerBuilder::with_asking) for this. The server shows
    /// the link in the form or on the answer page only if the link begins with `https://`. A link to the user's own
    /// machine can also begin with `http://`.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the client has not declared URL mode, and
    /// the server cannot show the link in another way. Returns [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if the
    /// link is malformed or has a scheme that the server does not show.
    pub fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> ElicitUrl<'_> {
        ElicitUrl { ask: Ask::new(self, "url"), message: message.into(), url: PageUrl::Fixed(url.into()) }
    }

    /// Asks the user to open a web page whose URL contains the elicitation ID. From the elicitation ID in the URL, the
    /// callback of the web page can identify the elicitation. For example, an OAuth page returns the elicitation ID in
    /// the `state` parameter. See [`elicit_url`](Self::elicit_url).
    ///
    /// Percent-encode the elicitation ID in the URL. The elicitation ID contains characters such as `#` and `/` if a
    /// run sends several URL questions, or sends a URL question in a branch.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`elicit_url`](Self::elicit_url).
    ///
    /// # Replay
    ///
    /// Each time the run resumes, Antiphon calls the function `url` again with the same elicitation ID. `url` must
    /// return the same URL each time.
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

    /// Notifies an MCP 2025-11-25 client that the user has finished on the web page of the elicitation `id`. This
    /// method does nothing for MCP 2026-07-28 clients, because MCP 2026-07-28 does not define this notification.
    ///
    /// During a call, the server sends the notification to the client that made the call. In a task, the server sends
    /// the notification to the session in which the server sent the elicitation. In code that does not belong to a run,
    /// use [`Server::elicitation_complete`](crate::Server::elicitation_complete).
    pub fn elicitation_complete(&self, id: &str) {
        if self.run.client.revision() == Revision::Session {
            self.run.note(Note::ElicitationComplete { id: id.to_owned() });
        }
    }
}

/// A question that asks the user to open a web page. To send the question, `.await` this value.
#[must_use = "a question is asked when it is awaited"]
#[derive(Debug)]
pub struct ElicitUrl<'a> {
    ask: Ask<'a>,
    message: String,
    url: PageUrl<'a>,
}

/// The URL of the web page, or a function that creates this URL from the elicitation ID.
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

/// The user's answer to a [`Ctx::elicit_url`] question. The answer states only whether the user agreed to open the web
/// page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlElicited {
    /// The ID that identifies the elicitation in the callback of the web page. Pass this ID to
    /// [`Server::elicitation_complete`](crate::Server::elicitation_complete).
    pub id: String,
    /// Whether the user agreed to open the web page.
    pub agreed: bool,
    channel: Channel,
}

impl UrlElicited {
    /// Returns the channel through which the user answered. Users can answer through a channel other than the client
    /// only if the server uses [`ServerBuilder::with_asking`](crate::ServerBuilder::with_asking).
    pub fn via(&self) -> Channel {
        self.channel
    }
}

impl ElicitUrl<'_> {
    /// Sets the question key, which identifies this question in MCP messages and in the journal. Default: `url`.
    pub fn key(mut self, key: &str) -> Self {
        self.ask.rename(key);
        self
    }

    /// Returns the elicitation ID. When the run resumes, the elicitation ID stays the same. With
    /// [`Ctx::elicit_url_with`], you can put the elicitation ID into the URL of the web page.
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
        let channel = ask.answered(&answer);
        Poll::Ready(Ok(UrlElicited { id, agreed: answer["action"] == "accept", channel }))
    }
}
