//! Tools that answer with more rows than a model can read.

use std::{fmt, future::Future, sync::Arc};

use antiphon_results::{Access, CreateOptions, DualResponse, DualResponseError, DualResponseServer, Owner};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    ctx::Ctx,
    error::{Error, Result},
    resource::ResourceTemplate,
    server::{ServerBuilder, Shared},
    tool::{IntoToolOutput, ToolOutput},
};

/// What a server was given for its result sets.
pub(crate) struct Results {
    server: DualResponseServer,
    owner: OwnerOf,
}

type OwnerOf = Arc<dyn Fn(&str) -> Owner + Send + Sync>;

impl Results {
    fn owner(&self, ctx: &Ctx) -> Owner {
        ctx.principal().map_or_else(Owner::nobody, |principal| (self.owner)(principal))
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

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Results").field(&self.server).finish()
    }
}

impl ServerBuilder {
    /// Gives tools a place for result sets: [`Ctx::dual_response`] makes them there, and their links
    /// (`resource://…`) can be read as resources, within bounds.
    ///
    /// The routes under which applications fetch all rows are `results.router()`, with the feature `rest` of
    /// `antiphon-results`; merge them into the same application.
    ///
    /// A set belongs to the caller that [`with_principal`](Self::with_principal) names, if it names one.
    pub fn with_results(self, results: DualResponseServer) -> Self {
        self.with_results_for(results, |principal| Owner::principal(principal))
    }

    /// As [`with_results`](Self::with_results), for servers of several tenants: `owner` says to which owner a
    /// principal belongs.
    pub fn with_results_for(
        self,
        results: DualResponseServer,
        owner: impl Fn(&str) -> Owner + Send + Sync + 'static,
    ) -> Self {
        // A scheme that is fetched stands before the whole URL.
        let template = match results.scheme() {
            "http" | "https" => format!("{}/{{id}}", results.base_url()),
            scheme => format!("{scheme}://{{id}}"),
        };
        let template = ResourceTemplate::new(template, "result set", read)
            .with_description("The first rows of a result set that a tool has answered with")
            .with_mime_type("application/json");
        self.with_state(Results { server: results, owner: Arc::new(owner) }).resource_template(template)
    }
}

impl Shared {
    pub(crate) fn results(&self) -> Option<&Results> {
        self.state::<Results>()
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
    ) -> impl Future<Output = Result<DualResponse>> + Send + '_ {
        self.step("dual response", move || async move {
            let Some(results) = self.run.shared.results() else {
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

    fn into_tool_output(self) -> Result<ToolOutput> {
        let content = self.to_mcp_content().into_iter().map(serde_json::from_value);
        let content = content.collect::<Result<Vec<_>, _>>()?;
        Ok(ToolOutput::new(content).with_structured(self.to_structured_content()))
    }
}

/// The schema of what applications read.
fn schema() -> Value {
    let moment = json!({"type": "string", "format": "date-time"});
    json!({
        "type": "object",
        "required": ["results", "resource", "metadata"],
        "properties": {
            "results": {"type": "array", "items": {"type": "object"}, "description": "The first rows"},
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
async fn read(ctx: &Ctx, Read { id }: Read) -> Result<String> {
    let results = ctx.state::<Results>()?;
    let access = Access::caller(results.owner(ctx));
    match results.server.read(&id, &access).await {
        Ok(value) => Ok(value.to_string()),
        Err(error @ (DualResponseError::NotFound | DualResponseError::Expired)) => {
            Err(Error::protocol(NOT_FOUND, error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

/// What MCP answers where there is no resource; the SDK makes it the code of each revision.
const NOT_FOUND: i32 = -32002;
