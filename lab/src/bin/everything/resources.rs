//! Resources: a text, bytes, one to subscribe to, and a family of them.

use antiphon::{Resource, ResourceTemplate, ServerBuilder, prelude::*};
use serde_json::json;

use crate::content::PIXEL;

pub(crate) fn add_to(server: ServerBuilder) -> ServerBuilder {
    server
        .resource(
            Resource::new("test://static-text", "static-text", static_text)
                .with_description("A text")
                .with_mime_type("text/plain"),
        )
        .resource(
            Resource::new("test://static-binary", "static-binary", static_binary)
                .with_description("An image")
                .with_mime_type("image/png"),
        )
        .resource(
            Resource::new("test://watched-resource", "watched-resource", watched)
                .with_description("A text that clients subscribe to")
                .with_mime_type("text/plain"),
        )
        .resource_template(
            ResourceTemplate::new("test://template/{id}/data", "template", data)
                .with_description("Data by its id")
                .with_mime_type("application/json"),
        )
}

async fn static_text(_: &Ctx, _: ()) -> Result<&'static str> {
    Ok("This is the content of the static text resource.")
}

async fn static_binary(_: &Ctx, _: ()) -> Result<Vec<u8>> {
    Ok(PIXEL.to_vec())
}

async fn watched(_: &Ctx, _: ()) -> Result<&'static str> {
    Ok("Nothing has changed here yet.")
}

#[derive(Deserialize, JsonSchema)]
struct Data {
    id: String,
}

async fn data(_: &Ctx, Data { id }: Data) -> Result<String> {
    Ok(json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string())
}
