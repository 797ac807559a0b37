//! `cargo xtask layers`: which modules of a crate import each other.
//!
//! An import leads from the file that names something to the file that defines it, also if the name is re-exported in
//! between. Tests are left out. The top-level modules of a crate and the imports between them form a graph. `layers.toml` has
//! the limits for each crate, which can only fall, and the layers of those crates that declare them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result, ensure};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use serde::Deserialize;
use syn::Item;

use crate::project::Project;
use crate::source::attributes;
use crate::source::item::{attrs, leaves};
use crate::source::names::Meaning;
use crate::source::tree::Tree;
use crate::table::Table;

const BASELINE: &str = "xtask/layers.toml";

/// Options of `cargo xtask layers`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Show the imports of this crate that are counted.
    #[arg(long)]
    show: Option<String>,
    /// Lower the limits in `xtask/layers.toml` to the figures of today. Limits are never raised.
    #[arg(long)]
    update: bool,
}

/// The limits of a crate.
#[derive(Debug, Clone, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Limits {
    /// Pairs of top-level modules that import each other.
    mutual_pairs: usize,
    /// Imports from a lower layer to a higher one.
    upward_imports: usize,
    /// Files in the largest import cycle.
    largest_cycle: usize,
    /// Top-level modules from the lowest layer to the highest. Without them, the order with the fewest upward imports that
    /// is easily found.
    #[serde(default)]
    layers: Vec<Vec<String>>,
}

/// The imports of one crate.
#[derive(Debug)]
struct Graph {
    /// The path of each file, by module.
    files: Vec<String>,
    /// Between files.
    imports: BTreeSet<(usize, usize)>,
    /// Between top-level modules, and how many imports of files each stands for.
    modules: BTreeMap<(String, String), usize>,
    /// All top-level modules.
    names: BTreeSet<String>,
}

/// What was counted.
#[derive(Debug)]
struct Figures {
    mutual: Vec<(String, String)>,
    upward: Vec<(String, String)>,
    cycle: BTreeSet<usize>,
}

/// Prints the figures, and checks them.
pub(crate) fn main(options: &Options) -> Result<()> {
    let project = Project::open()?;
    let graphs = read(&project)?;
    let limits = limits(&project)?;
    let mut table = Table::new([
        "crate",
        "files",
        "imports",
        "modules",
        "module imports",
        "mutual pairs",
        "upward imports",
        "largest cycle",
    ]);
    for (name, graph) in &graphs {
        let figures = graph.figures(&limits.get(name).cloned().unwrap_or_default().layers)?;
        table.row([
            name.clone(),
            graph.files.len().to_string(),
            graph.imports.len().to_string(),
            graph.names.len().to_string(),
            graph.modules.len().to_string(),
            figures.mutual.len().to_string(),
            figures.upward.len().to_string(),
            figures.cycle.len().to_string(),
        ]);
        if options.show.as_ref() == Some(name) {
            show(graph, &figures);
        }
    }
    println!("{table}");
    if options.update {
        return update(&project, &graphs, &limits);
    }
    println!("{}", compare(&graphs, &limits)?);
    Ok(())
}

/// Checks the figures of all crates, and returns those of all together.
pub(crate) fn check(project: &Project) -> Result<String> {
    compare(&read(project)?, &limits(project)?)
}

fn show(graph: &Graph, figures: &Figures) {
    for (a, b) in &figures.mutual {
        let count = |from: &String, to: &String| graph.modules[&(from.clone(), to.clone())];
        println!("mutual: {a} -> {b} ({}), {b} -> {a} ({})", count(a, b), count(b, a));
    }
    for (from, to) in &figures.upward {
        println!("upward: {from} -> {to}");
        for (a, b) in &graph.imports {
            let (a, b) = (&graph.files[*a], &graph.files[*b]);
            if module_of(a) == Some(from) && module_of(b) == Some(to) {
                println!("    {a} -> {b}");
            }
        }
    }
    println!("largest cycle:");
    for (a, b) in graph.imports.iter().filter(|(a, b)| [a, b].iter().all(|it| figures.cycle.contains(it))) {
        println!("    {} -> {}", graph.files[*a], graph.files[*b]);
    }
}

fn read(project: &Project) -> Result<BTreeMap<String, Graph>> {
    let folder = project.root.join("crates");
    let entries = fs::read_dir(&folder).with_context(|| format!("could not read {}", folder.display()))?;
    let mut graphs = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().join("Cargo.toml").exists() {
            let tree = Tree::read(&name, &entry.path())?;
            graphs.insert(name, Graph::of(&tree));
        }
    }
    Ok(graphs)
}

fn limits(project: &Project) -> Result<BTreeMap<String, Limits>> {
    let file = project.root.join(BASELINE);
    let text = fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
    toml::from_str(&text).with_context(|| format!("could not parse {}", file.display()))
}

fn compare(graphs: &BTreeMap<String, Graph>, limits: &BTreeMap<String, Limits>) -> Result<String> {
    let mut problems = Vec::new();
    let (mut mutual, mut upward) = (0, 0);
    for (name, graph) in graphs {
        let limit = limits.get(name).cloned().unwrap_or_default();
        let figures = graph.figures(&limit.layers)?;
        mutual += figures.mutual.len();
        upward += figures.upward.len();
        for (what, counted, limit) in [
            ("mutual_pairs", figures.mutual.len(), limit.mutual_pairs),
            ("upward_imports", figures.upward.len(), limit.upward_imports),
            ("largest_cycle", figures.cycle.len(), limit.largest_cycle),
        ] {
            if counted > limit {
                problems.push(format!(
                    "{name}: {what} is {counted}, and at most {limit} are allowed; `cargo xtask layers --show {name}` \
                     lists them"
                ));
            } else if counted < limit {
                problems.push(format!(
                    "{name}: {what} fell to {counted} from {limit}; keep it with `cargo xtask layers --update`"
                ));
            }
        }
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(format!("{mutual} mutual pairs, {upward} upward imports in {} crates", graphs.len()))
}

fn update(
    project: &Project,
    graphs: &BTreeMap<String, Graph>,
    limits: &BTreeMap<String, Limits>,
) -> Result<()> {
    let mut text = String::from(
        "# Limits of `cargo xtask layers`. They can only fall: `cargo xtask layers --update` lowers them.\n",
    );
    for (name, graph) in graphs {
        let old = limits.get(name);
        let layers = old.map(|old| old.layers.clone()).unwrap_or_default();
        let figures = graph.figures(&layers)?;
        let lower = |old: Option<usize>, new: usize| old.map_or(new, |old| old.min(new));
        let _ = write!(
            text,
            "\n[{name}]\nmutual_pairs = {}\nupward_imports = {}\nlargest_cycle = {}\n",
            lower(old.map(|it| it.mutual_pairs), figures.mutual.len()),
            lower(old.map(|it| it.upward_imports), figures.upward.len()),
            lower(old.map(|it| it.largest_cycle), figures.cycle.len()),
        );
        if !layers.is_empty() {
            text.push_str("layers = [\n");
            for layer in &layers {
                let names: Vec<String> = layer.iter().map(|name| format!("\"{name}\"")).collect();
                let _ = writeln!(text, "    [{}],", names.join(", "));
            }
            text.push_str("]\n");
        }
    }
    fs::write(project.root.join(BASELINE), text).context("could not write the limits")?;
    println!("wrote {BASELINE}");
    Ok(())
}

/// The top-level module of a file.
fn module_of(file: &str) -> Option<&str> {
    file.split("::").nth(1)
}

impl Graph {
    fn of(tree: &Tree) -> Self {
        let file_of = |mut module: usize| {
            while tree.modules[module].is_inline {
                let Some(parent) = tree.modules[module].parent else { break };
                module = parent;
            }
            module
        };
        let mut imports = BTreeSet::new();
        for (number, module) in tree.modules.iter().enumerate() {
            for item in module.items.iter().filter(|item| !attributes::is_test(attrs(item))) {
                for target in targets(tree, number, item) {
                    let (from, to) = (file_of(number), file_of(target));
                    if from != to {
                        imports.insert((from, to));
                    }
                }
            }
        }
        // The numbers of modules become numbers of files.
        let kept: Vec<usize> =
            (0..tree.modules.len()).filter(|module| !tree.modules[*module].is_inline).collect();
        let place: BTreeMap<usize, usize> =
            kept.iter().enumerate().map(|(at, module)| (*module, at)).collect();
        let files: Vec<String> = kept.iter().map(|module| tree.path_of(*module)).collect();
        let imports: BTreeSet<_> = imports.iter().map(|(from, to)| (place[from], place[to])).collect();
        let mut modules = BTreeMap::new();
        for (from, to) in &imports {
            if let (Some(from), Some(to)) = (module_of(&files[*from]), module_of(&files[*to]))
                && from != to
            {
                *modules.entry((from.to_owned(), to.to_owned())).or_insert(0) += 1;
            }
        }
        let names = files.iter().filter_map(|file| module_of(file)).map(str::to_owned).collect();
        Self { files, imports, modules, names }
    }

    fn figures(&self, layers: &[Vec<String>]) -> Result<Figures> {
        let has = |from: &String, to: &String| self.modules.contains_key(&(from.clone(), to.clone()));
        let mutual: Vec<_> =
            self.modules.keys().filter(|(from, to)| from < to && has(to, from)).cloned().collect();
        let rank = if layers.is_empty() { self.order() } else { self.ranks(layers)? };
        let upward = self.modules.keys().filter(|(from, to)| rank[from] < rank[to]).cloned().collect();
        Ok(Figures { mutual, upward, cycle: self.largest_cycle() })
    }

    fn ranks(&self, layers: &[Vec<String>]) -> Result<BTreeMap<String, usize>> {
        let named =
            layers.iter().enumerate().flat_map(|(rank, names)| names.iter().map(move |it| (it, rank)));
        let ranks: BTreeMap<String, usize> = named.map(|(name, rank)| (name.clone(), rank)).collect();
        for name in &self.names {
            ensure!(ranks.contains_key(name), "the module `{name}` is in no layer of `{BASELINE}`");
        }
        for name in ranks.keys() {
            ensure!(self.names.contains(name), "`{BASELINE}` has a layer for `{name}`, which does not exist");
        }
        Ok(ranks)
    }

    /// An order of the modules with few upward imports: again and again the module with the most imports from others and
    /// the fewest of its own goes below the rest (Eades, Lin and Smyth).
    fn order(&self) -> BTreeMap<String, usize> {
        let mut left = self.names.clone();
        let mut order = BTreeMap::new();
        while !left.is_empty() {
            let score = |name: &String| {
                let count = |is: &dyn Fn(&(String, String)) -> bool| {
                    let edges =
                        self.modules.keys().filter(|(from, to)| left.contains(from) && left.contains(to));
                    i64::try_from(edges.filter(|edge| is(edge)).count()).unwrap_or(i64::MAX)
                };
                let (own, others) = (count(&|edge| edge.0 == *name), count(&|edge| edge.1 == *name));
                // A module that imports nothing more is lowest, whatever else.
                (own == 0, others - own)
            };
            let Some(lowest) = left.iter().max_by_key(|name| score(name)).cloned() else { break };
            order.insert(lowest.clone(), order.len());
            left.remove(&lowest);
        }
        order
    }

    /// The largest set of files in which each file imports each other one, directly or not. It has one file if there is
    /// no cycle.
    fn largest_cycle(&self) -> BTreeSet<usize> {
        let reach = |from: usize, forward: bool| {
            let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
            while let Some(at) = open.pop() {
                for (a, b) in &self.imports {
                    let (a, b) = if forward { (*a, *b) } else { (*b, *a) };
                    if a == at && seen.insert(b) {
                        open.push(b);
                    }
                }
            }
            seen
        };
        let mut left: BTreeSet<usize> = (0..self.files.len()).collect();
        let mut largest = BTreeSet::new();
        while let Some(first) = left.first().copied() {
            let back = reach(first, false);
            let cycle: BTreeSet<usize> = reach(first, true).intersection(&back).copied().collect();
            left.retain(|file| !cycle.contains(file));
            if cycle.len() > largest.len() {
                largest = cycle;
            }
        }
        largest
    }
}

/// The modules that define what an item of `module` names.
fn targets(tree: &Tree, module: usize, item: &Item) -> Vec<usize> {
    let paths: Vec<Vec<String>> = match item {
        Item::Use(item) => leaves(&item.tree).into_iter().map(|(_, path)| path).collect(),
        Item::Mod(_) => Vec::new(),
        item => {
            let mut paths = Vec::new();
            collect(item.to_token_stream(), &mut paths);
            // Names in scope were imported, and are counted there.
            let starts = |first: &String| {
                matches!(first.as_str(), "crate" | "super" | "self") || tree.child(module, first).is_some()
            };
            paths.retain(|path| path.len() > 1 && starts(&path[0]));
            paths
        }
    };
    paths.iter().flat_map(|path| defined(tree, module, path)).collect()
}

/// The modules that define what the longest known part of a path names.
fn defined(tree: &Tree, module: usize, path: &[String]) -> Vec<usize> {
    for length in (1..=path.len()).rev() {
        let found = tree.resolve(module, &path[..length], false, 0);
        let modules: Vec<usize> = found
            .into_iter()
            .filter_map(|meaning| match meaning {
                Meaning::Module(module) => Some(module),
                Meaning::Item(place) => Some(place.module),
                Meaning::Foreign => None,
            })
            .collect();
        if !modules.is_empty() {
            // `super` alone names nothing.
            return if length == 1 { Vec::new() } else { modules };
        }
    }
    Vec::new()
}

/// Collects the paths in tokens.
fn collect(tokens: TokenStream, paths: &mut Vec<Vec<String>>) {
    let mut path: Vec<String> = Vec::new();
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    paths.push(std::mem::take(&mut path));
                }
                path.push(ident.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Group(group) => {
                paths.push(std::mem::take(&mut path));
                colons = 0;
                collect(group.stream(), paths);
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {
                paths.push(std::mem::take(&mut path));
                colons = 0;
            }
        }
    }
    paths.push(path);
    paths.retain(|path| !path.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(text: &str) -> Graph {
        let mut tree = Tree::of_text(text);
        // As if each were a file.
        tree.modules.iter_mut().for_each(|module| module.is_inline = false);
        Graph::of(&tree)
    }

    #[test]
    fn imports_follow_reexports_to_the_file_that_defines_the_name() {
        let graph = graph(
            "mod a { pub(crate) use self::inner::Thing; mod inner { pub(crate) struct Thing; } }\n\
             mod b { use crate::a::Thing; }",
        );
        assert!(graph.modules.contains_key(&("b".into(), "a".into())));
        let shown: Vec<_> =
            graph.imports.iter().map(|(a, b)| (&*graph.files[*a], &*graph.files[*b])).collect();
        assert!(shown.contains(&("some_crate::b", "some_crate::a::inner")), "{shown:?}");
    }

    #[test]
    fn paths_in_code_count_and_tests_do_not() {
        let graph = graph(
            "mod a { pub(crate) fn f() { crate::b::g::<u8>(); } }\n\
             mod b { pub(crate) fn g<T>() {} #[cfg(test)] mod tests { use crate::a::f; } }",
        );
        assert_eq!(graph.modules.keys().cloned().collect::<Vec<_>>(), [("a".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn mutual_pairs_upward_imports_and_cycles_are_counted() {
        let graph = graph(
            "mod a { use crate::b::B; pub struct A; } mod b { use crate::a::A; use crate::c::C; pub struct B; }\n\
             mod c { pub struct C; }",
        );
        let figures = graph.figures(&[]).unwrap();
        assert_eq!(figures.mutual, [("a".to_owned(), "b".to_owned())]);
        assert_eq!((figures.upward.len(), figures.cycle.len()), (1, 2));
        let layers = [vec!["a".to_owned()], vec!["b".to_owned()], vec!["c".to_owned()]];
        assert_eq!(graph.figures(&layers).unwrap().upward.len(), 2);
        assert!(graph.figures(&layers[..2]).is_err(), "a module without a layer");
    }
}
