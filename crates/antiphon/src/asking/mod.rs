//! Questions that a client does not show, and calls that a client does not wait for.
//!
//! The run of such a call becomes a task, and the call returns a waiting result (`waiting`). The user answers in a
//! form: an MCP App that calls `ask_open` and `ask_answer` (`form`), or a web page (`page`). If the question allows it,
//! the model asks the user in the chat, and relays the answer (`relay`). The model reads the result with `task_result`
//! (`tools`).

mod form;
#[cfg(feature = "http")]
pub(crate) mod page;
mod policy;
mod relay;
mod ticket;
mod tools;
mod waiting;
mod widen;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use antiphon_transport::identity::Refusal;
use serde_json::{Map, Value, json};

pub use self::policy::AskPolicy;
use self::{form::Page, page::Site};
use crate::{
    ctx::Ctx,
    error::{Capability, Error, Result},
    protocol::APP_MEDIA_TYPE,
    registry::{Catalog, Registry},
    resource::Resource,
    run::{
        Channel, Channels, Client,
        channels::{is_form, is_link},
    },
    seal::SealConfig,
    task::{Delivered, Owner, TaskStatus, TaskView, Tasks},
    tool::{RequestInfo, TaskPolicy, Tool, Visibility},
};

/// Without the feature `http`, the server has no web page.
#[cfg(not(feature = "http"))]
mod page {
    use super::{Asking, Client, SealConfig, TaskView};

    /// There are no settings of a page.
    #[derive(Clone, Debug)]
    pub(crate) enum AskPage {}

    /// There is no page.
    pub(crate) enum Site {}

    impl AskPage {
        pub(super) fn problems(&self, _: bool) -> Vec<String> {
            match *self {}
        }
    }

    impl Site {
        pub(super) fn new(page: &AskPage, _: &SealConfig, _: &str) -> Option<Self> {
            match *page {}
        }

        pub(super) fn reaches(&self, _: &Client) -> bool {
            match *self {}
        }
    }

    impl Asking {
        #[expect(clippy::unused_self, reason = "the same signature with and without the feature")]
        pub(super) fn page_step(&self, _: &TaskView, _: bool) -> Option<String> {
            None
        }
    }
}

/// How the server reaches users whose client does not show questions.
pub(crate) struct Asking {
    pub(crate) policy: AskPolicy,
    /// The name of the server, as users see it.
    server: String,
    /// The form, if questions are asked in an MCP App.
    page: Option<Page>,
    /// The authorization rules, if callers must authenticate.
    permit: Option<Permit>,
    /// The web page on which users answer, if the server has one.
    pub(crate) site: Option<Arc<Site>>,
    tasks: TasksHandle,
}

/// Checks whether the sender of an HTTP request is allowed to call a tool. Over stdio, it receives `None`.
pub(crate) type Permit =
    Box<dyn Fn(&Registry, Option<&http::request::Parts>, Option<&Tool>) -> Result<(), Refusal> + Send + Sync>;

/// The tasks and tools of the server. The server creates them after the tools of this module, which use them.
#[derive(Default)]
struct TasksHandle(OnceLock<(Weak<Tasks>, Arc<Catalog>)>);

impl Asking {
    /// Creates the channels of the server with this title.
    pub(crate) fn new(
        policy: AskPolicy,
        server: String,
        seal: &SealConfig,
        audience: &str,
        permit: Option<Permit>,
    ) -> Self {
        let page = policy.app.then(|| Page::new(&seal.view_key(audience)));
        let site = policy.page.as_ref().and_then(|page| Site::new(page, seal, audience)).map(Arc::new);
        Self { policy, server, page, permit, site, tasks: TasksHandle::default() }
    }

    /// Sets the tasks and tools of the server.
    pub(crate) fn begin(&self, tasks: &Arc<Tasks>, catalog: &Arc<Catalog>) {
        // Weak, because the tasks own the runtime, which owns this value.
        let _ = self.tasks.0.set((Arc::downgrade(tasks), Arc::clone(catalog)));
    }

    /// Returns the tools that models and forms call.
    pub(crate) fn tools(&self) -> Vec<Tool> {
        // With a web page, a client that follows tasks can also receive a waiting result.
        let visibility = if self.has_page() { Visibility::Everyone } else { Visibility::WithoutTasks };
        let mut tools = tools::tools(visibility);
        if self.policy.relay {
            tools.push(relay::tool(visibility));
        }
        if let Some(page) = &self.page {
            tools.push(tools::question(page.uri()));
            tools.extend(form::tools());
        }
        tools
    }

    /// Returns the form as a resource, if the server has one.
    pub(crate) fn resource(&self) -> Option<Resource> {
        self.page.as_ref().map(form::resource)
    }

    /// Returns the capability for MCP Apps, if the server has the form.
    pub(crate) fn capability(&self) -> Option<Map<String, Value>> {
        self.page.as_ref()?;
        Some(Map::from_iter([("mimeTypes".to_owned(), json!([APP_MEDIA_TYPE]))]))
    }

    /// Returns the channels through which the user of this client can be reached for a question of `tool`.
    pub(crate) fn channels(&self, tool: &Tool, client: &Client) -> Channels {
        if tool.tasks == TaskPolicy::Never {
            return Channels::default();
        }
        let app = self.page.is_some() && client.shows_apps();
        // Some clients declare forms and do not show them. If there is an app, it is the more reliable channel. A
        // client that follows tasks receives the questions with the task.
        let asks = client.supports(Capability::Elicitation) && !client.knows_tasks();
        Channels { app, page: self.has_page_for(client), client: asks && !app }
    }

    /// Returns whether the model of this client can relay answers: whether it sees the tools for it.
    pub(crate) fn relays(&self, client: &Client) -> bool {
        self.policy.relay && (self.has_page() || !client.knows_tasks() || client.shows_apps())
    }

    /// Returns whether a form that the client of this call does not show can be answered elsewhere. Only `task_result`
    /// asks the client for another run.
    pub(crate) fn checks_client(&self, tool: &Tool, client: &Client) -> bool {
        tool.name() == tools::TASK_RESULT && self.has_page_for(client)
    }

    /// Waits a few seconds until a new task asks a question or ends. The model of a client without tasks then reads the
    /// question or the result in the first response, and does not have to call `task_result`. If the task cannot be
    /// read, this method returns `view`: the response must contain the ID of the task.
    pub(crate) async fn first_step(&self, tasks: &Arc<Tasks>, owner: &Owner, view: TaskView) -> TaskView {
        let limit = FIRST_STEP.min(self.policy.hand_over_after);
        match settled(tasks, owner, view.clone(), &BTreeSet::new(), limit).await {
            Ok(settled) => settled.unwrap_or(view),
            Err(error) => {
                tracing::warn!(%error, "the first step of a task could not be read");
                view
            }
        }
    }

    /// Returns whether the server has a web page for answers.
    pub(crate) fn has_page(&self) -> bool {
        self.site.is_some()
    }

    /// Returns whether the user of this client can answer on the web page. `ServerBuilder::build` has checked that the
    /// page can identify the authenticated callers.
    fn has_page_for(&self, client: &Client) -> bool {
        self.site.as_ref().is_some_and(|site| site.reaches(client))
    }
}

/// The caller of a tool of this module, and the caller's tasks.
struct Caller<'a> {
    ctx: &'a Ctx,
    asking: &'a Asking,
    tasks: Arc<Tasks>,
    catalog: &'a Catalog,
    owner: Owner,
}

impl<'a> Caller<'a> {
    fn of(ctx: &'a Ctx) -> Result<Self> {
        let asking: &Asking = ctx.state::<Arc<Asking>>()?;
        let parts = asking.tasks.0.get();
        let Some((Some(tasks), catalog)) = parts.map(|(tasks, catalog)| (tasks.upgrade(), catalog)) else {
            return Err(Error::tool("the server has no tasks now; call the tool again later"));
        };
        Ok(Self { ctx, asking, tasks, catalog, owner: Tasks::owner(ctx.principal()) })
    }

    /// Returns a task of the caller.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller has no such task, cannot see its tool, or is not allowed to call its tool.
    async fn task(&self, id: &str) -> Result<TaskView> {
        let Some(view) = self.tasks.get(&self.owner, id).await? else { return Err(no_task()) };
        self.permit(&view.tool)?;
        Ok(view)
    }

    /// Checks whether the caller is allowed to call the tool of a task.
    fn permit(&self, tool: &str) -> Result<()> {
        let registry = self.catalog.registry();
        let tool = registry.tool(tool).map(|tool| &**tool);
        if let (Some(tool), Some(context)) = (tool, self.ctx.run.client.context())
            && !tool.is_visible_to(&RequestInfo::new(context, self.ctx.principal().map(ToOwned::to_owned)))
        {
            return Err(no_task());
        }
        let Some(permit) = &self.asking.permit else { return Ok(()) };
        let permitted = permit(&registry, self.ctx.run.client.extensions().get(), tool);
        permitted.map_err(|refusal| Error::tool(refusal.to_string()).terminal())
    }

    /// Stores answers of the user.
    async fn deliver(
        &self,
        id: &str,
        answers: BTreeMap<String, Value>,
        channel: Channel,
    ) -> Result<Option<Delivered>> {
        deliver(&self.tasks, &self.owner, id, answers, channel).await
    }

    /// Waits until the task has ended or has a question that is not in `known`, for at most `limit`. Returns the task,
    /// or `None` if it no longer exists.
    async fn settled(
        &self,
        view: TaskView,
        known: &BTreeSet<String>,
        limit: Duration,
    ) -> Result<Option<TaskView>> {
        settled(&self.tasks, &self.owner, view, known, limit).await
    }
}

/// Stores answers of the user. Returns `None` if the task does not exist.
pub(crate) async fn deliver(
    tasks: &Arc<Tasks>,
    owner: &Owner,
    id: &str,
    answers: BTreeMap<String, Value>,
    channel: Channel,
) -> Result<Option<Delivered>> {
    let (tasks, owner, id) = (Arc::clone(tasks), owner.clone(), id.to_owned());
    // Spawned, so that the user's answer is stored even if the request is dropped now.
    let stored = tokio::spawn(async move { tasks.deliver(&owner, &id, &answers, channel).await });
    stored.await.unwrap_or_else(|_| Err(Error::tool("the answer could not be stored; send it again")))
}

/// Waits until a task has ended or has a question that is not in `known`, for at most `limit`. Returns the task, or
/// `None` if it no longer exists.
pub(crate) async fn settled(
    tasks: &Arc<Tasks>,
    owner: &Owner,
    mut view: TaskView,
    known: &BTreeSet<String>,
    limit: Duration,
) -> Result<Option<TaskView>> {
    let end = tokio::time::Instant::now() + limit;
    loop {
        let is_new = |key: &String| !known.contains(key);
        let asks = view.status == TaskStatus::InputRequired && view.asks.keys().any(is_new);
        if asks || view.status.is_final() {
            return Ok(Some(view));
        }
        let changed = tasks.changed(owner, &view.id, view.version);
        let changed = tokio::time::timeout_at(end, changed).await;
        match changed {
            Ok(Ok(Some(changed))) => view = changed,
            Ok(Ok(None)) => return Ok(None),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Ok(Some(view)),
        }
    }
}

/// Returns the error for a task that does not exist or that belongs to another caller. The caller cannot distinguish
/// the two.
fn no_task() -> Error {
    Error::tool(NO_TASK).terminal()
}

/// The maximum time that the first response of a task waits for its first question or its result.
const FIRST_STEP: Duration = Duration::from_secs(5);

const NO_TASK: &str = "there is no such task: its ID is wrong, or it has expired; use the ID of the answer that named the task, like `t_…`";

/// Returns the ID of a task as users and models read it.
fn shown_id(id: &str) -> String {
    format!("t_{id}")
}

/// Returns the ID of a task from an ID with or without its prefix.
fn stored_id(shown: &str) -> &str {
    let id = shown.trim();
    id.strip_prefix("t_").unwrap_or(id)
}

/// Returns the open questions of a task that the form and the web page can show, by wire key: forms, and links that the
/// user is asked to open.
fn forms(view: &TaskView) -> impl Iterator<Item = (&String, &Value)> {
    let asks = view.status == TaskStatus::InputRequired;
    view.asks.iter().filter(move |(_, request)| asks && (is_form(request) || is_link(request)))
}
