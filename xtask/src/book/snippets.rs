//! Whether what a page shows is compiled, or says why it is not.
//!
//! A page repeats a source under `<!-- from: path:part -->`, or a whole file under `<!-- from: path -->`, and both must be
//! the same. It does not include it as mdBook does: GitHub, where people read these pages too, shows the include itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::page::Snippet;
use super::plain;

/// Where sources are that are compiled and tested.
const ROOMS: [&str; 3] = ["crates", "examples", "lab"];

/// What is wrong with a snippet, if something is. `tested` says whether its page is one of doc tests.
pub(super) fn problem(root: &Path, snippet: &Snippet, tested: bool) -> Option<String> {
    if snippet.code.lines().any(|line| line.trim().starts_with("{{#include ")) {
        return Some("GitHub shows the include itself: repeat the source, `<!-- from: path:part -->`".into());
    }
    if let Some(source) = snippet.source() {
        return match repeated(root, source) {
            Ok(code) if code == snippet.code => None,
            Ok(_) => Some(format!("it is not what `{source}` has: run `cargo xtask book fill`")),
            Err(problem) => Some(problem),
        };
    }
    if !snippet.is_rust() {
        return None;
    }
    if snippet.is_ignored() {
        let reason = snippet.comment.as_deref().and_then(|comment| comment.strip_prefix("ignored: "));
        return reason
            .is_none()
            .then(|| "it is not compiled: say why above it, `<!-- ignored: … -->`".to_owned());
    }
    (!tested).then(|| {
        "nothing compiles it: take it from a source, `<!-- from: path:part -->`, or mark it `rust,ignore` and say why above it".into()
    })
}

/// The content of `path:part`, or of `path`, from the root of the repository.
pub(super) fn repeated(root: &Path, source: &str) -> Result<String, String> {
    match source.split_once(':') {
        Some((path, name)) => part(root, Path::new(path), name),
        None => Ok(whole(root, Path::new(source))?.trim_end().to_owned() + "\n"),
    }
}

fn whole(root: &Path, file: &Path) -> Result<String, String> {
    fs::read_to_string(root.join(file)).map_err(|_| format!("`{}` is shown and not there", file.display()))
}

/// What stands between two anchors, without others and without what all its lines begin with.
fn part(root: &Path, file: &Path, name: &str) -> Result<String, String> {
    let text = whole(root, file)?;
    let bare = |line: &str| line.trim_start_matches(['/', ' ']).to_owned();
    let after = text.lines().skip_while(|line| bare(line) != format!("ANCHOR: {name}")).skip(1);
    let end = format!("ANCHOR_END: {name}");
    if !text.lines().any(|line| bare(line) == end) || after.clone().next().is_none() {
        return Err(format!("`{}` has no part `{name}`", file.display()));
    }
    let lines: Vec<&str> = after
        .take_while(|line| bare(line) != end)
        .filter(|line| !bare(line).starts_with("ANCHOR: ") && !bare(line).starts_with("ANCHOR_END: "))
        .collect();
    let full = lines.iter().filter(|line| !line.trim().is_empty());
    let margin = full.map(|line| line.len() - line.trim_start().len()).min().unwrap_or_default();
    let mut shown = String::new();
    for line in lines {
        shown.push_str(line.get(margin..).unwrap_or_default());
        shown.push('\n');
    }
    Ok(shown)
}

/// A page with what it repeats as it is now.
///
/// # Errors
///
/// When a part is not there.
pub(super) fn filled(root: &Path, text: &str) -> Result<String, String> {
    let (mut page, mut lines) = (String::new(), text.lines());
    while let Some(line) = lines.next() {
        page = page + line + "\n";
        let Some(source) = line.trim().strip_prefix("<!-- from: ").and_then(|it| it.strip_suffix(" -->"))
        else {
            continue;
        };
        let Some(fence) = lines.next() else { break };
        page = page + fence + "\n" + &repeated(root, source)? + "```\n";
        // What stood there before.
        lines.by_ref().find(|line| *line == "```");
    }
    Ok(page)
}

/// The pages that crates have as documentation of theirs, so that what they show is tested.
pub(super) fn tested(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut pages = BTreeSet::new();
    for room in ROOMS {
        find(root, &root.join(room), &mut pages)?;
    }
    Ok(pages)
}

fn find(root: &Path, folder: &Path, pages: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with("node_modules") {
                find(root, &path, pages)?;
            }
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path)?;
            let folder = path.strip_prefix(root).unwrap_or(&path).parent().unwrap_or(Path::new(""));
            pages.extend(documents(&text).map(|page| plain(&folder.join(page))));
        }
    }
    Ok(())
}

fn documents(source: &str) -> impl Iterator<Item = &str> {
    source.lines().map(str::trim).filter_map(|line| {
        let line = line.strip_prefix("#!").or_else(|| line.strip_prefix('#'))?;
        line.strip_prefix("[doc = include_str!(\"")?.strip_suffix("\")]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This file is a source like any other, and has the anchor below.
    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    fn check(info: &str, code: &str, comment: Option<&str>, tested: bool) -> Option<String> {
        let (info, code) = (info.to_owned(), code.to_owned());
        let snippet = Snippet { line: 1, info, code, comment: comment.map(ToOwned::to_owned) };
        problem(root(), &snippet, tested)
    }

    // ANCHOR: here
    const HERE: &str = "what stands between the anchors";
    // ANCHOR_END: here

    const FROM: &str = "from: src/book/snippets.rs:here";

    #[test]
    fn snippet_is_repeated_tested_or_says_why_not() {
        assert!(HERE.contains("anchors"));
        let same = part(root(), Path::new("src/book/snippets.rs"), "here").unwrap();
        assert!(same.starts_with("const HERE"), "the margin is taken off: {same}");
        assert_eq!(check("rust", &same, Some(FROM), false), None);
        assert!(check("rust", "const THERE: u8 = 1;\n", Some(FROM), true).unwrap().contains("book fill"));
        assert_eq!(check("rust", "fn a() {}", None, true), None);
        assert_eq!(check("json", "{}", None, false), None);
        assert_eq!(check("rust,ignore", "let a = …;", Some("ignored: a sketch"), false), None);
        assert!(check("rust,ignore", "let a = …;", None, false).unwrap().contains("say why"));
        assert!(check("rust", "fn a() {}", None, false).unwrap().contains("nothing compiles it"));
    }

    #[test]
    fn what_is_shown_is_there() {
        let gone = check("text", "", Some("from: src/gone.txt"), false);
        assert_eq!(gone.unwrap(), "`src/gone.txt` is shown and not there");
        let part = check("rust", "", Some("from: src/book/snippets.rs:gone"), false);
        assert_eq!(part.unwrap(), "`src/book/snippets.rs` has no part `gone`");
        let whole = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert_eq!(check("toml", &whole, Some("from: Cargo.toml"), false), None);
    }

    #[test]
    fn include_is_rejected_because_github_does_not_resolve_it() {
        let included = "{{#include ../src/book/snippets.rs:here}}";
        for info in ["rust", "text"] {
            assert!(check(info, included, None, true).unwrap().contains("repeat"), "{info}");
        }
    }

    #[test]
    fn page_is_filled_with_what_its_sources_have() {
        let page = format!("Before.\n\n<!-- {FROM} -->\n```rust\nold\n```\n\nAfter.\n");
        let now = part(root(), Path::new("src/book/snippets.rs"), "here").unwrap();
        let filled = filled(root(), &page).unwrap();
        assert_eq!(filled, format!("Before.\n\n<!-- {FROM} -->\n```rust\n{now}```\n\nAfter.\n"));
    }

    #[test]
    fn pages_of_doc_tests_are_found_by_what_includes_them() {
        let source = "#[cfg(doctest)]\n#[doc = include_str!(\"../README.md\")]\nstruct Readme;\n";
        assert_eq!(documents(source).collect::<Vec<_>>(), ["../README.md"]);
    }
}
