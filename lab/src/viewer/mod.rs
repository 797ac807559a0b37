//! `cargo xtask viewer`: the page that shows a result set, made into one file, and tried in a real browser.

mod drive;

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use crate::project::Project;

/// What to do with the viewer.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Kind {
    /// Make the one file of its sources.
    Build {
        /// Only say whether the checked-in file is what the sources make.
        #[arg(long)]
        check: bool,
    },
    /// Look at millions of rows in a browser, as a page and inside an MCP host.
    Test(drive::Options),
}

/// The order of the scripts: what is needed first comes first.
const SCRIPTS: [&str; 25] = [
    "problem",
    "dom",
    "json",
    "format",
    "rest",
    "host",
    "mcp",
    "theme",
    "state",
    "pages",
    "scroll",
    "popover",
    "spark",
    "header",
    "filter",
    "cells",
    "select",
    "grid",
    "columns",
    "chartdata",
    "draw",
    "chart",
    "export",
    "told",
    "app",
];

/// The order of the style sheets.
const STYLES: [&str; 4] = ["base", "grid", "panels", "chart"];

/// The largest the page may be: it is loaded anew in every conversation that shows a result.
const MAX_BYTES: usize = 150_000;

/// Does what is asked.
pub(crate) fn main(kind: &Kind) -> Result<()> {
    let project = Project::open()?;
    let folder = project.root.join("crates").join("antiphon-results").join("viewer");
    match kind {
        Kind::Build { check: true } => check(&folder),
        Kind::Build { check: false } => {
            let page = assemble(&folder.join("src"))?;
            let file = folder.join("viewer.html");
            fs::write(&file, &page).with_context(|| format!("could not write {}", file.display()))?;
            println!("{} has {} bytes", file.display(), page.len());
            Ok(())
        }
        Kind::Test(options) => {
            check(&folder)?;
            drive::main(&project, options)
        }
    }
}

/// Fails unless the checked-in file is what its sources make.
fn check(folder: &Path) -> Result<()> {
    let file = folder.join("viewer.html");
    let found = fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
    ensure!(
        found == assemble(&folder.join("src"))?,
        "`viewer.html` is not what its sources make; run `cargo xtask viewer build`"
    );
    Ok(())
}

/// Puts the sources into the page: one script and one style sheet, so that a policy can name both by their digests.
fn assemble(sources: &Path) -> Result<String> {
    let read = |name: &str| {
        let path = sources.join(name);
        fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))
    };
    let mut script = String::new();
    for name in SCRIPTS {
        script.push_str(&without_modules(name, &read(&format!("{name}.js"))?)?);
    }
    let mut names = HashSet::new();
    for name in script.lines().filter_map(declared) {
        ensure!(names.insert(name), "two modules of the viewer declare `{name}`, and they share one scope");
    }
    let styles = STYLES.iter().map(|name| read(&format!("{name}.css"))).collect::<Result<String>>()?;
    let mut page = read("page.html")?;
    for (mark, tag, text) in [("{{style}}", "style", &styles), ("{{script}}", "script", &script)] {
        // Within a page nothing else ends a script or a style sheet.
        let end = format!("</{tag}");
        ensure!(!text.to_lowercase().contains(&end), "a source of the viewer has `{end}` in it");
        ensure!(page.matches(mark).count() == 1, "`page.html` must have `{mark}` once");
        page = page.replace(mark, text.trim_end());
    }
    ensure!(page.len() <= MAX_BYTES, "the viewer has {} bytes; {MAX_BYTES} are allowed", page.len());
    Ok(page)
}

/// What a line declares for all modules, if it does.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_prefix("async ").unwrap_or(line);
    let (word, rest) = line.split_once(' ')?;
    let declares = ["class", "const", "function", "let"].contains(&word);
    declares.then(|| rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next())?
}

/// A module's text for a place where all of them share one scope: without imports, which must name a module that
/// came before, without the word `export`, and without lines that are comments: those are for whoever reads the sources.
fn without_modules(name: &str, text: &str) -> Result<String> {
    let mut plain = String::with_capacity(text.len());
    let before = SCRIPTS.iter().position(|it| *it == name).unwrap_or_default();
    let mut commented = false;
    for line in text.lines() {
        let begins = line.trim_start();
        commented |= begins.starts_with("/**");
        if commented || begins.starts_with("//") || begins.is_empty() {
            commented &= !begins.ends_with("*/");
        } else if let Some(import) = line.strip_prefix("import ") {
            let from = import.split('"').nth(1).and_then(|path| path.strip_prefix("./")?.strip_suffix(".js"));
            let from = from.with_context(|| format!("`{name}.js`: write imports on one line: `{line}`"))?;
            ensure!(
                SCRIPTS[..before].contains(&from),
                "`{name}.js` needs `{from}`, which does not come before it"
            );
        } else if line.starts_with("export default") || line.starts_with("export {") {
            bail!("`{name}.js`: write `export` before what is declared: `{line}`");
        } else {
            plain.push_str(line.strip_prefix("export ").unwrap_or(line));
            plain.push('\n');
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .join("crates")
            .join("antiphon-results")
            .join("viewer")
    }

    #[test]
    fn checked_in_viewer_is_what_its_sources_make() {
        check(&folder()).unwrap();
    }

    #[test]
    fn viewer_has_no_handlers_no_styles_and_no_addresses_in_its_markup() {
        let page = fs::read_to_string(folder().join("viewer.html")).unwrap();
        let markup = page.split("<script").next().unwrap();
        let markup =
            [markup.split("<style").next().unwrap(), markup.split("</style>").nth(1).unwrap()].concat();
        for forbidden in [" style=", " onclick=", " onload=", "src=", "href=", "javascript:"] {
            assert!(!markup.contains(forbidden), "{forbidden}");
        }
        for forbidden in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "new Function", "document.write"]
        {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert_eq!(page.matches("<script").count(), 1);
        assert_eq!(page.matches("<style").count(), 1);
    }

    #[test]
    fn sources_that_are_not_in_the_list_are_noticed() {
        let mut found: Vec<String> = fs::read_dir(folder().join("src"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        let scripts = SCRIPTS.iter().map(|name| format!("{name}.js"));
        let mut listed: Vec<String> =
            scripts.chain(STYLES.iter().map(|name| format!("{name}.css"))).collect();
        listed.push("page.html".to_owned());
        listed.sort();
        assert_eq!(found, listed);
    }

    #[test]
    fn modules_share_a_scope_without_imports_and_exports() {
        let text = "// Why.\n\nimport { a } from \"./dom.js\";\n/**\n * What.\n */\nexport const b = a;\n";
        assert_eq!(without_modules("format", text).unwrap(), "const b = a;\n");
        let late = without_modules("dom", "import { a } from \"./format.js\";\n").unwrap_err();
        assert!(late.to_string().contains("does not come before"), "{late}");
        without_modules("format", "import {\n").unwrap_err();
    }
}
