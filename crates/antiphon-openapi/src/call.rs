//! The function that a tool runs to call an operation of the API. The function sends the HTTP request of a tool call,
//! and returns the response.

use std::sync::Arc;

use antiphon::{Ctx, Result, ToolOutput};
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

#[cfg(feature = "results")]
use crate::pages::{self, Gathered, PageLimits, Paging};
use crate::{
    auth::{Applied, Caller},
    http::{Http, has_effects},
    request::{Template, write_integers},
};

/// An operation that can be called. A clone of a `Call` is a handle to the same operation.
#[derive(Clone, Debug)]
pub(crate) struct Call(pub(crate) Arc<Target>);

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) http: Http,
    pub(crate) template: Template,
    pub(crate) credentials: Applied,
    /// The HTTP method and the path of the operation.
    pub(crate) title: String,
    pub(crate) idempotency_header: Option<String>,
    #[cfg(feature = "results")]
    pub(crate) paging: Option<(Paging, PageLimits)>,
}

impl Call {
    /// Sends the request of the operation with `arguments`, and returns the tool's result.
    ///
    /// A request with effects is a step, so replay does not send the request again. On replay, a request without
    /// effects is sent again, because the response of a step would make the journal larger.
    pub(crate) async fn run(self, ctx: &Ctx, mut arguments: Map<String, Value>) -> Result<ToolOutput> {
        let Target { http, template, credentials, title, .. } = &*self.0;
        arguments.values_mut().for_each(write_integers);
        let caller = Caller::of(ctx);
        #[cfg(feature = "results")]
        if let Some((paging, limits)) = &self.0.paging {
            let gathered =
                pages::gather(http, template, paging, limits, (credentials, &caller), arguments).await?;
            return match gathered {
                Gathered::Rows { rows, note } => self.result_set(ctx, rows, note).await,
                Gathered::Other(reply, url) => Ok(reply.into_output(&template.method, title, &url)),
            };
        }
        let request = template.fill(&arguments).map_err(antiphon::Error::tool)?;
        let url = request.url.clone();
        let send = async |mut request: crate::request::Request| {
            let secrets = credentials.add(&mut request, &caller).await?;
            http.send(request, &secrets).await
        };
        let reply = if has_effects(&template.method) {
            let header = self.0.idempotency_header.as_deref();
            ctx.step_with_key("request", |key| {
                let mut request = request;
                let name = header.and_then(|name| HeaderName::from_bytes(name.as_bytes()).ok());
                if let (Some(name), Ok(key)) = (name, HeaderValue::from_str(&key)) {
                    request.headers.insert(name, key);
                }
                send(request)
            })
            .await?
        } else {
            send(request).await?
        };
        Ok(reply.into_output(&template.method, title, &url))
    }

    /// Creates a result set from the rows of all pages.
    #[cfg(feature = "results")]
    async fn result_set(
        &self,
        ctx: &Ctx,
        rows: antiphon::results::Rows,
        note: Option<String>,
    ) -> Result<ToolOutput> {
        use antiphon::{
            model::ContentBlock,
            results::{CreateOptions, Source},
            tool::IntoToolOutput as _,
        };

        let mut options = CreateOptions::new(&self.0.title, Source::rows(rows));
        if let Some(note) = &note {
            let metadata = [("incomplete".to_owned(), Value::from(note.as_str()))];
            options = options.with_metadata(metadata.into_iter().collect());
        }
        let mut output = ctx.dual_response(options).await?.into_tool_output()?;
        if let Some(note) = note {
            // Hosts pass either the text or the structured content to the model.
            if let Some(Value::String(about)) = output.structured.as_mut().and_then(|it| it.get_mut("about"))
            {
                about.insert_str(0, &format!("{note} "));
            }
            output.content.insert(0, ContentBlock::text(note));
        }
        Ok(output)
    }
}
