//! `cargo xtask book check`: links of the book lead somewhere, every page is in its summary, every snippet is compiled.

mod page;
mod snippets;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use self::page::{Link, Page};
use crate::project::Project;

const SUMMARY: &str = "docs/SUMMARY.md";
/// What else people read on the way: not in the book, but held to the same.
const BESIDE: [&str; 5] = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"];
/// How the book names what is in the repository and not in the book: a path would lead nowhere once it is rendered.
const REPOSITORY: &str = "https://github.com/antiphon-rs/antiphon/";

/// What can be done with the book.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Action {
    /// Say which links, pages and snippets are wrong.
    Check,
    /// Write what pages repeat from sources anew.
    Fill,
}

/// Does it.
pub(crate) fn main(action: &Action) -> Result<()> {
    match action {
        Action::Check => println!("{}", check(&Project::open()?)?),
        Action::Fill => fill(&Project::open()?)?,
    }
    Ok(())
}

fn fill(project: &Project) -> Result<()> {
    for file in pages(project)? {
        let text = read(&file)?;
        let filled = snippets::filled(&project.root, &text)
            .map_err(|problem| anyhow::anyhow!("{}: {problem}", file.display()))?;
        if filled != text {
            fs::write(&file, filled).with_context(|| format!("could not write {}", file.display()))?;
            println!("{}", file.display());
        }
    }
    Ok(())
}

fn pages(project: &Project) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    gather(&project.root.join("docs"), &mut files)?;
    files.extend(BESIDE.iter().map(|name| project.root.join(name)));
    files.extend(readmes(&project.root)?);
    Ok(files)
}

/// The README of every crate and example. That of `antiphon` is the repository's.
fn readmes(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for room in ["crates", "examples"] {
        let folder = root.join(room);
        for entry in fs::read_dir(&folder).with_context(|| format!("could not read {}", folder.display()))? {
            let package = entry?.path();
            if package.join("Cargo.toml").is_file() && package.file_name() != Some("antiphon".as_ref()) {
                files.push(package.join("README.md"));
            }
        }
    }
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))
}

/// What is in the book, in a line; or all that is wrong with it.
pub(crate) fn check(project: &Project) -> Result<String> {
    let mut pages = BTreeMap::new();
    for file in self::pages(project)? {
        let name = file.strip_prefix(&project.root).unwrap_or(&file).to_owned();
        pages.insert(name, Page::read(&read(&file)?));
    }
    let tested = snippets::tested(&project.root)?;
    let book = Book { root: &project.root, pages: &pages };
    let mut complaints = book.unlisted();
    complaints.extend(book.unshown()?);
    let (mut links, mut rust) = (0, 0);
    for (name, page) in &pages {
        let wrong = page.links.iter().filter_map(|link| Some((link.line, book.broken(name, link)?)));
        let snippets = page.snippets.iter().filter_map(|snippet| {
            let problem = snippets::problem(&project.root, snippet, tested.contains(name))?;
            Some((snippet.line, problem))
        });
        let told = wrong.chain(snippets).map(|(line, what)| format!("{}:{line}: {what}", name.display()));
        complaints.extend(told);
        links += page.links.len();
        rust += page.snippets.iter().filter(|snippet| snippet.is_rust()).count();
    }
    ensure!(complaints.is_empty(), "the book does not hold:\n{}", complaints.join("\n"));
    Ok(format!("{} pages, {links} links, {rust} snippets of Rust", pages.len()))
}

/// All pages below `folder`.
fn gather(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, files)?;
        } else if path.extension().is_some_and(|it| it == "md") {
            files.push(path);
        }
    }
    Ok(())
}

/// The pages, by their paths from the root.
#[derive(Debug)]
struct Book<'a> {
    root: &'a Path,
    pages: &'a BTreeMap<PathBuf, Page>,
}

impl Book<'_> {
    /// Pages of the book that its summary does not list.
    fn unlisted(&self) -> Vec<String> {
        let Some(summary) = self.pages.get(Path::new(SUMMARY)) else {
            return vec![format!("there is no {SUMMARY}")];
        };
        let targets = summary.links.iter().map(|link| Path::new("docs").join(&link.to));
        let listed: BTreeSet<PathBuf> = targets.collect();
        let pages = self.pages.keys().filter(|page| page.starts_with("docs") && *page != Path::new(SUMMARY));
        let missing = pages.filter(|page| !listed.contains(*page));
        missing.map(|page| format!("{}: {SUMMARY} does not list it", page.display())).collect()
    }

    /// Returns a complaint for each picture that no page shows.
    fn unshown(&self) -> Result<Vec<String>> {
        let folder = Path::new("docs/images");
        let shown: BTreeSet<PathBuf> = self
            .pages
            .iter()
            .flat_map(|(name, page)| page.links.iter().map(move |link| (name, link)))
            .map(|(name, link)| plain(&name.parent().unwrap_or(Path::new("")).join(&link.to)))
            .collect();
        let mut unshown = Vec::new();
        for entry in fs::read_dir(self.root.join(folder)).context("could not read docs/images")? {
            let picture = folder.join(entry?.file_name());
            if !shown.contains(&picture) {
                unshown.push(format!("{}: no page shows it", picture.display()));
            }
        }
        unshown.sort();
        Ok(unshown)
    }

    /// What is wrong with a link, if something is.
    fn broken(&self, page: &Path, link: &Link) -> Option<String> {
        let (to, anchor) = link.to.split_once('#').unwrap_or((&link.to, ""));
        let inside = page.starts_with("docs");
        let target = if let Some(rest) = link.to.strip_prefix(REPOSITORY) {
            let path = rest.strip_prefix("blob/main/").or_else(|| rest.strip_prefix("tree/main/"))?;
            PathBuf::from(path.split('#').next().unwrap_or_default())
        } else if to.contains("://") || to.starts_with("mailto:") {
            return None;
        } else if to.is_empty() {
            page.to_owned()
        } else {
            plain(&page.parent().unwrap_or(Path::new("")).join(to))
        };
        if !self.root.join(&target).exists() {
            return Some(format!("`{}` leads to nothing", link.to));
        }
        if inside && !to.contains("://") && !target.starts_with("docs") {
            return Some(format!(
                "`{}` leads out of the book: write {REPOSITORY}tree/main/{}",
                link.to,
                target.display()
            ));
        }
        let headings = &self.pages.get(&target).filter(|_| !anchor.is_empty())?.headings;
        (!headings.contains(anchor))
            .then(|| format!("`{}`: {} has no heading `#{anchor}`", link.to, target.display()))
    }
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(links: &str) -> Vec<String> {
        let texts = [
            ("docs/SUMMARY.md", "- [A](guides/a.md)\n"),
            ("docs/guides/a.md", "# A page\n\n## What it `does`\n"),
            ("docs/guides/b.md", links),
        ];
        let pages: BTreeMap<PathBuf, Page> =
            texts.iter().map(|(name, text)| (PathBuf::from(name), Page::read(text))).collect();
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in texts {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        fs::create_dir_all(folder.path().join("deploy")).unwrap();
        let book = Book { root: folder.path(), pages: &pages };
        let name = Path::new("docs/guides/b.md");
        let mut complaints = book.unlisted();
        complaints.extend(pages[name].links.iter().filter_map(|link| book.broken(name, link)));
        complaints
    }

    #[test]
    fn pictures_that_no_page_shows_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let images = folder.path().join("docs/images");
        fs::create_dir_all(&images).unwrap();
        for name in ["dark.png", "old.png", "shown.svg"] {
            fs::write(images.join(name), "").unwrap();
        }
        let guide = "![a](../images/shown.svg)";
        let readme = "<picture><source srcset=\"docs/images/dark.png\"></picture>";
        let pages = [("docs/guides/a.md", guide), ("README.md", readme)];
        let pages = pages.map(|(name, text)| (PathBuf::from(name), Page::read(text))).into();
        let book = Book { root: folder.path(), pages: &pages };
        assert_eq!(book.unshown().unwrap(), ["docs/images/old.png: no page shows it"]);
    }

    #[test]
    fn links_that_lead_nowhere_are_named_and_others_are_not() {
        let links = "[1](a.md) [2](a.md#what-it-does) [3](https://example.com/x#y) [4](gone.md) \
            [5](a.md#gone) ![6](../images/gone.svg) [7](../../deploy) \
            [8](https://github.com/antiphon-rs/antiphon/tree/main/deploy) \
            [9](https://github.com/antiphon-rs/antiphon/tree/main/gone)";
        let deploy = "`../../deploy` leads out of the book: write \
            https://github.com/antiphon-rs/antiphon/tree/main/deploy";
        assert_eq!(
            broken(links),
            [
                "docs/guides/b.md: docs/SUMMARY.md does not list it",
                "`gone.md` leads to nothing",
                "`a.md#gone`: docs/guides/a.md has no heading `#gone`",
                "`../images/gone.svg` leads to nothing",
                deploy,
                "`https://github.com/antiphon-rs/antiphon/tree/main/gone` leads to nothing",
            ]
        );
    }
}
