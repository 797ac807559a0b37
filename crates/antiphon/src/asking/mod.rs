//! Support for two kinds of clients: clients that do not show questions, and clients that do not wait for long calls.
//!
//! If a client does not show questions or does not wait, the run becomes a task. The call then returns a waiting result
//! (module `waiting`). The user answers in a form, which is an MCP App that calls `ask_open` and `ask_answer` (module
//! `form`), or on the answer page (module `page`). If a question allows relayed answers, the model can also ask the
//! user in the chat and relay the answer (module `relay`). The model reads the result of the run with the tool
//! `task_result` (module `tools`).

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

/// Replacements for the types of the answer page, for builds without the feature `http`.
#[cfg(not(feature = "http"))]
mod page {
    use super::{Asking, Client, SealConfig, TaskView};

    /// The settings of the answer page. Without the feature `http`, this type has no values.
    #[derive(Clone, Debug)]
    pub(crate) enum AskPage {}

    /// The answer page. Without the feature `http`, this type has no values.
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

/// The channels through which the server reaches users whose client does not show questions.
pub(crate) struct Asking {
    pub(crate) policy: AskPolicy,
    /// The name of the server, which web pages and texts show to users.
    server: String,
    /// The form, if the server shows questions in an MCP App.
    page: Option<Page>,
    /// The authorization rules, if the server authenticates callers.
    permit: Option<Permit>,
    pub(crate) site: Option<Arc<Site>>,
    tasks: TasksHandle,
}

/// A function that checks whether the sender of an HTTP request is allowed to call a tool. Over stdio, the function
/// receives `None` instead of an HTTP request.
pub(crate) type Permit =
    Box<dyn Fn(&Registry, Option<&http::request::Parts>, Option<&Tool>) -> Result<(), Refusal> + Send + Sync>;

/// The tasks and the tools of the server, for use by the tools of this module. This value is empty at first, because
/// the server creates its tasks after the tools of this module.
#[derive(Default)]
struct TasksHandle(OnceLock<(Weak<Tasks>, Arc<Catalog>)>);

impl Asking {
    /// Creates the channels to users. `server` is the name of the server that users see.
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

    /// Stores the tasks and the tools of the server for the tools of this module.
    pub(crate) fn begin(&self, tasks: &Arc<Tasks>, catalog: &Arc<Catalog>) {
        // The reference to the tasks is weak, because the tasks own the runtime, and the runtime owns this value.
        let _ = self.tasks.0.set((Arc::downgrade(tasks), Arc::clone(catalog)));
    }

    /// Returns the tools that models and forms call.
    pub(crate) fn tools(&self) -> Vec<Tool> {
        // If the server has an answer page, clients with MCP tasks can also receive a waiting result.
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

    /// Returns the MCP resource that contains the form. Returns `None` if the server does not show questions in an MCP
    /// App.
    pub(crate) fn resource(&self) -> Option<Resource> {
        self.page.as_ref().map(form::resource)
    }

    /// Returns the MCP Apps capability. Returns `None` if the server does not show questions in an MCP App.
    pub(crate) fn capability(&self) -> Option<Map<String, Value>> {
        self.page.as_ref()?;
        Some(Map::from_iter([("mimeTypes".to_owned(), json!([APP_MEDIA_TYPE]))]))
    }

    /// Returns the channels through which the user of this client can answer the questions of `tool`.
    pub(crate) fn channels(&self, tool: &Tool, client: &Client) -> Channels {
        if tool.tasks == TaskPolicy::Never {
            return Channels::default();
        }
        let app = self.page.is_some() && client.shows_apps();
        // Some clients declare that they show forms, but do not show forms. If such a client shows MCP Apps, the form
        // in the MCP App is more reliable. A client with MCP tasks receives the questions together with the task.
        let asks = client.supports(Capability::Elicitation) && !client.knows_tasks();
        Channels { app, page: self.has_page_for(client), client: asks && !app }
    }

    /// Returns `true` if the model of this client can relay answers. To relay answers, the model must see the tool
    /// `task_answer`.
    pub(crate) fn relays(&self, client: &Client) -> bool {
        self.policy.relay && (self.has_page() || !client.knows_tasks() || client.shows_apps())
    }

    /// Returns `true` if the user has another channel in case the client of this call does not show a form. Only calls
    /// of `task_result` can use another channel, because `task_result` sends the questions of another run to the
    /// client.
    pub(crate) fn checks_client(&self, tool: &Tool, client: &Client) -> bool {
        tool.name() == tools::TASK_RESULT && self.has_page_for(client)
    }

    /// Waits a few seconds until a new task asks a question or ends. Because of this wait, the first response often
    /// contains the question or the result, and the model does not have to call `task_result`. If the server cannot
    /// read the task, this method returns `view`, because the response must contain the ID of the task.
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

    /// Returns whether the server has an answer page.
    pub(crate) fn has_page(&self) -> bool {
        self.site.is_some()
    }

    /// Returns `true` if the user of this client can answer on the answer page. `ServerBuilder::build` has already
    /// checked that the answer page can identify authenticated users.
    fn has_page_for(&self, client: &Client) -> bool {
        self.site.as_ref().is_some_and(|site| site.reaches(client))
    }
}

/// The caller of a tool in this module, and the tasks that the caller owns.
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
            return Err(Error::tool("the server is shutting down; call the tool again later"));
        };
        Ok(Self { ctx, asking, tasks, catalog, owner: Tasks::owner(ctx.principal()) })
    }

    /// Reads a task that the caller owns.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller has no task with this ID, or cannot see the tool of the task. Returns an error if
    /// the caller is not allowed to call the tool of the task.
    async fn task(&self, id: &str) -> Result<TaskView> {
        let Some(view) = self.tasks.get(&self.owner, id).await? else { return Err(no_task()) };
        self.permit(&view.tool)?;
        Ok(view)
    }

    /// Checks whether the caller can see the tool of a task and is allowed to call this tool.
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

    /// Stores answers that the user gave to the questions of a task.
    async fn deliver(
        &self,
        id: &str,
        answers: BTreeMap<String, Value>,
        channel: Channel,
    ) -> Result<Option<Delivered>> {
        deliver(&self.tasks, &self.owner, id, answers, channel).await
    }

    /// Waits for at most `limit` until the task has ended, or until the task has a question that is not in `known`.
    /// Returns the task, or `None` if the task no longer exists.
    async fn settled(
        &self,
        view: TaskView,
        known: &BTreeSet<String>,
        limit: Duration,
    ) -> Result<Option<TaskView>> {
        settled(&self.tasks, &self.owner, view, known, limit).await
    }
}

/// Stores answers that the user gave to the questions of a task. Returns `None` if the task does not exist.
pub(crate) async fn deliver(
    tasks: &Arc<Tasks>,
    owner: &Owner,
    id: &str,
    answers: BTreeMap<String, Value>,
    channel: Channel,
) -> Result<Option<Delivered>> {
    let (tasks, owner, id) = (Arc::clone(tasks), owner.clone(), id.to_owned());
    // A separate Tokio task stores the answers. So the answers are stored even if the server drops the request now.
    let stored = tokio::spawn(async move { tasks.deliver(&owner, &id, &answers, channel).await });
    stored.await.unwrap_or_else(|_| Err(Error::tool("the answer could not be stored; send it again")))
}

/// Waits for at most `limit` until a task has ended, or until the task has a question that is not in `known`. Returns
/// the task, or `None` if the task no longer exists.
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

/// Returns the error for an unknown task. A task of another caller causes the same error, so a caller cannot find out
/// whether other callers have tasks.
fn no_task() -> Error {
    Error::tool(NO_TASK).terminal()
}

/// The maximum time for which the server delays the first response, to wait for the first question or the result of the
/// task.
const FIRST_STEP: Duration = Duration::from_secs(5);

const NO_TASK: &str = "there is no such task: its ID is wrong, or it has expired; use the ID of the answer that named the task, like `t_…`";

/// Returns the ID of a task with the prefix that users and models see.
fn shown_id(id: &str) -> String {
    format!("t_{id}")
}

/// Returns the ID of a task without the prefix that users and models see. The given ID can already be without this
/// prefix.
fn stored_id(shown: &str) -> &str {
    let id = shown.trim();
    id.strip_prefix("t_").unwrap_or(id)
}

/// Returns the open questions of a task that the form and the answer page can show, with their wire keys. Each question
/// is a form, or a link that the user must open.
fn forms(view: &TaskView) -> impl Iterator<Item = (&String, &Value)> {
    let asks = view.status == TaskStatus::InputRequired;
    view.asks.iter().filter(move |(_, request)| asks && (is_form(request) || is_link(request)))
}
