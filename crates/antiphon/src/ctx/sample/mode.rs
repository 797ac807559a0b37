//! The modes of a request to a model (text, data or tool calls), and the parsing of the model's replies.

use std::{
    any::TypeId,
    collections::{BTreeSet, HashMap},
    marker::PhantomData,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use antiphon_llm::{
    Block, Message, OutputSchema, Reply, Request, SCHEMA_TOOL, ToolCall, ToolChoice, ToolDefinition, plain,
    stop,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    SampledValue,
    sampled::{ParseError, Sampled, SampledCalls, SampledParsed, SampledSchema, SampledTools, ToolCalls},
};
use crate::{
    error::{Error, Result, SampleMethod},
    exchange::{AnyExchange, OpenExchange, SampleExchange},
    schema::Validator,
};

/// A request to a model, as sent in the first attempt. The request does not contain the messages that retries add.
#[derive(Debug)]
pub struct Asked {
    pub(super) request: Request,
    /// The last message of the user. The model replies to this message.
    pub(super) question: Message,
}

/// The result of parsing a model's reply in one of the modes.
#[derive(Debug)]
pub enum Read<O> {
    /// The model's reply is valid. The value is the parsed reply.
    Done(O),
    /// The model's reply is invalid. The server can ask the model again.
    Wrong(Box<Wrong>),
}

/// An invalid reply of a model, and the problems that make the reply invalid.
#[derive(Debug)]
pub struct Wrong {
    pub(super) method: SampleMethod,
    /// The invalid reply, as the server received it from the model or the client.
    pub(super) reply: Reply,
    /// The invalid reply, as the server sends it back to the model in a retry.
    pub(super) shown: Message,
    pub(super) problems: Vec<String>,
}

/// The mode of a request, which determines whether the model replies with text, data or tool calls. [`Ctx`](crate::Ctx)
/// has methods for each mode. You cannot implement the trait `Mode`.
pub trait Mode: sealed::Sealed {
    /// The type of the value that you receive when you `.await` the request.
    type Output;

    /// Adds the fields that this mode needs to `request`. For example, the data mode adds a schema, and the tool mode
    /// adds tools.
    #[doc(hidden)]
    fn prepare(&mut self, request: &mut Request) -> Result<()>;

    /// Parses a reply from the model. If the reply contains a tool call without an ID, the tool call gets the ID `id`.
    #[doc(hidden)]
    fn read(&mut self, asked: &Asked, reply: Reply, id: &str) -> Read<Self::Output>;
}

pub(super) mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Plain {}
    impl<T> Sealed for super::Schema<T> {}
    impl Sealed for super::Tools {}
    impl<T> Sealed for super::GuaranteedSchema<T> {}
    impl Sealed for super::GuaranteedTools {}
    impl Sealed for super::Dynamic {}
}

/// The mode for a request to which the model replies with text.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Mode for Plain {
    type Output = Sampled;

    fn prepare(&mut self, _: &mut Request) -> Result<()> {
        Ok(())
    }

    fn read(&mut self, asked: &Asked, reply: Reply, _: &str) -> Read<Sampled> {
        let exchange = SampleExchange::raw(asked.question.clone(), &reply);
        Read::Done(Sampled { reply, exchange })
    }
}

/// The mode for a request to which the model replies with data. In this mode, the server does not ask again after an
/// invalid reply.
#[derive(Debug)]
pub struct Schema<T> {
    compiled: Result<Arc<Compiled>, String>,
    data: PhantomData<fn() -> T>,
}

#[derive(Debug)]
struct Compiled {
    schema: OutputSchema,
    validator: Validator,
}

impl Compiled {
    fn new(schema: Map<String, Value>) -> Result<Self, String> {
        let schema = OutputSchema::new(schema);
        let validator = Validator::new(schema.input())?;
        Ok(Self { schema, validator })
    }
}

impl<T: JsonSchema + 'static> Schema<T> {
    /// Returns the mode for data of type `T`. The server compiles the schema of each Rust type only once.
    pub(super) fn of() -> Self {
        type Known = RwLock<HashMap<TypeId, Result<Arc<Compiled>, String>>>;
        static KNOWN: OnceLock<Known> = OnceLock::new();
        let known = KNOWN.get_or_init(RwLock::default);
        let id = TypeId::of::<T>();
        let found = known.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        let compiled = found.unwrap_or_else(|| {
            let made = Compiled::new(antiphon_llm::schema_of::<T>()).map(Arc::new);
            known.write().unwrap_or_else(PoisonError::into_inner).insert(id, made.clone());
            made
        });
        Self { compiled, data: PhantomData }
    }
}

impl Schema<Value> {
    pub(super) fn raw(schema: Value) -> Self {
        let compiled = match schema {
            Value::Object(schema) => Compiled::new(schema).map(Arc::new),
            _ => Err("it must be a JSON object".into()),
        };
        Self { compiled, data: PhantomData }
    }
}

/// The data that the server parsed from a reply, or the problems of an invalid reply.
struct Checked<T> {
    result: Result<(T, T), Vec<String>>,
    /// The model's reply as a message. If the reply contains data, the message contains this data in a `tool_use`
    /// block.
    response: Message,
}

impl<T: DeserializeOwned> Schema<T> {
    fn compiled(&self) -> Result<Arc<Compiled>> {
        self.compiled
            .clone()
            .map_err(|problem| Error::misuse(format!("the schema cannot be used: {problem}")))
    }

    /// Checks whether a reply contains valid data. `check` deserializes `T` twice, once for the result and once for the
    /// exchange. So `T` does not have to be `Clone`.
    fn check(&self, reply: &Reply, id: &str) -> Checked<T> {
        let as_it_is = Message::assistant(reply.content.clone());
        let Ok(compiled) = &self.compiled else {
            return Checked { result: Err(Vec::new()), response: as_it_is };
        };
        let candidates = match compiled.schema.find(reply) {
            Ok(candidates) => candidates,
            Err(problem) => {
                let problems = vec![problem].into_iter().chain(cut_off(reply)).collect();
                return Checked { result: Err(problems), response: as_it_is };
            }
        };
        let called = reply.content.iter().any(|block| block.as_tool_use().is_some());
        // If the model wrote the data as text, the exchange contains an equivalent tool call instead of this text.
        let response_of = |candidate: &Value| match candidate {
            Value::Object(_) if !called => {
                Message::assistant(Block::tool_use(id, SCHEMA_TOOL, candidate.clone()))
            }
            _ => as_it_is.clone(),
        };
        let first = candidates.first().map_or_else(|| as_it_is.clone(), response_of);
        let mut first_problems = None;
        for candidate in candidates {
            let mut problems = compiled.validator.lines(&candidate);
            if problems.is_empty() {
                let response = response_of(&candidate);
                let data = compiled.schema.unwrap(candidate);
                match (T::deserialize(&data), T::deserialize(&data)) {
                    (Ok(one), Ok(other)) => return Checked { result: Ok((one, other)), response },
                    (Err(error), _) | (_, Err(error)) => problems.push(error.to_string()),
                }
            }
            first_problems.get_or_insert(problems);
        }
        let problems = first_problems.unwrap_or_default().into_iter().chain(cut_off(reply)).collect();
        Checked { result: Err(problems), response: first }
    }
}

/// Returns a problem if the model's reply was cut off, or `None` if the reply is complete. The server does not try to
/// repair a reply that was cut off, because the missing end could reverse the meaning of the reply.
fn cut_off(reply: &Reply) -> Option<String> {
    reply.is_cut_off().then(|| "the reply was cut off before it ended; say less, or allow more tokens".into())
}

impl<T: DeserializeOwned> Mode for Schema<T> {
    type Output = SampledParsed<T>;

    fn prepare(&mut self, request: &mut Request) -> Result<()> {
        self.compiled()?.schema.ask(request);
        Ok(())
    }

    fn read(&mut self, asked: &Asked, reply: Reply, id: &str) -> Read<Self::Output> {
        let Checked { result, response } = self.check(&reply, id);
        let question = asked.question.clone();
        Read::Done(match result {
            Ok((parsed, again)) => {
                let exchange = SampleExchange::structured(question, response, Some(again));
                SampledParsed { reply, parsed: Ok(parsed), exchange }
            }
            Err(problems) => {
                let message = problems.join("\n");
                let exchange = SampleExchange::failed(question, response, &message);
                let error = ParseError { message, raw_text: raw_text(&reply) };
                SampledParsed { reply, parsed: Err(error), exchange }
            }
        })
    }
}

/// Returns the text of the model's reply. If the reply contains no text, returns the inputs of the tool calls in the
/// reply.
fn raw_text(reply: &Reply) -> String {
    let text = reply.text();
    if !text.is_empty() {
        return text;
    }
    let inputs: Vec<String> = reply
        .content
        .iter()
        .filter_map(Block::as_tool_use)
        .map(|call| Value::Object(call.input.clone()).to_string())
        .collect();
    inputs.join("\n")
}

/// The mode for a request to which the model replies with data. After an invalid reply, the server asks the model
/// again.
#[derive(Debug)]
pub struct GuaranteedSchema<T>(pub(super) Schema<T>);

impl<T: DeserializeOwned> Mode for GuaranteedSchema<T> {
    type Output = SampledSchema<T>;

    fn prepare(&mut self, request: &mut Request) -> Result<()> {
        self.0.prepare(request)
    }

    fn read(&mut self, asked: &Asked, reply: Reply, id: &str) -> Read<Self::Output> {
        let Checked { result, response } = self.0.check(&reply, id);
        match result {
            Ok((parsed, again)) => {
                let exchange = SampleExchange::structured(asked.question.clone(), response, Some(again));
                Read::Done(SampledSchema { reply, parsed, exchange })
            }
            Err(problems) => {
                let method = SampleMethod::SampleSchema;
                Read::Wrong(Box::new(Wrong { method, reply, shown: response, problems }))
            }
        }
    }
}

/// The mode for a request with tools, which the model can call. In this mode, the server does not ask again after an
/// invalid reply.
#[derive(Debug)]
pub struct Tools {
    offered: Vec<ToolDefinition>,
    pub(super) choice: Option<ToolChoice>,
    /// The validators for the arguments of the tools, in the order of `offered`. The method `prepare` creates these
    /// validators.
    validators: Vec<Validator>,
}

impl Tools {
    pub(super) fn new(tools: impl IntoIterator<Item = ToolDefinition>, choice: Option<ToolChoice>) -> Self {
        Self { offered: tools.into_iter().collect(), choice, validators: Vec::new() }
    }

    /// Converts tool calls that the model wrote as text into `tool_use` blocks. If a complete reply contains tool
    /// calls, this method also sets its stop reason to `toolUse`. This method does not change a reply without tool
    /// calls.
    fn called(asked: &Asked, reply: Reply, id: &str) -> Called {
        let mut reply = plain::with_calls(&asked.request, reply, id);
        let calls = reply.tool_calls();
        if !calls.is_empty() && !reply.is_cut_off() {
            reply.stop_reason = Some(stop::TOOL_USE.into());
        }
        let response = Message::assistant(reply.content.clone());
        Called { reply, calls, response }
    }
}

/// The parsed reply of a model to which the request offered tools.
struct Called {
    reply: Reply,
    calls: Vec<ToolCall>,
    response: Message,
}

impl Mode for Tools {
    type Output = SampledCalls;

    fn prepare(&mut self, request: &mut Request) -> Result<()> {
        let mut names = BTreeSet::new();
        for tool in &self.offered {
            if tool.name == SCHEMA_TOOL {
                return Err(Error::misuse(format!(
                    "`{SCHEMA_TOOL}` is a reserved tool name; rename the tool"
                )));
            }
            if !names.insert(&tool.name) {
                return Err(Error::misuse(format!(
                    "two tools have the name `{}`: rename one of them",
                    tool.name
                )));
            }
            if tool.input_schema.get("type").is_none_or(|kind| kind != "object") {
                return Err(Error::misuse(format!(
                    "the input schema of the tool `{}` does not have the type `object`; use a struct with named fields",
                    tool.name
                )));
            }
            let validator = Validator::new(&tool.input_schema).map_err(|problem| {
                Error::misuse(format!("the input schema of the tool `{}` is not valid: {problem}", tool.name))
            })?;
            self.validators.push(validator);
        }
        if self.offered.is_empty() && self.choice == Some(ToolChoice::Required) {
            return Err(Error::misuse(
                "the model must call a tool, but no tools were given; add at least one tool",
            ));
        }
        request.tools.clone_from(&self.offered);
        request.tool_choice = self.choice;
        Ok(())
    }

    fn read(&mut self, asked: &Asked, reply: Reply, id: &str) -> Read<SampledCalls> {
        let Called { reply, calls, response } = Self::called(asked, reply, id);
        let exchange = OpenExchange::new(asked.question.clone(), response);
        Read::Done(SampledCalls { reply, calls, exchange })
    }
}

/// The mode for a request in which the model must call a tool. After an invalid reply, the server asks the model again.
#[derive(Debug)]
pub struct GuaranteedTools(pub(super) Tools);

impl Mode for GuaranteedTools {
    type Output = SampledTools;

    fn prepare(&mut self, request: &mut Request) -> Result<()> {
        if self.0.offered.is_empty() {
            return Err(Error::misuse(
                "the model must call a tool, but no tools were given; add at least one tool",
            ));
        }
        if self.0.choice == Some(ToolChoice::None) {
            return Err(Error::misuse(
                "the model must call a tool, but the tool choice is `None`; use `Auto` or `Required`",
            ));
        }
        self.0.prepare(request)
    }

    fn read(&mut self, asked: &Asked, reply: Reply, id: &str) -> Read<SampledTools> {
        let as_it_came = reply.clone();
        let Called { reply, calls, response } = Tools::called(asked, reply, id);
        let problems = self.problems(&calls, &reply);
        let method = SampleMethod::SampleTools;
        match ToolCalls::new(calls) {
            Some(calls) if problems.is_empty() => {
                let reply = Reply { stop_reason: Some(stop::TOOL_USE.into()), ..reply };
                let exchange = OpenExchange::new(asked.question.clone(), response);
                Read::Done(SampledTools { reply, calls, exchange })
            }
            _ => Read::Wrong(Box::new(Wrong { method, reply: as_it_came, shown: response, problems })),
        }
    }
}

impl GuaranteedTools {
    fn problems(&self, calls: &[ToolCall], reply: &Reply) -> Vec<String> {
        if calls.is_empty() {
            let none = "the model did not return tool calls".to_owned();
            return [none].into_iter().chain(cut_off(reply)).collect();
        }
        let mut problems = Vec::new();
        let mut ids = BTreeSet::new();
        for call in calls {
            if !ids.insert(&call.id) {
                problems.push(format!("two calls have the id `{}`", call.id));
            }
            let place = self.0.offered.iter().position(|tool| tool.name == call.name);
            let Some(validator) = place.and_then(|place| self.0.validators.get(place)) else {
                problems.push(format!("there is no tool `{}`", call.name));
                continue;
            };
            let lines = validator.lines(&Value::Object(call.arguments.clone()));
            problems.extend(lines.into_iter().map(|line| format!("{}: {line}", call.name)));
        }
        problems
    }
}

/// The mode for a request from a [`SampleConfig`](super::SampleConfig). The configuration selects text, data or tool
/// calls at run time.
#[derive(Debug)]
pub enum Dynamic {
    /// The request asks the model for text.
    #[doc(hidden)]
    Plain,
    /// The request asks the model for data that matches a schema.
    #[doc(hidden)]
    Schema(Schema<Value>),
    /// The request offers tools to the model.
    #[doc(hidden)]
    Tools(Tools),
}

impl Mode for Dynamic {
    type Output = SampledValue;

    fn prepare(&mut self, request: &mut Request) -> Result<()> {
        match self {
            Self::Plain => Ok(()),
            Self::Schema(schema) => schema.prepare(request),
            Self::Tools(tools) => tools.prepare(request),
        }
    }

    fn read(&mut self, asked: &Asked, reply: Reply, id: &str) -> Read<SampledValue> {
        Read::Done(match self {
            Self::Plain => {
                let exchange = SampleExchange::structured(
                    asked.question.clone(),
                    Message::assistant(reply.content.clone()),
                    None,
                );
                SampledValue::new(reply, AnyExchange::Closed(exchange))
            }
            Self::Schema(schema) => match schema.read(asked, reply, id) {
                Read::Done(SampledParsed { reply, parsed, exchange }) => {
                    let mut value = SampledValue::new(reply, AnyExchange::Closed(exchange));
                    match parsed {
                        Ok(parsed) => value.parsed = Some(parsed),
                        Err(error) => value.parse_error = Some(error),
                    }
                    value
                }
                Read::Wrong(wrong) => return Read::Wrong(wrong),
            },
            Self::Tools(_) => {
                let Called { reply, calls, response } = Tools::called(asked, reply, id);
                let open = OpenExchange::new(asked.question.clone(), response);
                let mut value = SampledValue::new(reply, AnyExchange::Open(open));
                value.tool_calls = calls;
                value
            }
        })
    }
}
