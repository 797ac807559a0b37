//! The description of the server that clients receive: the name, the metadata and the capabilities.

use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use serde_json::json;

use crate::{mcp::Service, registry::Registry};

pub(super) fn describe(service: &Service, registry: &Registry) -> ServerConfig {
    let about = &service.about;
    let mut implementation = Implementation::new(about.name.clone(), about.version.clone());
    implementation.title.clone_from(&about.title);
    implementation.description.clone_from(&about.description);
    implementation.website_url.clone_from(&about.website);
    implementation.icons.clone_from(&about.icons);
    let mut config = ServerConfig::new(capabilities(service, registry));
    config.server_info = implementation;
    config.instructions.clone_from(&about.instructions);
    if service.asking.is_some() {
        config.instructions = Some(match &about.instructions {
            Some(instructions) => format!("{instructions}\n\n{NOT_FINISHED}"),
            None => NOT_FINISHED.to_owned(),
        });
    }
    config
}

/// The instructions that tell models what to do with a waiting result.
const NOT_FINISHED: &str = "A tool can answer NOT FINISHED: then follow the text of that answer.";

fn capabilities(service: &Service, registry: &Registry) -> ServerCapabilities {
    let mut capabilities = service.inner.as_ref().map(|inner| inner.info().capabilities).unwrap_or_default();
    let declared = json!({
        "logging": {},
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "completions": {},
    });
    let Ok(ours) = serde_json::from_value::<ServerCapabilities>(declared) else { return capabilities };
    capabilities.logging = ours.logging;
    capabilities.tools = ours.tools;
    if !registry.prompts().is_empty() || capabilities.prompts.is_some() {
        capabilities.prompts = ours.prompts;
    }
    if !registry.resources().is_empty()
        || !registry.templates().is_empty()
        || capabilities.resources.is_some()
    {
        capabilities.resources = ours.resources;
    }
    let completes = registry.prompts().iter().any(|prompt| !prompt.completions.is_empty())
        || registry.templates().iter().any(|template| !template.completions.is_empty());
    if completes {
        capabilities.completions = ours.completions;
    }
    if service.tasks.is_some() {
        let extension = rmcp::model::TASKS_EXTENSION_ID.to_owned();
        capabilities.extensions.get_or_insert_default().insert(extension, rmcp::model::JsonObject::new());
    }
    #[cfg(feature = "results")]
    crate::results::declare(&service.runtime, &mut capabilities);
    if let Some(apps) = service.asking.as_ref().and_then(|asking| asking.capability()) {
        let extension = crate::protocol::UI_EXTENSION.to_owned();
        capabilities.extensions.get_or_insert_default().insert(extension, apps);
    }
    capabilities
}
