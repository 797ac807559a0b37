//! `wire.md`: what we put on the wire beyond MCP.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use syn::{Expr, ExprLit, Item, ItemConst, Lit};

use crate::project::Project;
use crate::source::attributes::{docs, summary};
use crate::source::item::text;
use crate::source::tree::{Tree, homes};

const HEAD: &str = "\
# Protocol extensions

This page lists the names that Antiphon adds to MCP. The names are optional: a peer that does not support a name can ignore it.
";

/// Methods for tasks of 2025-11-25, which the SDK does not know: they never leave the process under these names, unless a
/// client uses them by itself.
const METHODS: [(&str, &str); 6] = [
    ("antiphon/tasks/call", "`tools/call` with `task`: runs a call as a task."),
    ("antiphon/tasks/get", "`tasks/get`: returns the status of a task."),
    ("antiphon/tasks/cancel", "`tasks/cancel`: cancels a task."),
    ("antiphon/tasks/list", "`tasks/list`: lists the caller's tasks."),
    (
        "antiphon/tasks/result",
        "`tasks/result`: waits for a task, and sends the questions of the task to the client.",
    ),
    ("antiphon/tools/list", "`tools/list`: lists tools, with their task support in `execution`."),
];

/// Where private constants are told of.
const TOLD: [(&str, &str); 1] = [("antiphon/trace", "`antiphon::ServerBuilder::with_traces`")];

/// Routes beside those of result sets.
const ROUTES: [(&str, &str, &str); 15] = [
    ("GET", "/livez", "Liveness: returns 200 while the process runs."),
    ("GET", "/readyz", "Readiness: returns 200 if the replica accepts requests."),
    ("GET", "/metrics", "Returns metrics in the format of Prometheus."),
    ("GET", "/runs", "Operators: lists the runs."),
    ("GET", "/runs/{owner}/{id}", "Operators: shows one run with its timeline, without values."),
    ("DELETE", "/runs/{owner}/{id}", "Operators: deletes a finished run."),
    ("POST", "/runs/{owner}/{id}/retry", "Operators: retries a run."),
    ("POST", "/runs/{owner}/{id}/cancel", "Operators: cancels a run."),
    ("GET", "/ask/{token}", "Answer page: names the server, and has a button that opens the question."),
    ("POST", "/ask/{token}/open", "Answer page: shows the question to the user who may answer it."),
    ("POST", "/ask/{token}", "Answer page: receives the answer."),
    ("GET", "/ask/{token}/next", "Answer page: shows the next question, or states that the run has ended."),
    ("GET", "/ask/{token}/sign-in", "Answer page: sends the browser to the OpenID provider."),
    (
        "GET",
        "/ask/callback",
        "Answer page: completes the sign-in. Register this URL as the redirect URL at the OpenID provider.",
    ),
    (
        "GET",
        "/.well-known/oauth-protected-resource",
        "Returns the protected resource metadata (RFC 9728). The path of the MCP endpoint follows this path.",
    ),
];

/// Other names that are not MCP's, by the constants that hold them.
const OTHERS: [&str; 6] =
    ["ELICITATION_COMPLETE", "SCHEMA_TOOL", "SCHEME", "SUBPROTOCOL", "TRACEPARENT", "TRACESTATE"];

/// A constant that holds a name.
struct Name {
    value: String,
    what: String,
    /// By which path users can name it.
    path: Option<String>,
}

/// The page.
pub(super) fn page(project: &Project, trees: &[&Tree]) -> Result<String> {
    let guides = guides(&project.root.join("docs/guides"))?;
    let names = names(trees);
    complete(trees, &names)?;
    let mut page = HEAD.to_owned();
    page.push_str("\n## Keys in `_meta`, and resources\n\n| name | description | see |\n|---|---|---|\n");
    for (value, name) in &names {
        if !value.starts_with("antiphon/") && !value.starts_with("ui://") {
            continue;
        }
        writeln!(page, "| `{value}` | {} | {} |", name.what, told(name, &guides)?)?;
    }
    page.push_str("\n## Methods\n\nThe SDK does not support the tasks of 2025-11-25. A layer of Antiphon renames the methods of these tasks before the SDK parses the messages. See `antiphon_transport::legacy_tasks`.\n\n| method | method on the wire |\n|---|---|\n");
    for (method, what) in METHODS {
        writeln!(page, "| `{method}` | {what} |")?;
    }
    page.push_str("\n## Headers\n\n| header | description | see |\n|---|---|---|\n");
    for (value, name) in names.iter().filter(|(value, _)| value.starts_with("antiphon-")) {
        writeln!(page, "| `{value}` | {} | {} |", name.what, told(name, &guides)?)?;
    }
    page.push_str("\n## Routes\n\nThe paths are relative to the path where you mount the router.\n\n| route | description |\n|---|---|\n");
    for (method, route, what) in ROUTES {
        writeln!(page, "| `{method} {route}` | {what} |")?;
    }
    page.push_str("\nThe routes of result sets are relative to their base URL. `crates/antiphon-results/openapi.json` describes their bodies, and a server also returns this document:\n\n| route | description |\n|---|---|\n");
    page.push_str(&of_results(&project.root)?);
    page.push_str("\n## Other names\n\n| name | description | in code |\n|---|---|---|\n");
    for constant in OTHERS {
        let name = names
            .values()
            .find(|it| it.path.as_ref().is_some_and(|it| it.ends_with(&format!("::{constant}"))));
        let name = name.with_context(|| format!("there is no public constant `{constant}` any more"))?;
        let path = name.path.as_deref().unwrap_or_default();
        writeln!(page, "| `{}` | {} | `{path}` |", name.value, name.what)?;
    }
    Ok(page)
}

/// All constants that hold a text, by that text; of several the one that users can name.
fn names(trees: &[&Tree]) -> BTreeMap<String, Name> {
    let mut names: BTreeMap<String, Name> = BTreeMap::new();
    for tree in trees {
        let homes = homes(&tree.exports());
        for (place, item) in tree.items() {
            let Item::Const(item) = item else { continue };
            let Some(value) = value(item) else { continue };
            let name = Name {
                what: summary(&docs(&item.attrs)).replace('|', "\\|"),
                path: homes.get(&place).cloned(),
                value: value.clone(),
            };
            match names.get(&value) {
                Some(known) if known.path.is_some() || name.path.is_none() => {}
                _ => drop(names.insert(value, name)),
            }
        }
    }
    names
}

/// The text that a constant holds, also as the name of a header.
fn value(item: &ItemConst) -> Option<String> {
    let literal = |expression: &Expr| match expression {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    };
    match &*item.expr {
        Expr::Call(call) if text(&call.func).ends_with("from_static") => call.args.first().and_then(literal),
        other => literal(other),
    }
}

/// Nothing of ours is on the wire that the page does not have.
fn complete(trees: &[&Tree], names: &BTreeMap<String, Name>) -> Result<()> {
    let mut found = BTreeSet::new();
    let mut routes = BTreeSet::new();
    for tree in trees {
        for (_, item) in tree.items() {
            let source = text(item);
            // A name, not the beginning of one.
            let of_ours = source.split("\"antiphon/").skip(1).filter_map(|after| after.split('"').next());
            let whole = of_ours.filter(|it| it.len() > 1 && !it.contains(['{', ' ']));
            found.extend(whole.map(|it| format!("antiphon/{it}")));
            let of_routes =
                source.split(".route(").skip(1).filter_map(|after| after.trim_start().strip_prefix('"'));
            routes.extend(of_routes.filter_map(|it| it.split('"').next()).map(ToOwned::to_owned));
        }
    }
    let known = |it: &&String| names.contains_key(*it) || METHODS.iter().any(|(method, _)| method == it);
    let unknown: Vec<&str> = found.iter().filter(|it| !known(it)).map(String::as_str).collect();
    ensure!(unknown.is_empty(), "say in xtask/src/reference/wire.rs what these are: {}", unknown.join(", "));
    for (method, _) in METHODS {
        ensure!(
            found.contains(method),
            "nobody speaks `{method}` any more; take it out of xtask/src/reference/wire.rs"
        );
    }
    let of_sets = |it: &str| it.starts_with("/{id}") || it == "/openapi.json";
    let known = |it: &str| of_sets(it) || ROUTES.iter().any(|(_, route, _)| *route == it);
    let unknown: Vec<&str> = routes.iter().map(String::as_str).filter(|it| !known(it)).collect();
    ensure!(
        unknown.is_empty(),
        "say in xtask/src/reference/wire.rs what these routes do: {}",
        unknown.join(", ")
    );
    Ok(())
}

/// The guides by the names of their files.
fn guides(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut guides = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        guides.insert(name, fs::read_to_string(&path)?.to_lowercase());
    }
    Ok(guides)
}

/// Where a person reads of it: the guides that name it, and what it is called in code.
fn told(name: &Name, guides: &BTreeMap<String, String>) -> Result<String> {
    let naming = guides.iter().filter(|(_, text)| text.contains(&name.value));
    let mut told: Vec<String> = naming.map(|(guide, _)| format!("[{guide}](../guides/{guide})")).collect();
    told.extend(name.path.as_ref().map(|path| format!("`{path}`")));
    told.extend(TOLD.iter().filter(|(value, _)| *value == name.value).map(|(_, path)| (*path).to_owned()));
    ensure!(!told.is_empty(), "`{}` is on the wire, and no guide says so; name it in one", name.value);
    Ok(told.join(", "))
}

fn of_results(root: &Path) -> Result<String> {
    let file = root.join("crates/antiphon-results/openapi.json");
    let text = fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
    let document: Value = serde_json::from_str(&text).context("openapi.json is not JSON")?;
    let mut rows = String::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let Some(summary) = operation["summary"].as_str() else { continue };
            writeln!(rows, "| `{} {path}` | {summary} |", method.to_uppercase())?;
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(source: &str) -> String {
        let tree = Tree::of_text(source);
        complete(&[&tree], &names(&[&tree])).unwrap_err().to_string()
    }

    #[test]
    fn name_and_route_of_which_nothing_is_said_are_refused() {
        assert!(refusal("fn a() -> &'static str { \"antiphon/secret\" }").contains("antiphon/secret"));
        let spoken = format!("const ALL: [&str; 6] = {:?};", METHODS.map(|(method, _)| method));
        let told = "/// It is told of.\npub const META: &str = \"antiphon/secret\";";
        let tree = Tree::of_text(&format!("{spoken}{told}"));
        complete(&[&tree], &names(&[&tree])).unwrap();
        assert!(
            refusal(&format!("{spoken} fn b() {{ r.route(\n\"/back/door\", get(c)); }}"))
                .contains("/back/door")
        );
    }

    #[test]
    fn name_is_told_of_where_a_guide_or_a_constant_has_it() {
        let tree = Tree::of_text(
            "/// What it is.\npub const META: &str = \"antiphon/it\"; const X: &str = \"antiphon/x\";",
        );
        let names = names(&[&tree]);
        let guides = BTreeMap::from([("a.md".to_owned(), "see `antiphon/it`".to_owned())]);
        assert_eq!(
            told(&names["antiphon/it"], &guides).unwrap(),
            "[a.md](../guides/a.md), `some_crate::META`"
        );
        told(&names["antiphon/x"], &guides).unwrap_err();
    }
}
