//! Converts messages of MCP to messages of rig.

use std::collections::HashMap;

use rig_core::message::{
    self as rig, AssistantContent, AudioMediaType, CallId, ImageMediaType, MimeType as _, ToolName,
    ToolResultContent, UserContent,
};
use serde_json::{Map, Value, json};

use crate::{
    error::{Error, Result},
    message::{Block, Content, MediaBlock, Message, Role, ToolResultBlock},
    request::{Request, ToolDefinition},
};

/// The media types of images and audio that this crate can send to a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Media {
    pub(super) images: &'static [ImageMediaType],
    pub(super) audio: &'static [AudioMediaType],
}

/// Converts the messages of `request`. The system prompt becomes the first message.
pub(super) fn messages(request: &Request, model: &str, media: Media) -> Result<Vec<rig::Message>> {
    let convert = Convert { model, media, names: names(&request.messages) };
    let system = request.system_prompt.iter().filter(|prompt| !prompt.is_empty());
    let system = system.map(|prompt| Ok(rig::Message::system(prompt)));
    let told = request.messages.iter().filter(|message| !message.content.is_empty());
    system.chain(told.map(|message| convert.message(message))).collect()
}

/// Converts the tools of a request. The function `schema` prepares the input schema of a tool.
pub(super) fn tools(
    tools: &[ToolDefinition],
    model: &str,
    schema: impl Fn(&Map<String, Value>) -> Value,
) -> Result<Vec<rig_core::completion::ToolDefinition>> {
    let tool = |tool: &ToolDefinition| {
        let name = tool_name(&tool.name, model)?;
        let description = tool.description.clone().unwrap_or_default();
        Ok(rig_core::completion::ToolDefinition::new(name, description, schema(&tool.input_schema)))
    };
    tools.iter().map(tool).collect()
}

pub(super) fn tool_name(name: &str, model: &str) -> Result<ToolName> {
    ToolName::new(name).map_err(|_| unsupported(model, "it cannot offer a tool without a name"))
}

/// Maps the ID of each tool call to the name of the called tool. The map is needed because a tool result contains only
/// the ID of its call.
fn names(messages: &[Message]) -> HashMap<&str, &str> {
    let calls = messages.iter().flat_map(|message| message.content.iter().filter_map(Block::as_tool_use));
    calls.map(|call| (call.id.as_str(), call.name.as_str())).collect()
}

struct Convert<'a> {
    model: &'a str,
    media: Media,
    names: HashMap<&'a str, &'a str>,
}

impl Convert<'_> {
    fn message(&self, message: &Message) -> Result<rig::Message> {
        Ok(match message.role {
            Role::User => {
                let content: Result<_> = message.content.iter().map(|block| self.user(block)).collect();
                rig::Message::User { content: content? }
            }
            Role::Assistant => {
                let content: Result<_> = message.content.iter().map(|block| self.assistant(block)).collect();
                rig::Message::Assistant(rig::AssistantMessage::new(content?))
            }
        })
    }

    fn user(&self, block: &Block) -> Result<UserContent> {
        match block {
            Block::Text(block) => Ok(UserContent::text(&block.text)),
            Block::Image(image) => Ok(UserContent::Image(self.image(image)?)),
            Block::Audio(audio) => self.audio(audio),
            Block::ToolResult(result) => Ok(UserContent::ToolResult(self.result(result)?)),
            Block::ToolUse(_) => Err(unsupported(self.model, "a user message cannot contain a tool call")),
        }
    }

    fn assistant(&self, block: &Block) -> Result<AssistantContent> {
        match block {
            Block::Text(block) => Ok(AssistantContent::text(&block.text)),
            Block::ToolUse(call) => Ok(AssistantContent::tool_call(
                &call.id,
                tool_name(&call.name, self.model)?,
                Value::Object(call.input.clone()),
            )),
            Block::Image(_) => Err(unsupported(self.model, "an assistant message cannot contain an image")),
            Block::Audio(_) => Err(unsupported(self.model, "an assistant message cannot contain audio")),
            Block::ToolResult(_) => {
                Err(unsupported(self.model, "an assistant message cannot contain a tool result"))
            }
        }
    }

    fn image(&self, block: &MediaBlock) -> Result<rig::Image> {
        let kind = ImageMediaType::from_mime_type(&block.mime_type.to_lowercase());
        let Some(media_type) = kind.filter(|kind| self.media.images.contains(kind)) else {
            let kind = format!("it cannot read images of the type `{}`", block.mime_type);
            let what = if self.media.images.is_empty() { "it cannot read images" } else { &kind };
            return Err(unsupported(self.model, what));
        };
        Ok(rig::Image {
            data: rig::DocumentSourceKind::base64(&block.data),
            media_type: Some(media_type),
            ..rig::Image::default()
        })
    }

    fn audio(&self, block: &MediaBlock) -> Result<UserContent> {
        let Some(media_type) = audio_type(&block.mime_type).filter(|kind| self.media.audio.contains(kind))
        else {
            let kind = format!("it cannot read audio of the type `{}`", block.mime_type);
            let what = if self.media.audio.is_empty() { "it cannot read audio" } else { &kind };
            return Err(unsupported(self.model, what));
        };
        Ok(UserContent::Audio(rig::Audio {
            data: rig::DocumentSourceKind::base64(&block.data),
            media_type: Some(media_type),
        }))
    }

    fn result(&self, result: &ToolResultBlock) -> Result<rig::ToolResult> {
        let id = &result.tool_use_id;
        let name = self.names.get(id.as_str()).ok_or_else(|| {
            unsupported(
                self.model,
                &format!("the tool result `{id}` has no matching tool call in the messages"),
            )
        })?;
        let mut content: Vec<ToolResultContent> = result.content.iter().map(|part| self.part(part)).collect();
        if content.is_empty() {
            let data = result.structured_content.as_ref().map(|data| ToolResultContent::json(data.clone()));
            content.push(data.unwrap_or_else(|| ToolResultContent::text("")));
        }
        Ok(rig::ToolResult {
            call: CallId::from_wire(id),
            name: tool_name(name, self.model)?,
            content,
            is_error: result.is_error,
        })
    }

    /// Converts a part of a tool's result. The result of a tool must always reach the model. So if a part of the
    /// result cannot be sent, a note replaces this part.
    fn part(&self, part: &Content) -> ToolResultContent {
        match part {
            Content::Text(block) => ToolResultContent::text(&block.text),
            Content::Image(block) => match self.image(block) {
                Ok(image) => ToolResultContent::Image(image),
                Err(_) => left_out("image", &block.mime_type),
            },
            Content::Audio(block) => left_out("audio", &block.mime_type),
            Content::ResourceLink(link) => ToolResultContent::text(json!(link).to_string()),
            Content::Resource(resource) => self.resource(resource),
        }
    }

    fn resource(&self, embedded: &Map<String, Value>) -> ToolResultContent {
        let resource = embedded.get("resource").unwrap_or(&Value::Null);
        let Some(blob) = resource["blob"].as_str() else {
            return ToolResultContent::text(json!(embedded).to_string());
        };
        let mime_type = resource["mimeType"].as_str().unwrap_or_default();
        let block = MediaBlock { data: blob.into(), mime_type: mime_type.into(), rest: Map::new() };
        match self.image(&block) {
            Ok(image) if mime_type.starts_with("image/") => ToolResultContent::Image(image),
            _ => left_out(resource["uri"].as_str().unwrap_or("resource"), mime_type),
        }
    }
}

fn left_out(what: &str, mime_type: &str) -> ToolResultContent {
    ToolResultContent::text(format!("({what} left out: `{mime_type}` cannot be shown to this model)"))
}

pub(super) fn unsupported(model: &str, what: &str) -> Error {
    Error::Unsupported { model: model.into(), what: what.into() }
}

/// Returns the audio type for a media type. An audio type can have several media type names.
fn audio_type(mime_type: &str) -> Option<AudioMediaType> {
    let name = mime_type.to_lowercase();
    match name.split(';').next().unwrap_or_default().trim() {
        "audio/mpeg" => Some(AudioMediaType::MP3),
        "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => Some(AudioMediaType::WAV),
        "audio/mp4" | "audio/x-m4a" => Some(AudioMediaType::M4A),
        "audio/x-flac" => Some(AudioMediaType::FLAC),
        "audio/x-aiff" => Some(AudioMediaType::AIFF),
        known => AudioMediaType::from_mime_type(known),
    }
}
