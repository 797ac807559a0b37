//! The web page that hosts show with an answer.

use antiphon_results::{DualResponseServer, VIEWER};
use serde_json::{Map, Value, json};

use super::ResultTools;
use crate::{
    ctx::Ctx,
    error::Result,
    protocol::{APP_MEDIA_TYPE, UI_META},
    resource::Resource,
    run::Runtime,
    tool::Tool,
};

/// The URI of the viewer, which is an MCP resource. A host reads the viewer once and shows it with every answer that
/// refers to this URI.
pub const RESULT_VIEWER: &str = "ui://antiphon/result";

/// The `_meta` key under which an answer names its result set: `{"id", "url"}`. Applications read this key. Its value
/// does not grant access to the rows.
pub const RESULT_META: &str = "antiphon/result";

/// The key that hosts from before the final specification read.
const LEGACY_META: &str = "ui/resourceUri";

impl Tool {
    /// Shows the tool's result sets in the viewer, in hosts that support MCP Apps. The server must have the viewer: see
    /// [`ServerBuilder::with_result_tools`](crate::ServerBuilder::with_result_tools).
    #[must_use]
    pub fn with_result_viewer(self) -> Self {
        let mut ui = ui(&self).cloned().unwrap_or_default();
        ui.insert("resourceUri".into(), RESULT_VIEWER.into());
        self.with_meta(UI_META, ui).with_meta(LEGACY_META, RESULT_VIEWER)
    }
}

/// Returns whether the tool shows the viewer.
pub(crate) fn is_attached(tool: &Tool) -> bool {
    ui(tool).and_then(|ui| ui.get("resourceUri")).is_some_and(|uri| uri == RESULT_VIEWER)
}

fn ui(tool: &Tool) -> Option<&Map<String, Value>> {
    tool.definition().meta.as_ref()?.0.get(UI_META)?.as_object()
}

/// Returns the viewer as a resource. It is the same for every result set. The host selects the result set to show.
pub(super) fn resource(results: &DualResponseServer) -> Resource {
    async fn page(_: &Ctx, _: ()) -> Result<&'static str> {
        Ok(VIEWER)
    }
    let ui = json!({
        // The viewer fetches pages from this origin if the host allows it, and through the host otherwise.
        "csp": {"connectDomains": [origin(results.base_url())]},
        "prefersBorder": false,
    });
    Resource::new(RESULT_VIEWER, "result viewer", page)
        .with_title("Result set")
        .with_description("Shows a result set: every row in a table, what is in each column, charts, exports")
        .with_mime_type(APP_MEDIA_TYPE)
        .with_size(VIEWER.len() as u64)
        .with_meta(UI_META, ui)
}

/// Returns the origin of a valid URL: scheme, host and port.
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
