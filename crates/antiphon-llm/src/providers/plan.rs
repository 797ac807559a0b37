//! Plans the request to a provider, and the way in which the provider's reply is read.

use rig_core::{catalog::Sampling, completion::CompletionRequest, message::ToolChoice as RigChoice};
use serde_json::{Map, Value, json};

use super::{
    config::{ProviderConfig, StructuredOutput},
    convert::{self, Media},
    schema,
};
use crate::{
    error::Result,
    plain,
    request::{IncludeContext, Request, ToolChoice},
    structured::SCHEMA_TOOL,
};

/// The API of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    OpenAiChat,
    OpenAiResponses,
    OpenAiCompatible,
    Anthropic,
    Gemini,
    Ollama,
    /// An API for which `Api` has no separate variant. This crate sends all requests to an `Other` API through rig,
    /// without special handling.
    Other,
}

/// The facts about a model that determine how this crate sends requests to the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) media: Media,
    pub(super) structured_output: StructuredOutput,
    /// Whether the model can be forced to call a tool.
    pub(super) takes_orders: bool,
    pub(super) tools: bool,
    pub(super) sampling: Option<Sampling>,
    pub(super) max_output_tokens: Option<u32>,
}

/// The request to a provider, and the way in which the provider's reply is read.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) request: CompletionRequest,
    /// Whether the model writes tool calls or structured data as text. If the field is true, this crate parses the
    /// calls or the data from the text of the reply.
    pub(super) spoken: bool,
    /// Notes about parts of the request that are not sent to the provider.
    pub(super) notes: Vec<String>,
}

/// Plans `request` for `model`.
pub(super) fn plan(
    api: Api,
    model: &str,
    facts: &Facts,
    config: &ProviderConfig,
    request: &Request,
) -> Result<Plan> {
    Planner { api, model, facts, config, notes: Vec::new() }.plan(request)
}

struct Planner<'a> {
    api: Api,
    model: &'a str,
    facts: &'a Facts,
    config: &'a ProviderConfig,
    notes: Vec<String>,
}

impl Planner<'_> {
    fn plan(self, request: &Request) -> Result<Plan> {
        let none = request.tool_choice == Some(ToolChoice::None);
        match request.schema() {
            Some(schema) if request.tools.len() == 1 && !none => self.data(request, schema),
            _ if request.tools.is_empty() => self.send(request, json!({}), None, false),
            // Ollama has no field for `toolChoice: none`, so the tools are not sent.
            _ if none && self.api == Api::Ollama => self.send(&told(request), json!({}), None, false),
            _ if !self.facts.tools => {
                let body = if request.must_call() { self.held(request) } else { json!({}) };
                self.send(&plain::without_tools(request), body, None, true)
            }
            _ => self.tools(request),
        }
    }

    /// Plans a request that asks only for structured data.
    fn data(self, request: &Request, schema: &Map<String, Value>) -> Result<Plan> {
        let mut how = self.facts.structured_output;
        let mut body = json!({});
        if how == StructuredOutput::Native {
            match self.native(schema) {
                Some(native) => body = native,
                None if self.facts.tools => how = StructuredOutput::ForcedTool,
                None => how = StructuredOutput::Prompt,
            }
        }
        match how {
            StructuredOutput::Native => {
                let rigs_own = self.api == Api::Other;
                let mut plan = self.send(&told(request), body, None, true)?;
                if rigs_own {
                    plan.request = plan.request.output_schema(schemars::Schema::from(schema.clone()));
                }
                Ok(plan)
            }
            StructuredOutput::JsonMode => {
                let body = self.json_mode();
                self.send(&plain::without_tools(request), body, None, true)
            }
            StructuredOutput::ForcedTool => self.forced(request),
            StructuredOutput::Prompt => self.send(&plain::without_tools(request), json!({}), None, true),
        }
    }

    /// Returns the fields of the request body that request structured output, or `None` if the API cannot express
    /// `schema`.
    fn native(&self, schema: &Map<String, Value>) -> Option<Value> {
        let strict = || match schema::openai::strict(schema) {
            Some(schema) => json!({"name": "reply", "strict": true, "schema": schema}),
            None => json!({"name": "reply", "strict": false, "schema": schema::openai::relaxed(schema)}),
        };
        Some(match self.api {
            Api::OpenAiChat => json!({"response_format": {"type": "json_schema", "json_schema": strict()}}),
            Api::OpenAiResponses => {
                let mut format = strict();
                format["type"] = "json_schema".into();
                json!({"text": {"format": format}})
            }
            Api::OpenAiCompatible => json!({"response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": true, "schema": schema::local::native(schema)},
            }}),
            Api::Anthropic => json!({"output_config": {
                "format": {"type": "json_schema", "schema": schema::anthropic::native(schema)?},
            }}),
            Api::Gemini => json!({"generationConfig": {
                "responseMimeType": "application/json",
                "responseJsonSchema": schema::gemini::native(schema),
            }}),
            Api::Ollama => json!({"format": schema::local::native(schema)}),
            Api::Other => json!({}),
        })
    }

    /// Returns the fields of the request body that force a model without tool support to write a tool call.
    fn held(&self, request: &Request) -> Value {
        if self.api != Api::OpenAiCompatible || self.facts.structured_output != StructuredOutput::Native {
            return json!({});
        }
        let mut schema = schema::local::calls(&request.tools);
        // Allow only one call, because a small model writes calls until the reply is truncated.
        schema["properties"]["tool_calls"]["maxItems"] = 1.into();
        let format = json!({"name": "reply", "strict": true, "schema": schema});
        json!({"response_format": {"type": "json_schema", "json_schema": format}})
    }

    /// Returns the fields of the request body that request JSON output without a schema.
    fn json_mode(&self) -> Value {
        match self.api {
            Api::OpenAiChat | Api::OpenAiCompatible => json!({"response_format": {"type": "json_object"}}),
            Api::OpenAiResponses => json!({"text": {"format": {"type": "json_object"}}}),
            Api::Gemini => json!({"generationConfig": {"responseMimeType": "application/json"}}),
            Api::Ollama => json!({"format": "json"}),
            Api::Anthropic | Api::Other => json!({}),
        }
    }

    /// Plans a request that forces a call of the tool for structured data.
    fn forced(self, request: &Request) -> Result<Plan> {
        if !self.facts.takes_orders {
            let mut request = request.clone();
            request.tool_choice = Some(ToolChoice::Required);
            return self.tools(&request);
        }
        let choice = match self.api {
            // The APIs in this arm support only `required`, which is enough for a single tool.
            Api::OpenAiCompatible | Api::Gemini | Api::Other => RigChoice::Required,
            _ => RigChoice::Specific { function_names: vec![convert::tool_name(SCHEMA_TOOL, self.model)?] },
        };
        self.send(request, json!({}), Some(choice), false)
    }

    fn tools(self, request: &Request) -> Result<Plan> {
        let choice = match request.tool_choice {
            None => None,
            Some(ToolChoice::Auto) => Some(RigChoice::Auto),
            Some(ToolChoice::None) => Some(RigChoice::None),
            // Ollama cannot force a tool call, so the schema in `format` allows only a call.
            Some(ToolChoice::Required) if self.api == Api::Ollama => {
                let format = schema::local::calls(&request.tools);
                let spoken = plain::without_tools(request);
                return self.send(&spoken, json!({"format": format}), None, true);
            }
            Some(ToolChoice::Required) if !self.facts.takes_orders => {
                let mut asked = request.clone();
                let prompt = asked.system_prompt.take().map(|prompt| format!("{prompt}\n\n"));
                let order = "Reply by calling one of your tools, and not with text.";
                asked.system_prompt = Some(format!("{}{order}", prompt.unwrap_or_default()));
                return self.send(&asked, json!({}), Some(RigChoice::Auto), false);
            }
            Some(ToolChoice::Required) => Some(RigChoice::Required),
        };
        // Ollama has no field for the tool choice.
        let choice = choice.filter(|_| self.api != Api::Ollama);
        self.send(request, json!({}), choice, false)
    }

    /// Plans `request`, and adds `body` to the request body.
    fn send(
        mut self,
        request: &Request,
        mut body: Value,
        choice: Option<RigChoice>,
        spoken: bool,
    ) -> Result<Plan> {
        let mut messages = convert::messages(request, self.model, self.facts.media)?;
        let Some(last) = messages.pop() else {
            return Err(convert::unsupported(self.model, "the request has no messages"));
        };
        self.metadata(request, &mut body);
        if self.api == Api::OpenAiResponses {
            // Only the caller needs the conversation, so the provider must not store it.
            body["store"] = false.into();
        }
        let mut stop = request.stop_sequences.clone();
        // For the other APIs, rig sends the stop sequences, or rejects them.
        match self.api {
            _ if stop.is_empty() => {}
            Api::Anthropic => body["stop_sequences"] = std::mem::take(&mut stop).into(),
            Api::OpenAiCompatible => body["stop"] = std::mem::take(&mut stop).into(),
            _ => {}
        }
        let mut made = CompletionRequest::new(last)
            .messages(messages)
            .tools(convert::tools(&request.tools, self.model, |schema| self.input(schema))?)
            .max_tokens(u64::from(self.max_tokens(request)))
            .temperature(self.temperature(request))
            .accept_unknown_finish_reasons(true);
        if let Some(choice) = choice {
            made = made.tool_choice(choice);
        }
        if !stop.is_empty() {
            made = made.stop(stop);
        }
        if body.as_object().is_some_and(|body| !body.is_empty()) {
            made = made.additional_params(body);
        }
        Ok(Plan { request: made, spoken, notes: self.notes })
    }

    /// Converts the input schema of a tool for the API.
    fn input(&self, schema: &Map<String, Value>) -> Value {
        match self.api {
            Api::OpenAiChat | Api::OpenAiResponses | Api::Other => schema::with_properties(schema),
            Api::Anthropic => Value::Object(schema.clone()),
            Api::OpenAiCompatible | Api::Ollama => schema::local::native(schema),
            Api::Gemini => schema::gemini::native(schema),
        }
    }

    fn max_tokens(&self, request: &Request) -> u32 {
        let bounds = [self.config.max_tokens, self.facts.max_output_tokens];
        bounds.into_iter().flatten().fold(request.max_tokens, u32::min)
    }

    /// Returns the temperature of `request`. If the model rejects a temperature, as the newest models do, this method
    /// adds a note and returns `None`.
    fn temperature(&mut self, request: &Request) -> Option<f64> {
        let temperature = request.temperature?;
        let why = match self.facts.sampling {
            Some(Sampling::Never) => "does not support it",
            Some(Sampling::ReasoningOff) => "does not support it during reasoning",
            _ => return Some(temperature),
        };
        self.notes.push(format!("`temperature` was not sent: the model `{}` {why}", self.model));
        None
    }

    /// Adds the `metadata` of the request to `body`, but only the keys that the operator allows.
    fn metadata(&mut self, request: &Request, body: &mut Value) {
        for (key, value) in &request.metadata {
            if self.config.metadata_keys.contains(key) && body.get(key).is_none() {
                body[key] = value.clone();
            } else {
                self.notes
                    .push(format!("`metadata.{key}` was not sent: the operator has not allowed it (`ProviderConfig::with_metadata_key`)"));
            }
        }
        if matches!(request.include_context, Some(IncludeContext::ThisServer | IncludeContext::AllServers)) {
            self.notes.push("`includeContext` was ignored: a provider has no context of MCP servers".into());
        }
    }
}

/// Removes the tools of `request`, and converts earlier tool calls and tool results to text.
fn told(request: &Request) -> Request {
    let mut bare = request.clone();
    bare.tools.clear();
    bare.tool_choice = None;
    plain::without_tools(&bare)
}
