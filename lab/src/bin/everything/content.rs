//! Tools that answer at once: each kind of content, an error, and two special input schemas.

use antiphon::{
    ServerBuilder,
    model::{ContentBlock, ResourceContents},
    prelude::*,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

/// A PNG of one red pixel.
pub(crate) const PIXEL: &[u8] = include_bytes!("media/pixel.png");

/// A WAV of eight silent samples.
const SILENCE: &[u8] = include_bytes!("media/silence.wav");

pub(crate) fn add_to(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(Tool::new("test_simple_text", "Returns a text", simple_text))
        .tool(Tool::new("test_image_content", "Returns an image", image_content))
        .tool(Tool::new("test_audio_content", "Returns a sound", audio_content))
        .tool(Tool::new("test_embedded_resource", "Returns a resource with its content", embedded_resource))
        .tool(Tool::new("test_multiple_content_types", "Returns a text, an image and a resource", mixed))
        .tool(Tool::new("test_error_handling", "Fails, always", error_handling))
        .tool(Tool::new("test_custom_header", "Takes a value that travels in a header, too", custom_header))
        .tool(Tool::raw(
            "json_schema_2020_12_tool",
            "Takes a contact, by a schema that no Rust type has",
            contact_schema(),
            contact,
        ))
}

/// The image as a block of content; prompts show it, too.
pub(crate) fn pixel() -> ContentBlock {
    ContentBlock::image(STANDARD.encode(PIXEL), "image/png")
}

async fn simple_text(_: &Ctx, _: ()) -> Result<&'static str> {
    Ok("This is a simple text response for testing.")
}

async fn image_content(_: &Ctx, _: ()) -> Result<ContentBlock> {
    Ok(pixel())
}

async fn audio_content(_: &Ctx, _: ()) -> Result<ContentBlock> {
    Ok(ContentBlock::audio(STANDARD.encode(SILENCE), "audio/wav"))
}

async fn embedded_resource(_: &Ctx, _: ()) -> Result<ContentBlock> {
    let resource =
        ResourceContents::text("This is an embedded resource content.", "test://embedded-resource");
    Ok(ContentBlock::resource(resource.with_mime_type("text/plain")))
}

async fn mixed(_: &Ctx, _: ()) -> Result<Vec<ContentBlock>> {
    let data = json!({"test": "data", "value": 123});
    let resource = ResourceContents::text(data.to_string(), "test://mixed-content-resource");
    Ok(vec![
        ContentBlock::text("Multiple content types test:"),
        pixel(),
        ContentBlock::resource(resource.with_mime_type("application/json")),
    ])
}

/// Any error is an answer with `isError: true`; this one says what the suite reads.
async fn error_handling(_: &Ctx, _: ()) -> Result<String> {
    Err(Error::tool("This tool intentionally returns an error for testing"))
}

// A client sends `value` in the header `Mcp-Param-Value`, too, and the server compares the two.
#[derive(Deserialize, JsonSchema)]
struct CustomHeader {
    /// Any text.
    #[schemars(extend("x-mcp-header" = "Value"))]
    value: String,
}

async fn custom_header(_: &Ctx, arguments: CustomHeader) -> Result<String> {
    Ok(format!("The value is {}", arguments.value))
}

/// Anchors, references, composition and conditions, served as they are written here.
fn contact_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

async fn contact(_: &Ctx, arguments: Map<String, Value>) -> Result<String> {
    Ok(format!("The contact is {}", Value::Object(arguments)))
}
