use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use rmcp::model::ServerConfig;

use serde_json::{Map, Value};

use crate::{
    function::StateType,
    prompt::Prompt,
    resource::{Resource, ResourceTemplate},
    tool::Tool,
};

/// The tools, prompts and resources of a server, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    tools: Named<Tool>,
    prompts: Named<Prompt>,
    resources: Named<Resource>,
    templates: Vec<Arc<ResourceTemplate>>,
    /// The description of the server, derived from the other fields.
    info: OnceLock<ServerConfig>,
}

/// The [`Registry`] of a server, which can change while it runs.
pub(crate) struct Catalog(RwLock<Arc<Registry>>);

impl Catalog {
    pub(crate) fn new(registry: Registry) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Arc::new(registry))))
    }

    /// Returns the current registry.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the registry, unless `change` fails.
    pub(crate) fn update<E>(&self, change: impl FnOnce(&mut Registry) -> Result<(), E>) -> Result<(), E> {
        let mut registry = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = registry.edition();
        change(&mut next)?;
        *registry = Arc::new(next);
        Ok(())
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.registry().fmt(f)
    }
}

fn missing_state(what: &str, state: &str) -> String {
    format!(
        "{what} takes `State<{state}>`, but the server has no state of this type; add it with `ServerBuilder::with_state`"
    )
}

/// Items with a name, in order.
#[derive(Debug)]
struct Named<T> {
    items: Vec<Arc<T>>,
    index: HashMap<String, usize>,
}

impl<T> Named<T> {
    fn add(&mut self, name: &str, item: T) -> Result<(), String> {
        if self.index.contains_key(name) {
            return Err(format!("`{name}` is defined twice; use distinct names"));
        }
        self.index.insert(name.to_owned(), self.items.len());
        self.items.push(Arc::new(item));
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.index.get(name).map(|&at| &self.items[at])
    }

    fn remove(&mut self, name: &str) -> bool {
        let Some(at) = self.index.remove(name) else { return false };
        self.items.remove(at);
        self.index.values_mut().filter(|place| **place > at).for_each(|place| *place -= 1);
        true
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self { items: Vec::new(), index: HashMap::new() }
    }
}

impl<T> Clone for Named<T> {
    fn clone(&self) -> Self {
        Self { items: self.items.clone(), index: self.index.clone() }
    }
}

impl Registry {
    /// Returns a copy to change. The copy derives its description again.
    pub(crate) fn edition(&self) -> Self {
        Self { info: OnceLock::new(), ..self.clone() }
    }

    pub(crate) fn add_tool(&mut self, tool: Tool) -> Result<(), Vec<String>> {
        let tool = tool.finish()?;
        let name = tool.name().to_owned();
        self.tools.add(&name, tool).map_err(|problem| vec![format!("tool {problem}")])
    }

    pub(crate) fn remove_tool(&mut self, name: &str) -> bool {
        self.tools.remove(name)
    }

    pub(crate) fn add_prompt(&mut self, prompt: Prompt) -> Result<(), String> {
        let name = prompt.definition.name.clone();
        self.prompts.add(&name, prompt).map_err(|problem| format!("prompt {problem}"))
    }

    pub(crate) fn add_resource(&mut self, resource: Resource) -> Result<(), String> {
        let uri = resource.definition.uri.clone();
        self.resources.add(&uri, resource).map_err(|problem| format!("resource {problem}"))
    }

    pub(crate) fn add_template(&mut self, template: ResourceTemplate) {
        self.templates.push(Arc::new(template));
    }

    /// Returns one line for each item whose state is missing.
    pub(crate) fn missing_states(&self, is_given: impl Fn(&StateType) -> bool) -> Vec<String> {
        let tools = self.tools.items.iter().map(|it| (format!("tool `{}`", it.name()), &it.states));
        let prompts =
            self.prompts.items.iter().map(|it| (format!("prompt `{}`", it.definition.name), &it.states));
        let resources =
            self.resources.items.iter().map(|it| (format!("resource `{}`", it.definition.uri), &it.states));
        let templates = self
            .templates
            .iter()
            .map(|it| (format!("resource `{}`", it.definition.uri_template), &it.states));
        let all = tools.chain(prompts).chain(resources).chain(templates);
        let missing = all.flat_map(|(what, states)| {
            let missing = states.iter().filter(|state| !is_given(state)).map(|state| state.name);
            missing.map(|name| missing_state(&what, name)).collect::<Vec<_>>()
        });
        missing.collect()
    }

    pub(crate) fn info(&self, describe: impl FnOnce(&Self) -> ServerConfig) -> &ServerConfig {
        self.info.get_or_init(|| describe(self))
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.get(name)
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&Arc<Prompt>> {
        self.prompts.get(name)
    }

    pub(crate) fn resource(&self, uri: &str) -> Option<&Arc<Resource>> {
        let also = || self.resources.items.iter().find(|resource| resource.is_also_at(uri));
        self.resources.get(uri).or_else(also)
    }

    /// Returns the template that `uri` matches, and its variables.
    pub(crate) fn template(&self, uri: &str) -> Option<(&Arc<ResourceTemplate>, Map<String, Value>)> {
        self.templates.iter().find_map(|template| Some((template, template.pattern.matches(uri)?)))
    }

    pub(crate) fn tools(&self) -> &[Arc<Tool>] {
        &self.tools.items
    }

    pub(crate) fn prompts(&self) -> &[Arc<Prompt>] {
        &self.prompts.items
    }

    pub(crate) fn resources(&self) -> &[Arc<Resource>] {
        &self.resources.items
    }

    pub(crate) fn templates(&self) -> &[Arc<ResourceTemplate>] {
        &self.templates
    }
}
