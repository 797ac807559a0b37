//! What a model is asked: MCP's `sampling/createMessage`.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value};

use crate::{
    message::{IntoBlocks, Message},
    structured,
};

/// What a request asks for when it does not say.
pub const DEFAULT_MAX_TOKENS: u32 = 4096;

/// A request to a model, with the fields and the shape of MCP's `CreateMessageRequestParams`.
///
/// There is no field for a schema: what must come back as data is asked for with the tool
/// [`SCHEMA_TOOL`](crate::SCHEMA_TOOL), which a provider turns into its own structured output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The conversation so far; the last message is the one to reply to.
    pub messages: Vec<Message>,
    /// Bounds the reply.
    pub max_tokens: u32,
    /// Tells the model who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// How much the model may vary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Ends the reply where one of these texts begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Says which models would suit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// Which servers' context a client may add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_context: Option<IncludeContext>,
    /// What the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDefinition>,
    /// Whether it must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// What only the provider understands.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// What else there is to say.
    #[serde(rename = "_meta", default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

impl Request {
    /// A request with these messages and no options.
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

    /// A request with one message of the user's.
    pub fn prompt(content: impl IntoBlocks) -> Self {
        Self::new([Message::user(content)])
    }

    /// The schema the reply must match, if this request asks for data: the input of its
    /// [`SCHEMA_TOOL`](crate::SCHEMA_TOOL).
    pub fn schema(&self) -> Option<&Map<String, Value>> {
        self.tools.iter().find(|tool| tool.name == structured::SCHEMA_TOOL).map(|tool| &tool.input_schema)
    }

    /// Whether the model must call a tool.
    pub fn must_call(&self) -> bool {
        !self.tools.is_empty() && self.tool_choice == Some(ToolChoice::Required)
    }
}

/// A tool a model may call.
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
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it takes: the JSON Schema of an object.
    pub input_schema: Map<String, Value>,
    /// `title`, `annotations`, `_meta`, and what else came with it.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl ToolDefinition {
    /// A tool whose input is a `T`, a struct.
    pub fn of<T: JsonSchema>(name: impl Into<String>) -> Self {
        Self::new(name, Value::Object(structured::schema_of::<T>()))
    }

    /// A tool whose input matches `schema`.
    pub fn new(name: impl Into<String>, schema: Value) -> Self {
        let mut input_schema = match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        input_schema.entry("type").or_insert_with(|| "object".into());
        Self { name: name.into(), description: None, input_schema, rest: Map::new() }
    }

    /// Says what it is for.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}

/// Whether a model must call a tool. On the wire `{"mode": "required"}`; read also as `"required"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// At least one.
    Required,
    /// None.
    None,
}

impl ToolChoice {
    /// Its name on the wire.
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
        // MCP: a choice without a mode is `auto`.
        let mode = match &value {
            Value::Object(object) => object.get("mode").map_or(Some("auto"), Value::as_str),
            other => other.as_str(),
        };
        match mode {
            Some("auto") => Ok(Self::Auto),
            Some("required") => Ok(Self::Required),
            Some("none") => Ok(Self::None),
            _ => Err(D::Error::custom(format_args!(
                "`{value}` is no tool choice; it is `auto`, `required` or `none`"
            ))),
        }
    }
}

/// Which servers' context a client may add to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IncludeContext {
    /// None.
    None,
    /// This server's.
    ThisServer,
    /// That of all servers the client knows.
    AllServers,
}

/// Which models would suit.
///
/// Hints are read in order, and each is a part of a name: `claude` or `sonnet` will do. Priorities go
/// from 0 (does not matter) to 1 (matters most).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Names, or parts of names, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// How much a low price matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// How much speed matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// How much it matters that the model is clever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

impl ModelPreferences {
    /// No preference.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a name or a part of one; earlier hints count more.
    #[must_use]
    pub fn with_hint(mut self, name: impl Into<String>) -> Self {
        self.hints.push(ModelHint { name: Some(name.into()) });
        self
    }

    /// Says how much a low price matters.
    #[must_use]
    pub fn with_cost_priority(mut self, priority: f64) -> Self {
        self.cost_priority = Some(priority);
        self
    }

    /// Says how much speed matters.
    #[must_use]
    pub fn with_speed_priority(mut self, priority: f64) -> Self {
        self.speed_priority = Some(priority);
        self
    }

    /// Says how much it matters that the model is clever.
    #[must_use]
    pub fn with_intelligence_priority(mut self, priority: f64) -> Self {
        self.intelligence_priority = Some(priority);
        self
    }
}

/// A part of the name of a model that would suit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelHint {
    /// The part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
