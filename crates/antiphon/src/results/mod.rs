//! Result sets: tools that answer with more rows than a model can read, and tools that go on from such an answer.
//!
//! [`Ctx::dual_response`] makes a result set. The types are those of the crate `antiphon-results`.

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
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(crate) use self::viewer::{capability, is_attached};
pub use self::{
    tools::ResultTools,
    viewer::{RESULT_META, RESULT_VIEWER},
};
#[cfg(feature = "telemetry")]
use crate::telemetry::Recorder;
use crate::{
    ctx::Ctx,
    error::Error,
    resource::{Resource, ResourceTemplate},
    tool::{IntoToolOutput, ToolOutput},
};

/// What a server was given for its result sets.
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

    /// The resource under which clients read the first rows of a set.
    pub(crate) fn template(&self) -> ResourceTemplate {
        // A scheme that is fetched stands before the whole URL.
        let template = match self.server.scheme() {
            "http" | "https" => format!("{}/{{id}}", self.server.base_url()),
            scheme => format!("{scheme}://{{id}}"),
        };
        ResourceTemplate::new(template, "result set", read)
            .with_description("The first rows of a result set that a tool has answered with")
            .with_mime_type("application/json")
    }

    /// The page that hosts show beside an answer.
    pub(crate) fn viewer(&self) -> Resource {
        viewer::resource(&self.server)
    }

    /// Records what happens to result sets. Servers that share one place for result sets count it once.
    #[cfg(feature = "telemetry")]
    pub(crate) fn watch(&self, recorder: Recorder) {
        self.server.watch(move |event| {
            let refused = event.refused.map(antiphon_results::ErrorCode::as_str);
            recorder.results(event.action.name(), event.rows, event.bytes, refused);
        });
    }

    fn owner(&self, ctx: &Ctx) -> Owner {
        ctx.principal().map_or_else(Owner::nobody, |principal| (self.owner)(principal))
    }

    /// Whoever is calling, as the server of result sets knows them.
    fn access(&self, ctx: &Ctx) -> Access {
        Access::caller(self.owner(ctx))
    }

    /// The id that a model or an application means: the id itself, the URI of a link, or the URL.
    fn id<'a>(&self, named: &'a str) -> crate::Result<&'a str, DualResponseError> {
        let named = named.trim();
        let uri = named.strip_prefix(self.server.scheme()).and_then(|rest| rest.strip_prefix("://"));
        let url = named.strip_prefix(self.server.base_url()).and_then(|rest| rest.strip_prefix('/'));
        let id = url.or(uri).unwrap_or(named);
        // What comes after the id in a URL is another route, or a signature: neither says which set it is.
        let id = id.split(['/', '?', '#']).next().unwrap_or_default();
        let is_id = (1..=MAX_ID).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_id && (url.is_some() || id == uri.unwrap_or(named)) {
            return Ok(id);
        }
        Err(DualResponseError::Invalid(format!(
            "this names no result set; give the id of an earlier answer, like `rs_…`, or its link, like `{}://rs_…`",
            self.server.scheme()
        )))
    }

    /// What a client may know of it beforehand.
    pub(crate) fn capability(&self) -> impl Iterator<Item = (String, Map<String, Value>)> + use<> {
        let about = json!({
            "enabled": true,
            "baseUrl": self.server.base_url(),
            "defaultExpiration": self.server.default_expiration().as_secs(),
        });
        about.as_object().map(|about| ("dualResponse".to_owned(), about.clone())).into_iter()
    }
}

/// The longest id that is looked up.
const MAX_ID: usize = 64;

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Results").field(&self.server).finish()
    }
}

impl Ctx {
    /// Makes a result set and the answer that tells of it: a preview for the model, a link for the application.
    /// Return it from the tool as it is.
    ///
    /// The set belongs to whoever is calling ([`principal`](Self::principal)), unless
    /// [`CreateOptions::for_owner`] says otherwise.
    ///
    /// # Replay
    ///
    /// It is a step: the set is made once, however many rounds the run takes.
    ///
    /// # Errors
    ///
    /// When the server was given no place for result sets
    /// ([`ServerBuilder::with_results`](crate::ServerBuilder::with_results)), or the source or the store fails.
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
                    "this server has no place for result sets; give it one with `ServerBuilder::with_results`",
                ));
            };
            let mine = options.owner().is_nobody();
            let options = if mine { options.for_owner(results.owner(self)) } else { options };
            Ok(results.server.create_response(options).await?)
        })
    }
}

/// A dual response is the whole answer: text with the preview, a link, and both as data.
impl IntoToolOutput for DualResponse {
    fn output_schema() -> Option<Map<String, Value>> {
        match schema() {
            Value::Object(schema) => Some(schema),
            _ => None,
        }
    }

    fn into_tool_output(self) -> crate::Result<ToolOutput> {
        let content = self.to_mcp_content().into_iter().map(serde_json::from_value);
        let content = content.collect::<crate::Result<Vec<_>, _>>()?;
        // What an application shows the set by, without looking into what the model reads. It grants nothing.
        let named = json!({"id": self.resource_id, "url": self.resource_url});
        Ok(ToolOutput::new(content)
            .with_structured(self.to_structured_content())
            .with_meta(RESULT_META, named))
    }
}

/// The schema of what applications read.
fn schema() -> Value {
    let moment = json!({"type": "string", "format": "date-time"});
    json!({
        "type": "object",
        "required": ["results", "resource", "metadata"],
        "properties": {
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
                        "items": {
                            "type": "object",
                            "required": ["name", "type"],
                            "properties": {"name": {"type": "string"}, "type": {"type": "string"}},
                        },
                    },
                    "executed_at": moment,
                    "expires_at": {"anyOf": [moment, {"type": "null"}]},
                    "preview": {"type": "object", "description": "What is left out of the first rows"},
                },
            },
        },
    })
}

#[derive(Deserialize, JsonSchema)]
struct Read {
    /// The result set's id.
    id: String,
}

/// Reads a set by its URI.
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

/// What MCP answers where there is no resource; the SDK makes it the code of each revision.
const NOT_FOUND: i32 = -32002;
