use std::{
    borrow::Cow,
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use antiphon_replay::{Key, Op};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{Ctx, ask::Ask};
use crate::{
    elicitation::{CONTEXT_META, KEY_META},
    error::{Error, ErrorKind, Result},
    exchange::ElicitExchange,
    schema::{self, Form},
    wire::Note,
};

/// What a person made of a question.
#[derive(Clone, Debug)]
pub enum Elicited<T> {
    /// They answered.
    Accept(Answer<T>),
    /// They would rather not answer the question with this key.
    Decline(String),
    /// They closed the question with this key.
    Cancel(String),
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    /// What they said.
    pub value: T,
    source: Arc<Source>,
}

/// Where an answer came from.
#[derive(Debug)]
struct Source {
    id: String,
    name: String,
    message: String,
    form: Arc<Form>,
    content: Value,
}

impl<T> Answer<T> {
    /// The question and the answer as two messages for a model's history.
    pub fn exchange(&self) -> ElicitExchange {
        let Source { id, name, message, form, content } = &*self.source;
        ElicitExchange::new(id, name, message, &form.schema, content)
    }
}

impl<T> Elicited<T> {
    /// The answer, or an error that says they gave none.
    pub fn accepted(self) -> Result<T> {
        self.into_answer().map(|answer| answer.value)
    }

    /// The answer with its exchange, or an error that says they gave none.
    pub fn into_answer(self) -> Result<Answer<T>> {
        match self {
            Self::Accept(answer) => Ok(answer),
            Self::Decline(key) => Err(Error::new(ErrorKind::Declined(key))),
            Self::Cancel(key) => Err(Error::new(ErrorKind::Dismissed(key))),
        }
    }

    /// The answer, if they gave one.
    pub fn ok(self) -> Option<T> {
        self.accepted().ok()
    }

    /// Does something with the answer, if they gave one.
    ///
    /// # Errors
    ///
    /// What `f` returns.
    pub fn try_map<U>(self, f: impl FnOnce(T) -> Result<U>) -> Result<Elicited<U>> {
        Ok(match self {
            Self::Accept(answer) => {
                Elicited::Accept(Answer { value: f(answer.value)?, source: answer.source })
            }
            Self::Decline(key) => Elicited::Decline(key),
            Self::Cancel(key) => Elicited::Cancel(key),
        })
    }
}

impl Ctx {
    /// Asks the person for a `T`.
    ///
    /// `T` is the form: a struct with flat fields (strings, numbers, booleans, enums of unit
    /// variants, lists of those enums). Field docs become labels, `#[schemars(range(..))]` and the
    /// like become rules. The question's key is the type's name in snake case; [`Elicit::key`] gives
    /// it another.
    ///
    /// An answer that does not fit the form is asked for once more, with the reason; then it is an
    /// error.
    ///
    /// # Errors
    ///
    /// When the client cannot show forms, or the answer did not fit twice. Declining is not an error
    /// but a value: [`Elicited`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// #[derive(Deserialize, JsonSchema)]
    /// struct PickMove {
    ///     #[schemars(range(min = 0, max = 8))]
    ///     cell: u8,
    /// }
    ///
    /// async fn turn(ctx: &Ctx, board: String) -> Result<String> {
    ///     match ctx.elicit::<PickMove>("Your turn").context(&board).await? {
    ///         Elicited::Accept(answer) => Ok(format!("you play {}", answer.value.cell)),
    ///         Elicited::Decline(_) | Elicited::Cancel(_) => Ok("another time, then".into()),
    ///     }
    /// }
    /// ```
    ///
    /// A type that is not a form does not compile:
    ///
    /// ```compile_fail
    /// # use antiphon::prelude::*;
    /// struct NotAForm;
    /// async fn turn(ctx: &Ctx) -> Result<()> {
    ///     ctx.elicit::<NotAForm>("Your turn").await?;
    ///     Ok(())
    /// }
    /// ```
    pub fn elicit<T>(&self, message: impl Into<String>) -> Elicit<'_, T>
    where
        T: DeserializeOwned + JsonSchema + 'static,
    {
        let form = schema::form::<T>();
        let name = form.as_ref().map_or("form", |form| form.key.as_str());
        let inner = ElicitValue::new(self, name, form.clone().map_err(Error::misuse), message.into());
        Elicit { inner, answer: PhantomData }
    }

    /// Asks the person for what `schema` says, under `key`: for forms that are not known before the
    /// tool runs.
    ///
    /// # Errors
    ///
    /// As [`elicit`](Self::elicit); and when the schema is not a flat form, or the tool has declared
    /// its keys ([`Tool::elicits`](crate::Tool::elicits)) and this is none of them.
    pub fn elicit_value(&self, key: &str, message: impl Into<String>, schema: Value) -> ElicitValue<'_> {
        let form = match schema {
            Value::Object(schema) => Form::raw(key.to_owned(), schema).map(Arc::new).map_err(Error::misuse),
            _ => Err(Error::misuse(format!("the form `{key}` must be an object with named fields"))),
        };
        ElicitValue::new(self, key, form, message.into())
    }

    /// Sends the person to a page: to sign in, to pay, to enter what must not pass through the
    /// client.
    ///
    /// The answer says only that they agreed to go. When the page is done with them, call
    /// [`elicitation_complete`](Self::elicitation_complete).
    ///
    /// # Errors
    ///
    /// When the client has not declared URL mode.
    pub fn elicit_url(&self, message: impl Into<String>, url: impl Into<String>) -> ElicitUrl<'_> {
        ElicitUrl { ask: Ask::new(self, "url"), message: message.into(), url: url.into() }
    }

    /// Tells a 2025-11-25 client that what `id` sent its person to do is done. On 2026-07-28, which
    /// has no such notification, it does nothing.
    pub fn elicitation_complete(&self, id: &str) {
        if self.run.link.revision() == crate::wire::Revision::Session {
            self.run.note(Note::ElicitationComplete { id: id.to_owned() });
        }
    }
}

/// A question to a person, not yet asked. `.await` asks it.
///
/// # Cancel safety
///
/// Dropped while it waits, the question is withdrawn.
#[must_use = "a question is asked when it is awaited"]
#[derive(Debug)]
pub struct Elicit<'a, T> {
    inner: ElicitValue<'a>,
    answer: PhantomData<fn() -> T>,
}

impl<T> Elicit<'_, T> {
    /// Sets the question's key: its name on the wire and in the journal, and what a client's own form
    /// for it is registered under.
    pub fn key(mut self, key: &str) -> Self {
        self.inner = self.inner.key(key);
        self
    }

    /// Gives a client's own form something to show: the board, the document, the chart.
    pub fn context(mut self, context: &impl Serialize) -> Self {
        self.inner = self.inner.context(context);
        self
    }
}

impl<T: DeserializeOwned> Future for Elicit<'_, T> {
    type Output = Result<Elicited<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.inner.poll_parsed(cx, |content| T::deserialize(content).map_err(|error| error.to_string()))
    }
}

/// A question with a form that is given as JSON Schema. `.await` asks it.
#[must_use = "a question is asked when it is awaited"]
pub struct ElicitValue<'a> {
    ask: Ask<'a>,
    form: Result<Arc<Form>>,
    message: String,
    context: Option<Value>,
    /// What was wrong with the answer before.
    problems: Vec<String>,
}

impl<'a> ElicitValue<'a> {
    fn new(ctx: &'a Ctx, name: &str, form: Result<Arc<Form>>, message: String) -> Self {
        Self { ask: Ask::new(ctx, name), form, message, context: None, problems: Vec::new() }
    }

    /// Sets the question's key. See [`Elicit::key`].
    pub fn key(mut self, key: &str) -> Self {
        self.ask.rename(key);
        self
    }

    /// Gives a client's own form something to show. See [`Elicit::context`].
    pub fn context(mut self, context: &impl Serialize) -> Self {
        self.context = serde_json::to_value(context).ok();
        self
    }

    /// Asks, and checks the answer by the form's schema and by `parse`.
    fn poll_parsed<T>(
        &mut self,
        cx: &Context<'_>,
        parse: impl Fn(&Value) -> Result<T, String>,
    ) -> Poll<Result<Elicited<T>>> {
        loop {
            let form = match &mut self.form {
                Ok(form) => Arc::clone(form),
                failed => {
                    let error = std::mem::replace(
                        failed,
                        Err(Error::misuse("a form that failed is not polled again")),
                    );
                    return Poll::Ready(Err(error.expect_err("this is the failed form")));
                }
            };
            let (message, context) = (&self.message, &self.context);
            let shown = if self.problems.is_empty() {
                Cow::Borrowed(message)
            } else {
                Cow::Owned(format!("{message}\n\nThat answer does not fit: {}", self.problems.join("; ")))
            };
            let declared = self.ask.ctx().run.declared.clone();
            let mut answer = ready!(self.ask.poll(
                cx,
                |key| {
                    if let Some(declared) = declared.filter(|declared| !declared.contains(key.name())) {
                        let known: Vec<_> = declared.iter().map(String::as_str).collect();
                        return Err(Error::misuse(format!(
                            "this tool does not say that it asks `{}`; it says: {}",
                            key.name(),
                            known.join(", ")
                        )));
                    }
                    let context = context.as_ref().map(antiphon_replay::canonical).unwrap_or_default();
                    Ok(Op::ask_parts(
                        &format!("elicit `{message}`"),
                        &[shown.as_bytes(), form.text.as_bytes(), context.as_bytes()],
                    ))
                },
                |key| request(key, &shown, &form.schema, context.as_ref()),
            ))?;
            let key = self.ask.key().to_string();
            let content = match answer["action"].as_str() {
                Some("accept") => match answer["content"].take() {
                    Value::Null => json!({}),
                    content => content,
                },
                Some("decline") => return Poll::Ready(Ok(Elicited::Decline(key))),
                Some("cancel") => return Poll::Ready(Ok(Elicited::Cancel(key))),
                _ => {
                    return Poll::Ready(Err(Error::misuse(format!(
                        "the client's answer to `{key}` has no action"
                    ))));
                }
            };
            let mut problems = form.validator.problems(&content);
            if problems.is_empty() {
                match parse(&content) {
                    Ok(value) => {
                        let message = std::mem::take(&mut self.message);
                        let (id, name) = (self.ask.id("elicit"), self.ask.key().name().to_owned());
                        let source = Source { id, name, message, form, content };
                        return Poll::Ready(Ok(Elicited::Accept(Answer { value, source: Arc::new(source) })));
                    }
                    Err(problem) => problems.push(problem),
                }
            }
            if !self.problems.is_empty() {
                return Poll::Ready(Err(Error::new(ErrorKind::InvalidAnswer { key, problems })));
            }
            self.problems = problems;
            self.ask.again(2);
        }
    }
}

impl Future for ElicitValue<'_> {
    type Output = Result<Elicited<Value>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_parsed(cx, |content| Ok(content.clone()))
    }
}

impl fmt::Debug for ElicitValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElicitValue")
            .field("ask", &self.ask)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

fn request(key: &Key, message: &str, schema: &Value, context: Option<&Value>) -> Value {
    let mut meta = Map::new();
    meta.insert(KEY_META.into(), key.name().into());
    if let Some(context) = context {
        meta.insert(CONTEXT_META.into(), context.clone());
    }
    json!({
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema, "_meta": meta},
    })
}

/// A visit to a page, not yet asked for. `.await` asks.
#[must_use = "a question is asked when it is awaited"]
#[derive(Debug)]
pub struct ElicitUrl<'a> {
    ask: Ask<'a>,
    message: String,
    url: String,
}

/// What a person made of being sent to a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlElicited {
    /// The elicitation's id, for [`Ctx::elicitation_complete`] and for the page to report back with.
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

    /// The id this elicitation has, in every round: give it to the page before you ask.
    pub fn id(&self) -> String {
        format!("{}.{}", self.ask.ctx().run_id(), self.ask.key())
    }
}

impl Future for ElicitUrl<'_> {
    type Output = Result<UrlElicited>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let id = self.id();
        let Self { ask, message, url } = &mut *self;
        let answer = ready!(ask.poll(
            cx,
            |_| Ok(Op::ask_parts(&format!("visit `{message}`"), &[message.as_bytes(), url.as_bytes()])),
            |key| json!({
                "method": "elicitation/create",
                "params": {
                    "mode": "url", "message": message, "url": url, "elicitationId": id,
                    "_meta": {KEY_META: key.name()},
                },
            }),
        ))?;
        Poll::Ready(Ok(UrlElicited { id, agreed: answer["action"] == "accept" }))
    }
}
