//! Describes the capabilities of a server as text.

use antiphon_host::{Connection, ServerInfo};
use serde_json::{Value, json};

use crate::print;

/// The numbers of a server's items. A number is `None` if the server does not offer items of this kind, or if the
/// server could not list these items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) tools: Option<usize>,
    pub(crate) prompts: Option<usize>,
    pub(crate) resources: Option<usize>,
    pub(crate) templates: Option<usize>,
}

impl Counts {
    pub(crate) async fn of(connection: &Connection, capabilities: &Value) -> Self {
        let offers = |what: &str| !capabilities[what].is_null();
        let mut counts = Self::default();
        if offers("tools") {
            counts.tools = connection.tools().await.ok().map(|it| it.len());
        }
        if offers("prompts") {
            counts.prompts = connection.prompts().await.ok().map(|it| it.len());
        }
        if offers("resources") {
            counts.resources = connection.resources().await.ok().map(|it| it.len());
            counts.templates = connection.resource_templates().await.ok().map(|it| it.len());
        }
        counts
    }

    pub(crate) fn json(&self) -> Value {
        let Self { tools, prompts, resources, templates } = self;
        json!({"tools": tools, "prompts": prompts, "resources": resources, "resourceTemplates": templates})
    }

    /// Returns the counts as text, for example `11 tools, 1 prompt`.
    pub(crate) fn sentence(&self) -> String {
        let Self { tools, prompts, resources, templates } = *self;
        let all =
            [(tools, "tool"), (prompts, "prompt"), (resources, "resource"), (templates, "resource template")];
        let words: Vec<String> = all
            .into_iter()
            .filter_map(|(count, what)| Some((count?, what)))
            .filter(|(count, what)| *count > 0 || *what != "resource template")
            .map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }))
            .collect();
        if words.is_empty() { "nothing that it declares".to_owned() } else { words.join(", ") }
    }
}

/// Returns the server's name and version.
pub(crate) fn title(info: &ServerInfo) -> String {
    let name = info.name.as_deref().unwrap_or("(a server without a name)");
    let version = info.version.as_deref().unwrap_or_default();
    print::first_line(&format!("{name} {version}")).trim_end().to_owned()
}

/// Returns the capabilities that [`Counts`] does not contain.
pub(crate) fn capabilities(capabilities: &Value) -> Vec<String> {
    let declared = |pointer: &str| {
        capabilities.pointer(pointer).is_some_and(|it| *it != Value::Bool(false) && !it.is_null())
    };
    let mut words = Vec::new();
    for (pointer, word) in [
        ("/completions", "completes arguments"),
        ("/logging", "sends log messages"),
        ("/resources/subscribe", "reports resource changes"),
        ("/tools/listChanged", "reports tool changes"),
        ("/tasks", "tasks"),
    ] {
        if declared(pointer) {
            words.push(word.to_owned());
        }
    }
    let extensions = names(&capabilities["extensions"]);
    let experiments = names(&capabilities["experimental"]);
    for (name, kind) in
        extensions.iter().map(|it| (it, "extension")).chain(experiments.iter().map(|it| (it, "experiment")))
    {
        let word = match name.as_str() {
            TASKS | LEGACY_TASKS => "tasks".to_owned(),
            "dualResponse" => "dual responses".to_owned(),
            other => format!("the {kind} {}", print::first_line(other)),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// The name of the MCP extension for tasks.
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The name under which the host reports the tasks of MCP 2025-11-25. The SDK does not support the tasks of MCP
/// 2025-11-25.
pub(crate) const LEGACY_TASKS: &str = "antiphon/tasks";

fn names(object: &Value) -> Vec<String> {
    object.as_object().into_iter().flat_map(|it| it.keys().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_offers_is_said_in_words() {
        let counts = Counts { tools: Some(11), prompts: Some(1), resources: Some(0), templates: Some(0) };
        assert_eq!(counts.sentence(), "11 tools, 1 prompt, 0 resources");
        assert_eq!(Counts::default().sentence(), "nothing that it declares");
        let declared = json!({"tools": {"listChanged": true}, "logging": {}, "experimental": {LEGACY_TASKS: {}}, "extensions": {TASKS: {}, "io.example/x\u{1b}[31m": {}}});
        assert_eq!(
            capabilities(&declared),
            ["sends log messages", "reports tool changes", "tasks", "the extension io.example/x\u{fffd}[31m"]
        );
    }
}
