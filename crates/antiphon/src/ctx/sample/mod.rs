//! Requests that a tool sends to a model.

mod check;
mod config;
mod correct;
mod mode;
mod sampled;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use antiphon_llm::{
    Block, IncludeContext, Message, ModelPreferences, Reply, Request, Role, ToolChoice, ToolDefinition,
};
use antiphon_replay::{Key, Op};
use schemars::JsonSchema;
use serde::{Deserialize as _, de::DeserializeOwned};
use serde_json::{Value, json};

use self::mode::{Asked, Read, Wrong};
pub use self::{
    check::CheckedSchema,
    config::{SampleConfig, SampledValue},
    mode::{Dynamic, GuaranteedSchema, GuaranteedTools, Mode, Plain, Schema, Tools},
    sampled::{ParseError, Sampled, SampledCalls, SampledParsed, SampledSchema, SampledTools, ToolCalls},
};
use super::{Ctx, ask::Ask};
use crate::{
    error::{Error, Result, SampleValidationError},
    exchange::{self, History},
    url_elicitation::KEY_META,
};

/// The default number of times that `sample_tools` and `sample_schema` ask a model again after an invalid reply.
const RETRIES: u32 = 2;

impl Ctx {
    /// Sends one request to a model and returns its reply.
    ///
    /// `prompt` is a text or a list of messages. By default, the model replies with text. [`Sample::schema`] requests
    /// data, and [`Sample::tools`] offers tools to the model. A model does not always reply in the requested format. If
    /// you need a valid reply, use [`sample_schema`](Self::sample_schema) or [`sample_tools`](Self::sample_tools),
    /// which ask the model again after an invalid reply.
    ///
    /// With [`ServerBuilder::with_sampling`], the operator selects whether the server uses the client's model or the
    /// model of a provider. By default, the server uses the provider's model only if the client has no model. The code
    /// of the tool is the same for both models.
    ///
    /// [`ServerBuilder::with_sampling`]: crate::ServerBuilder::with_sampling
    ///
    /// # Errors
    ///
    /// Returns an error if no model is available, or if the model or the client rejects the request. If the model
    /// replies in a different format than requested, this method returns no error.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// # #[derive(Deserialize, JsonSchema)] struct Move { cell: u8 }
    /// async fn summarize(ctx: &Ctx, text: String) -> Result<String> {
    ///     let reply = ctx.sample(format!("Summarize: {text}")).max_tokens(200).await?;
    ///     Ok(reply.text())
    /// }
    ///
    /// async fn pick(ctx: &Ctx, board: String) -> Result<String> {
    ///     let reply = ctx.sample(format!("Pick a cell: {board}")).schema::<Move>().await?;
    ///     match reply.into_parsed() {
    ///         Ok(Move { cell }) => Ok(format!("cell {cell}")),
    ///         Err(error) => Ok(format!("that was no move: {}", error.raw_text)),
    ///     }
    /// }
    /// ```
    ///
    /// A request cannot ask for data and also offer tools:
    ///
    /// ```compile_fail,E0599
    /// # use antiphon::prelude::*;
    /// # #[derive(Deserialize, JsonSchema)] struct Move { cell: u8 }
    /// # async fn both(ctx: &Ctx) -> Result<()> {
    /// ctx.sample("?").schema::<Move>().tools([]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sample(&self, prompt: impl Into<PromptInput>) -> Sample<'_> {
        Sample::new(self, "sample", prompt.into(), Plain)
    }

    /// Asks a model for a value of type `T`. If the reply is not a valid `T`, the server asks the model again.
    ///
    /// On a retry, the model receives its invalid reply and a list of the problems. By default, the server asks the
    /// model again at most twice. To change the number of retries, use [`retries`](Sample::retries). The returned
    /// exchange does not contain invalid replies. With [`check`](Sample::check), you can add rules that a schema cannot
    /// express.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`sample`](Self::sample). Returns [`SampleValidationError`] if no reply, including the
    /// replies to retries, was a valid `T`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Move {
    ///     #[schemars(range(min = 0, max = 8))]
    ///     cell: u8,
    /// }
    ///
    /// async fn pick(ctx: &Ctx, board: String) -> Result<String> {
    ///     let reply = ctx.sample_schema::<Move>(format!("Pick a cell: {board}")).retries(3).await?;
    ///     Ok(format!("cell {}", reply.parsed.cell))
    /// }
    /// ```
    pub fn sample_schema<T>(&self, prompt: impl Into<PromptInput>) -> Sample<'_, GuaranteedSchema<T>>
    where
        T: DeserializeOwned + JsonSchema + 'static,
    {
        Sample::new(self, "sample_schema", prompt.into(), GuaranteedSchema(Schema::of()))
    }

    /// Asks a model for data that matches `schema`. If the reply is invalid, the server asks the model again. Use this
    /// method if your tool creates the schema at run time. See [`sample_schema`](Self::sample_schema).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`sample_schema`](Self::sample_schema). Returns an error if `schema` is not a valid JSON
    /// Schema.
    pub fn sample_schema_value(
        &self,
        prompt: impl Into<PromptInput>,
        schema: Value,
    ) -> Sample<'_, GuaranteedSchema<Value>> {
        Sample::new(self, "sample_schema", prompt.into(), GuaranteedSchema(Schema::raw(schema)))
    }

    /// Asks a model to call at least one of `tools`. If the model calls no tool, the server asks the model again.
    ///
    /// The method `sample_tools` does not execute the tools. [`SampledTools::calls`] contains the calls that the model
    /// requested, and your code decides how to handle these calls. If the model calls a tool that is not in `tools`, or
    /// passes invalid arguments, the server asks the model again.
    ///
    /// If a model must choose between actions, offer one tool for each action. Do not put the actions into an enum in a
    /// schema. Models are trained to choose between tools, and each tool can have different arguments.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`sample`](Self::sample). Returns [`SampleValidationError`] if no reply, including the
    /// replies to retries, contained valid tool calls.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::{prelude::*, sampling::ToolDefinition};
    /// # #[derive(Deserialize, JsonSchema)] struct Attack { reasoning: String }
    /// # #[derive(Deserialize, JsonSchema)] struct Defend { threat: String }
    /// async fn plan(ctx: &Ctx, board: String) -> Result<String> {
    ///     let tools = [
    ///         ToolDefinition::of::<Attack>("play_offensive"),
    ///         ToolDefinition::of::<Defend>("play_defensive"),
    ///     ];
    ///     let plan = ctx.sample_tools(format!("Choose your strategy: {board}"), tools).await?;
    ///     Ok(plan.calls[0].name.clone())
    /// }
    /// ```
    pub fn sample_tools(
        &self,
        prompt: impl Into<PromptInput>,
        tools: impl IntoIterator<Item = ToolDefinition>,
    ) -> Sample<'_, GuaranteedTools> {
        let mode = GuaranteedTools(Tools::new(tools, Some(ToolChoice::Required)));
        Sample::new(self, "sample_tools", prompt.into(), mode)
    }

    /// Sends the request that `config` describes to a model. Use this method if your tool receives the description of
    /// the request at run time.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`sample`](Self::sample). Returns an error if two fields of `config` cannot be combined.
    pub fn sample_value(&self, config: SampleConfig) -> Sample<'_, Dynamic> {
        let (prompted, mode) = config.into_parts();
        Sample::new(self, "sample", prompted, mode)
    }
}

/// The prompt of a request to a model. A prompt is a text or a list of messages.
#[derive(Clone, Debug)]
pub struct PromptInput(Result<Request, String>);

impl PromptInput {
    fn messages(messages: Vec<Message>) -> Self {
        Self(Ok(Request::new(messages)))
    }
}

impl From<&str> for PromptInput {
    fn from(text: &str) -> Self {
        Self::messages(vec![Message::user(text)])
    }
}

impl From<&String> for PromptInput {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for PromptInput {
    fn from(text: String) -> Self {
        Self::messages(vec![Message::user(text)])
    }
}

impl From<Message> for PromptInput {
    fn from(message: Message) -> Self {
        Self::messages(vec![message])
    }
}

impl From<Vec<Message>> for PromptInput {
    fn from(messages: Vec<Message>) -> Self {
        Self::messages(messages)
    }
}

impl<const N: usize> From<[Message; N]> for PromptInput {
    fn from(messages: [Message; N]) -> Self {
        Self::messages(messages.into())
    }
}

impl From<&History> for PromptInput {
    fn from(history: &History) -> Self {
        Self::messages(history.messages().to_vec())
    }
}

/// A request to a model. To send the request, `.await` this value.
///
/// # Cancel safety
///
/// If you drop the future, the server withdraws the request.
#[must_use = "a model is asked when the request is awaited"]
pub struct Sample<'a, M = Plain> {
    ask: Ask<'a>,
    request: Result<Request, String>,
    before: Vec<Message>,
    mode: M,
    retries: u32,
    attempt: u32,
    asked: Option<Asked>,
    correction: Vec<Message>,
}

impl<'a, M> Sample<'a, M> {
    fn new(ctx: &'a Ctx, name: &str, prompted: PromptInput, mode: M) -> Self {
        Self {
            ask: Ask::new(ctx, name),
            request: prompted.0,
            before: Vec::new(),
            mode,
            retries: RETRIES,
            attempt: 1,
            asked: None,
            correction: Vec::new(),
        }
    }

    fn set(mut self, set: impl FnOnce(&mut Request)) -> Self {
        if let Ok(request) = &mut self.request {
            set(request);
        }
        self
    }

    /// Sets the question key of this request. Default: `sample`, `sample_schema` or `sample_tools`, depending on the
    /// method that created the request.
    pub fn key(mut self, key: &str) -> Self {
        self.ask.rename(key);
        self
    }

    /// Sets the earlier conversation that the model receives before the prompt. Default: none.
    pub fn history(mut self, history: &History) -> Self {
        self.before = history.messages().to_vec();
        self
    }

    /// Sets the maximum length of the reply, in tokens. Default: 4096.
    pub fn max_tokens(self, max_tokens: u32) -> Self {
        self.set(|request| request.max_tokens = max_tokens)
    }

    /// Sets the system prompt. Default: none.
    pub fn system(self, prompt: impl Into<String>) -> Self {
        self.set(|request| request.system_prompt = Some(prompt.into()))
    }

    /// Sets the sampling temperature. Default: the model's own default.
    pub fn temperature(self, temperature: f64) -> Self {
        self.set(|request| request.temperature = Some(temperature))
    }

    /// Sets the stop sequences. The model ends its reply before it writes a stop sequence. Default: none.
    pub fn stop_sequences(self, sequences: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.set(|request| request.stop_sequences = sequences.into_iter().map(Into::into).collect())
    }

    /// Sets the models that the tool prefers for this request. Default: no preference.
    pub fn model_preferences(self, preferences: ModelPreferences) -> Self {
        self.set(|request| request.model_preferences = Some(preferences))
    }

    /// Sets the servers whose context the client can add to the request. Unless `context` is [`IncludeContext::None`],
    /// the client needs the capability `sampling.context`. Default: not set.
    pub fn include_context(self, context: IncludeContext) -> Self {
        self.set(|request| request.include_context = Some(context))
    }

    /// Changes the mode of this request with the function `map`.
    fn map_mode<N>(self, map: impl FnOnce(M) -> N) -> Sample<'a, N> {
        let Self { ask, request, before, mode, retries, attempt, asked, correction } = self;
        Sample { ask, request, before, mode: map(mode), retries, attempt, asked, correction }
    }
}

impl<'a> Sample<'a> {
    /// Requests a reply that contains data of type `T`. The result contains the parsed `T`, or the problems that make
    /// the reply invalid.
    pub fn schema<T>(self) -> Sample<'a, Schema<T>>
    where
        T: DeserializeOwned + JsonSchema + 'static,
    {
        self.map_mode(|Plain| Schema::of())
    }

    /// Offers tools to the model. The result contains the tool calls that the model requests.
    pub fn tools(self, tools: impl IntoIterator<Item = ToolDefinition>) -> Sample<'a, Tools> {
        self.map_mode(|Plain| Tools::new(tools, None))
    }
}

impl Sample<'_, Tools> {
    /// Sets whether the model must call a tool. By default, the model decides whether to call a tool.
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.mode.choice = Some(choice);
        self
    }
}

impl Sample<'_, GuaranteedTools> {
    /// Sets whether the model must call a tool. Default: [`ToolChoice::Required`]. With [`ToolChoice::Auto`], the model
    /// can reply without a tool call, and the server then asks the model again.
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.mode.0.choice = Some(choice);
        self
    }

    /// Sets how often the server asks the model again after an invalid reply. Default: 2, so the model has three
    /// attempts.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }
}

impl<T> Sample<'_, GuaranteedSchema<T>> {
    /// Sets how often the server asks the model again after an invalid reply. Default: 2, so the model has three
    /// attempts.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }
}

impl<M: Mode> Sample<'_, M> {
    /// Builds the request from the options that the tool has set. This method is called only once.
    fn prepare(&mut self) -> Result<Asked> {
        let mut request = self.request.clone().map_err(Error::misuse)?;
        self.mode.prepare(&mut request)?;
        let question = request.messages.iter().rev().find(|message| message.role == Role::User);
        let question = question.cloned().unwrap_or_else(|| Message::user(Vec::new()));
        request.messages.splice(0..0, self.before.drain(..));
        if request.messages.is_empty() {
            return Err(Error::misuse("the sampling request has no messages: add a prompt or a message"));
        }
        exchange::check(&request.messages).map_err(|error| Error::misuse(error.to_string()))?;
        Ok(Asked { request, question })
    }
}

impl<M: Mode> Future for Sample<'_, M> {
    type Output = Result<M::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.asked.is_none() {
            match this.prepare() {
                Ok(asked) => this.asked = Some(asked),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let asked = this.asked.as_ref().expect("the request was put together above");
        loop {
            let correction = &this.correction;
            let request = || {
                let mut request = asked.request.clone();
                correct::append(&mut request.messages, correction);
                request
            };
            let answer = ready!(this.ask.poll(
                cx,
                |_| {
                    let label = format!("sample `{}`", asked.question.text());
                    Ok(Op::ask(&label, &as_request(&request())))
                },
                |key| keyed(&request(), key),
            ))?;
            let mut reply = Reply::deserialize(answer)?;
            // Only a message of the user can contain tool results. A history with tool results in a model's reply would
            // be invalid.
            reply.content.retain(|block| !matches!(block, Block::ToolResult(_)));
            let id = this.ask.id("call");
            match this.mode.read(asked, reply, &id) {
                Read::Done(output) => return Poll::Ready(Ok(output)),
                Read::Wrong(wrong) => {
                    let Wrong { method, reply, shown, problems } = *wrong;
                    if this.attempt > this.retries {
                        let attempts = this.attempt;
                        let error = SampleValidationError { method, attempts, last_result: reply, problems };
                        return Poll::Ready(Err(error.into()));
                    }
                    this.correction = correct::correction(method, &asked.request, &shown, &problems);
                    this.attempt += 1;
                    this.ask.again(this.attempt);
                }
            }
        }
    }
}

/// A `Sample` is `Unpin`, because it pins none of its fields.
impl<M> Unpin for Sample<'_, M> {}

impl<M> fmt::Debug for Sample<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sample")
            .field("ask", &self.ask)
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

fn as_request(request: &Request) -> Value {
    json!({"method": "sampling/createMessage", "params": request})
}

fn keyed(request: &Request, key: &Key) -> Value {
    let mut request = as_request(request);
    request["params"]["_meta"] = json!({KEY_META: key.name()});
    request
}

/// Returns `true` if a message is empty. Some providers reject empty messages.
fn is_empty(message: &Message) -> bool {
    message.content.iter().all(|block| block.as_text().is_some_and(|text| text.trim().is_empty()))
        && !message.content.iter().any(|block| !matches!(block, Block::Text(_)))
}
