//! The page that hosts show beside an answer.

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

/// Where the viewer is: a resource that hosts read once and show beside every answer that names it.
pub const RESULT_VIEWER: &str = "ui://antiphon/result";

/// Where an answer names its result set in `_meta`: `{"id", "url"}`. It is for applications and grants nothing.
pub const RESULT_META: &str = "antiphon/result";

/// What hosts that were written before the specification was settled look for.
const LEGACY_META: &str = "ui/resourceUri";

impl Tool {
    /// Shows the tool's answers, which are result sets, in the viewer, in hosts that show MCP Apps. The server must have
    /// one ([`ServerBuilder::with_result_tools`](crate::ServerBuilder::with_result_tools)).
    #[must_use]
    pub fn with_result_viewer(self) -> Self {
        let mut ui = ui(&self).cloned().unwrap_or_default();
        ui.insert("resourceUri".into(), RESULT_VIEWER.into());
        self.with_meta(UI_META, ui).with_meta(LEGACY_META, RESULT_VIEWER)
    }
}

/// Whether the tool brings the viewer.
pub(crate) fn is_attached(tool: &Tool) -> bool {
    ui(tool).and_then(|ui| ui.get("resourceUri")).is_some_and(|uri| uri == RESULT_VIEWER)
}

fn ui(tool: &Tool) -> Option<&Map<String, Value>> {
    tool.definition().meta.as_ref()?.0.get(UI_META)?.as_object()
}

/// The viewer as a resource. It is the same for every set; which one it shows, the host tells it.
pub(super) fn resource(results: &DualResponseServer) -> Resource {
    async fn page(_: &Ctx, _: ()) -> Result<&'static str> {
        Ok(VIEWER)
    }
    let ui = json!({
        // Pages come from there directly where the host allows it, and through the host where not.
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

/// The origin of a URL that is known to be one: scheme, host and port.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find('/').map_or(url.len(), |at| host + at);
    &url[..end]
}

/// What a server says of its apps, if it has one.
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
