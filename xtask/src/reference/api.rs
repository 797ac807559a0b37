//! `docs/reference/api/<crate>.txt`: what users of a crate can name, so that a change of it is a line in a review.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Type};

use crate::source::attributes;
use crate::source::item::{attrs, is_public, text};
use crate::source::tree::{Export, Exported, Place, Tree};

/// What belongs to a type or a trait.
#[derive(Default)]
struct Members {
    functions: BTreeSet<String>,
    traits: BTreeSet<String>,
}

/// The whole listing, by path.
pub(super) fn listing(tree: &Tree) -> String {
    let mut exports = tree.exports();
    exports.sort_by(|one, other| one.path.cmp(&other.path));
    let homes = homes(&exports);
    let members = members(tree, &exports, &homes);
    let mut lines = Vec::new();
    for export in &exports {
        let Export { path, conditions, what } = export;
        let condition = told(conditions);
        match what {
            Exported::Module => lines.push(format!("pub mod {path}{condition}")),
            Exported::Foreign(from) => lines.push(format!("pub use {path} = {from}{condition}")),
            Exported::Item(place) if homes[place] != *path => {
                lines.push(format!("pub use {path} = {}{condition}", homes[place]));
            }
            Exported::Item(place) => {
                lines.push(format!("{}{condition}", head(tree.item(*place), path)));
                lines.extend(parts(tree.item(*place)).into_iter().map(|it| format!("    {it}")));
                let Some(Members { functions, traits }) = members.get(place) else { continue };
                lines.extend(functions.iter().chain(traits).map(|it| format!("    {it}")));
            }
        }
    }
    lines.extend(made_by_macros(tree));
    lines.dedup();
    lines.join("\n") + "\n"
}

/// The path by which each thing is best known: the shortest.
pub(super) fn homes(exports: &[Export]) -> BTreeMap<Place, String> {
    let mut homes: BTreeMap<Place, String> = BTreeMap::new();
    for export in exports {
        let Exported::Item(place) = export.what else { continue };
        let length = |path: &str| (path.matches("::").count(), path.to_owned());
        let home = homes.entry(place).or_insert_with(|| export.path.clone());
        if length(&export.path) < length(home) {
            home.clone_from(&export.path);
        }
    }
    homes
}

fn told(conditions: &[String]) -> String {
    let kept = attributes::necessary(conditions);
    if kept.is_empty() { String::new() } else { format!("  [{}]", kept.join(", ")) }
}

/// The line that says what it is.
fn head(item: &Item, path: &str) -> String {
    let open = if attributes::has(attrs(item), "non_exhaustive") { "#[non_exhaustive] " } else { "" };
    match item {
        Item::Const(it) => format!("pub const {path}: {}", text(&it.ty)),
        Item::Static(it) => format!("pub static {path}: {}", text(&it.ty)),
        Item::Enum(it) => format!("{open}pub enum {path}{}", text(&it.generics)),
        Item::Struct(it) => format!("{open}pub struct {path}{}", text(&it.generics)),
        Item::Fn(it) => format!("pub {}", signature(&it.sig, path)),
        Item::Type(it) => format!("pub type {path}{} = {}", text(&it.generics), text(&it.ty)),
        Item::Trait(it) => {
            let bounds: Vec<String> = it.supertraits.iter().map(text).collect();
            let bounds = if bounds.is_empty() { String::new() } else { format!(": {}", bounds.join(" + ")) };
            format!("pub trait {path}{}{bounds}", text(&it.generics))
        }
        Item::Macro(_) => format!("pub macro {path}!"),
        _ => format!("pub {path}"),
    }
}

/// A function's signature under its whole name. Whether an argument is `mut` is nobody's business.
fn signature(signature: &syn::Signature, path: &str) -> String {
    let written = text(signature).replace("(mut ", "(").replace(", mut ", ", ");
    let written = written.trim_end_matches(',');
    written.replacen(&format!("fn {}", signature.ident), &format!("fn {path}"), 1)
}

/// Fields and variants, and what a trait has.
fn parts(item: &Item) -> Vec<String> {
    match item {
        Item::Struct(it) => fields(&it.fields).into_iter().map(|it| format!("pub {it}")).collect(),
        Item::Enum(it) => {
            let shown = it.variants.iter().filter(|it| !attributes::is_hidden(&it.attrs));
            shown.map(variant).collect()
        }
        Item::Trait(it) => it.items.iter().filter_map(trait_part).collect(),
        _ => Vec::new(),
    }
}

fn variant(variant: &syn::Variant) -> String {
    let types = |fields: &Fields| fields.iter().map(|it| text(&it.ty)).collect::<Vec<_>>().join(", ");
    let condition = told(&attributes::conditions(&variant.attrs));
    let inside = match &variant.fields {
        Fields::Unit => String::new(),
        Fields::Unnamed(_) => format!("({})", types(&variant.fields)),
        Fields::Named(named) => {
            let named =
                named.named.iter().filter_map(|it| Some(format!("{}: {}", it.ident.as_ref()?, text(&it.ty))));
            format!(" {{ {} }}", named.collect::<Vec<_>>().join(", "))
        }
    };
    format!("{}{inside}{condition}", variant.ident)
}

fn fields(fields: &Fields) -> Vec<String> {
    let public = fields.iter().enumerate().filter(|(_, it)| is_public(&it.vis));
    let name = |number: usize, field: &syn::Field| {
        field.ident.as_ref().map_or_else(|| number.to_string(), ToString::to_string)
    };
    let line = |(number, it): (usize, &syn::Field)| {
        format!("{}: {}{}", name(number, it), text(&it.ty), told(&attributes::conditions(&it.attrs)))
    };
    public.map(line).collect()
}

fn trait_part(part: &TraitItem) -> Option<String> {
    match part {
        TraitItem::Fn(it) => {
            let given = if it.default.is_some() { " { … }" } else { "" };
            Some(format!("{}{given}", signature(&it.sig, &it.sig.ident.to_string())))
        }
        TraitItem::Type(it) => Some(text(it)),
        TraitItem::Const(it) => Some(text(it)),
        _ => None,
    }
}

/// What `impl`s and derives give to what is public.
fn members(tree: &Tree, exports: &[Export], homes: &BTreeMap<Place, String>) -> BTreeMap<Place, Members> {
    let mut members: BTreeMap<Place, Members> = BTreeMap::new();
    let there: BTreeMap<Place, &[String]> = exports
        .iter()
        .filter_map(|it| match it.what {
            Exported::Item(place) => Some((place, it.conditions.as_slice())),
            Exported::Module | Exported::Foreign(_) => None,
        })
        .collect();
    for (place, item) in tree.items() {
        if homes.contains_key(&place) {
            let derived = attributes::derives(attrs(item)).into_iter().map(|it| format!("impl {it}"));
            members.entry(place).or_default().traits.extend(derived);
        }
        let Item::Impl(block) = item else { continue };
        let of = path_of(&block.self_ty).and_then(|path| tree.find(place, path));
        let of = of.filter(|it| homes.contains_key(it));
        let mut around = tree.conditions_at(place);
        around.extend(attributes::conditions(&block.attrs));
        let Some((path, _)) = &block.trait_ else {
            let Some(of) = of else { continue };
            let around = beyond(&around, there[&of]);
            members.entry(of).or_default().functions.extend(functions(block, &around));
            continue;
        };
        let known = tree.find(place, path);
        // A trait that nobody can name gives nobody anything.
        if known.is_some_and(|it| !homes.contains_key(&it)) {
            continue;
        }
        // What is ours is told of the type; of others' types, of the trait.
        let Some(of) = of.or(known) else { continue };
        let condition = told(&beyond(&around, there[&of]));
        let line = format!("impl{} {} for {}{condition}", generics(block), text(path), text(&block.self_ty));
        members.entry(of).or_default().traits.insert(line);
    }
    members
}

/// Conditions that are not those of the type itself.
fn beyond(conditions: &[String], of_type: &[String]) -> Vec<String> {
    conditions.iter().filter(|it| !of_type.contains(it)).cloned().collect()
}

fn generics(block: &ItemImpl) -> String {
    let bounds = block.generics.where_clause.as_ref().map(text).unwrap_or_default();
    let generics = text(&block.generics);
    if bounds.is_empty() { generics } else { format!("{generics} ({bounds})") }
}

/// The type that is meant, behind references and boxes of references.
pub(super) fn path_of(of: &Type) -> Option<&syn::Path> {
    match of {
        Type::Path(path) => Some(&path.path),
        Type::Reference(of) => path_of(&of.elem),
        _ => None,
    }
}

fn functions(block: &ItemImpl, around: &[String]) -> Vec<String> {
    let line = |attributes: &[Attribute], what: String| {
        let mut conditions = around.to_vec();
        conditions.extend(attributes::conditions(attributes));
        format!("pub {what}{}", told(&conditions))
    };
    let shown =
        |attributes: &[Attribute]| !attributes::is_hidden(attributes) && !attributes::is_test(attributes);
    let part = |item: &ImplItem| match item {
        ImplItem::Fn(it) if is_public(&it.vis) && shown(&it.attrs) => {
            Some(line(&it.attrs, signature(&it.sig, &it.sig.ident.to_string())))
        }
        ImplItem::Const(it) if is_public(&it.vis) && shown(&it.attrs) => {
            Some(line(&it.attrs, format!("const {}: {}", it.ident, text(&it.ty))))
        }
        _ => None,
    };
    block.items.iter().filter_map(part).collect()
}

/// What macros of the crate's own implement is not written down anywhere else, so their calls are listed.
fn made_by_macros(tree: &Tree) -> Vec<String> {
    let macros = |item: &Item| match item {
        Item::Macro(it) => it.ident.as_ref().map(|name| (name.to_string(), text(&it.mac).contains(" impl "))),
        _ => None,
    };
    let implementing: BTreeSet<String> =
        tree.items().filter_map(|(_, it)| macros(it)).filter(|(_, it)| *it).map(|(name, _)| name).collect();
    let call = |(place, item): (Place, &Item)| match item {
        Item::Macro(it) if it.ident.is_none() => {
            let name = it.mac.path.segments.last()?.ident.to_string();
            let known = implementing.contains(&name);
            let rows =
                text(&it.mac).replace("; ", ";\n    ").replacen("{ ", "{\n    ", 1).replace("\n    }", "\n}");
            known.then(|| format!("in {}: {rows}", tree.module_path(place)))
        }
        _ => None,
    };
    let mut calls: Vec<String> = tree.items().filter_map(call).collect();
    calls.sort();
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, listing: &[&str]) {
        let found = super::listing(&Tree::of_text(source));
        assert_eq!(found.lines().collect::<Vec<_>>(), listing, "{found}");
    }

    #[test]
    fn what_is_reexported_is_listed_under_its_shortest_name_and_what_is_not_is_not() {
        let source = "mod inner { pub struct Seen; pub struct Unseen; pub(crate) struct Ours; }\n\
            pub use inner::Seen;\n\
            pub mod prelude { pub use crate::Seen; pub use other::Thing as Named; }\n\
            #[doc(hidden)] pub mod hidden { pub struct Hidden; }\n\
            #[cfg(test)] pub mod tests { pub struct Test; }\n";
        check(
            source,
            &[
                "pub struct some_crate::Seen",
                "pub mod some_crate::prelude",
                "pub use some_crate::prelude::Named = other::Thing",
                "pub use some_crate::prelude::Seen = some_crate::Seen",
            ],
        );
    }

    #[test]
    fn members_are_found_wherever_they_are_written_and_say_what_they_need() {
        let source = "#[derive(Clone)] #[non_exhaustive] pub struct Config { pub size: usize, secret: u8 }\n\
            mod far { use super::Config; trait Private {} impl Private for Config {}\n\
              impl Config { pub fn with_size(\nmut self,\n// how much\nsize: usize,\n) -> Self { self } fn inner() {} } }\n\
            #[cfg(feature = \"http\")] mod http { impl crate::Config { #[cfg(feature = \"tls\")] pub fn served(&self) {} } }\n\
            impl Default for Config { fn default() -> Self { todo!() } }\n";
        check(
            source,
            &[
                "#[non_exhaustive] pub struct some_crate::Config",
                "    pub size: usize",
                "    pub fn served(&self)  [http, tls]",
                "    pub fn with_size(self, size: usize) -> Self",
                "    impl Clone",
                "    impl Default for Config",
            ],
        );
    }

    #[test]
    fn function_and_module_of_one_name_are_told_apart() {
        let source = "mod server { mod serve { pub fn serve(port: u16) {} } pub use serve::serve; }\n\
            pub use server::serve; pub use dep::dep;\n\
            pub trait Law { fn kept(&self) -> bool; fn broken(&self) -> bool { false } }\n\
            impl<F: Fn()> Law for F { fn kept(&self) -> bool { true } }\n\
            pub enum Kind { One(u8), #[cfg(feature = \"x\")] Two { a: u8 } }\n";
        check(
            source,
            &[
                "pub enum some_crate::Kind",
                "    One(u8)",
                "    Two { a: u8 }  [x]",
                "pub trait some_crate::Law",
                "    fn kept(&self) -> bool",
                "    fn broken(&self) -> bool { … }",
                "    impl<F: Fn()> Law for F",
                "pub use some_crate::dep = dep::dep",
                "pub fn some_crate::serve(port: u16)",
            ],
        );
    }

    #[test]
    fn what_a_macro_implements_is_listed_by_its_call() {
        let source = "pub struct Config;\nmacro_rules! setters { ($($name:ident;)*) => { impl Config { $(pub fn $name(self) {})* } }; }\n\
            setters! {\n /// Sets it.\n with_a; with_b;\n}\n";
        check(
            source,
            &[
                "pub struct some_crate::Config",
                "in some_crate: setters! {",
                "    with_a;",
                "    with_b;",
                "}",
            ],
        );
    }
}
