//! The code that all kinds of questions share.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use antiphon_replay::{Key, Op, Outcome, Turn};
use serde_json::{Value, json};

use super::Ctx;
use crate::{
    error::{Capability, Error, ErrorKind, Result},
    url_elicitation::{Channel, KEY_META},
};

/// A question to the client. When a tool calls a method such as `Ctx::elicit`, this method creates the question and the
/// question key. The first poll registers the question with the replay machine.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    ctx: &'a Ctx,
    key: Key,
    /// The question key with which the tool first asked the question.
    first: Key,
    op: Option<Op>,
    done: bool,
}

impl<'a> Ask<'a> {
    pub(super) fn new(ctx: &'a Ctx, name: &str) -> Self {
        let key = ctx.take_key(name);
        Self { ctx, first: key.clone(), key, op: None, done: false }
    }

    pub(super) fn ctx(&self) -> &'a Ctx {
        self.ctx
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// Returns an ID for the tool call with which an exchange describes this question. See
    /// [`id_of`](crate::exchange::id_of).
    pub(super) fn id(&self, prefix: &str) -> String {
        let place = self.ctx.run.state().machine().idempotency_key(&self.key);
        // The ID does not contain the ID of the run. So two runs of the same tool produce the same messages.
        let place = place.split_once(':').map_or(place.as_str(), |(_, place)| place);
        crate::exchange::id_of(prefix, self.key.name(), place)
    }

    /// Replaces the name in the question key.
    pub(super) fn rename(&mut self, name: &str) {
        let mut state = self.ctx.run.state();
        state.machine().return_key(&self.key);
        self.key = state.machine().take_key(&self.ctx.scope, name);
        self.first = self.key.clone();
    }

    /// Prepares this question to be asked again under a new question key. A new question key is necessary, because the
    /// server does not ask again with a question key that already has an answer.
    pub(super) fn again(&mut self, attempt: u32) {
        self.key = self.first.attempt(attempt);
        self.op = None;
        self.done = false;
    }

    /// Returns the channel through which the user answered this question. This method also counts the user's answer in
    /// the metrics, except on replay.
    pub(super) fn answered(&self, answer: &Value) -> Channel {
        let channel = Channel::of(answer);
        let run = &self.ctx.run;
        let is_replayed = run.state().machine().is_replaying();
        if !is_replayed {
            let action = match answer["action"].as_str() {
                Some("accept") => "accept",
                Some("decline") => "decline",
                _ => "cancel",
            };
            run.span.answered(channel.name(), action);
        }
        channel
    }

    /// Polls for the client's answer, without validation of the answer. `describe` returns the operation for the
    /// journal, and `request` returns the message to send. The first poll calls both functions. If the journal already
    /// contains the answer, the first poll does not call `request`.
    pub(super) fn poll(
        &mut self,
        cx: &Context<'_>,
        describe: impl FnOnce(&Key) -> Result<Op>,
        request: impl FnOnce(&Key) -> Value,
    ) -> Poll<Result<Value>> {
        let op = match &mut self.op {
            Some(op) => op,
            none => {
                if let Some(budget) = &self.ctx.budget
                    && let Err(error) = budget.spend()
                {
                    self.done = true;
                    return Poll::Ready(Err(error));
                }
                match describe(&self.key) {
                    Ok(op) => none.insert(op),
                    Err(error) => {
                        self.done = true;
                        return Poll::Ready(Err(error));
                    }
                }
            }
        };
        let run = &self.ctx.run;
        let mut state = run.state();
        match state.machine().ask(&self.key, op, || request(&self.key)) {
            Turn::Ready(outcome) => {
                self.done = true;
                Poll::Ready(answer(outcome))
            }
            Turn::Start | Turn::Wait => {
                run.park(&mut state, &self.key, cx.waker());
                Poll::Pending
            }
        }
    }
}

fn answer(outcome: Outcome) -> Result<Value> {
    match outcome {
        Outcome::Answer(value) | Outcome::Done(value) => Ok(value),
        Outcome::Failed(failure) => Err(Error::from_failure(failure)),
        Outcome::Refused(name) => {
            let capability = Capability::from_name(&name);
            Err(capability.map_or_else(
                || Error::misuse(format!("the client has not declared the capability `{name}`, which another version of the server recorded and this version does not know")),
                |capability| Error::new(ErrorKind::Unsupported(capability)),
            ))
        }
    }
}

impl Drop for Ask<'_> {
    fn drop(&mut self) {
        if !self.done && self.op.is_some() {
            self.ctx.run.state().leave(&self.key);
        }
    }
}

impl Ctx {
    /// Sends a question from another MCP server to the client, and returns the client's answer unchanged.
    ///
    /// `method` and `params` are the method and the parameters of the other server's request. `method` is
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`. `key` is the question key. `forward` does not
    /// validate the answer, so the other server must validate the answer. If your own tool asks a question, use
    /// [`elicit_value`](Self::elicit_value) or [`sample_value`](Self::sample_value).
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Unsupported`] if the client does not support this kind of question, and
    /// [`ErrorKind::Client`] if the client returns an error. Returns [`ErrorKind::Misuse`] if `method` is not the
    /// method of a question, or if `params` is not an object. If the user declines, this method returns no error, and
    /// the field `action` of the answer is `decline`.
    ///
    /// # Replay
    ///
    /// The journal records the answer, as for any other question.
    pub fn forward(&self, key: &str, method: &str, params: Value) -> Forward<'_> {
        Forward { ask: Ask::new(self, key), method: method.to_owned(), params }
    }
}

/// A question from another MCP server to the client. To send the question, `.await` this value.
#[must_use = "a question is asked when it is awaited"]
#[derive(Debug)]
pub struct Forward<'a> {
    ask: Ask<'a>,
    method: String,
    params: Value,
}

impl Forward<'_> {
    fn check(&self) -> Result<()> {
        if !matches!(&*self.method, "elicitation/create" | "sampling/createMessage" | "roots/list") {
            return Err(Error::misuse(format!(
                "`{}` is not a question; forward `elicitation/create`, `sampling/createMessage` or `roots/list`",
                self.method
            )));
        }
        let is_empty = self.params.is_null() && self.method == "roots/list";
        if !is_empty && !self.params.is_object() {
            return Err(Error::misuse(format!("the parameters of `{}` must be an object", self.method)));
        }
        Ok(())
    }

    /// Returns the request that the server sends to the client. The request for a form or for a URL elicitation
    /// contains the question key. The request for a URL elicitation also contains an elicitation ID.
    fn request(&self) -> Value {
        if self.method == "roots/list" {
            return json!({"method": self.method});
        }
        let (name, mut params) = (self.ask.key().name(), self.params.clone());
        if !params["_meta"].is_object() {
            params["_meta"] = json!({});
        }
        params["_meta"][KEY_META] = json!(name);
        if params["mode"] == "url" && !params["elicitationId"].is_string() {
            params["elicitationId"] = json!(format!("{}.{}", self.ask.ctx().run_id(), self.ask.key()));
        }
        json!({"method": self.method, "params": params})
    }
}

impl Future for Forward<'_> {
    type Output = Result<Value>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.check()?;
        let request = self.request();
        let label = format!("forward `{}`", self.method);
        let answer = self.ask.poll(cx, |_| Ok(Op::ask(&label, &request)), |_| request.clone());
        let mut answer = ready!(answer)?;
        if self.method == "elicitation/create" {
            self.ask.answered(&answer);
            // Antiphon itself marks the answer with its channel. So a client cannot claim that the answer came through
            // another channel.
            Channel::Client.mark(&mut answer);
        }
        Poll::Ready(Ok(answer))
    }
}
