//! Prompts: a text, a text with arguments, other content, and one that asks before it is made.

use antiphon::{
    Prompt, ServerBuilder,
    model::{ContentBlock, PromptMessage, ResourceContents, Role},
    prelude::*,
    prompt::Completion,
};

use crate::content;

pub(crate) fn add_to(server: ServerBuilder) -> ServerBuilder {
    server
        .prompt(Prompt::new("test_simple_prompt", "A text", simple))
        .prompt(
            Prompt::new("test_prompt_with_arguments", "A text with two arguments", with_arguments)
                .completes("arg1", cities),
        )
        .prompt(Prompt::new(
            "test_prompt_with_embedded_resource",
            "A resource, and what to do with it",
            with_resource,
        ))
        .prompt(Prompt::new("test_prompt_with_image", "An image, and what to do with it", with_image))
        .prompt(Prompt::new(
            "test_input_required_result_prompt",
            "A text for which you are asked first",
            with_context,
        ))
}

async fn simple(_: &Ctx, _: ()) -> Result<&'static str> {
    Ok("This is a simple prompt for testing.")
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// First test argument
    arg1: String,
    /// Second test argument
    arg2: String,
}

async fn with_arguments(_: &Ctx, Arguments { arg1, arg2 }: Arguments) -> Result<String> {
    Ok(format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))
}

async fn cities(typed: Completion) -> Result<Vec<String>> {
    let cities = ["paris", "parma", "perth"];
    Ok(cities.into_iter().filter(|city| city.starts_with(&typed.value)).map(String::from).collect())
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Embed {
    /// URI of the resource to embed
    resource_uri: String,
}

async fn with_resource(_: &Ctx, embed: Embed) -> Result<Vec<PromptMessage>> {
    let resource = ResourceContents::text("Embedded resource content for testing.", embed.resource_uri);
    let resource = ContentBlock::resource(resource.with_mime_type("text/plain"));
    Ok(vec![
        PromptMessage::new(Role::User, resource),
        PromptMessage::new_text(Role::User, "Please process the embedded resource above."),
    ])
}

async fn with_image(_: &Ctx, _: ()) -> Result<Vec<PromptMessage>> {
    Ok(vec![
        PromptMessage::new(Role::User, content::pixel()),
        PromptMessage::new_text(Role::User, "Please analyze the image above."),
    ])
}

#[derive(Deserialize, JsonSchema)]
struct UserContext {
    context: String,
}

async fn with_context(ctx: &Ctx, _: ()) -> Result<String> {
    let UserContext { context } = ctx.elicit("What context should the prompt use?").await?.accepted()?;
    Ok(format!("Use this context: {context}"))
}
