use std::{
    collections::HashMap,
    fmt,
    ops::BitOrAssign,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
};

use rmcp::model::ServerConfig;

use serde_json::Value;

use crate::{
    base::lock,
    function::StateType,
    prompt::Prompt,
    resource::{Resource, ResourceTemplate},
    run::{Mount, Mounts},
    tool::Tool,
};

/// The tools, prompts and resources of a server, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    tools: Named<Tool>,
    prompts: Named<Prompt>,
    resources: Named<Resource>,
    templates: Vec<Arc<ResourceTemplate>>,
    /// The description of the server that clients receive. The registry computes this description from the other
    /// fields.
    info: OnceLock<ServerConfig>,
}

/// The [`Registry`] of a server. The registry can change while the server runs.
pub(crate) struct Catalog {
    registry: RwLock<Arc<Registry>>,
    /// A lock that allows only one update of the registry at a time. Requests do not wait for this lock.
    updating: Mutex<()>,
}

impl Catalog {
    pub(crate) fn new(registry: Registry) -> Arc<Self> {
        Arc::new(Self { registry: RwLock::new(Arc::new(registry)), updating: Mutex::default() })
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the registry. If `change` fails, the registry does not change.
    pub(crate) fn update<T, E>(&self, change: impl FnOnce(&mut Registry) -> Result<T, E>) -> Result<T, E> {
        let _updating = lock(&self.updating);
        let mut next = self.registry().edition();
        let done = change(&mut next)?;
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        Ok(done)
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

/// An item that clients find by its name or URI.
trait Item {
    /// Returns the name or the URI of the item.
    fn key(&self) -> &str;
    /// Returns the mounted servers that contain the item.
    fn mounts(&self) -> &Mounts;
}

impl Item for Tool {
    fn key(&self) -> &str {
        self.name()
    }

    fn mounts(&self) -> &Mounts {
        &self.call.mounts
    }
}

impl Item for Prompt {
    fn key(&self) -> &str {
        &self.definition.name
    }

    fn mounts(&self) -> &Mounts {
        &self.get.mounts
    }
}

impl Item for Resource {
    fn key(&self) -> &str {
        &self.definition.uri
    }

    fn mounts(&self) -> &Mounts {
        &self.read.mounts
    }
}

/// Items that have a name, in the order in which they were added.
#[derive(Debug)]
struct Named<T> {
    items: Vec<Arc<T>>,
    index: HashMap<String, usize>,
}

impl<T: Item> Named<T> {
    fn add(&mut self, item: T) -> Result<(), String> {
        let name = item.key();
        if let Some(first) = self.get(name) {
            return Err(match places(first.mounts(), item.mounts()) {
                Some(places) => format!("`{name}` is defined twice: {places}; use distinct names"),
                None => format!("`{name}` is defined twice; use distinct names"),
            });
        }
        self.index.insert(name.to_owned(), self.items.len());
        self.items.push(Arc::new(item));
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.index.get(name).map(|&at| &self.items[at])
    }

    /// Removes the items for which `keep` returns `false`. Returns `true` if at least one item was removed.
    fn retain(&mut self, keep: impl Fn(&T) -> bool) -> bool {
        let before = self.items.len();
        self.items.retain(|item| keep(item));
        let removed = self.items.len() < before;
        if removed {
            let places = self.items.iter().enumerate();
            self.index = places.map(|(place, item)| (item.key().to_owned(), place)).collect();
        }
        removed
    }

    fn remove(&mut self, name: &str) -> bool {
        self.retain(|item| item.key() != name)
    }
}

/// Returns a text that names the servers of two conflicting items, for an error message. Returns `None` if the outer
/// server itself contains both items.
fn places(first: &Mounts, second: &Mounts) -> Option<String> {
    let place = |path: Option<String>| match path {
        Some(path) => format!("in the mounted server `{path}`"),
        None => "in the server itself".to_owned(),
    };
    match (first.path(), second.path()) {
        (None, None) => None,
        (first, second) => Some(format!("{} and {}", place(first), place(second))),
    }
}

/// Returns an error if the URI of a resource matches a template of a different server. For this URI, the resource would
/// hide the template of the other server. Within one server, a resource can match a template.
fn hidden(resource: &Resource, template: &ResourceTemplate) -> Result<(), String> {
    let (uri, pattern) = (&resource.definition.uri, &template.definition.uri_template);
    let (mounts, other) = (&resource.read.mounts, &template.read.mounts);
    let is_apart = template.pattern.is_raw || template.pattern.arguments(uri).is_none();
    if mounts.path() == other.path() || is_apart {
        return Ok(());
    }
    let places = places(mounts, other).unwrap_or_default();
    Err(format!(
        "the resource `{uri}` matches the resource template `{pattern}`: {places}; use distinct URIs"
    ))
}

/// Converts shared items into owned items. Call this function only if no other part of the program holds a reference to
/// the items.
fn owned<T>(items: Vec<Arc<T>>) -> impl Iterator<Item = T> {
    items.into_iter().map(|item| Arc::into_inner(item).expect("the registry of a builder is not shared"))
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

/// A selection of the lists (tools, prompts, resources) whose changes the server announces to clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ItemLists {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    /// Whether the list of resources or the list of resource templates is selected. MCP has one notification for both
    /// lists.
    pub(crate) resources: bool,
}

impl BitOrAssign for ItemLists {
    fn bitor_assign(&mut self, other: Self) {
        self.tools |= other.tools;
        self.prompts |= other.prompts;
        self.resources |= other.resources;
    }
}

impl Registry {
    /// Returns a copy of the registry that the caller can change. The copy computes the description of the server
    /// again.
    pub(crate) fn edition(&self) -> Self {
        Self { info: OnceLock::new(), ..self.clone() }
    }

    pub(crate) fn add_tool(&mut self, tool: Tool) -> Result<(), Vec<String>> {
        let tool = tool.finish()?;
        self.tools.add(tool).map_err(|problem| vec![format!("tool {problem}")])
    }

    pub(crate) fn remove_tool(&mut self, name: &str) -> bool {
        self.tools.remove(name)
    }

    pub(crate) fn remove_prompt(&mut self, name: &str) -> bool {
        self.prompts.remove(name)
    }

    pub(crate) fn remove_resource(&mut self, uri: &str) -> bool {
        self.resources.remove(uri)
    }

    pub(crate) fn remove_template(&mut self, uri_template: &str) -> bool {
        let before = self.templates.len();
        self.templates.retain(|template| template.definition.uri_template != uri_template);
        self.templates.len() < before
    }

    /// Removes the items of a mounted server. Returns the lists from which items were removed.
    pub(crate) fn unmount(&mut self, prefix: &str) -> ItemLists {
        let stays = |mounts: &Mounts| mounts.prefix() != Some(prefix);
        let templates = self.templates.len();
        self.templates.retain(|template| stays(&template.read.mounts));
        let resources = self.resources.retain(|resource| stays(resource.mounts()));
        ItemLists {
            tools: self.tools.retain(|tool| stays(tool.mounts())),
            prompts: self.prompts.retain(|prompt| stays(prompt.mounts())),
            resources: resources || self.templates.len() < templates,
        }
    }

    /// Returns the lists that contain items.
    pub(crate) fn lists(&self) -> ItemLists {
        ItemLists {
            tools: !self.tools().is_empty(),
            prompts: !self.prompts().is_empty(),
            resources: !self.resources().is_empty() || !self.templates().is_empty(),
        }
    }

    pub(crate) fn add_prompt(&mut self, prompt: Prompt) -> Result<(), String> {
        self.prompts.add(prompt).map_err(|problem| format!("prompt {problem}"))
    }

    pub(crate) fn add_resource(&mut self, resource: Resource) -> Result<(), String> {
        for template in &self.templates {
            hidden(&resource, template)?;
        }
        self.resources.add(resource).map_err(|problem| format!("resource {problem}"))
    }

    pub(crate) fn add_template(&mut self, template: ResourceTemplate) -> Result<(), String> {
        for resource in self.resources() {
            hidden(resource, &template)?;
        }
        let mounts = &template.read.mounts;
        let is_same = |first: &&Arc<ResourceTemplate>| {
            first.read.mounts.path() != mounts.path() && first.pattern.is_same(&template.pattern)
        };
        if let Some(first) = self.templates.iter().find(is_same) {
            let places = places(&first.read.mounts, mounts).unwrap_or_default();
            let (uri, first) = (&template.definition.uri_template, &first.definition.uri_template);
            return Err(format!(
                "the resource templates `{first}` and `{uri}` match the same URIs: {places}; use distinct URIs"
            ));
        }
        self.templates.push(Arc::new(template));
        Ok(())
    }

    /// Adds the items of a mounted server. Returns descriptions of the problems that prevent the mount.
    pub(crate) fn mount(&mut self, other: Self, mount: &Arc<Mount>) -> Vec<String> {
        let prefix = &mount.prefix;
        let mut problems = Vec::new();
        if self.mounts().any(|mounts| mounts.prefix() == Some(prefix.as_str())) {
            problems.push(format!("two servers are mounted as `{prefix}`; use distinct prefixes"));
        }
        for mut tool in owned(other.tools.items) {
            tool.definition.name = format!("{prefix}_{}", tool.name()).into();
            tool.call.mounts = tool.call.mounts.within(mount);
            // These names must be equal to the names that `Mounts::group` returns. The names of other groups do not
            // contain a slash.
            tool.groups = tool.groups.iter().map(|group| format!("{prefix}/{group}")).collect();
            problems.extend(self.add_tool(tool).err().into_iter().flatten());
        }
        for mut prompt in owned(other.prompts.items) {
            prompt.definition.name = format!("{prefix}_{}", prompt.definition.name);
            prompt.get.mounts = prompt.get.mounts.within(mount);
            problems.extend(self.add_prompt(prompt).err());
        }
        for mut resource in owned(other.resources.items) {
            resource.read.mounts = resource.read.mounts.within(mount);
            problems.extend(self.add_resource(resource).err());
        }
        for mut template in owned(other.templates) {
            template.read.mounts = template.read.mounts.within(mount);
            problems.extend(self.add_template(template).err());
        }
        problems
    }

    /// Returns one [`Mounts`] for each item of the registry: the mounted servers that contain this item.
    fn mounts(&self) -> impl Iterator<Item = &Mounts> {
        let tools = self.tools.items.iter().map(|it| it.mounts());
        let prompts = self.prompts.items.iter().map(|it| it.mounts());
        let resources = self.resources.items.iter().map(|it| it.mounts());
        let templates = self.templates.iter().map(|it| &it.read.mounts);
        tools.chain(prompts).chain(resources).chain(templates)
    }

    /// Returns one problem for each item whose function takes a state that the server does not have.
    pub(crate) fn missing_states(&self, is_given: impl Fn(&StateType) -> bool) -> Vec<String> {
        let missing = |what: String, states: &[StateType], mounts: &Mounts| {
            let is_missing = |state: &&StateType| !mounts.has_state(state.id) && !is_given(state);
            let missing = states.iter().filter(is_missing).map(|state| missing_state(&what, state.name));
            missing.collect::<Vec<_>>()
        };
        let tools = self.tools.items.iter().flat_map(|tool| {
            missing(format!("tool `{}`", tool.name()), &tool.call.states, &tool.call.mounts)
        });
        let prompts = self.prompts.items.iter().flat_map(|prompt| {
            missing(format!("prompt `{}`", prompt.definition.name), &prompt.get.states, &prompt.get.mounts)
        });
        let resources = self.resources.items.iter().flat_map(|it| {
            missing(format!("resource `{}`", it.definition.uri), &it.read.states, &it.read.mounts)
        });
        let templates = self.templates.iter().flat_map(|it| {
            missing(format!("resource `{}`", it.definition.uri_template), &it.read.states, &it.read.mounts)
        });
        tools.chain(prompts).chain(resources).chain(templates).collect()
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

    /// Returns `true` if some requests cannot see the resource or the template with this URI.
    pub(crate) fn is_conditional_resource(&self, uri: &str) -> bool {
        self.resource(uri).is_some_and(|resource| resource.for_apps || !resource.visible_if.is_always())
            || self.template(uri, |template| !template.visible_if.is_always()).is_some()
    }

    /// Returns the first visible template that `uri` matches, and the arguments of its function. Raw templates can
    /// match URIs that belong to another server. So this method returns a raw template only if no other template
    /// matches.
    pub(crate) fn template(
        &self,
        uri: &str,
        is_visible: impl Fn(&ResourceTemplate) -> bool,
    ) -> Option<(&Arc<ResourceTemplate>, Value)> {
        let find = |is_raw: bool| {
            let mut templates = self.templates.iter().filter(|template| template.pattern.is_raw == is_raw);
            templates.find_map(|template| {
                let arguments = template.pattern.arguments(uri)?;
                is_visible(template).then_some((template, arguments))
            })
        };
        find(false).or_else(|| find(true))
    }

    /// Returns whether any tool has a group.
    pub(crate) fn has_groups(&self) -> bool {
        self.tools.items.iter().any(|tool| !tool.groups.is_empty())
    }

    /// Returns whether any tool is in the group `group`.
    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.tools.items.iter().any(|tool| tool.groups.contains(group))
    }

    /// Returns whether any tool can be hidden from some requests.
    pub(crate) fn has_conditional_tools(&self) -> bool {
        self.tools.items.iter().any(|tool| tool.is_conditional())
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
