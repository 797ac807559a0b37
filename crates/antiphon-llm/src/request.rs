//! The request to a model: MCP's `sampling/createMessage`.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

use crate::{
    message::{IntoBlocks, Message},
    structured,
};

/// The default for the maximum number of tokens of a reply.
pub const DEFAULT_MAX_TOKENS: u32 = 4096;

/// A request to a model, with the fields and the format of MCP's `CreateMessageRequestParams`.
///
/// MCP has no field for the schema of a reply. So a request for structured data offers the tool
/// [`SCHEMA_TOOL`](crate::SCHEMA_TOOL), and a provider converts this tool into its structured output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The conversation so far. The model replies to the last message.
    pub messages: Vec<Message>,
    /// The maximum number of tokens of the reply.
    pub max_tokens: u32,
    /// The system prompt of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The sampling temperature that the model uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The stop sequences. The model ends its reply before it would write a stop sequence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// The preferences for the selection of a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// The servers whose context the client can add to the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// The tools that the model can call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDefinition>,
    /// Whether the model must call a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Additional data of the request for the model's provider.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The `_meta` of the request.
    #[serde(rename = "_meta", default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

impl Request {
    /// Creates a request with the conversation `messages` and no other options.
    pub fn new(messages: impl Into<Vec<Message>>) -> Self {
        Self {
            messages: messages.into(),
            max_tokens: DEFAULT_MAX_TOKENS,
            system_prompt: None,
            temperature: None,
            stop_sequences: Vec::new(),
            model_preferences: None,
            include_context: None,
            tools: Vec::new(),
            tool_choice: None,
            metadata: Map::new(),
            meta: Map::new(),
        }
    }

    /// Creates a request with one message of the user.
    pub fn prompt(content: impl IntoBlocks) -> Self {
        Self::new([Message::user(content)])
    }

    /// Returns the schema of the requested data, if this request asks for structured data. The schema of the requested
    /// data is the input schema of the tool [`SCHEMA_TOOL`](crate::SCHEMA_TOOL).
    pub fn schema(&self) -> Option<&Map<String, Value>> {
        self.tools.iter().find(|tool| tool.name == structured::SCHEMA_TOOL).map(|tool| &tool.input_schema)
    }

    /// Returns whether the request forces the model to call a tool.
    pub fn must_call(&self) -> bool {
        !self.tools.is_empty() && self.tool_choice == Some(ToolChoice::Required)
    }
}

/// A tool that a model can call.
///
/// ```
/// # use antiphon_llm::ToolDefinition;
/// # use serde_json::json;
/// #[derive(schemars::JsonSchema)]
/// struct Attack {
///     reasoning: String,
/// }
///
/// let typed = ToolDefinition::of::<Attack>("play_offensive");
/// let schema = json!({
///     "$schema": "https://json-schema.org/draft/2020-12/schema",
///     "type": "object", "properties": {"reasoning": {"type": "string"}}, "required": ["reasoning"],
/// });
/// assert_eq!(typed, ToolDefinition::new("play_offensive", schema));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolDefinition {
    /// The name of the tool.
    pub name: String,
    /// The description of the tool, which the model reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of the tool's input. The input is always an object.
    pub input_schema: Map<String, Value>,
    /// The `title`, the `annotations`, the `_meta` and all other fields of the tool.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl ToolDefinition {
    /// Creates a tool whose input is the struct `T`.
    pub fn of<T: JsonSchema>(name: impl Into<String>) -> Self {
        Self::new(name, Value::Object(structured::schema_of::<T>()))
    }

    /// Creates a tool whose input matches `schema`.
    pub fn new(name: impl Into<String>, schema: Value) -> Self {
        let mut input_schema = match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        input_schema.entry("type").or_insert_with(|| "object".into());
        Self { name: name.into(), description: None, input_schema, rest: Map::new() }
    }

    /// Sets the description of the tool, which the model reads. Default: none.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}

/// Whether a model must call a tool. The JSON form of a tool choice is `{"mode": "required"}`. The deserializer also
/// accepts the text `"required"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides whether to call a tool.
    Auto,
    /// The model must call at least one tool.
    Required,
    /// The model must not call a tool.
    None,
}

impl ToolChoice {
    /// Returns the name that the tool choice has in JSON, for example `required`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Required => "required",
            Self::None => "none",
        }
    }
}

impl Serialize for ToolChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([("mode", self.as_str())])
    }
}

impl<'de> Deserialize<'de> for ToolChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        // In MCP, a tool choice without a mode is `auto`.
        let mode = match &value {
            Value::Object(object) => object.get("mode").map_or(Some("auto"), Value::as_str),
            other => other.as_str(),
        };
        match mode {
            Some("auto") => Ok(Self::Auto),
            Some("required") => Ok(Self::Required),
            Some("none") => Ok(Self::None),
            _ => Err(D::Error::custom(format_args!(
                "`{value}` is not a valid tool choice; use `auto`, `required` or `none`"
            ))),
        }
    }
}

/// The servers whose context a client can add to a request to its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IncludeContext {
    /// The client adds no context.
    None,
    /// The client can add context of the server that sends the request.
    ThisServer,
    /// The client can add context of all its servers.
    AllServers,
}

/// The preferences of a request for the selection of a model.
///
/// Each hint is a part of a model's name, for example `claude` or `sonnet`. A provider evaluates the hints in order.
/// Priorities are between 0 (not important) and 1 (most important).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Parts of the names of preferred models, most preferred first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// How important a low price is, as a number between 0 (not important) and 1 (most important).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// How important a fast reply is, as a number between 0 (not important) and 1 (most important).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// How important an intelligent model is, as a number between 0 (not important) and 1 (most important).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

impl ModelPreferences {
    /// Creates preferences without hints or priorities.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a hint: a part of the name of a preferred model. Hints that you add earlier have precedence.
    #[must_use]
    pub fn with_hint(mut self, name: impl Into<String>) -> Self {
        self.hints.push(ModelHint { name: Some(name.into()) });
        self
    }

    /// Sets how important a low price is, as a number between 0 (not important) and 1 (most important). Default: not
    /// set.
    #[must_use]
    pub fn with_cost_priority(mut self, priority: f64) -> Self {
        self.cost_priority = Some(priority);
        self
    }

    /// Sets how important a fast reply is, as a number between 0 (not important) and 1 (most important). Default: not
    /// set.
    #[must_use]
    pub fn with_speed_priority(mut self, priority: f64) -> Self {
        self.speed_priority = Some(priority);
        self
    }

    /// Sets how important an intelligent model is, as a number between 0 (not important) and 1 (most important).
    /// Default: not set.
    #[must_use]
    pub fn with_intelligence_priority(mut self, priority: f64) -> Self {
        self.intelligence_priority = Some(priority);
        self
    }
}

/// A hint for the selection of a model: a part of the name of a preferred model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelHint {
    /// The part of the model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
