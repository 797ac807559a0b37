//! Result sets: tools that return more rows than a model can read, and tools that query these rows.
//!
//! A tool creates a result set with [`Ctx::dual_response`]. The types in this module are from the crate
//! `antiphon-results`.

mod app;
mod calls;
mod describe;
mod query;
#[cfg(feature = "testing")]
#[cfg(test)]
mod tests;
mod tools;
mod viewer;

use std::{fmt, future::Future, sync::Arc};

#[doc(no_inline)]
pub use antiphon_results::*;
#[doc(no_inline)]
pub use antiphon_results::{
    Access, CreateOptions, DualResponse, DualResponseError, DualResponseServer, Owner,
};
use rmcp::model::ServerCapabilities;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(crate) use self::viewer::{capability, is_attached};
pub use self::{
    tools::ResultTools,
    viewer::{RESULT_META, RESULT_VIEWER, result_viewer},
};
use crate::{
    ctx::Ctx,
    error::Error,
    model::ContentBlock,
    protocol::UI_EXTENSION,
    resource::{Resource, ResourceTemplate},
    run::Runtime,
    telemetry::Recorder,
    tool::{IntoToolOutput, ToolOutput},
};

/// The store for result sets, and the function that returns the owner of a principal's result sets.
pub(crate) struct Results {
    server: DualResponseServer,
    owner: OwnerOf,
}

type OwnerOf = Arc<dyn Fn(&str) -> Owner + Send + Sync>;

impl Results {
    pub(crate) fn new(
        server: DualResponseServer,
        owner: impl Fn(&str) -> Owner + Send + Sync + 'static,
    ) -> Self {
        Self { server, owner: Arc::new(owner) }
    }

    /// Returns the resource template for result sets. A client reads the first rows of a result set at a URI that
    /// matches this template.
    pub(crate) fn template(&self) -> ResourceTemplate {
        // If the scheme is `http` or `https`, the URI and the URL of a result set are equal.
        let template = match self.server.scheme() {
            "http" | "https" => format!("{}/{{id}}", self.server.base_url()),
            scheme => format!("{scheme}://{{id}}"),
        };
        ResourceTemplate::new(template, "result set", read)
            .with_description("The first rows of a result set that a tool has answered with")
            .with_mime_type("application/json")
    }

    /// Returns the viewer as a resource. Hosts show the viewer next to a tool's result.
    pub(crate) fn viewer(&self) -> Resource {
        viewer::resource(&self.server)
    }

    /// Counts each action on a result set in the telemetry. If several servers share one `DualResponseServer`, only one
    /// server counts an action.
    pub(crate) fn watch(&self, recorder: Recorder) {
        self.server.watch(move |event| {
            let refused = event.refused.map(antiphon_results::ErrorCode::as_str);
            recorder.results(event.action.name(), event.rows, event.bytes, refused);
        });
    }

    fn owner(&self, ctx: &Ctx) -> Owner {
        ctx.principal().map_or_else(Owner::nobody, |principal| (self.owner)(principal))
    }

    /// Returns the access rights of the caller.
    fn access(&self, ctx: &Ctx) -> Access {
        Access::caller(self.owner(ctx))
    }

    /// Records a result set as the newest result set of the caller. If the server cannot distinguish the caller from
    /// other callers, this function does nothing.
    async fn set_newest(&self, ctx: &Ctx, id: &str) -> crate::Result<(), DualResponseError> {
        if !is_known(ctx) {
            return Ok(());
        }
        self.server.set_newest(ctx.principal(), id).await
    }

    /// Returns the ID of the caller's newest result set.
    async fn newest(&self, ctx: &Ctx) -> crate::Result<String, DualResponseError> {
        if !is_known(ctx) {
            return Err(DualResponseError::Invalid(
                "the newest result set is unknown: the server does not authenticate this caller; pass `id`"
                    .into(),
            ));
        }
        self.server.newest(ctx.principal()).await?.ok_or(DualResponseError::NotFound)
    }

    /// Returns the ID of the result set that `named` identifies. `named` can be an ID, a URI or a URL.
    fn id<'a>(&self, named: &'a str) -> crate::Result<&'a str, DualResponseError> {
        let named = named.trim();
        let uri = named.strip_prefix(self.server.scheme()).and_then(|rest| rest.strip_prefix("://"));
        let url = named.strip_prefix(self.server.base_url()).and_then(|rest| rest.strip_prefix('/'));
        let id = url.or(uri).unwrap_or(named);
        // The part of a URL after the ID is the path of another route, or a signature.
        let id = id.split(['/', '?', '#']).next().unwrap_or_default();
        let is_id = (1..=MAX_ID).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_id && (url.is_some() || id == uri.unwrap_or(named)) {
            return Ok(id);
        }
        Err(DualResponseError::Invalid(format!(
            "this is not the ID or the link of a result set; use the ID from an earlier answer, like `rs_…`, or its link, like `{}://rs_…`",
            self.server.scheme()
        )))
    }

    /// Returns the capability that tells clients that the server has result sets.
    fn capability(&self) -> impl Iterator<Item = (String, Map<String, Value>)> + use<> {
        let about = json!({
            "enabled": true,
            "baseUrl": self.server.base_url(),
            "defaultExpiration": self.server.default_expiration().as_secs(),
        });
        about.as_object().map(|about| ("dualResponse".to_owned(), about.clone())).into_iter()
    }
}

/// Adds the capability for result sets if the server has result sets. Adds the capability for the viewer if the server
/// has the viewer.
pub(crate) fn declare(runtime: &Runtime, capabilities: &mut ServerCapabilities) {
    if let Some(results) = runtime.state::<Results>() {
        capabilities.experimental.get_or_insert_default().extend(results.capability());
    }
    if let Some(apps) = capability(runtime) {
        capabilities.extensions.get_or_insert_default().insert(UI_EXTENSION.to_owned(), apps);
    }
}

/// Returns `true` if the server can distinguish the caller from other callers. The server can do this if the caller is
/// authenticated, or if the process has only one caller (stdio).
fn is_known(ctx: &Ctx) -> bool {
    let client = &ctx.run.client;
    let over_http = client.extensions().get::<http::request::Parts>().is_some();
    ctx.principal().is_some() || (client.is_remote() && !over_http)
}

/// The maximum length of a result set's ID.
const MAX_ID: usize = 64;

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Results").field(&self.server).finish()
    }
}

impl Ctx {
    /// Creates a result set and returns a dual response, which your tool must return unchanged. For the model, the dual
    /// response contains a preview of the rows. For the application, the dual response contains a link to all rows.
    ///
    /// The owner of the result set is the caller ([`principal`](Self::principal)), unless you set another owner with
    /// [`CreateOptions::for_owner`].
    ///
    /// # Replay
    ///
    /// The result set is created in a [step](Self::step), so replay does not create the result set again.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) if the server has no store for result sets
    /// ([`ServerBuilder::with_results`](crate::ServerBuilder::with_results)). Returns an error if the source cannot
    /// return the rows, or if the store for result sets fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use antiphon::prelude::*;
    /// use antiphon_results::{CreateOptions, DualResponse, Source};
    /// use serde_json::json;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Search {
    ///     /// State abbreviation.
    ///     state: String,
    /// }
    ///
    /// async fn search_institutions(ctx: &Ctx, args: Search) -> Result<DualResponse> {
    ///     let source = Source::query("institutions", json!({"state": args.state}));
    ///     ctx.dual_response(CreateOptions::new("Institution Search Results", source)).await
    /// }
    /// ```
    pub fn dual_response(
        &self,
        options: CreateOptions,
    ) -> impl Future<Output = crate::Result<DualResponse>> + Send + '_ {
        self.step("dual response", move || async move {
            let Some(results) = self.run.runtime.state::<Results>() else {
                return Err(Error::misuse(
                    "this server is not configured for result sets; configure them with `ServerBuilder::with_results`",
                ));
            };
            let mine = options.owner().is_nobody();
            let options = if mine { options.for_owner(results.owner(self)) } else { options };
            Ok(results.server.create_response(options).await?)
        })
    }
}

/// Converts a dual response into the result of a tool. The result contains a text with the preview, a link, and
/// structured content with the preview and the link.
impl IntoToolOutput for DualResponse {
    fn output_schema() -> Option<Map<String, Value>> {
        match schema() {
            Value::Object(schema) => Some(schema),
            _ => None,
        }
    }

    fn into_tool_output(self) -> crate::Result<ToolOutput> {
        let mut result = self.to_mcp_tool_result();
        let content: Vec<ContentBlock> = serde_json::from_value(result["content"].take())?;
        // Applications read this `_meta` entry to identify the result set. The entry does not grant access to the rows.
        let named = json!({"id": self.resource_id, "url": self.resource_url});
        Ok(ToolOutput::new(content)
            .with_structured(result["structuredContent"].take())
            .with_meta(RESULT_META, named))
    }
}

/// Returns the schema of the structured content.
fn schema() -> Value {
    let moment = json!({"type": "string", "format": "date-time"});
    json!({
        "type": "object",
        "required": ["results", "resource", "metadata"],
        "properties": {
            "about": {
                "type": "string",
                "description": "The number of rows, what is not shown, and where all rows are. Read this first",
            },
            "results": {
                "type": "array",
                "items": {"type": "object"},
                "description": "A preview: the first rows, with long values shortened. All rows are at `resource.url`",
            },
            "resource": {
                "type": "object",
                "required": ["uri", "url", "name", "mimeType"],
                "properties": {
                    "uri": {"type": "string"},
                    "url": {"type": "string", "description": "Where all rows are fetched"},
                    "name": {"type": "string"},
                    "mimeType": {"type": "string"},
                },
            },
            "metadata": {
                "type": "object",
                "required": ["total_count", "columns", "executed_at", "expires_at"],
                "properties": {
                    "total_count": {"type": "integer", "minimum": 0},
                    "columns": {
                        "type": "array",
                        "description": "The columns of the preview. `preview` counts the others",
                        "items": {
                            "type": "object",
                            "required": ["name", "type"],
                            "properties": {"name": {"type": "string"}, "type": {"type": "string"}},
                        },
                    },
                    "executed_at": moment,
                    "expires_at": {"anyOf": [moment, {"type": "null"}]},
                    "preview": {
                        "type": "object",
                        "description": "The numbers of omitted rows, omitted columns and shortened cells",
                    },
                },
            },
        },
    })
}

#[derive(Deserialize, JsonSchema)]
struct Read {
    /// The result set's ID.
    id: String,
}

/// Handles a client's read of a result set's URI. Returns the first rows of this result set.
async fn read(ctx: &Ctx, Read { id }: Read) -> crate::Result<String> {
    let results = ctx.state::<Results>()?;
    match results.server.read(&id, &results.access(ctx)).await {
        Ok(value) => Ok(value.to_string()),
        Err(error @ (DualResponseError::NotFound | DualResponseError::Expired)) => {
            Err(Error::protocol(NOT_FOUND, error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// The error code for a missing resource. If the client's protocol revision has a different code for a missing
/// resource, the SDK converts the code.
const NOT_FOUND: i32 = -32002;
