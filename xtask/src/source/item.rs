//! What items have in common.

use syn::spanned::Spanned;
use syn::{Attribute, Ident, Item, Type, UseTree, Visibility};

use super::attributes;

/// What a `use` brings in: under which name, unless it is a glob, and from where.
pub(crate) fn leaves(tree: &UseTree) -> Vec<(Option<String>, Vec<String>)> {
    match tree {
        UseTree::Path(path) => {
            let mut below = leaves(&path.tree);
            for (name, from) in &mut below {
                if from.is_empty() && name.is_some() {
                    *name = Some(path.ident.to_string());
                }
                from.insert(0, path.ident.to_string());
            }
            below
        }
        // The path that leads here says how it is called.
        UseTree::Name(name) if name.ident == "self" => vec![(Some(String::new()), Vec::new())],
        UseTree::Name(name) => vec![(Some(name.ident.to_string()), vec![name.ident.to_string()])],
        UseTree::Rename(name) => vec![(Some(name.rename.to_string()), vec![name.ident.to_string()])],
        UseTree::Glob(_) => vec![(None, Vec::new())],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
    }
}

/// Whether anybody may see it.
pub(crate) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Whether it is a macro that users can call.
pub(crate) fn is_exported_macro(item: &Item) -> bool {
    matches!(item, Item::Macro(it) if attributes::has(&it.attrs, "macro_export"))
}

/// Its name.
pub(crate) fn ident(item: &Item) -> Option<&Ident> {
    match item {
        Item::Const(it) => Some(&it.ident),
        Item::Enum(it) => Some(&it.ident),
        Item::Fn(it) => Some(&it.sig.ident),
        Item::Macro(it) => it.ident.as_ref(),
        Item::Mod(it) => Some(&it.ident),
        Item::Static(it) => Some(&it.ident),
        Item::Struct(it) => Some(&it.ident),
        Item::Trait(it) => Some(&it.ident),
        Item::Type(it) => Some(&it.ident),
        _ => None,
    }
}

/// Who may see it; nothing where that is not said.
pub(crate) fn visibility(item: &Item) -> Option<&Visibility> {
    match item {
        Item::Const(it) => Some(&it.vis),
        Item::Enum(it) => Some(&it.vis),
        Item::Fn(it) => Some(&it.vis),
        Item::Mod(it) => Some(&it.vis),
        Item::Static(it) => Some(&it.vis),
        Item::Struct(it) => Some(&it.vis),
        Item::Trait(it) => Some(&it.vis),
        Item::Type(it) => Some(&it.vis),
        Item::Use(it) => Some(&it.vis),
        _ => None,
    }
}

/// What stands above an item.
pub(crate) fn attrs(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// The type that is meant, behind references.
pub(crate) fn path_of(of: &Type) -> Option<&syn::Path> {
    match of {
        Type::Path(path) => Some(&path.path),
        Type::Reference(of) => path_of(&of.elem),
        _ => None,
    }
}

/// A part of the source in one line, as its author wrote it.
pub(crate) fn text(part: &impl Spanned) -> String {
    one_line(&part.span().source_text().unwrap_or_default())
}

/// Text without comments, and without the breaks and the commas that only formatting put in.
fn one_line(text: &str) -> String {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words: Vec<&str> = code.flat_map(str::split_whitespace).collect();
    let line = words.join(" ");
    line.replace("( ", "(").replace(", )", ")").replace(" )", ")").replace("< ", "<").replace(", >", ">")
}
