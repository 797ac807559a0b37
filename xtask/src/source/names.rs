//! What names mean: as the compiler would have it, as far as our own sources need.

use syn::{Item, Visibility};

use super::attributes;
use super::item::{attrs, ident, is_public, leaves, visibility};
use super::tree::{Place, Tree};

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Meaning {
    Module(usize),
    Item(Place),
    /// Another crate's.
    Foreign,
}

impl Tree {
    /// Where the type, or whatever else, that `path` names in the module of `from` is defined, if it is here.
    pub(crate) fn find(&self, from: Place, path: &syn::Path) -> Option<Place> {
        let names: Vec<String> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        let found = self.resolve(from.module, &names, false, 0);
        found.into_iter().find_map(|it| match it {
            Meaning::Item(place) => Some(place),
            Meaning::Module(_) | Meaning::Foreign => None,
        })
    }

    /// What `path` means in `module`: a name may stand for a module and a function.
    pub(crate) fn resolve(&self, module: usize, path: &[String], public: bool, depth: usize) -> Vec<Meaning> {
        // Names that lead to themselves through globs lead nowhere.
        if depth > 12 {
            return vec![Meaning::Foreign];
        }
        let Some((first, rest)) = path.split_first() else { return vec![Meaning::Module(module)] };
        let mut found = match first.as_str() {
            "crate" => vec![Meaning::Module(0)],
            "self" => vec![Meaning::Module(module)],
            "super" => self.modules[module].parent.map(Meaning::Module).into_iter().collect(),
            name => self.named(module, name, public && rest.is_empty(), depth),
        };
        if found.is_empty() {
            return vec![Meaning::Foreign];
        }
        if !rest.is_empty() {
            found = found
                .into_iter()
                .flat_map(|meaning| match meaning {
                    Meaning::Module(inner) => self.resolve(inner, rest, public, depth + 1),
                    Meaning::Foreign => vec![Meaning::Foreign],
                    Meaning::Item(_) => Vec::new(),
                })
                .collect();
        }
        found
    }

    /// What `name` means in `module` itself.
    fn named(&self, module: usize, name: &str, public: bool, depth: usize) -> Vec<Meaning> {
        let mut found = Vec::new();
        for (number, item) in self.modules[module].items.iter().enumerate() {
            let seen = |visibility: &Visibility| !public || is_public(visibility);
            if attributes::is_test(attrs(item)) {
                continue;
            }
            match item {
                Item::Use(item) if seen(&item.vis) => {
                    for (alias, path) in leaves(&item.tree) {
                        match alias {
                            // `use serve::serve` is of the module of that name, or of another crate; never of itself.
                            Some(alias) if alias == name && path[0] == name => {
                                let inner = self.child(module, name).into_iter();
                                found.extend(
                                    inner.flat_map(|it| self.resolve(it, &path[1..], public, depth + 1)),
                                );
                            }
                            Some(alias) if alias == name => {
                                found.extend(self.resolve(module, &path, public, depth + 1));
                            }
                            None => found.extend(self.globbed(module, &path, name, public, depth)),
                            Some(_) => {}
                        }
                    }
                }
                Item::Mod(item) if item.ident == name && seen(&item.vis) => {
                    found.extend(self.child(module, name).map(Meaning::Module));
                }
                Item::Mod(_) | Item::Use(_) => {}
                item if ident(item).is_some_and(|it| it == name) && visibility(item).is_none_or(seen) => {
                    found.push(Meaning::Item(Place { module, item: number }));
                }
                _ => {}
            }
        }
        found
    }

    fn globbed(
        &self,
        module: usize,
        path: &[String],
        name: &str,
        public: bool,
        depth: usize,
    ) -> Vec<Meaning> {
        let from = self.resolve(module, path, false, depth + 1);
        let modules = from.into_iter().filter_map(|it| match it {
            Meaning::Module(module) if depth < 12 => Some(module),
            _ => None,
        });
        modules.flat_map(|it| self.named(it, name, public, depth + 1)).collect()
    }
}
