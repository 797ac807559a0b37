use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use antiphon_replay::{Key, Op};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Ctx, ask::Ask};
use crate::{
    elicitation::KEY_META,
    error::{Error, Result},
    model::{ModelPreferences, SamplingMessage, SamplingMessageContentBlock, ToolChoice, ToolDefinition},
    tool::RESERVED_TOOL,
};

/// What a request asks for when it does not say.
const MAX_TOKENS: u32 = 4096;

impl Ctx {
    /// Asks the client's model.
    ///
    /// `prompt` is a text or a list of messages. MCP has deprecated sampling on 2026-07-28; it still
    /// works there, for clients that declare it.
    ///
    /// # Errors
    ///
    /// When the client has not declared `sampling`, or `sampling.tools` where tools are given; when
    /// it or its person refuses.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// async fn summarize(ctx: &Ctx, text: String) -> Result<String> {
    ///     let reply = ctx.sample(format!("Summarize: {text}")).max_tokens(200).await?;
    ///     Ok(reply.text())
    /// }
    /// ```
    pub fn sample(&self, prompt: impl Into<Prompted>) -> Sample<'_> {
        let Prompted(messages) = prompt.into();
        Sample {
            ask: Ask::new(self, "sample"),
            params: Params { messages, max_tokens: MAX_TOKENS, ..Params::default() },
        }
    }
}

/// What a model is asked: a text, or messages.
#[derive(Clone, Debug)]
pub struct Prompted(Vec<SamplingMessage>);

impl From<&str> for Prompted {
    fn from(text: &str) -> Self {
        Self(vec![SamplingMessage::user_text(text)])
    }
}

impl From<String> for Prompted {
    fn from(text: String) -> Self {
        Self(vec![SamplingMessage::user_text(text)])
    }
}

impl From<Vec<SamplingMessage>> for Prompted {
    fn from(messages: Vec<SamplingMessage>) -> Self {
        Self(messages)
    }
}

/// Which servers' context a client may add to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum IncludeContext {
    /// None.
    None,
    /// This server's.
    ThisServer,
    /// That of all servers the client knows.
    AllServers,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    messages: Vec<SamplingMessage>,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_sequences: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_preferences: Option<ModelPreferences>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_context: Option<IncludeContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<ToolDefinition>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
}

/// A request to a model, not yet made. `.await` makes it.
///
/// # Cancel safety
///
/// Dropped while it waits, the request is withdrawn.
#[must_use = "a model is asked when the request is awaited"]
#[derive(Debug)]
pub struct Sample<'a> {
    ask: Ask<'a>,
    params: Params,
}

impl Sample<'_> {
    /// Sets the request's key.
    pub fn key(mut self, key: &str) -> Self {
        self.ask.rename(key);
        self
    }

    /// Bounds the reply. Default: 4096.
    pub fn max_tokens(mut self, max_tokens: u32) -> Self {
        self.params.max_tokens = max_tokens;
        self
    }

    /// Tells the model who it is.
    pub fn system(mut self, prompt: impl Into<String>) -> Self {
        self.params.system_prompt = Some(prompt.into());
        self
    }

    /// Sets how much the model may vary.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.params.temperature = Some(temperature);
        self
    }

    /// Ends the reply where one of these texts begins.
    pub fn stop_sequences(mut self, sequences: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.params.stop_sequences = Some(sequences.into_iter().map(Into::into).collect());
        self
    }

    /// Says which models would suit.
    pub fn model_preferences(mut self, preferences: ModelPreferences) -> Self {
        self.params.model_preferences = Some(preferences);
        self
    }

    /// Lets the client add context. Asking for any needs `sampling.context`.
    pub fn include_context(mut self, context: IncludeContext) -> Self {
        self.params.include_context = Some(context);
        self
    }

    /// Lets the model call tools; its calls come back in the reply. Needs `sampling.tools`.
    pub fn tools(mut self, tools: impl IntoIterator<Item = ToolDefinition>) -> Self {
        self.params.tools = Some(tools.into_iter().collect());
        self
    }

    /// Says whether the model must call a tool.
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.params.tool_choice = Some(choice);
        self
    }
}

impl Future for Sample<'_> {
    type Output = Result<Sampled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { ask, params } = &mut *self;
        let request = |params: &Params| json!({"method": "sampling/createMessage", "params": params});
        let keyed = |params: &Params, key: &Key| {
            let mut request = request(params);
            request["params"]["_meta"] = json!({KEY_META: key.name()});
            request
        };
        let answer = ready!(ask.poll(
            cx,
            |_| {
                if params.tools.iter().flatten().any(|tool| tool.name == RESERVED_TOOL) {
                    return Err(Error::misuse(format!(
                        "`{RESERVED_TOOL}` is a reserved tool name; give the tool another"
                    )));
                }
                let last = params.messages.last().map(text_of).unwrap_or_default();
                Ok(Op::ask(&format!("sample `{last}`"), &request(params)))
            },
            |key| keyed(params, key),
        ))?;
        Poll::Ready(Ok(serde_json::from_value(answer)?))
    }
}

fn text_of(message: &SamplingMessage) -> String {
    message
        .content
        .iter()
        .filter_map(|block| Some(block.as_text()?.text.as_str()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A model's reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sampled {
    /// The model that replied.
    #[serde(default)]
    pub model: String,
    /// Why it stopped: `endTurn`, `toolUse`, `maxTokens`, `stopSequence`, or what the client says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// What it said.
    #[serde(flatten)]
    pub message: SamplingMessage,
}

impl Sampled {
    /// The reply's blocks, however the client sent them.
    pub fn content(&self) -> Vec<SamplingMessageContentBlock> {
        self.message.content.clone().into_vec()
    }

    /// The reply's text blocks, joined.
    pub fn text(&self) -> String {
        text_of(&self.message)
    }

    /// The tools the model wants to call, in order.
    pub fn tool_calls(&self) -> Vec<crate::tool::ToolCall> {
        self.message
            .content
            .iter()
            .filter_map(|block| {
                let call = block.as_tool_use()?;
                Some(crate::tool::ToolCall {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.input.clone(),
                })
            })
            .collect()
    }
}
