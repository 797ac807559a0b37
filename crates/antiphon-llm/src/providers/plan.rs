//! What is sent for a request, and how what comes back is read.

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

/// Which API is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    OpenAiChat,
    OpenAiResponses,
    OpenAiCompatible,
    Anthropic,
    Gemini,
    Ollama,
    /// One that only rig knows.
    Other,
}

/// What is known of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) media: Media,
    pub(super) structured_output: StructuredOutput,
    /// Whether it takes an order to call a tool.
    pub(super) takes_orders: bool,
    pub(super) tools: bool,
    pub(super) sampling: Option<Sampling>,
    pub(super) max_output_tokens: Option<u32>,
}

/// What is sent, and what to make of the reply.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) request: CompletionRequest,
    /// Whether calls, or data, are in the text of the reply.
    pub(super) spoken: bool,
    /// What of the request is not sent.
    pub(super) notes: Vec<String>,
}

/// Plans `request` to `model`.
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
            // Ollama has no word for it, but cannot call what it does not know.
            _ if none && self.api == Api::Ollama => self.send(&told(request), json!({}), None, false),
            _ if !self.facts.tools => {
                let body = if request.must_call() { self.held(request) } else { json!({}) };
                self.send(&plain::without_tools(request), body, None, true)
            }
            _ => self.tools(request),
        }
    }

    /// A request for data, and for nothing else.
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

    /// The part of the body that asks for data in the API's own way; nothing if it cannot say `schema`.
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

    /// The part of the body that lets a model without tools write nothing but a call of one.
    fn held(&self, request: &Request) -> Value {
        if self.api != Api::OpenAiCompatible || self.facts.structured_output != StructuredOutput::Native {
            return json!({});
        }
        let mut schema = schema::local::calls(&request.tools);
        // One at a time: a small model that may go on does so until it is cut off.
        schema["properties"]["tool_calls"]["maxItems"] = 1.into();
        let format = json!({"name": "reply", "strict": true, "schema": schema});
        json!({"response_format": {"type": "json_schema", "json_schema": format}})
    }

    /// The part of the body that asks for JSON, whatever it says.
    fn json_mode(&self) -> Value {
        match self.api {
            Api::OpenAiChat | Api::OpenAiCompatible => json!({"response_format": {"type": "json_object"}}),
            Api::OpenAiResponses => json!({"text": {"format": {"type": "json_object"}}}),
            Api::Gemini => json!({"generationConfig": {"responseMimeType": "application/json"}}),
            Api::Ollama => json!({"format": "json"}),
            Api::Anthropic | Api::Other => json!({}),
        }
    }

    /// The tool that stands for data, which must be called.
    fn forced(self, request: &Request) -> Result<Plan> {
        if !self.facts.takes_orders {
            let mut request = request.clone();
            request.tool_choice = Some(ToolChoice::Required);
            return self.tools(&request);
        }
        let choice = match self.api {
            // They know one word for it, and there is but one tool.
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
            // What cannot be ordered can be made the only thing that may be written.
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
        // Ollama has no field for it, and does as it likes anyhow.
        let choice = choice.filter(|_| self.api != Api::Ollama);
        self.send(request, json!({}), choice, false)
    }

    /// `request` with `body` added to what is sent.
    fn send(
        mut self,
        request: &Request,
        mut body: Value,
        choice: Option<RigChoice>,
        spoken: bool,
    ) -> Result<Plan> {
        let mut messages = convert::messages(request, self.model, self.facts.media)?;
        let Some(last) = messages.pop() else {
            return Err(convert::unsupported(self.model, "reply to no messages"));
        };
        self.metadata(request, &mut body);
        if self.api == Api::OpenAiResponses {
            // The conversation is the caller's; nobody else needs to keep it.
            body["store"] = false.into();
        }
        let mut stop = request.stop_sequences.clone();
        // Rig knows how to say it to the others, and when not to.
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

    /// What a tool takes, as the API wants it.
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

    /// How much the model may vary, if it can be told: the newest cannot.
    fn temperature(&mut self, request: &Request) -> Option<f64> {
        let temperature = request.temperature?;
        let why = match self.facts.sampling {
            Some(Sampling::Never) => "refuses it",
            Some(Sampling::ReasoningOff) => "refuses it while it reasons",
            _ => return Some(temperature),
        };
        self.notes.push(format!("`temperature` was not sent: `{}` {why}", self.model));
        None
    }

    /// Adds what of the request's `metadata` the operator lets through.
    fn metadata(&mut self, request: &Request, body: &mut Value) {
        for (key, value) in &request.metadata {
            if self.config.metadata_keys.contains(key) && body.get(key).is_none() {
                body[key] = value.clone();
            } else {
                self.notes
                    .push(format!("`metadata.{key}` was not sent: the operator does not let it through"));
            }
        }
        if matches!(request.include_context, Some(IncludeContext::ThisServer | IncludeContext::AllServers)) {
            self.notes.push("`includeContext` was not followed: a provider knows no servers".into());
        }
    }
}

/// `request` without tools: what was called and answered is told in words.
fn told(request: &Request) -> Request {
    let mut bare = request.clone();
    bare.tools.clear();
    bare.tool_choice = None;
    plain::without_tools(&bare)
}
