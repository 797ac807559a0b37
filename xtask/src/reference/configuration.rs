//! `configuration.md`: everything that can be set, with its default.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use syn::{Fields, FnArg, ImplItem, ImplItemFn, Item, ItemEnum, ItemStruct, ReturnType};

use crate::source::attributes::{conditions, default, docs, is_hidden, necessary, paragraph, summary};
use crate::source::item::{is_public, path_of, text};
use crate::source::tree::{Place, Tree, homes};

/// The beginning of the page.
pub(super) const HEAD: &str = "\
# Configuration

This page lists all settings of each crate, with their default and the first sentence of their documentation.
Set a field `x` with `with_x`, or assign it if this method does not exist. A name with parentheses is a method.
The features in square brackets are required.
";

/// What ends in one of these is there to be set.
const NAMES: [&str; 7] = ["Budget", "Builder", "Config", "Limits", "Options", "Policy", "Quota"];

/// Something with settings.
struct Settings<'a> {
    path: String,
    conditions: Vec<String>,
    item: &'a ItemStruct,
    methods: Vec<&'a ImplItemFn>,
}

/// The part of the page about one crate; nothing if nothing can be set.
pub(super) fn section(name: &str, tree: &Tree) -> String {
    let settings = settings(tree);
    // What drives the machine is no setting.
    if name == "antiphon-replay" {
        return String::new();
    }
    let mut section = String::new();
    let mut types = String::new();
    for it in &settings {
        section.push_str(&table(it, &mut types));
    }
    for choice in choices(tree, &types) {
        section.push_str(&choice);
    }
    if section.is_empty() { section } else { format!("\n## `{name}`\n{section}") }
}

fn settings(tree: &Tree) -> Vec<Settings<'_>> {
    let exports = tree.exports();
    let homes = homes(&exports);
    let mut methods: BTreeMap<Place, Vec<&ImplItemFn>> = BTreeMap::new();
    for (place, item) in tree.items() {
        let Item::Impl(block) = item else { continue };
        let of = path_of(&block.self_ty).filter(|_| block.trait_.is_none());
        let Some(of) = of.and_then(|path| tree.find(place, path)) else { continue };
        let setters = block.items.iter().filter_map(|it| match it {
            ImplItem::Fn(it) if is_setter(it) => Some(it),
            _ => None,
        });
        methods.entry(of).or_default().extend(setters);
    }
    let mut found = Vec::new();
    for (place, path) in homes {
        let Item::Struct(item) = tree.item(place) else { continue };
        let methods = methods.remove(&place).unwrap_or_default();
        let named = NAMES.iter().any(|it| item.ident.to_string().ends_with(it));
        // Other things with public fields are data, which some methods change.
        let is_opaque = !item.fields.iter().any(|it| is_public(&it.vis));
        let has_setter = methods.iter().any(|it| it.sig.ident.to_string().starts_with("with_"));
        if named || (is_opaque && has_setter) {
            let export = exports.iter().find(|it| it.path == path);
            let conditions = export.map(|it| it.conditions.clone()).unwrap_or_default();
            found.push(Settings { path, conditions, item, methods });
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// Whether it takes itself and gives itself back.
fn is_setter(method: &ImplItemFn) -> bool {
    let by_value = matches!(method.sig.inputs.first(), Some(FnArg::Receiver(it)) if !text(it).contains('&'));
    let back = match &method.sig.output {
        ReturnType::Type(_, of) => text(of) == "Self",
        ReturnType::Default => false,
    };
    is_public(&method.vis) && !is_hidden(&method.attrs) && by_value && back
}

fn table(settings: &Settings<'_>, types: &mut String) -> String {
    let Settings { path, conditions: needs, item, methods } = settings;
    let mut rows = String::new();
    let mut names = BTreeSet::new();
    if let Fields::Named(fields) = &item.fields {
        for field in fields.named.iter().filter(|it| is_public(&it.vis) && !is_hidden(&it.attrs)) {
            let Some(name) = &field.ident else { continue };
            names.insert(name.to_string());
            let kind = text(&field.ty);
            rows.push_str(&row(&format!("`{name}`"), &kind, &field.attrs, &[]));
            types.push_str(&kind);
            types.push('\n');
        }
    }
    for method in methods {
        let name = method.sig.ident.to_string();
        if names.contains(name.trim_start_matches("with_")) || names.contains(&name) {
            continue;
        }
        let arguments: Vec<String> = method.sig.inputs.iter().skip(1).map(text).collect();
        let arguments = arguments.join(", ");
        rows.push_str(&row(&format!("`{name}(…)`"), &arguments, &method.attrs, needs));
        types.push_str(&arguments);
        types.push('\n');
    }
    if rows.is_empty() {
        return String::new();
    }
    let needs = bracketed(needs);
    let what = paragraph(&docs(&item.attrs));
    format!(
        "\n### `{path}`{needs}\n\n{what}\n\n| setting | type | default | description |\n|---|---|---|---|\n{rows}"
    )
}

fn row(name: &str, kind: &str, attributes: &[syn::Attribute], needs: &[String]) -> String {
    let docs = docs(attributes);
    let own: Vec<String> = conditions(attributes).into_iter().filter(|it| !needs.contains(it)).collect();
    let kind = if kind.is_empty() { String::new() } else { format!("`{kind}`") };
    let cells = [kind, default(&docs).unwrap_or_default(), summary(&docs)].map(|it| it.replace('|', "\\|"));
    format!("| {name}{} | {} |\n", bracketed(&own), cells.join(" | "))
}

fn bracketed(features: &[String]) -> String {
    let features = necessary(features);
    let shown: Vec<&str> = features.into_iter().filter(|it| !it.starts_with("__")).collect();
    if shown.is_empty() { String::new() } else { format!(" [{}]", shown.join(", ")) }
}

/// The enums that settings take.
fn choices(tree: &Tree, types: &str) -> Vec<String> {
    let words: BTreeSet<&str> =
        types.split(|it: char| !it.is_alphanumeric() && it != '_').filter(|it| !it.is_empty()).collect();
    let exports = tree.exports();
    let mut found: Vec<(String, &ItemEnum)> = Vec::new();
    for (place, path) in homes(&exports) {
        match tree.item(place) {
            Item::Enum(item) if words.contains(item.ident.to_string().as_str()) => found.push((path, item)),
            _ => {}
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found.into_iter().map(|(path, item)| choice(&path, item)).collect()
}

fn choice(path: &str, item: &ItemEnum) -> String {
    let mut page = format!(
        "\n### `{path}`\n\n{}\n\n| value | description |\n|---|---|\n",
        paragraph(&docs(&item.attrs))
    );
    for variant in item.variants.iter().filter(|it| !is_hidden(&it.attrs)) {
        let is_default =
            if crate::source::attributes::has(&variant.attrs, "default") { " (the default)" } else { "" };
        let what = summary(&docs(&variant.attrs)).replace('|', "\\|");
        // Writing to a string does not fail.
        let _ = writeln!(page, "| `{}`{is_default} | {what} |", variant.ident);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_is_a_row_with_its_default_and_setter_of_a_field_is_none() {
        let section = section(
            "some-crate",
            &Tree::of_text(
                "/// How it is served.\npub struct ServeConfig { /// How many. More wait. Default: 16.\npub most: usize, inner: u8 }\n\
                 impl ServeConfig { /// Sets how many.\npub fn with_most(mut self, most: usize) -> Self { self }\n\
                 /// Sets whom. Default: [`Whom::All`].\n#[cfg(feature = \"x\")] pub fn with_whom(mut self, whom: Whom) -> Self { self }\n\
                 pub fn read(&self) -> Self { todo!() } }\n\
                 /// Whom it is for.\npub enum Whom { /// Everybody.\n#[default] All }\n\
                 pub struct Data { pub a: u8 } impl Data { pub fn with_a(self) -> Self { self } }\n",
            ),
        );
        assert!(section.contains("### `some_crate::ServeConfig`\n\nHow it is served.\n"), "{section}");
        assert!(section.contains("\n| `most` | `usize` | 16 | How many. |\n"), "{section}");
        assert!(
            section.contains("\n| `with_whom(…)` [x] | `whom: Whom` | `Whom::All` | Sets whom. |\n"),
            "{section}"
        );
        assert!(
            section.contains("### `some_crate::Whom`")
                && section.contains("| `All` (the default) | Everybody. |"),
            "{section}"
        );
        assert!(
            !section.contains("with_most") && !section.contains("read") && !section.contains("Data"),
            "{section}"
        );
    }
}
