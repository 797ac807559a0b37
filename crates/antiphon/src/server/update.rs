//! Changes to the tools, prompts and resources of a running server.

use std::fmt;

use super::{
    Server, ServerBuilder,
    builder::{Mounted, needs_backend},
};
use crate::{
    error::{BuildError, Result},
    prompt::Prompt,
    registry::{ItemLists, Registry},
    resource::{Resource, ResourceTemplate},
    tool::Tool,
};

impl Server {
    /// Changes the tools, prompts and resources of the running server. All changes take effect at the same time. If a
    /// change is invalid, the server keeps all items unchanged. After the update, the server notifies clients which
    /// lists have changed.
    ///
    /// The update changes only the server in this process. If you run several replicas, update each replica. If the
    /// server has a [backend](ServerBuilder::with_backend), the clients of all replicas are notified of each update.
    ///
    /// A running call uses the old function until the call ends or is suspended. If a client resumes a call whose tool
    /// was removed, the server returns an error. A task whose tool was removed waits until a replica has the tool
    /// again, for at most the duration of [`TaskConfig::with_tool_wait`](crate::task::TaskConfig::with_tool_wait).
    ///
    /// A server declares the prompts capability or the resources capability only if the server has a prompt or a
    /// resource. If you add the first prompt or the first resource to a running server, connected clients can ignore
    /// the new item until they connect again.
    ///
    /// Do not call `update` inside `change`, because the inner call would wait forever.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] with all problems, for example a name that is already used, or a missing state. If
    /// `update` returns an error, the server does not change.
    ///
    /// # Examples
    ///
    /// ```
    /// # use antiphon::prelude::*;
    /// # async fn search(_: &Ctx, _: ()) -> Result<String> { Ok(String::new()) }
    /// # let server = Server::builder("notes", "1.0.0").tool(Tool::new("search", "Searches", search)).build()?;
    /// server.update(|items| {
    ///     items.remove_tool("search");
    ///     items.add_tool(Tool::new("find", "Finds notes", search));
    /// })?;
    /// # Ok::<(), antiphon::BuildError>(())
    /// ```
    pub fn update<T>(&self, change: impl FnOnce(&mut Items<'_>) -> T) -> Result<T, BuildError> {
        let service = &self.shared.service;
        let (done, lists) = service.catalog.update(|registry| {
            let mut items = Items { registry, problems: Vec::new(), lists: ItemLists::default() };
            let done = change(&mut items);
            let Items { registry, mut problems, lists } = items;
            problems.extend(self.problems(registry));
            if problems.is_empty() { Ok((done, lists)) } else { Err(BuildError { problems }) }
        })?;
        let changes = &service.runtime.changes;
        if lists.tools {
            changes.tools();
        }
        if lists.prompts {
            changes.prompts();
        }
        if lists.resources {
            changes.resources();
        }
        Ok(done)
    }

    /// Returns the problems of the items in `registry`. An item has a problem if it needs a state, a backend or the
    /// viewer, and the server does not have it.
    fn problems(&self, registry: &Registry) -> Vec<String> {
        let runtime = &self.shared.service.runtime;
        let mut problems = registry.missing_states(|state| runtime.states.contains_key(&state.id));
        if runtime.backend.is_none() {
            problems.extend(needs_backend(registry, false));
        }
        #[cfg(feature = "results")]
        if crate::results::capability(runtime).is_none() {
            problems.extend(super::builder::results::needs_viewer(registry));
        }
        problems
    }

    /// Adds a tool while the server runs, and notifies clients that the list of tools has changed. To make several
    /// changes, or to change prompts and resources, use [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] if the tool is invalid, if another tool has the same name, or if the server lacks a
    /// state that the tool takes.
    pub fn add_tool(&self, tool: Tool) -> Result<(), BuildError> {
        self.update(|items| items.add_tool(tool))
    }

    /// Removes a tool while the server runs, and notifies clients that the list of tools has changed. Returns whether
    /// the tool existed.
    pub fn remove_tool(&self, name: &str) -> bool {
        // This update cannot fail, because the remaining items do not depend on the removed tool.
        self.update(|items| items.remove_tool(name)).unwrap_or(false)
    }
}

/// The tools, prompts and resources of a running server, which [`Server::update`] can change.
pub struct Items<'a> {
    registry: &'a mut Registry,
    problems: Vec<String>,
    /// The lists that have changed.
    lists: ItemLists,
}

impl Items<'_> {
    /// Adds a tool.
    pub fn add_tool(&mut self, tool: Tool) {
        self.lists.tools = true;
        self.problems.extend(self.registry.add_tool(tool).err().into_iter().flatten());
    }

    /// Adds a prompt.
    pub fn add_prompt(&mut self, prompt: Prompt) {
        self.lists.prompts = true;
        self.problems.extend(self.registry.add_prompt(prompt).err());
    }

    /// Adds a resource.
    pub fn add_resource(&mut self, resource: Resource) {
        self.lists.resources = true;
        self.problems.extend(self.registry.add_resource(resource).err());
    }

    /// Adds a resource template.
    pub fn add_resource_template(&mut self, template: ResourceTemplate) {
        self.lists.resources = true;
        self.problems.extend(self.registry.add_template(template).err());
    }

    /// Mounts another server, as [`ServerBuilder::mount`] does. A server that is mounted in a running server cannot
    /// have [instructions](ServerBuilder::with_instructions), because clients read instructions only when they
    /// connect.
    pub fn mount(&mut self, prefix: impl Into<String>, server: ServerBuilder) {
        let prefix = prefix.into();
        let Some(Mounted { registry, mount, instructions }) = server.into_mounted(prefix, &mut self.problems)
        else {
            return;
        };
        if let Some((prefix, _)) = instructions.first() {
            self.problems.push(format!(
                "mounted server `{prefix}`: a running server cannot add instructions; remove `ServerBuilder::with_instructions`"
            ));
        }
        self.lists |= registry.lists();
        self.problems.extend(self.registry.mount(registry, &mount));
    }

    /// Removes the tool with this name. Returns whether the tool existed.
    pub fn remove_tool(&mut self, name: &str) -> bool {
        let removed = self.registry.remove_tool(name);
        self.lists.tools |= removed;
        removed
    }

    /// Removes the prompt with this name. Returns whether the prompt existed.
    pub fn remove_prompt(&mut self, name: &str) -> bool {
        let removed = self.registry.remove_prompt(name);
        self.lists.prompts |= removed;
        removed
    }

    /// Removes the resource with this URI. Returns whether the resource existed.
    pub fn remove_resource(&mut self, uri: &str) -> bool {
        let removed = self.registry.remove_resource(uri);
        self.lists.resources |= removed;
        removed
    }

    /// Removes the resource template with this URI template. Returns whether the template existed.
    pub fn remove_resource_template(&mut self, uri_template: &str) -> bool {
        let removed = self.registry.remove_template(uri_template);
        self.lists.resources |= removed;
        removed
    }

    /// Removes all items of the server that is mounted under `prefix`. Returns whether the mounted server had any
    /// items.
    pub fn unmount(&mut self, prefix: &str) -> bool {
        let lists = self.registry.unmount(prefix);
        self.lists |= lists;
        lists != ItemLists::default()
    }

    /// Returns the names of the tools, in the order in which they were added.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.registry.tools().iter().map(|tool| tool.name())
    }

    /// Returns the names of the prompts, in the order in which they were added.
    pub fn prompts(&self) -> impl Iterator<Item = &str> {
        self.registry.prompts().iter().map(|prompt| prompt.definition.name.as_str())
    }

    /// Returns the URIs of the resources, in the order in which they were added.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.registry.resources().iter().map(|resource| resource.definition.uri.as_str())
    }

    /// Returns the URI templates of the resource templates, in the order in which they were added.
    pub fn resource_templates(&self) -> impl Iterator<Item = &str> {
        self.registry.templates().iter().map(|template| template.definition.uri_template.as_str())
    }
}

impl fmt::Debug for Items<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").field("registry", &self.registry).finish_non_exhaustive()
    }
}
