//! The sources of a crate as a tree of modules, and what is public in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use syn::Item;

use super::attributes;
use super::item::{attrs, ident, is_exported_macro, is_public, leaves, visibility};
use super::names::Meaning;

/// A crate that was read.
pub(crate) struct Tree {
    /// As it is written in paths.
    pub(crate) name: String,
    pub(crate) modules: Vec<Module>,
}

pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) parent: Option<usize>,
    is_hidden: bool,
    conditions: Vec<String>,
    /// Whether it is written in its parent's file.
    pub(crate) is_inline: bool,
    pub(crate) items: Vec<Item>,
}

/// Where something is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) module: usize,
    pub(crate) item: usize,
}

/// An item that users can name.
#[derive(Debug)]
pub(crate) struct Export {
    /// With the crate's name.
    pub(crate) path: String,
    pub(crate) conditions: Vec<String>,
    place: Place,
}

/// The path by which each item is best known: the shortest.
pub(crate) fn homes(exports: &[Export]) -> BTreeMap<Place, String> {
    let mut homes: BTreeMap<Place, String> = BTreeMap::new();
    for export in exports {
        let length = |path: &str| (path.matches("::").count(), path.to_owned());
        let home = homes.entry(export.place).or_insert_with(|| export.path.clone());
        if length(&export.path) < length(home) {
            home.clone_from(&export.path);
        }
    }
    homes
}

impl Tree {
    /// Reads the crate in `folder`.
    pub(crate) fn read(name: &str, folder: &Path) -> Result<Self> {
        let library = folder.join("src/lib.rs");
        let root = parse(&if library.exists() { library } else { folder.join("src/main.rs") })?;
        Self::of(name, root, &folder.join("src"))
    }

    /// The crate of this file, whose modules are in `folder`, if they are not in the file.
    fn of(name: &str, root: syn::File, folder: &Path) -> Result<Self> {
        let mut tree = Self { name: name.replace('-', "_"), modules: Vec::new() };
        let module = Module {
            name: tree.name.clone(),
            parent: None,
            is_hidden: false,
            conditions: Vec::new(),
            is_inline: false,
            items: Vec::new(),
        };
        tree.add(module, root.items, folder)?;
        Ok(tree)
    }

    /// A crate that is one text.
    #[cfg(test)]
    pub(crate) fn of_text(text: &str) -> Self {
        Self::of("some-crate", syn::parse_file(text).unwrap(), Path::new("nowhere")).unwrap()
    }

    fn add(&mut self, module: Module, mut items: Vec<Item>, folder: &Path) -> Result<()> {
        let number = self.modules.len();
        self.modules.push(module);
        for item in &mut items {
            let Item::Mod(child) = item else { continue };
            if attributes::is_test(&child.attrs) {
                continue;
            }
            let name = child.ident.to_string();
            let module = Module {
                name: name.clone(),
                parent: Some(number),
                is_hidden: attributes::is_hidden(&child.attrs),
                conditions: attributes::conditions(&child.attrs),
                is_inline: child.content.is_some(),
                items: Vec::new(),
            };
            let below = folder.join(&name);
            let items = match child.content.take() {
                Some((_, items)) => items,
                None => parse(&file_of(folder, &name))?.items,
            };
            self.add(module, items, &below)?;
        }
        self.modules[number].items = items;
        Ok(())
    }

    /// All items, public or not, but for tests.
    pub(crate) fn items(&self) -> impl Iterator<Item = (Place, &Item)> {
        self.modules.iter().enumerate().flat_map(|(module, it)| {
            let places = it.items.iter().enumerate().map(move |(item, it)| (Place { module, item }, it));
            places.filter(|(_, item)| !attributes::is_test(attrs(item)))
        })
    }

    /// The item at `place`.
    pub(crate) fn item(&self, place: Place) -> &Item {
        &self.modules[place.module].items[place.item]
    }

    /// The path of a module.
    pub(crate) fn path_of(&self, module: usize) -> String {
        let mut names = Vec::new();
        let mut at = Some(module);
        while let Some(module) = at {
            names.push(self.modules[module].name.as_str());
            at = self.modules[module].parent;
        }
        names.reverse();
        names.join("::")
    }

    /// The items that users can name, in the order of the sources. What is hidden from the documents is left out.
    pub(crate) fn exports(&self) -> Vec<Export> {
        let mut exports = Vec::new();
        self.export(0, &self.name, &[], &mut exports, &mut BTreeSet::new());
        // Macros lie at the root, wherever they are written.
        for (place, item) in self.items().filter(|(_, it)| is_exported_macro(it)) {
            let (Some(name), false) = (ident(item), attributes::is_hidden(attrs(item))) else { continue };
            let path = format!("{}::{name}", self.name);
            let conditions = self.conditions_of(place.module);
            exports.push(Export { path, conditions, place });
        }
        exports
    }

    fn export(
        &self,
        module: usize,
        prefix: &str,
        conditions: &[String],
        exports: &mut Vec<Export>,
        seen: &mut BTreeSet<(usize, String)>,
    ) {
        if !seen.insert((module, prefix.to_owned())) {
            return;
        }
        for (number, item) in self.modules[module].items.iter().enumerate() {
            let attributes = attrs(item);
            if attributes::is_hidden(attributes) || attributes::is_test(attributes) {
                continue;
            }
            let conditions = joined(conditions, &attributes::conditions(attributes));
            if let Item::Use(item) = item {
                if is_public(&item.vis) {
                    self.export_use(module, item, prefix, &conditions, exports, seen);
                }
                continue;
            }
            if !visibility(item).is_some_and(is_public) {
                continue;
            }
            let Some(name) = ident(item) else { continue };
            let path = format!("{prefix}::{name}");
            if matches!(item, Item::Mod(_)) {
                if let Some(child) = self.child(module, &name.to_string()) {
                    self.export(child, &path, &conditions, exports, seen);
                }
                continue;
            }
            exports.push(Export { path, conditions, place: Place { module, item: number } });
        }
    }

    fn export_use(
        &self,
        module: usize,
        item: &syn::ItemUse,
        prefix: &str,
        conditions: &[String],
        exports: &mut Vec<Export>,
        seen: &mut BTreeSet<(usize, String)>,
    ) {
        for (name, path) in leaves(&item.tree) {
            for meaning in self.resolve(module, &path, true, 0) {
                let Some(name) = &name else {
                    if let Meaning::Module(globbed) = meaning {
                        let conditions = joined(conditions, &self.conditions_of(globbed));
                        self.export(globbed, prefix, &conditions, exports, seen);
                    }
                    continue;
                };
                let path = format!("{prefix}::{name}");
                match meaning {
                    Meaning::Module(child) if !self.modules[child].is_hidden => {
                        let conditions = joined(conditions, &self.conditions_of(child));
                        self.export(child, &path, &conditions, exports, seen);
                    }
                    Meaning::Module(_) | Meaning::Foreign => {}
                    Meaning::Item(place) => {
                        let own = attributes::conditions(attrs(self.item(place)));
                        let above = joined(&self.conditions_of(place.module), &own);
                        exports.push(Export { path, conditions: joined(conditions, &above), place });
                    }
                }
            }
        }
    }

    fn conditions_of(&self, module: usize) -> Vec<String> {
        let Module { parent, conditions, .. } = &self.modules[module];
        parent.map(|it| joined(&self.conditions_of(it), conditions)).unwrap_or_default()
    }

    /// The module of this name in another.
    pub(crate) fn child(&self, module: usize, name: &str) -> Option<usize> {
        self.modules.iter().position(|it| it.parent == Some(module) && it.name == name)
    }
}

fn parse(file: &Path) -> Result<syn::File> {
    let text = fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))?;
    syn::parse_file(&text).with_context(|| format!("could not parse {}", file.display()))
}

fn file_of(folder: &Path, module: &str) -> PathBuf {
    let file = folder.join(format!("{module}.rs"));
    if file.exists() { file } else { folder.join(module).join("mod.rs") }
}

fn joined(outer: &[String], inner: &[String]) -> Vec<String> {
    let mut all = outer.to_vec();
    inner.iter().filter(|it| !outer.contains(it)).for_each(|it| all.push(it.clone()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, paths: &[(&str, &[&str])]) {
        let exports = Tree::of_text(source).exports();
        let found: Vec<(&str, Vec<&str>)> = exports
            .iter()
            .map(|it| (it.path.as_str(), it.conditions.iter().map(String::as_str).collect()))
            .collect();
        let expected: Vec<(&str, Vec<&str>)> = paths.iter().map(|(path, it)| (*path, it.to_vec())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_reexported_is_found_and_what_is_not_is_not() {
        let source = "mod inner { pub struct Seen; pub struct Unseen; pub(crate) struct Ours; }\n\
            pub use inner::Seen;\n\
            pub mod prelude { pub use crate::Seen; pub use other::Thing as Named; }\n\
            #[doc(hidden)] pub mod hidden { pub struct Hidden; }\n\
            #[cfg(test)] pub mod tests { pub struct Test; }\n";
        check(source, &[("some_crate::Seen", &[]), ("some_crate::prelude::Seen", &[])]);
        let homes = homes(&Tree::of_text(source).exports());
        assert_eq!(homes.into_values().collect::<Vec<_>>(), ["some_crate::Seen"]);
    }

    #[test]
    fn function_and_module_of_one_name_are_told_apart() {
        let source = "mod server { mod serve { pub fn serve(port: u16) {} } pub use serve::serve; }\n\
            pub use server::serve; pub use dep::dep;\n\
            #[cfg(feature = \"http\")] mod http { #[cfg(feature = \"tls\")] pub struct Tls; }\n\
            #[cfg(feature = \"http\")] pub use http::Tls;\n";
        check(source, &[("some_crate::serve", &[]), ("some_crate::Tls", &["http", "tls"])]);
    }
}
