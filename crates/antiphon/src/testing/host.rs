use std::time::Duration;

use serde_json::{Value, json};

use super::Revision;
use crate::protocol::{APP_MEDIA_TYPE, UI_EXTENSION};

/// A description of how a host behaves, for tests. A profile contains the capabilities that the host declares, and how
/// the host handles forms. A profile also describes which parts of a result reach the host's model and apps.
///
/// The documentation of each profile names the evidence for each property in parentheses:
///
/// - The evidence *run* means that we ran the given version of the host and read its messages.
/// - The evidence *program* or *source* means that we read the published program or the source code of the host.
/// - The evidence *documentation* means that we read about the property in public documentation.
/// - The evidence *list* means that MCP's extension support matrix lists the property.
/// - The evidence *issue* means that a public thread shows the behavior on the date of the thread.
/// - The evidence *assumed* means that we have no evidence for the property.
///
/// Hosts change often. If a test passes with a profile, the server works with a client that behaves like this profile.
/// A passing test does not show that the current version of the host displays a form.
///
/// To connect a test client that behaves like a host, use [`Client::connect_as`](crate::testing::Client::connect_as).
///
/// ```
/// use antiphon::testing::{HostProfile, Revision};
/// use serde_json::json;
///
/// let result = json!({"content": [{"type": "text", "text": "3 rows"}], "structuredContent": {"rows": 3}});
/// assert_eq!(HostProfile::GeminiCli.model_view(&result), "3 rows");
/// assert_eq!(HostProfile::Codex.model_view(&result), r#"{"rows":3}"#);
/// assert!(HostProfile::GeminiCli.capabilities(Revision::V2025_11_25).get("elicitation").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HostProfile {
    /// claude.ai, the web application.
    ///
    /// - Forms: the host does not declare forms (issue claude-ai-mcp 153, April 2026).
    /// - Apps: the host declares apps (list, 22 August 2026). An app receives no result if the result contains a
    ///   resource link (issue claude-ai-mcp 753, 2026).
    /// - Time limit: the host ends a call after about 60 s (issue claude-ai-mcp 115, March 2026).
    /// - The model reads only the text of a result (issue claude-code 55677, May 2026).
    ClaudeWeb,
    /// Claude Desktop with a local server.
    ///
    /// - Forms: the host does not declare forms (issue claude-code 41347, March 2026).
    /// - Apps: the host declares apps (list, 22 August 2026). An app receives only `content` (issue ext-apps 696, July
    ///   2026).
    /// - Time limit: the host ends a call after about 60 s (issue claude-code 22542).
    /// - The model reads only the text of a result (assumed, as on claude.ai).
    ClaudeDesktop,
    /// Claude for iOS.
    ///
    /// - Forms: the host does not declare forms (assumed, as on claude.ai).
    /// - Apps: an app never receives a result (issue ext-apps 734, July 2026).
    /// - Time limit: the host ends a call after 60 s (assumed, as on claude.ai).
    /// - The model reads only the text of a result (assumed, as on claude.ai).
    ClaudeIos,
    /// `ChatGPT` with a remote server.
    ///
    /// - Forms: the host does not declare forms (the vendor does not document forms, November 2026).
    /// - Apps: the host declares apps (list, 22 August 2026). An app does not receive `_meta`, and receives the JSON of
    ///   `structuredContent` instead of the text (forum threads 1375980 and 1378047, 2026).
    /// - Time limit: we do not know when the host ends a call.
    /// - The model reads only the text of a result (issue claude-code 55677, May 2026).
    ChatGpt,
    /// VS Code 1.140 with Copilot.
    ///
    /// - The host declares forms, URL elicitation and the tasks of MCP 2025-11-25 (documentation of a third party,
    ///   October 2026).
    /// - Apps: the host declares apps (list, 22 August 2026). Apps receive the whole result (assumed).
    /// - The model reads the text and the structured content of a result (assumed).
    VsCode,
    /// Cursor, with `@cursor/sdk` 1.0.18.
    ///
    /// - Forms: the host declares forms, but not URL elicitation (program, November 2026).
    /// - Tasks: the host does not support tasks (program, November 2026).
    /// - Apps: the host declares apps (list, 22 August 2026). Apps receive the whole result (assumed).
    /// - The model reads only the text of a result (issue claude-code 79944, 2026).
    Cursor,
    /// Zed.
    ///
    /// - Forms and tasks: the host declares neither forms nor tasks (source, 22 August 2026).
    /// - Apps: the host does not declare apps (assumed).
    /// - Time limit: the host ends a call after 60 s (assumed).
    /// - The model reads only the text of a result (assumed).
    Zed,
    /// goose 1.34.0 in the command `goose session`.
    ///
    /// We ran goose 1.34.0 on 17 November 2026. goose 1.34.0 declares `elicitation`, `sampling` and `roots`, but
    /// neither apps nor tasks. The model of goose reads only the text of a result, without resource links.
    Goose,
    /// Gemini CLI 0.61.0.
    ///
    /// We ran Gemini CLI 0.61.0 on 17 November 2026. Gemini CLI declares only `roots`. The model of Gemini CLI reads
    /// only the text of a result: the first 8,000 and the last 32,000 characters. Gemini CLI ends a call after 60 s
    /// (assumed).
    GeminiCli,
    /// Codex CLI 0.166.0 with the terminal UI.
    ///
    /// We ran Codex CLI 0.166.0 on 17 November 2026. Codex declares forms and URL elicitation, but neither apps nor
    /// tasks. If a form has an integer or an array field, Codex accepts the form without values, and the user does not
    /// see the fields. If a result has `structuredContent`, the model of Codex reads no other part of the result. The
    /// model of Codex reads only the first and the last 6,000 characters of a result.
    Codex,
    /// A client that declares forms and apps, but declines each form immediately.
    ///
    /// Claude Code in VS Code declined forms immediately (issue claude-code 79174, July 2026). `codex exec` 0.166.0
    /// also declines forms immediately (run, 17 November 2026). The profile declares apps so that you can test apps. We
    /// have no evidence that such a client declares apps.
    Declining,
    /// A client that declares forms and apps, but accepts each form immediately and without values.
    ///
    /// Codex with automatic approval accepted forms immediately and without values (issue codex 23383, May 2026). The
    /// profile declares apps so that you can test apps. We have no evidence that such a client declares apps.
    AcceptingEmpty,
    /// A client that declares forms and apps, but never answers a form. The client cancels the call after 60 s.
    ///
    /// Embedded clients did not answer forms (issue claude-code 88901, 2026). The profile declares apps so that you can
    /// test apps. We have no evidence that such a client declares apps.
    Hanging,
    /// A client that implements MCP as specified, with forms, URL elicitation, sampling, roots and apps, but without
    /// tasks. The profile `Generic` does not imitate a specific host.
    Generic,
}

/// How a host handles a form that a server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FormBehavior {
    /// The host shows the form to the user.
    Shows,
    /// The host declines the form immediately, and does not show the form to the user.
    Declines,
    /// The host accepts the form immediately, without values, and does not show the fields to the user.
    AcceptsEmpty,
    /// The host does not answer the form, and does not show the form to the user.
    Ignores,
    /// The host does not declare forms, so a server must not send a form.
    Undeclared,
}

/// The parts of a tool result that a host passes to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelReads {
    /// The text blocks of `content`.
    Text,
    /// `structuredContent`, or the text if the result has no `structuredContent`.
    Structured,
    /// `structuredContent` and the text.
    Both,
}

/// The parts of a tool result that a host passes to an app.
#[derive(Clone, Copy)]
enum AppReceives {
    Everything,
    /// The complete result of the tool call. If `content` contains a resource link, the app receives nothing.
    EverythingWithoutLinks,
    /// Only the field `content` of the result.
    Content,
    /// `structuredContent`, and the JSON of `structuredContent` in place of the text. The app does not receive `_meta`.
    Structured,
    Nothing,
}

/// The properties of a host that a profile describes.
struct Facts {
    name: &'static str,
    title: &'static str,
    /// The capabilities that the host declares, as JSON. The JSON does not contain the extension for MCP Apps.
    declares: &'static str,
    form: FormBehavior,
    apps: bool,
    app: AppReceives,
    /// Whether the host supports the tasks of MCP 2025-11-25.
    tasks: bool,
    reads: ModelReads,
    /// The number of characters that the host keeps at the beginning and at the end of a long result, if the host
    /// shortens results.
    cut: Option<(usize, usize)>,
    /// The time limit of a call, in seconds.
    limit: Option<u64>,
}

const NO_FORMS: &str = "{}";
const FORMS: &str = r#"{"elicitation":{"form":{}}}"#;
const FORMS_AND_URLS: &str = r#"{"elicitation":{"form":{},"url":{}}}"#;
const EVERYTHING: &str =
    r#"{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}"#;

/// The properties of a host that shows apps but does not show forms. Other profiles change some values of `CHAT`.
const CHAT: Facts = Facts {
    name: "",
    title: "",
    declares: NO_FORMS,
    form: FormBehavior::Undeclared,
    apps: true,
    app: AppReceives::Everything,
    tasks: false,
    reads: ModelReads::Text,
    cut: None,
    limit: None,
};

/// The properties of a client that declares forms. Other profiles change some values of `ASKED`.
const ASKED: Facts = Facts { declares: FORMS, form: FormBehavior::Shows, ..CHAT };

impl HostProfile {
    /// All host profiles. Later versions of Antiphon can add profiles.
    pub const ALL: &'static [Self] = &[
        Self::ClaudeWeb,
        Self::ClaudeDesktop,
        Self::ClaudeIos,
        Self::ChatGpt,
        Self::VsCode,
        Self::Cursor,
        Self::Zed,
        Self::Goose,
        Self::GeminiCli,
        Self::Codex,
        Self::Declining,
        Self::AcceptingEmpty,
        Self::Hanging,
        Self::Generic,
    ];

    fn facts(self) -> Facts {
        match self {
            Self::ClaudeWeb => Facts {
                name: "claude-web",
                title: "claude.ai",
                app: AppReceives::EverythingWithoutLinks,
                limit: Some(60),
                ..CHAT
            },
            Self::ClaudeDesktop => Facts {
                name: "claude-desktop",
                title: "Claude Desktop with a local server",
                app: AppReceives::Content,
                limit: Some(60),
                ..CHAT
            },
            Self::ClaudeIos => Facts {
                name: "claude-ios",
                title: "Claude for iOS",
                app: AppReceives::Nothing,
                limit: Some(60),
                ..CHAT
            },
            Self::ChatGpt => {
                Facts { name: "chatgpt", title: "ChatGPT", app: AppReceives::Structured, ..CHAT }
            }
            Self::VsCode => Facts {
                name: "vscode",
                title: "VS Code 1.140",
                declares: FORMS_AND_URLS,
                tasks: true,
                reads: ModelReads::Both,
                ..ASKED
            },
            Self::Cursor => Facts { name: "cursor", title: "Cursor", ..ASKED },
            Self::Zed => Facts {
                name: "zed",
                title: "Zed",
                apps: false,
                app: AppReceives::Nothing,
                limit: Some(60),
                ..CHAT
            },
            Self::Goose => Facts {
                name: "goose",
                title: "goose 1.34.0 (`goose session`)",
                declares: r#"{"elicitation":{},"extensions":{},"roots":{},"sampling":{}}"#,
                apps: false,
                app: AppReceives::Nothing,
                ..ASKED
            },
            Self::GeminiCli => Facts {
                name: "gemini-cli",
                title: "Gemini CLI 0.61.0",
                declares: r#"{"roots":{"listChanged":true}}"#,
                apps: false,
                app: AppReceives::Nothing,
                cut: Some((8_000, 32_000)),
                limit: Some(60),
                ..CHAT
            },
            Self::Codex => Facts {
                name: "codex",
                title: "Codex CLI 0.166.0 (terminal UI)",
                declares: FORMS_AND_URLS,
                apps: false,
                app: AppReceives::Nothing,
                reads: ModelReads::Structured,
                cut: Some((6_000, 6_000)),
                ..ASKED
            },
            Self::Declining => Facts {
                name: "declining",
                title: "a client that declines each form",
                form: FormBehavior::Declines,
                ..ASKED
            },
            Self::AcceptingEmpty => Facts {
                name: "accepting-empty",
                title: "a client that accepts each form without values",
                form: FormBehavior::AcceptsEmpty,
                ..ASKED
            },
            Self::Hanging => Facts {
                name: "hanging",
                title: "a client that does not answer forms",
                form: FormBehavior::Ignores,
                limit: Some(60),
                ..ASKED
            },
            Self::Generic => Facts {
                name: "generic",
                title: "a client that implements MCP as specified",
                declares: EVERYTHING,
                reads: ModelReads::Both,
                ..ASKED
            },
        }
    }

    /// Returns the name of the profile, for example `claude-web`.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the display name of the host. If the evidence is for a specific version of the host, the name also
    /// contains the version.
    pub fn title(self) -> &'static str {
        self.facts().title
    }

    /// Returns the protocol revision that the host uses if a server supports both revisions.
    ///
    /// For every profile of a real host, this method returns MCP 2025-11-25, because we have no evidence that a host
    /// uses MCP 2026-07-28.
    pub fn revision(self) -> Revision {
        match self {
            Self::Generic => Revision::V2026_07_28,
            _ => Revision::V2025_11_25,
        }
    }

    /// Returns the capabilities that the host declares on a protocol revision.
    ///
    /// If we have evidence only for the other revision, this method returns the capabilities that the host declares on
    /// the other revision.
    pub fn capabilities(self, revision: Revision) -> Value {
        let facts = self.facts();
        let mut capabilities: Value = serde_json::from_str(facts.declares).unwrap_or_default();
        if facts.apps {
            capabilities["extensions"][UI_EXTENSION] = json!({"mimeTypes": [APP_MEDIA_TYPE]});
        }
        // On MCP 2025-06-18, clients declare an empty `elicitation`. On later revisions, clients declare the
        // elicitation modes.
        if revision == Revision::V2026_07_28 && capabilities["elicitation"] == json!({}) {
            capabilities["elicitation"] = json!({"form": {}});
        }
        capabilities
    }

    /// Returns how the host handles a form with this `requestedSchema`.
    pub fn form(self, schema: &Value) -> FormBehavior {
        let fields = schema["properties"].as_object();
        if fields.into_iter().flatten().any(|(_, field)| !self.shows_field(field)) {
            return FormBehavior::AcceptsEmpty;
        }
        self.facts().form
    }

    /// Returns whether the host can show a form field with this schema. Only the profile of Codex returns `false` for
    /// some types of fields.
    pub fn shows_field(self, field: &Value) -> bool {
        match field["type"].as_str() {
            Some("array" | "integer") => self != Self::Codex,
            _ => true,
        }
    }

    /// Returns whether the host declares MCP Apps.
    pub fn shows_apps(self) -> bool {
        self.facts().apps
    }

    /// Returns whether the host uses tasks on a protocol revision.
    pub fn has_tasks(self, revision: Revision) -> bool {
        self.facts().tasks && revision == Revision::V2025_11_25
    }

    /// Returns which parts of a result reach the model of the host.
    pub fn model_reads(self) -> ModelReads {
        self.facts().reads
    }

    /// Returns the text that the model of the host reads for a result of `tools/call`.
    ///
    /// The returned text does not contain resource links and other blocks, because several hosts drop these blocks. If
    /// the host shortens long texts, this method also shortens the text.
    pub fn model_view(self, result: &Value) -> String {
        let facts = self.facts();
        let structured = result.get("structuredContent").filter(|structured| !structured.is_null());
        let blocks = result["content"].as_array().into_iter().flatten();
        let text = blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n");
        let view = match (facts.reads, structured) {
            (ModelReads::Structured, Some(structured)) => structured.to_string(),
            (ModelReads::Both, Some(structured)) => format!("{structured}\n{text}"),
            _ => text,
        };
        match facts.cut {
            Some((head, tail)) => cut(view, head, tail),
            None => view,
        }
    }

    /// Returns the maximum number of characters of a result that the host passes to the model. Returns `None` if the
    /// host does not shorten results.
    pub fn max_result_chars(self) -> Option<usize> {
        self.facts().cut.map(|(head, tail)| head + tail)
    }

    /// Returns the parts of a result of `tools/call` that reach the app of the tool.
    ///
    /// Returns `None` if the app receives nothing, or if the host does not show apps.
    pub fn app_view(self, result: &Value) -> Option<Value> {
        let facts = self.facts();
        let content = result["content"].as_array();
        let is_linked = content.into_iter().flatten().any(|block| block["type"] == "resource_link");
        match facts.app {
            AppReceives::Everything => Some(result.clone()),
            AppReceives::EverythingWithoutLinks => (!is_linked).then(|| result.clone()),
            AppReceives::Content => {
                Some(json!({"content": result["content"], "isError": result["isError"] == true}))
            }
            AppReceives::Structured => {
                let mut seen = result.clone();
                seen.as_object_mut().map(|seen| seen.remove("_meta"));
                if let Some(structured) = result.get("structuredContent") {
                    seen["content"] = json!([{"type": "text", "text": structured.to_string()}]);
                }
                Some(seen)
            }
            AppReceives::Nothing => None,
        }
    }

    /// Returns `true` if the host does not pass the `_meta` of a result to an app.
    pub fn drops_meta(self) -> bool {
        !matches!(self.facts().app, AppReceives::Everything | AppReceives::EverythingWithoutLinks)
    }

    /// Returns the time after which the host ends a call, or `None` if this time is not known. Progress notifications
    /// do not extend the time limit of a call.
    pub fn gives_up_after(self) -> Option<Duration> {
        self.facts().limit.map(Duration::from_secs)
    }
}

/// Shortens a long text to its first `head` and last `tail` characters.
fn cut(text: String, head: usize, tail: usize) -> String {
    let chars = text.chars().count();
    if chars <= head + tail {
        return text;
    }
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(chars - tail).collect();
    format!("{begin}\n[...]\n{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result() -> Value {
        json!({
            "content": [{"type": "text", "text": "3 rows"}, {"type": "resource_link", "uri": "resource://rs_1"}],
            "structuredContent": {"rows": 3},
            "isError": false,
            "_meta": {"antiphon/task": {"id": "t_1"}},
        })
    }

    #[test]
    fn names_are_unique_and_capabilities_are_objects() {
        for (number, profile) in HostProfile::ALL.iter().enumerate() {
            let others = &HostProfile::ALL[number + 1..];
            assert!(others.iter().all(|other| other.name() != profile.name()), "{profile:?}");
            for revision in Revision::BOTH {
                assert!(profile.capabilities(revision).is_object(), "{profile:?}");
            }
        }
    }

    #[test]
    fn forms_are_declared_exactly_if_the_host_treats_them() {
        let schema = json!({"properties": {"desk": {"type": "string"}}});
        for profile in HostProfile::ALL {
            let capabilities = profile.capabilities(Revision::V2025_11_25);
            let declared = capabilities.get("elicitation").is_some();
            assert_eq!(declared, profile.form(&schema) != FormBehavior::Undeclared, "{profile:?}");
            let apps = capabilities["extensions"].get(UI_EXTENSION).is_some();
            assert_eq!(apps, profile.shows_apps(), "{profile:?}");
        }
    }

    #[test]
    fn model_reads_the_parts_that_its_host_passes_on() {
        let result = result();
        assert_eq!(HostProfile::Goose.model_view(&result), "3 rows");
        assert_eq!(HostProfile::Codex.model_view(&result), r#"{"rows":3}"#);
        assert_eq!(HostProfile::VsCode.model_view(&result), "{\"rows\":3}\n3 rows");
        let plain = json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
        assert_eq!(HostProfile::Codex.model_view(&plain), "a\nb");
        assert_eq!(HostProfile::GeminiCli.model_view(&json!({"structuredContent": {"rows": 3}})), "");
    }

    #[test]
    fn long_result_is_cut_in_the_middle() {
        let text = format!("{}{}", "a".repeat(10_000), "b".repeat(10_000));
        let result = json!({"content": [{"type": "text", "text": text}]});
        let view = HostProfile::Codex.model_view(&result);
        assert_eq!(view, format!("{}\n[...]\n{}", "a".repeat(6_000), "b".repeat(6_000)));
        assert_eq!(HostProfile::Codex.max_result_chars(), Some(12_000));
        assert_eq!(HostProfile::GeminiCli.model_view(&result), text);
    }

    #[test]
    fn app_receives_the_parts_that_its_host_passes_on() {
        let (result, mut plain) = (result(), result());
        plain["content"].as_array_mut().unwrap().pop();
        assert_eq!(HostProfile::VsCode.app_view(&result), Some(result.clone()));
        assert_eq!(HostProfile::ClaudeWeb.app_view(&result), None);
        assert_eq!(HostProfile::ClaudeWeb.app_view(&plain), Some(plain.clone()));
        let content = json!({"content": plain["content"], "isError": false});
        assert_eq!(HostProfile::ClaudeDesktop.app_view(&plain), Some(content));
        let rewritten = json!([{"type": "text", "text": "{\"rows\":3}"}]);
        let structured = json!({"content": rewritten, "structuredContent": {"rows": 3}, "isError": false});
        assert_eq!(HostProfile::ChatGpt.app_view(&plain), Some(structured));
        assert_eq!(HostProfile::ClaudeIos.app_view(&plain), None);
        for profile in HostProfile::ALL {
            let kept = profile.app_view(&plain).is_some_and(|view| view.get("_meta").is_some());
            assert_eq!(kept, !profile.drops_meta(), "{profile:?}");
        }
    }

    #[test]
    fn codex_does_not_show_a_form_with_an_integer() {
        let form = |kind: &str| json!({"type": "object", "properties": {"cell": {"type": kind}}});
        assert_eq!(HostProfile::Codex.form(&form("string")), FormBehavior::Shows);
        assert_eq!(HostProfile::Codex.form(&form("integer")), FormBehavior::AcceptsEmpty);
        assert_eq!(HostProfile::Goose.form(&form("integer")), FormBehavior::Shows);
        assert_eq!(HostProfile::Zed.form(&form("integer")), FormBehavior::Undeclared);
    }
}
