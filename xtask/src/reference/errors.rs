//! `errors.md`: what can go wrong, how it is told, and what to do about it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use syn::{Expr, ExprLit, ImplItem, Item, ItemEnum, Lit, Pat, Stmt};

use crate::source::attributes::{derives, docs, first_text, is_hidden, paragraph};
use crate::source::item::{attrs, path_of};
use crate::source::tree::{Place, Tree, homes};

pub(super) const HEAD: &str = "\
# Errors

This page lists the public errors of every crate, with their meaning, their cause or fix, and their message.
A name in braces stands for a value. A message describes one level only. The cause is its `source()`.
";

/// Links to other pages, by the path of the error. Each text follows the description of its error.
const LINKS: [(&str, &str); 1] = [(
    "antiphon_replay::Drift",
    "[Troubleshooting](../troubleshooting.md#drift-the-run-cannot-be-continued) lists the causes and solutions. \
     [Deploy new code while runs wait](../guides/new-code.md) lists the changes of your code that do not cause drift.",
)];

/// Words by which variants are known elsewhere, by the functions that say them.
type Words = BTreeMap<Place, BTreeMap<String, String>>;

/// The part of the page about one crate; nothing if nothing can go wrong.
pub(super) fn section(name: &str, tree: &Tree) -> String {
    let homes = homes(&tree.exports());
    let (implemented, words) = implementations(tree);
    let mut found: Vec<(&String, Place)> = homes.iter().map(|(place, path)| (path, *place)).collect();
    found.sort();
    let mut section = String::new();
    for (path, place) in found {
        let item = tree.item(place);
        let is_error = implemented.contains(&place) || derives(attrs(item)).iter().any(|it| it == "Error");
        match item {
            Item::Enum(it)
                if is_error || words.contains_key(&place) && it.ident.to_string().starts_with("Error") =>
            {
                section.push_str(&table(path, it, words.get(&place)));
            }
            Item::Struct(it) if is_error => {
                let says = first_text(&it.attrs, "error").map(|it| format!("\n\nMessage: `{it}`"));
                let what = paragraph(&docs(&it.attrs));
                // Writing to a string does not fail.
                let _ = write!(section, "\n### `{path}`\n\n{what}{}\n", says.unwrap_or_default());
            }
            _ => {}
        }
    }
    if section.is_empty() { section } else { format!("\n## `{name}`\n{section}") }
}

/// What is an error by an `impl`, and what has words for its variants.
fn implementations(tree: &Tree) -> (BTreeSet<Place>, Words) {
    let (mut implemented, mut words) = (BTreeSet::new(), Words::new());
    for (place, item) in tree.items() {
        let Item::Impl(block) = item else { continue };
        let Some(of) = path_of(&block.self_ty).and_then(|path| tree.find(place, path)) else { continue };
        if let Some((of_trait, _)) = &block.trait_ {
            let name = of_trait.segments.last().map(|it| it.ident.to_string()).unwrap_or_default();
            if name == "Error" || name == "StdError" {
                implemented.insert(of);
            }
            continue;
        }
        for function in &block.items {
            match function {
                ImplItem::Fn(it) if it.sig.ident == "as_str" || it.sig.ident == "name" => {
                    words.entry(of).or_default().extend(spoken(&it.block));
                }
                _ => {}
            }
        }
    }
    (implemented, words)
}

/// The words of a `match` that gives each variant its own.
fn spoken(block: &syn::Block) -> Vec<(String, String)> {
    let Some(Stmt::Expr(Expr::Match(choice), _)) = block.stmts.last() else { return Vec::new() };
    let arm = |arm: &syn::Arm| {
        let Expr::Lit(ExprLit { lit: Lit::Str(word), .. }) = &*arm.body else { return None };
        let path = match &arm.pat {
            Pat::Path(it) => &it.path,
            Pat::Struct(it) => &it.path,
            Pat::TupleStruct(it) => &it.path,
            _ => return None,
        };
        Some((path.segments.last()?.ident.to_string(), word.value()))
    };
    choice.arms.iter().filter_map(arm).collect()
}

fn table(path: &str, item: &ItemEnum, words: Option<&BTreeMap<String, String>>) -> String {
    let shown: Vec<_> = item.variants.iter().filter(|it| !is_hidden(&it.attrs)).collect();
    let reads = shown.iter().any(|it| first_text(&it.attrs, "error").is_some());
    let words = words.filter(|it| !it.is_empty());
    let links =
        LINKS.iter().find(|(of, _)| *of == path).map_or(String::new(), |(_, text)| format!("\n\n{text}"));
    let mut page =
        format!("\n### `{path}`\n\n{}{links}\n\n| variant | meaning |", paragraph(&docs(&item.attrs)));
    page.push_str(if words.is_some() { " code |" } else { "" });
    page.push_str(if reads { " message |" } else { "" });
    page.push_str("\n|---|---|");
    page.push_str(&"---|".repeat(usize::from(words.is_some()) + usize::from(reads)));
    page.push('\n');
    for variant in shown {
        let mut cells = vec![format!("`{}`", variant.ident), paragraph(&docs(&variant.attrs))];
        let quoted = |text: Option<String>, or: &str| text.map_or(or.to_owned(), |it| format!("`{it}`"));
        if let Some(words) = words {
            cells.push(quoted(words.get(&variant.ident.to_string()).cloned(), ""));
        }
        if reads {
            let text = first_text(&variant.attrs, "error").map(|it| it.replace('`', "'"));
            cells.push(quoted(text, "the message of its source"));
        }
        let cells: Vec<String> = cells.iter().map(|it| it.replace('|', "\\|")).collect();
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
    page
}

/// How the command ends, from what it says of that itself.
pub(super) fn exit_codes(command: &Tree) -> Result<String> {
    let help = command.items().find_map(|(_, item)| match item {
        Item::Const(it) if it.ident == "HELP" => match &*it.expr {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let help = help.filter(|it| it.starts_with("Exit codes:"));
    let help = help.context("the command no longer says its exit codes in a constant `HELP`")?;
    let mut page = String::from("\n## Exit codes of the `antiphon` CLI\n\n| code | meaning |\n|---|---|\n");
    for line in help.lines().skip(1) {
        let (code, meaning) = line.trim().split_once(' ').unwrap_or_default();
        writeln!(page, "| {code} | {} |", meaning.trim())?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variant_is_a_row_with_its_text_and_word() {
        let section = section(
            "some-crate",
            &Tree::of_text(
                "/// Why not.\n#[derive(Debug, thiserror::Error)] pub enum Error {\n\
                 /// It is gone: ask\n/// again.\n#[error(\"`{key}` is gone\")] Gone { key: String },\n\
                 /// Below.\n#[error(transparent)] Below(u8) }\n\
                 impl Error { fn name(&self) -> &str { match self { Self::Gone { .. } => \"gone\", Self::Below(_) => \"below\" } } }\n\
                 pub enum Unrelated { A } impl Unrelated { pub fn name(&self) -> &str { match self { Self::A => \"a\" } } }\n",
            ),
        );
        assert!(
            section.contains("| `Gone` | It is gone: ask again. | `gone` | `'{key}' is gone` |\n"),
            "{section}"
        );
        assert!(
            section.contains("| `Below` | Below. | `below` | the message of its source |\n"),
            "{section}"
        );
        assert!(!section.contains("Unrelated"), "{section}");
    }

    #[test]
    fn exit_codes_are_those_of_the_help() {
        let tree = Tree::of_text("const HELP: &str = \"Exit codes:\\n  0    done\\n  130  interrupted\";");
        assert!(exit_codes(&tree).unwrap().ends_with("| 0 | done |\n| 130 | interrupted |\n"));
        exit_codes(&Tree::of_text("const HELP: &str = \"none\";")).unwrap_err();
    }
}
