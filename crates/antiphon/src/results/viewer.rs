//! The viewer: a web page that hosts show together with a tool's result.

use std::sync::LazyLock;

use antiphon_results::{DualResponseServer, VIEWER};
use serde_json::{Map, Value, json};

use super::{ResultTools, Results};
use crate::{
    base::sha256,
    ctx::Ctx,
    error::Result,
    function::Callable,
    model::ContentBlock,
    protocol::{APP_MEDIA_TYPE, UI_META},
    resource::Resource,
    run::Runtime,
    tool::{Tool, ToolOutput},
};

/// The URI of the viewer without the digest of the web page. [`result_viewer`] returns the complete URI.
pub const RESULT_VIEWER: &str = "ui://antiphon/result";

/// The `_meta` key under which a tool's result identifies its result set: `{"id", "url"}`. Applications read this
/// `_meta` key. The value of the key does not grant access to the rows.
pub const RESULT_META: &str = "antiphon/result";

/// The `_meta` key that hosts read if they implement a draft of the MCP Apps specification.
const LEGACY_META: &str = "ui/resourceUri";

/// Returns the URI of the viewer, which is an MCP resource. The URI consists of [`RESULT_VIEWER`] and the first 16
/// hexadecimal digits of the web page's SHA-256 digest.
///
/// Hosts cache web pages by URI, so each version of the web page has a different URI. During an upgrade, the replicas
/// have different versions of the web page. If a host requests the URI of another version, the server returns the
/// version that this server has.
pub fn result_viewer() -> &'static str {
    static URI: LazyLock<String> =
        LazyLock::new(|| format!("{RESULT_VIEWER}/{}", &sha256(VIEWER.as_bytes())[..16]));
    &URI
}

impl Tool {
    /// Shows the tool's result sets in the viewer, in hosts that support MCP Apps. The server must have the viewer: see
    /// [`ServerBuilder::with_result_tools`](crate::ServerBuilder::with_result_tools).
    ///
    /// If the client supports MCP Apps, the tool's results contain no `resource_link` blocks. Some hosts do not forward
    /// a result to the viewer if the result has a `resource_link` block. The text and the structured content of the
    /// result still identify the result set.
    #[must_use]
    pub fn with_result_viewer(mut self) -> Self {
        let mut ui = ui(&self).cloned().unwrap_or_default();
        ui.insert("resourceUri".into(), result_viewer().into());
        self.call.callable = beside_viewer(self.call.callable);
        self.with_meta(UI_META, ui).with_meta(LEGACY_META, result_viewer())
    }
}

/// Wraps the function of a tool whose results the viewer shows. The wrapped function changes each result into the form
/// that the client supports.
fn beside_viewer(call: Callable<ToolOutput>) -> Callable<ToolOutput> {
    let wrapped: Callable<ToolOutput> = Box::new(move |ctx, arguments| {
        let answer = call(ctx, arguments);
        Box::pin(async move {
            let mut output = answer.await?;
            if ctx.run.client.shows_apps() {
                output.content.retain(|block| !matches!(block, ContentBlock::ResourceLink(_)));
                record_newest(ctx, &output).await;
            }
            Ok(output)
        })
    });
    wrapped
}

/// Records the result set in `output` as the caller's newest result set. The viewer shows the newest result set if the
/// host does not forward the tool's result to the viewer.
async fn record_newest(ctx: &Ctx, output: &ToolOutput) {
    let id = output.meta.get(RESULT_META).and_then(|named| named["id"].as_str());
    let (Some(id), Some(results)) = (id, ctx.run.runtime.state::<Results>()) else { return };
    if let Err(error) = results.set_newest(ctx, id).await {
        tracing::warn!(%error, "the newest result set of a caller was not recorded; some hosts need it for the viewer");
    }
}

/// Returns `true` if hosts show the results of the tool in the viewer.
pub(crate) fn is_attached(tool: &Tool) -> bool {
    let uri = ui(tool).and_then(|ui| ui.get("resourceUri")?.as_str());
    uri.is_some_and(|uri| uri.starts_with(RESULT_VIEWER))
}

fn ui(tool: &Tool) -> Option<&Map<String, Value>> {
    tool.definition().meta.as_ref()?.0.get(UI_META)?.as_object()
}

/// Returns the viewer as a resource. Every result set uses the same web page. The host sends the result set to the web
/// page.
pub(super) fn resource(results: &DualResponseServer) -> Resource {
    async fn page(_: &Ctx, _: ()) -> Result<&'static str> {
        Ok(VIEWER)
    }
    let ui = json!({
        // The viewer fetches rows directly from this origin if the host allows direct requests. If the host does not
        // allow direct requests, the viewer fetches rows through the host.
        "csp": {"connectDomains": [origin(results.base_url())]},
        "prefersBorder": false,
    });
    Resource::new(result_viewer(), "result viewer", page)
        .in_family(RESULT_VIEWER)
        .with_title("Result set")
        .with_description("Shows a result set: every row in a table, what is in each column, charts, exports")
        .with_mime_type(APP_MEDIA_TYPE)
        .with_size(VIEWER.len() as u64)
        .with_meta(UI_META, ui)
}

/// Returns the origin (scheme, host and port) of a valid URL.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find('/').map_or(url.len(), |at| host + at);
    &url[..end]
}

/// Returns the capability for MCP Apps, if the server has the viewer.
pub(crate) fn capability(runtime: &Runtime) -> Option<Map<String, Value>> {
    let has_viewer = runtime.state::<ResultTools>().is_some_and(ResultTools::has_viewer);
    has_viewer.then(|| Map::from_iter([("mimeTypes".to_owned(), json!([APP_MEDIA_TYPE]))]))
}

#[cfg(test)]
mod tests {
    use super::origin;

    #[test]
    fn origin_is_what_stands_before_the_path() {
        for (url, expected) in [
            ("https://api.example.com/resources", "https://api.example.com"),
            ("http://127.0.0.1:3001/a/b", "http://127.0.0.1:3001"),
            ("http://[::1]:3001", "http://[::1]:3001"),
        ] {
            assert_eq!(origin(url), expected);
        }
    }
}
