//! The tools, prompts and resources of the other server, as items of an Antiphon server.

use std::sync::Arc;

use antiphon::{Ctx, Prompt, Resource, ResourceTemplate, Tool, ToolOutput, bind, model};
use rmcp::model::{CallToolResult, GetPromptResult, MetaObject, ReadResourceResult};
use serde_json::{Map, Value, json};

use super::{
    Proxy,
    forward::{RESERVED_META, Request},
    pool::Remote,
};
use crate::error::Result;

/// The `_meta` key under which the connection stores whether a 2025-11-25 tool can run as a task.
const EXECUTION: &str = "antiphon/execution";

impl Proxy {
    /// Lists the tools of the other server, as tools for an Antiphon server. Each call of `tools` requests the list
    /// from the other server again.
    ///
    /// # Errors
    ///
    /// Returns an error if the other server does not list its tools.
    pub async fn tools(&self) -> Result<Vec<Tool>> {
        if !self.declares("tools").await {
            return Ok(Vec::new());
        }
        let tools = self.remote.shared.tools().await?;
        let needs_task = |tool: &&rmcp::model::Tool| {
            let execution = tool.meta.as_ref().and_then(|meta| meta.get(EXECUTION));
            execution.is_some_and(|execution| execution["taskSupport"] == "required")
        };
        let tasks = tools.iter().filter(needs_task).map(|tool| tool.name.to_string());
        self.remote.learn_tasks(tasks.collect());
        Ok(tools.into_iter().map(|tool| self.tool(tool)).collect())
    }

    fn tool(&self, tool: rmcp::model::Tool) -> Tool {
        let one = One { remote: Arc::clone(&self.remote), name: tool.name.to_string() };
        let name = format!("{}{}", self.remote.config.prefix, tool.name);
        let described = tool.description.filter(|text| !text.trim().is_empty());
        let described = described.map(std::borrow::Cow::into_owned).or_else(|| tool.title.clone());
        let description = described.unwrap_or_else(|| tool.name.to_string());
        let schema = Value::Object((*tool.input_schema).clone());
        let mut front = Tool::raw(name, description, schema, bind(one, One::call));
        if let Some(title) = tool.title {
            front = front.with_title(title);
        }
        if let Some(annotations) = tool.annotations {
            front = front.with_annotations(annotations);
        }
        if let Some(icons) = tool.icons {
            front = front.with_icons(icons);
        }
        if let Some(schema) = tool.output_schema {
            front = front.with_output_schema(Value::Object((*schema).clone()));
        }
        for (key, value) in passed_on(tool.meta) {
            front = front.with_meta(key, value);
        }
        front
    }

    /// Lists the prompts of the other server, as prompts for an Antiphon server. Each call of `prompts` requests the
    /// list from the other server again.
    ///
    /// # Errors
    ///
    /// Returns an error if the other server does not list its prompts.
    pub async fn prompts(&self) -> Result<Vec<Prompt>> {
        if !self.declares("prompts").await {
            return Ok(Vec::new());
        }
        let prompts = self.remote.shared.prompts().await?;
        Ok(prompts.into_iter().map(|prompt| self.prompt(prompt)).collect())
    }

    fn prompt(&self, prompt: rmcp::model::Prompt) -> Prompt {
        let one = One { remote: Arc::clone(&self.remote), name: prompt.name.clone() };
        let name = format!("{}{}", self.remote.config.prefix, prompt.name);
        let mut properties = Map::new();
        let mut required = Vec::new();
        for argument in prompt.arguments.unwrap_or_default() {
            if argument.required == Some(true) {
                required.push(argument.name.clone());
            }
            let mut schema = json!({"type": "string"});
            if let Some(description) = argument.description {
                schema["description"] = description.into();
            }
            properties.insert(argument.name, schema);
        }
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let description = prompt.description.unwrap_or_default();
        let mut front = Prompt::raw(name, description, &schema, bind(one, One::prompt));
        if let Some(title) = prompt.title {
            front = front.with_title(title);
        }
        if let Some(icons) = prompt.icons {
            front = front.with_icons(icons);
        }
        front
    }

    /// Lists the resources of the other server, as resources for an Antiphon server. Each call of `resources` requests
    /// the list from the other server again.
    ///
    /// # Errors
    ///
    /// Returns an error if the other server does not list its resources.
    pub async fn resources(&self) -> Result<Vec<Resource>> {
        if !self.declares("resources").await {
            return Ok(Vec::new());
        }
        let resources = self.remote.shared.resources().await?;
        Ok(resources.into_iter().map(|resource| self.resource(resource)).collect())
    }

    fn resource(&self, resource: rmcp::model::Resource) -> Resource {
        let one = One { remote: Arc::clone(&self.remote), name: resource.uri.clone() };
        let mut front = Resource::new(resource.uri, resource.name, bind(one, One::resource));
        if let Some(title) = resource.title {
            front = front.with_title(title);
        }
        if let Some(description) = resource.description {
            front = front.with_description(description);
        }
        if let Some(mime_type) = resource.mime_type {
            front = front.with_mime_type(mime_type);
        }
        if let Some(size) = resource.size {
            front = front.with_size(size);
        }
        if let Some(icons) = resource.icons {
            front = front.with_icons(icons);
        }
        if let Some(annotations) = resource.annotations {
            front = front.with_annotations(annotations);
        }
        for (key, value) in passed_on(resource.meta) {
            front = front.with_meta(key, value);
        }
        front
    }

    /// Lists the resource templates of the other server, as templates for an Antiphon server. The returned list also
    /// contains a template for each prefix of [`ProxyConfig::with_uris`](crate::ProxyConfig::with_uris). Each call of
    /// `resource_templates` requests the list from the other server again.
    ///
    /// A template without a fixed scheme, such as `{uri}`, is omitted, because such a template would match the URIs of
    /// other servers.
    ///
    /// # Errors
    ///
    /// Returns an error if the other server does not list its templates.
    pub async fn resource_templates(&self) -> Result<Vec<ResourceTemplate>> {
        let mut templates = Vec::new();
        if self.declares("resources").await {
            for template in self.remote.shared.resource_templates().await? {
                let uri = template.uri_template.clone();
                if !uri.split('{').next().unwrap_or_default().contains(':') {
                    tracing::warn!(
                        server = self.remote.name(),
                        template = uri,
                        "a resource template of a proxied server has no scheme, and is omitted"
                    );
                    continue;
                }
                let mut front = self.template(&uri, &template.name);
                if let Some(title) = template.title {
                    front = front.with_title(title);
                }
                if let Some(description) = template.description {
                    front = front.with_description(description);
                }
                if let Some(mime_type) = template.mime_type {
                    front = front.with_mime_type(mime_type);
                }
                templates.push(front);
            }
        }
        for prefix in &self.remote.config.uris {
            templates.push(self.template(&format!("{prefix}{{+rest}}"), self.remote.label()));
        }
        Ok(templates)
    }

    fn template(&self, uri: &str, name: &str) -> ResourceTemplate {
        let one = One { remote: Arc::clone(&self.remote), name: String::new() };
        ResourceTemplate::raw(uri, name, bind(one, One::linked))
    }

    async fn declares(&self, capability: &str) -> bool {
        self.remote.shared.server().await.capabilities.get(capability).is_some()
    }
}

/// One tool, prompt or resource of the other server.
#[derive(Clone)]
struct One {
    remote: Arc<Remote>,
    /// The name that the item has at the other server, or the URI of the item.
    name: String,
}

impl One {
    async fn call(self, ctx: &Ctx, arguments: Map<String, Value>) -> antiphon::Result<ToolOutput> {
        let is_task = self.remote.needs_task(&self.name);
        let request = Request::tool(&self.name, Value::Object(arguments), is_task);
        output(self.remote.forward(ctx, request).await?)
    }

    async fn prompt(
        self,
        ctx: &Ctx,
        arguments: Map<String, Value>,
    ) -> antiphon::Result<Vec<model::PromptMessage>> {
        let request = Request::prompt(&self.name, Value::Object(arguments));
        let result: GetPromptResult = serde_json::from_value(self.remote.forward(ctx, request).await?)?;
        Ok(result.messages)
    }

    async fn resource(self, ctx: &Ctx, _: ()) -> antiphon::Result<Vec<model::ResourceContents>> {
        self.read(ctx, &self.name).await
    }

    async fn linked(self, ctx: &Ctx, uri: String) -> antiphon::Result<Vec<model::ResourceContents>> {
        self.read(ctx, &uri).await
    }

    async fn read(&self, ctx: &Ctx, uri: &str) -> antiphon::Result<Vec<model::ResourceContents>> {
        let read = self.remote.forward(ctx, Request::resource(uri)).await?;
        let result: ReadResourceResult = serde_json::from_value(read)?;
        Ok(result.contents)
    }
}

/// Converts the result of a tool.
pub(super) fn output(result: Value) -> antiphon::Result<ToolOutput> {
    let result: CallToolResult = serde_json::from_value(result)?;
    let mut output = ToolOutput::new(result.content);
    output.structured = result.structured_content;
    output.is_error = result.is_error == Some(true);
    output.meta = passed_on(result.meta);
    Ok(output)
}

/// Returns the metadata of the item, without the metadata of the connection to the other server.
fn passed_on(meta: Option<MetaObject>) -> Map<String, Value> {
    let mut meta = meta.map(|meta| meta.0).unwrap_or_default();
    meta.retain(|key, _| key != EXECUTION && !key.starts_with(RESERVED_META));
    meta
}
