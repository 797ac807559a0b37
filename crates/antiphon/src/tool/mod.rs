//! Tools: Rust functions that a server offers over MCP.

mod handoff;
mod policy;

use std::{
    any::TypeId,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use self::{
    handoff::handoff,
    policy::{RetryPolicy, TaskPolicy},
};
use crate::{
    ctx::ElicitKey,
    error::{Error, ErrorKind, Result},
    function::{Erased, erase},
    limits::Quota,
    model::{Icon, ToolAnnotations, ToolDescription},
    schema::{self, Validator},
    visibility::VisibleIf,
};
pub use crate::{
    function::{Bound, Function},
    output::{IntoToolOutput, Json, ToolOutput, ToolResult},
    visibility::RequestInfo,
};
pub use antiphon_llm::ToolCall;

/// The reserved tool name `__schema__`. A model calls the tool `__schema__` to reply with structured data. You cannot
/// give the name `__schema__` to your own tools.
pub const RESERVED_TOOL: &str = antiphon_llm::SCHEMA_TOOL;

/// The `_meta` key under which a tool lists the forms that it declares with [`Tool::elicits`].
pub const ELICITS_META: &str = "antiphon/elicits";

/// A tool that a server offers over MCP.
///
/// The function of a tool is async. The function takes the [`Ctx`](crate::Ctx) and the arguments, and returns a type
/// that implements [`IntoToolOutput`]. The type of the arguments defines the input schema. The doc comments on the
/// fields of the arguments type become descriptions in the input schema. The server checks the arguments before the
/// function runs. If the arguments are invalid, the error contains the name of the field.
///
/// ```
/// use antiphon::prelude::*;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Add {
///     /// The first number.
///     a: i64,
///     /// The second number.
///     b: i64,
/// }
///
/// async fn add(_: &Ctx, args: Add) -> Result<String> {
///     Ok((args.a + args.b).to_string())
/// }
///
/// let tool = Tool::new("add", "Adds two numbers", add).with_title("Addition");
/// # let _ = tool;
/// ```
pub struct Tool {
    pub(crate) definition: ToolDescription,
    pub(crate) call: Erased<ToolOutput>,
    pub(crate) arguments: Arguments,
    pub(crate) timeout: Option<Duration>,
    /// The quota of the tool. `None` means the server's quota.
    pub(crate) quota: Option<Quota>,
    pub(crate) elicits: Option<Arc<BTreeSet<String>>>,
    /// Whether the tool requires a backend.
    pub(crate) needs_backend: bool,
    /// Whether runs of the tool can become tasks.
    pub(crate) tasks: TaskPolicy,
    /// The retry policy of the tool's tasks. `None` means the server's policy.
    pub(crate) retry: Option<RetryPolicy>,
    /// Whether the input schema declares arguments that clients also send as HTTP headers (`x-mcp-header`).
    pub(crate) has_headers: bool,
    /// The OAuth scopes that a caller needs.
    pub(crate) scopes: Vec<String>,
    /// The clients that can see the tool.
    pub(crate) visibility: Visibility,
    /// The conditions under which a request can see the tool.
    visible_if: VisibleIf,
    /// Whether the tool is hidden from callers who do not have all scopes of the tool.
    hidden_without_scopes: bool,
    /// The groups of the tool. If the tool has groups, the tool is visible only if one of these groups is enabled.
    pub(crate) groups: BTreeSet<String>,
    /// The validator for an output schema that the author wrote. A schema that is generated from the return type needs
    /// no validator.
    output: Option<Validator>,
    forms: BTreeMap<String, Value>,
    /// The configuration problems of the tool. [`ServerBuilder::build`](crate::ServerBuilder::build) returns these
    /// problems.
    problems: Vec<String>,
}

/// The clients that can see a tool. The tool's `_meta` can hide the tool from further clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Visibility {
    #[default]
    Everyone,
    /// Clients that do not support tasks, and clients that show MCP Apps. A call can return to these clients while the
    /// run still waits for the user.
    WithoutTasks,
    /// Clients that show MCP Apps.
    WithApps,
}

/// The validation of a tool's arguments.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    validator: Option<Validator>,
    /// Whether the type of the arguments is `()`. A tool with the arguments type `()` takes no arguments.
    none: bool,
    /// The names of the arguments that a client can omit but must not set to null.
    optional: BTreeSet<String>,
}

impl Tool {
    /// Creates a tool that calls `function`.
    pub fn new<A, M, R, F>(name: impl Into<String>, description: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        R: IntoToolOutput + 'static,
        F: for<'a> Function<'a, A, M, Out = R> + 'static,
    {
        let none = TypeId::of::<A>() == TypeId::of::<()>();
        let call = erase(function, R::into_tool_output);
        let mut tool =
            Self::with_call(name.into(), description.into(), schema::of_arguments::<A>(), call, none);
        tool.definition.output_schema = R::output_schema().map(Arc::new);
        tool
    }

    /// Creates a tool with an input schema that you write yourself. Clients receive the input schema unchanged. The
    /// server validates the arguments against the input schema. Then the function receives the arguments as JSON.
    pub fn raw<M, R, F>(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: Value,
        function: F,
    ) -> Self
    where
        R: IntoToolOutput + 'static,
        F: for<'a> Function<'a, Map<String, Value>, M, Out = R> + 'static,
    {
        let (input_schema, problem) = match input_schema {
            Value::Object(schema) => (schema, None),
            _ => (Map::new(), Some("its input schema is not a JSON object".to_owned())),
        };
        let call = erase(function, R::into_tool_output);
        let mut tool = Self::with_call(name.into(), description.into(), input_schema, call, false);
        tool.problems.extend(problem);
        if cfg!(not(feature = "validate")) {
            tool.problems.push("`Tool::raw` needs the feature `validate` of antiphon".into());
        }
        tool
    }

    fn with_call(
        name: String,
        description: String,
        schema: Map<String, Value>,
        call: Erased<ToolOutput>,
        none: bool,
    ) -> Self {
        let (arguments, problem) = match Arguments::new(&schema, none) {
            Ok(arguments) => (arguments, None),
            Err(problem) => (Arguments::default(), Some(format!("its input schema is not valid: {problem}"))),
        };
        let headers = schema.get("properties").and_then(Value::as_object);
        Self {
            has_headers: headers
                .is_some_and(|fields| fields.values().any(|field| field.get("x-mcp-header").is_some())),
            definition: ToolDescription::new(name, description, schema),
            output: None,
            call,
            arguments,
            timeout: None,
            quota: None,
            elicits: None,
            needs_backend: false,
            tasks: TaskPolicy::default(),
            retry: None,
            scopes: Vec::new(),
            visibility: Visibility::default(),
            visible_if: VisibleIf::default(),
            hidden_without_scopes: false,
            groups: BTreeSet::new(),
            forms: BTreeMap::new(),
            problems: problem.into_iter().collect(),
        }
    }

    /// Sets the name of the tool that users see. Default: none.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.definition.title = Some(title.into());
        self
    }

    /// Sets the annotations of the tool. Annotations describe the effects of a call, for example that the tool only
    /// reads. Default: none.
    #[must_use]
    pub fn with_annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Sets the icons that clients can show for the tool. Default: none.
    #[must_use]
    pub fn with_icons(mut self, icons: impl IntoIterator<Item = Icon>) -> Self {
        self.definition.icons = Some(icons.into_iter().collect());
        self
    }

    /// Adds an entry to the tool's `_meta`.
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.definition.meta.get_or_insert_default().0.insert(key.into(), value.into());
        self
    }

    /// Sets an output schema that you write yourself. The server checks that the structured content of each result
    /// matches the output schema. Default: the schema of the function's return type, if this type has a schema.
    #[must_use]
    pub fn with_output_schema(mut self, schema: Value) -> Self {
        match schema {
            Value::Object(schema) => {
                match Validator::new(&schema) {
                    Ok(validator) => self.output = Some(validator),
                    Err(problem) => self.problems.push(format!("its output schema is not valid: {problem}")),
                }
                self.definition.output_schema = Some(Arc::new(schema));
            }
            _ => self.problems.push("its output schema is not a JSON object".into()),
        }
        self
    }

    /// Sets the maximum working time of the tool. Waits for users do not count as working time. Default: the server's
    /// [`Limits::with_tool_timeout`](crate::Limits::with_tool_timeout).
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the quota of the tool. All callers share the quota of a tool. Default: the server's
    /// [`Limits::with_tool`](crate::Limits::with_tool).
    #[must_use]
    pub fn with_quota(mut self, quota: Quota) -> Self {
        self.quota = Some(quota);
        self
    }

    /// Declares that the tool has [at-most-once](crate::ctx::Step::at_most_once) steps, which need a backend. If a tool
    /// needs a backend and the server has no backend, [`ServerBuilder::build`](crate::ServerBuilder::build) returns an
    /// error.
    #[must_use]
    pub fn needs_backend(mut self) -> Self {
        self.needs_backend = true;
        self
    }

    /// Sets whether runs of this tool can become tasks. The task policy of a tool has an effect only if the server has
    /// tasks ([`ServerBuilder::with_tasks`](crate::ServerBuilder::with_tasks)). Default: [`TaskPolicy::WhenLong`].
    #[must_use]
    pub fn with_tasks(mut self, tasks: TaskPolicy) -> Self {
        self.tasks = tasks;
        self
    }

    /// Sets how often, and with which delays, a task of this tool is retried after an error that is not
    /// [terminal](crate::Error::terminal). Default: the server's
    /// [`TaskConfig::with_retry`](crate::task::TaskConfig::with_retry).
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.problems.extend(retry.problem());
        self.retry = Some(retry);
        self
    }

    /// Sets the OAuth scopes that a call of the tool requires. A call of the tool also requires the scopes that every
    /// request requires. Default: none.
    ///
    /// If a caller does not have all of the tool's scopes, the server rejects the HTTP call with `403`. The client can
    /// then request the missing scopes from the authorization server. Over stdio, the server does not check scopes.
    /// Over HTTP, the server checks the scopes only if the server has an [`Auth`](crate::auth::Auth). If the server has
    /// no `Auth`, [`Server::router`](crate::Server::router) logs a warning.
    #[cfg(feature = "auth")]
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self.problems.extend(
            self.scopes.iter().filter_map(|scope| antiphon_transport::identity::scope_problem(scope)),
        );
        self
    }

    /// Hides the tool from callers who do not have all scopes of the tool ([`with_scopes`](Self::with_scopes)).
    /// Default: callers without the scopes see the tool. If a caller without the scopes calls the tool, the server
    /// rejects the call with an error that lists the missing scopes.
    ///
    /// If you hide the tool, the server behaves as if the tool did not exist for callers without the scopes. If such a
    /// caller calls the tool, the server returns the error for an unknown tool, which does not list the missing scopes.
    /// The server checks the scopes only if the request has an [`Identity`](crate::auth::Identity). So the tool is
    /// visible over stdio, and on a server without an [`Auth`](crate::auth::Auth).
    #[cfg(feature = "auth")]
    #[must_use]
    pub fn hidden_without_scopes(mut self) -> Self {
        self.hidden_without_scopes = true;
        self
    }

    /// Shows the tool only to requests for which `condition` returns `true`. If you call this method several times, all
    /// conditions must be true. Default: every request sees the tool.
    ///
    /// If `condition` returns `false`, `tools/list` does not contain the tool, and a call of the tool returns the error
    /// for an unknown tool. The condition also applies to a call as a task, to the next round of a run, and to requests
    /// about the tool's tasks. The server evaluates the condition for each request, so `condition` must be fast and
    /// must not block. If `condition` panics, the tool is hidden. [`Server::call_tool`](crate::Server::call_tool) does
    /// not evaluate the condition.
    ///
    /// On MCP 2026-07-28, the list of tools must not depend on the connection or on earlier requests. The list can
    /// depend on the caller. So `condition` must use only the [`RequestInfo`], and must not use state that your tools
    /// change.
    ///
    /// # Examples
    ///
    /// ```
    /// use antiphon::{Capability, prelude::*};
    ///
    /// async fn pick(_: &Ctx, _: ()) -> Result<String> {
    ///     Ok("picked".into())
    /// }
    ///
    /// let tool = Tool::new("pick", "Asks the user to pick a file", pick)
    ///     .visible_if(|request| request.supports(Capability::Elicitation));
    /// # let _ = tool;
    /// ```
    #[must_use]
    pub fn visible_if(
        mut self,
        condition: impl Fn(&RequestInfo<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.visible_if.add(condition);
        self
    }

    /// Adds the tool to a group. The tool is hidden until another tool enables the group with
    /// [`Ctx::enable_group`](crate::Ctx::enable_group). A tool with several groups is visible if one of these groups
    /// is enabled. Default: no group.
    ///
    /// A group shortens the list of tools for the model. A group is not a permission, because every caller can call the
    /// tool that enables the group. For permissions, use [`visible_if`](Self::visible_if) or scopes. If a group is
    /// disabled, runs and tasks of the tools in this group continue if they have already started.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        let group = group.into();
        if !is_tool_name(&group) {
            self.problems.push(format!(
                "the name of its group `{group}` must be 1 to 128 letters, digits, `_`, `-` or `.`"
            ));
        }
        self.groups.insert(group);
        self
    }

    /// Declares that the tool asks the user for a `T`. The question key is the default question key of `T`. A client
    /// can prepare a custom form for a declared question key. A tool that declares question keys cannot send forms with
    /// other question keys.
    #[must_use]
    pub fn elicits<T: DeserializeOwned + JsonSchema + 'static>(mut self) -> Self {
        match schema::form::<T>() {
            Ok(form) => {
                self.forms.insert(form.key.clone(), form.schema.clone());
            }
            Err(problem) => self.problems.push(problem),
        }
        self
    }

    /// Declares that the tool asks the user for a `T`, with the question key `key`. See [`elicits`](Self::elicits).
    ///
    /// Define the question key as a constant, and ask with [`Ctx::elicit_as`](crate::Ctx::elicit_as). If you misspell
    /// the name of the constant, your code does not compile. `key` can also be a string: `elicits_as::<T>("pickMove")`.
    #[must_use]
    pub fn elicits_as<T: DeserializeOwned + JsonSchema + 'static>(
        mut self,
        key: impl Into<ElicitKey<T>>,
    ) -> Self {
        match schema::form::<T>() {
            Ok(form) => {
                self.forms.insert(key.into().as_str().to_owned(), form.schema.clone());
            }
            Err(problem) => self.problems.push(problem),
        }
        self
    }

    /// Declares that the tool asks the user for data that matches `schema`, with the question key `key`. See
    /// [`elicits`](Self::elicits).
    #[must_use]
    pub fn elicits_value(mut self, key: impl Into<String>, schema: Value) -> Self {
        self.forms.insert(key.into(), schema);
        self
    }

    /// Sets which clients can see the tool. Default: all clients.
    pub(crate) fn visible_to(mut self, visibility: Visibility) -> Self {
        self.visibility = visibility;
        self
    }

    /// Returns whether the tool can be hidden from some requests.
    pub(crate) fn is_conditional(&self) -> bool {
        self.hidden_without_scopes || !self.visible_if.is_always() || !self.groups.is_empty()
    }

    /// Returns whether a request can see the tool. This method does not check the groups of the tool.
    pub(crate) fn is_visible_to(&self, request: &RequestInfo<'_>) -> bool {
        let has_scopes =
            || request.caller().is_none_or(|caller| self.scopes.iter().all(|scope| caller.has_scope(scope)));
        (!self.hidden_without_scopes || has_scopes()) && self.visible_if.holds(request)
    }

    /// Returns `true` if the tool has no group, or if at least one of the tool's groups is enabled.
    pub(crate) fn is_enabled(&self, groups: &BTreeSet<String>) -> bool {
        self.groups.is_empty() || !self.groups.is_disjoint(groups)
    }

    /// Returns the tool's name.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Returns the tool's description that clients receive from `tools/list`.
    pub fn definition(&self) -> &ToolDescription {
        &self.definition
    }

    /// Checks a result of the tool against the output schema.
    pub(crate) fn check_output(&self, output: &ToolOutput) -> Result<()> {
        let (Some(validator), false) = (&self.output, output.is_error) else { return Ok(()) };
        let problems = match &output.structured {
            Some(structured) => validator.problems(structured),
            None => vec!["the structured content is missing".to_owned()],
        };
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::misuse(format!(
            "the tool's result does not match its output schema: {}",
            problems.join("; ")
        )))
    }

    /// Checks the configuration of the tool, and returns the tool for the registry. If the configuration has problems,
    /// returns descriptions of the problems.
    pub(crate) fn finish(mut self) -> std::result::Result<Self, Vec<String>> {
        let name = self.definition.name.as_ref();
        if name == RESERVED_TOOL {
            self.problems.push(format!("`{RESERVED_TOOL}` is a reserved tool name; rename the tool"));
        } else if !is_tool_name(name) {
            self.problems.push("its name must be 1 to 128 letters, digits, `_`, `-` or `.`".into());
        }
        if self.definition.description.as_ref().is_none_or(|text| text.trim().is_empty()) {
            self.problems.push("its description is empty; a model chooses tools by their description".into());
        }
        if self.definition.input_schema.get("type").is_none_or(|kind| kind != "object") {
            self.problems.push(
                "its input schema does not have the type `object`; use a struct with named fields".into(),
            );
        }
        if self.hidden_without_scopes && self.scopes.is_empty() {
            self.problems.push("`hidden_without_scopes` needs the scopes of `with_scopes`".into());
        }
        if self.has_headers && self.is_conditional() {
            // The SDK compares headers with arguments before the server checks whether the request can see the tool. So
            // an error from the SDK would reveal that a hidden tool exists.
            self.problems.push(
                "a tool whose arguments are sent in headers (`x-mcp-header`) cannot be hidden; remove `visible_if`, `in_group` and `hidden_without_scopes`, or the headers".into(),
            );
        }
        if !self.problems.is_empty() {
            let name = self.definition.name.as_ref();
            return Err(self.problems.iter().map(|problem| format!("tool `{name}`: {problem}")).collect());
        }
        if !self.forms.is_empty() {
            self.elicits = Some(Arc::new(self.forms.keys().cloned().collect()));
            let forms = std::mem::take(&mut self.forms).into_iter().collect();
            self.definition.meta.get_or_insert_default().0.insert(ELICITS_META.into(), Value::Object(forms));
        }
        Ok(self)
    }
}

impl Arguments {
    /// Compiles the schema of the arguments. Returns a description of the problem if the schema is not valid.
    pub(crate) fn new(schema: &Map<String, Value>, none: bool) -> std::result::Result<Self, String> {
        Ok(Self { validator: Some(Validator::new(schema)?), none, optional: optional(schema) })
    }

    /// Removes arguments that are null although the schema does not allow null. Some clients send null for each
    /// argument that the model omitted.
    pub(crate) fn present(&self, mut arguments: Map<String, Value>) -> Map<String, Value> {
        if !self.optional.is_empty() {
            arguments.retain(|name, value| !value.is_null() || !self.optional.contains(name));
        }
        arguments
    }

    /// Checks the arguments against the schema and the maximum nesting depth.
    pub(crate) fn check(&self, arguments: &Value, max_depth: usize) -> Result<()> {
        let problems = if depth(arguments) > max_depth {
            vec![format!("the arguments are nested deeper than {max_depth} levels")]
        } else {
            self.validator.as_ref().map(|validator| validator.problems(arguments)).unwrap_or_default()
        };
        if problems.is_empty() { Ok(()) } else { Err(Error::new(ErrorKind::InvalidArguments(problems))) }
    }

    /// Returns the arguments for the tool's function: null for the arguments type `()`, and otherwise `arguments`.
    pub(crate) fn taken<'a>(&self, arguments: &'a Value) -> &'a Value {
        if self.none { &Value::Null } else { arguments }
    }
}

/// Returns the names of the properties that are not required and do not allow null.
fn optional(schema: &Map<String, Value>) -> BTreeSet<String> {
    let required = |name: &str| {
        let required = schema.get("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|it| it == name))
    };
    let rejects_null = |property: &Value| {
        let Value::Object(property) = property else { return false };
        // If the property's type does not include null, the property rejects null. This shortcut avoids compiling the
        // schema of the property, which takes a long time if the schema has many definitions.
        match property.get("type") {
            Some(Value::String(kind)) if kind != "null" => return true,
            Some(Value::Array(kinds)) if !kinds.iter().any(|kind| kind == "null") => return true,
            _ => {}
        }
        // The schema of a property can refer to definitions of the complete schema, so this code copies the
        // definitions.
        let mut property = property.clone();
        for definitions in ["$defs", "definitions"] {
            if let Some(found) = schema.get(definitions) {
                property.insert(definitions.into(), found.clone());
            }
        }
        Validator::new(&property).is_ok_and(|validator| !validator.problems(&Value::Null).is_empty())
    };
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let optional = properties.filter(|(name, property)| !required(name) && rejects_null(property));
    optional.map(|(name, _)| name.clone()).collect()
}

/// Returns the nesting depth of a value. The recursion of this function is bounded, because the parser rejects values
/// that are nested deeper than 128 levels.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns whether MCP allows `name` as the name of a tool.
pub(crate) fn is_tool_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("definition", &self.definition).finish_non_exhaustive()
    }
}
