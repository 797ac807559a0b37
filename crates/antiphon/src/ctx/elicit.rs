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
    error::{Error, ErrorKind, Result},
    exchange::ElicitExchange,
    schema::{self, Form},
    url_elicitation::{CONTEXT_META, Channel, KEY_META, RELAY_META},
};

/// The user's response to a question: the user answered, declined or closed the question.
#[derive(Clone, Debug)]
pub enum Elicited<T> {
    /// The user answered the question.
    Accept(Answer<T>),
    /// The user declined to answer the question. The `String` is the question key.
    Decline(String),
    /// The user closed the question without an answer. The `String` is the question key.
    Cancel(String),
}

/// The user's answer to a question.
#[derive(Clone, Debug)]
pub struct Answer<T> {
    /// The user's answer as a value of the requested type.
    pub value: T,
    source: Arc<Source>,
}

/// The question to which an answer belongs, and the answer in the format in which the client sent it.
#[derive(Debug)]
struct Source {
    id: String,
    name: String,
    message: String,
    form: Arc<Form>,
    content: Value,
    channel: Channel,
}

impl<T> Answer<T> {
    /// Returns the channel through which the user answered. Users can answer through a channel other than the client
    /// only if the server uses [`ServerBuilder::with_asking`](crate::ServerBuilder::with_asking).
    pub fn via(&self) -> Channel {
        self.source.channel
    }

    /// Returns the question and the user's answer as two messages, which you can add to the history of a model.
    pub fn exchange(&self) -> ElicitExchange {
        let Source { id, name, message, form, content, .. } = &*self.source;
        ElicitExchange::new(id, name, message, &form.schema, content)
    }
}

impl<T> Elicited<T> {
    /// Returns the value of the user's answer. Returns an error if the user declined or closed the question.
    pub fn accepted(self) -> Result<T> {
        self.into_answer().map(|answer| answer.value)
    }

    /// Returns the user's answer. Returns an error if the user declined or closed the question.
    pub fn into_answer(self) -> Result<Answer<T>> {
        match self {
            Self::Accept(answer) => Ok(answer),
            Self::Decline(key) => Err(Error::new(ErrorKind::Declined(key))),
            Self::Cancel(key) => Err(Error::new(ErrorKind::Dismissed(key))),
        }
    }

    /// Returns the value of the user's answer, or `None` if the user declined or closed the question.
    pub fn ok(self) -> Option<T> {
        self.accepted().ok()
    }

    /// Converts the value of the user's answer with the function `f`. If the user declined or closed the question, this
    /// method does not call `f`.
    ///
    /// # Errors
    ///
    /// Returns the error that the function `f` returns.
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
    /// Asks the user to fill in a form, and returns the answer as a value of type `T`.
    ///
    /// `T` defines the form that the client shows. `T` is a struct whose fields are strings, numbers, booleans, enums
    /// of unit variants, or lists of such enums. The doc comment of a field becomes the label of this field in the
    /// form. Attributes such as `#[schemars(range(..))]` become validation rules. The default question key is the
    /// type's name in snake case. To set another question key, use [`Elicit::key`].
    ///
    /// If an answer does not match the form, the server shows the reason to the user and asks once more.
    /// [`Elicit::retries`] sets the number of retries, and [`Elicit::check`] adds rules that a form cannot express.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Unsupported`] if the client cannot show forms. Returns [`ErrorKind::InvalidAnswer`] if the
    /// answers to the question and to all retries were invalid. If the user declines or closes the question, this
    /// method does not return an error. The method then returns [`Elicited::Decline`] or [`Elicited::Cancel`].
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
    /// If a form cannot represent the type `T`, the code does not compile:
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
        Elicit { inner, check: None }
    }

    /// Asks the user to fill in a form for a value of type `T`, with a question key that is bound to this type.
    ///
    /// Declare the question key with [`Tool::elicits_as`](crate::Tool::elicits_as). A client can prepare a custom form
    /// for a declared question key. Code does not compile if it uses an undefined question key, or a question key that
    /// belongs to another form.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`elicit`](Self::elicit).
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::{elicitation::ElicitKey, prelude::*};
    /// #[derive(Deserialize, JsonSchema)]
    /// struct PickMove {
    ///     cell: u8,
    /// }
    ///
    /// const PICK_MOVE: ElicitKey<PickMove> = ElicitKey::new("pickMove");
    ///
    /// async fn turn(ctx: &Ctx, _: ()) -> Result<String> {
    ///     let PickMove { cell } = ctx.elicit_as(PICK_MOVE, "Your turn").await?.accepted()?;
    ///     Ok(format!("you play {cell}"))
    /// }
    ///
    /// let tool = Tool::new("turn", "Takes a turn", turn).elicits_as(PICK_MOVE);
    /// ```
    ///
    /// Code that uses the question key of another form does not compile:
    ///
    /// ```compile_fail
    /// # use antiphon::{elicitation::ElicitKey, prelude::*};
    /// # #[derive(Deserialize, JsonSchema)] struct PickMove { cell: u8 }
    /// # #[derive(Deserialize, JsonSchema)] struct PickCard { card: String }
    /// const PICK_CARD: ElicitKey<PickCard> = ElicitKey::new("pickCard");
    /// async fn turn(ctx: &Ctx, _: ()) -> Result<String> {
    ///     let PickMove { cell } = ctx.elicit_as(PICK_CARD, "Your turn").await?.accepted()?;
    ///     Ok(format!("you play {cell}"))
    /// }
    /// ```
    pub fn elicit_as<T>(&self, key: ElicitKey<T>, message: impl Into<String>) -> Elicit<'_, T>
    where
        T: DeserializeOwned + JsonSchema + 'static,
    {
        self.elicit(message).key(key.as_str())
    }

    /// Asks the user for data that matches `schema`. `key` is the question key. Use this method if your tool creates
    /// the form at run time.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`elicit`](Self::elicit). Returns [`ErrorKind::Misuse`] if `schema` is not a valid JSON
    /// Schema of an object. If the tool has declared question keys ([`Tool::elicits`](crate::Tool::elicits)), returns
    /// [`ErrorKind::Misuse`] for a `key` that is not declared.
    pub fn elicit_value(&self, key: &str, message: impl Into<String>, schema: Value) -> ElicitValue<'_> {
        let form = match schema {
            Value::Object(schema) => Form::raw(key.to_owned(), schema).map(Arc::new).map_err(Error::misuse),
            _ => Err(Error::misuse(format!(
                "the schema of the form `{key}` does not have the type `object`: use a struct with named fields"
            ))),
        };
        ElicitValue::new(self, key, form, message.into())
    }
}

/// A question to a user. To send the question, `.await` this value.
///
/// # Cancel safety
///
/// If you drop the future, the server withdraws the question.
#[must_use = "a question is asked when it is awaited"]
pub struct Elicit<'a, T> {
    inner: ElicitValue<'a>,
    check: Option<Check<'a, T>>,
}

type Check<'a, T> = Box<dyn Fn(&T) -> Result<(), String> + Send + 'a>;

/// A question key that is bound to the Rust type of a form.
///
/// Define the question key as a constant, and pass it to [`Tool::elicits_as`](crate::Tool::elicits_as) and
/// [`Ctx::elicit_as`].
pub struct ElicitKey<T> {
    key: &'static str,
    form: PhantomData<fn() -> T>,
}

impl<T> ElicitKey<T> {
    /// Creates a question key that is bound to the form `T`.
    pub const fn new(key: &'static str) -> Self {
        Self { key, form: PhantomData }
    }

    /// Returns the question key as text, as it appears in MCP messages and in the journal.
    pub const fn as_str(&self) -> &'static str {
        self.key
    }
}

impl<T> Clone for ElicitKey<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ElicitKey<T> {}

impl<T> From<&'static str> for ElicitKey<T> {
    fn from(key: &'static str) -> Self {
        Self::new(key)
    }
}

impl<T> fmt::Debug for ElicitKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ElicitKey").field(&self.key).finish()
    }
}

impl<'a, T> Elicit<'a, T> {
    /// Sets the question key, which identifies the question in MCP messages and in the journal. A client can register
    /// a custom form for a question key. Default: the type's name in snake case.
    pub fn key(mut self, key: &str) -> Self {
        self.inner = self.inner.key(key);
        self
    }

    /// Sets additional data that the client can show in its custom form, for example a board or a document. Default:
    /// none.
    pub fn context(mut self, context: &impl Serialize) -> Self {
        self.inner = self.inner.context(context);
        self
    }

    /// Sets a validation rule that the form cannot express. For example, the rule can check that the chosen cell of a
    /// board is free. Default: none.
    ///
    /// If the rule rejects an answer, the server shows the reason to the user and asks again.
    ///
    /// # Replay
    ///
    /// Each time the run resumes, the rule checks the same answer again. The rule must return the same result each
    /// time. So the rule must not use external state, for example a database or the current time.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// # #[derive(Deserialize, JsonSchema)] struct PickMove { cell: usize }
    /// async fn pick(ctx: &Ctx, free: Vec<usize>) -> Result<String> {
    ///     let PickMove { cell } = ctx
    ///         .elicit::<PickMove>("Your turn")
    ///         .check(|PickMove { cell }| {
    ///             if free.contains(cell) { Ok(()) } else { Err(format!("cell {cell} is taken")) }
    ///         })
    ///         .await?
    ///         .accepted()?;
    ///     Ok(format!("cell {cell}"))
    /// }
    /// ```
    pub fn check(mut self, check: impl Fn(&T) -> Result<(), String> + Send + 'a) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// Sets how often the server asks the user again after an invalid answer. Default: 1, so the user has two attempts.
    pub fn retries(mut self, retries: u32) -> Self {
        self.inner = self.inner.retries(retries);
        self
    }

    /// Allows the model to relay the user's answer if the user cannot answer through another channel. Default: no.
    ///
    /// To relay an answer, the model asks the user in the chat, and then calls the tool `task_answer` with the user's
    /// answer. The server validates a relayed answer like any other answer. The server cannot verify that the model
    /// asked the user. So do not use `relayed` for approvals, or for other answers that must come from the user.
    /// [`Answer::via`] returns [`Channel::Relay`] for a relayed answer.
    ///
    /// The method `relayed` has an effect only with
    /// [`AskPolicy::with_relay`](crate::elicitation::AskPolicy::with_relay). Without `with_relay`, the question fails
    /// in clients that do not show forms, like any other question with a form.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::{elicitation::{AskPolicy, Channel}, prelude::*};
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Colour {
    ///     name: String,
    /// }
    ///
    /// async fn paint(ctx: &Ctx, _: ()) -> Result<String> {
    ///     let colour = ctx.elicit::<Colour>("Which colour?").relayed().await?.into_answer()?;
    ///     let source = if colour.via() == Channel::Relay { "the assistant says" } else { "you chose" };
    ///     Ok(format!("{source} {}", colour.value.name))
    /// }
    ///
    /// let server = Server::builder("paint", "1.0.0")
    ///     .with_asking(AskPolicy::default().with_relay(true))
    ///     .tool(Tool::new("paint", "Paints a wall", paint))
    ///     .build()?;
    /// # let _ = server;
    /// # Ok::<(), antiphon::BuildError>(())
    /// ```
    pub fn relayed(mut self) -> Self {
        self.inner = self.inner.relayed();
        self
    }
}

impl<T: DeserializeOwned> Future for Elicit<'_, T> {
    type Output = Result<Elicited<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { inner, check } = &mut *self;
        inner.poll_parsed(cx, |content| {
            let value = T::deserialize(content).map_err(|error| error.to_string())?;
            check.as_ref().map_or(Ok(()), |check| check(&value))?;
            Ok(value)
        })
    }
}

impl<T> fmt::Debug for Elicit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elicit").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// A question to a user, with a form that a JSON Schema defines. To send the question, `.await` this value.
#[must_use = "a question is asked when it is awaited"]
pub struct ElicitValue<'a> {
    ask: Ask<'a>,
    form: Result<Arc<Form>>,
    message: String,
    context: Option<Value>,
    /// Whether the model can relay the user's answer.
    relayed: bool,
    /// The validation problems of the user's last invalid answer.
    problems: Vec<String>,
    retries: u32,
    /// How often the server has asked the user again after an invalid answer.
    asked_again: u32,
}

/// The default number of times that the server asks the user again after an invalid answer.
const RETRIES: u32 = 1;

impl<'a> ElicitValue<'a> {
    fn new(ctx: &'a Ctx, name: &str, form: Result<Arc<Form>>, message: String) -> Self {
        Self {
            ask: Ask::new(ctx, name),
            form,
            message,
            context: None,
            relayed: false,
            problems: Vec::new(),
            retries: RETRIES,
            asked_again: 0,
        }
    }

    /// Sets the question key. See [`Elicit::key`].
    pub fn key(mut self, key: &str) -> Self {
        self.ask.rename(key);
        self
    }

    /// Sets additional data that the client can show in its custom form. See [`Elicit::context`].
    pub fn context(mut self, context: &impl Serialize) -> Self {
        self.context = serde_json::to_value(context).ok();
        self
    }

    /// Sets how often the server asks the user again after an invalid answer. See [`Elicit::retries`].
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Allows the model to relay the user's answer if the user cannot answer through another channel. See
    /// [`Elicit::relayed`].
    pub fn relayed(mut self) -> Self {
        self.relayed = true;
        self
    }

    /// Asks the question, and validates the user's answer with the schema of the form and with the function `parse`.
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
                        Err(Error::misuse(
                            "the future of the question was polled again after it had returned an error",
                        )),
                    );
                    return Poll::Ready(Err(error.expect_err("this is the failed form")));
                }
            };
            let (message, context, relayed) = (&self.message, &self.context, self.relayed);
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
                            "the tool has not declared the question `{}` with `Tool::elicits`; it has declared: {}",
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
                |key| request(key, &shown, &form.schema, context.as_ref(), relayed),
            ))?;
            let key = self.ask.key().to_string();
            let channel = self.ask.answered(&answer);
            let content = match answer["action"].as_str() {
                Some("accept") => match answer["content"].take() {
                    Value::Null => json!({}),
                    content => content,
                },
                Some("decline") => return Poll::Ready(Ok(Elicited::Decline(key))),
                Some("cancel") => return Poll::Ready(Ok(Elicited::Cancel(key))),
                _ => {
                    return Poll::Ready(Err(Error::misuse(format!(
                        "the client's answer to the question `{key}` is not valid: its `action` must be `accept`, `decline` or `cancel`"
                    ))));
                }
            };
            let mut problems = form.validator.problems(&content);
            if problems.is_empty() {
                match parse(&content) {
                    Ok(value) => {
                        let message = std::mem::take(&mut self.message);
                        let (id, name) = (self.ask.id("elicit"), self.ask.key().name().to_owned());
                        let source = Source { id, name, message, form, content, channel };
                        return Poll::Ready(Ok(Elicited::Accept(Answer { value, source: Arc::new(source) })));
                    }
                    Err(problem) => problems.push(problem),
                }
            }
            if self.asked_again >= self.retries {
                // The text of a repeated question is part of the fingerprint that a resumed run compares with the
                // journal. So this text must be the same on replay.
                let missing = missing(&form.schema, &content);
                let problems = if missing.is_empty() { problems } else { missing };
                return Poll::Ready(Err(Error::new(ErrorKind::InvalidAnswer { key, problems })));
            }
            self.problems = problems;
            self.asked_again += 1;
            self.ask.again(self.asked_again + 1);
        }
    }
}

/// Returns a problem for each required field that has no value. Some clients do not show a form that contains a field
/// of an unsupported type. These clients accept the form without values.
fn missing(schema: &Value, content: &Value) -> Vec<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let absent = required.filter(|field| content.get(field).is_none_or(Value::is_null));
    absent.map(|field| format!("the client returned no value for `{field}`")).collect()
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

fn request(key: &Key, message: &str, schema: &Value, context: Option<&Value>, relayed: bool) -> Value {
    let mut meta = Map::new();
    meta.insert(KEY_META.into(), key.name().into());
    if relayed {
        meta.insert(RELAY_META.into(), true.into());
    }
    if let Some(context) = context {
        meta.insert(CONTEXT_META.into(), context.clone());
    }
    json!({
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema, "_meta": meta},
    })
}
